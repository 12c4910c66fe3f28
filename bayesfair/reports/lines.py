"""The lines of the table of means: features that hold numbers, and levels of those that hold categories."""

from typing import NamedTuple

import numpy as np

from bayesfair._levels import indicators_of, levels_of
from bayesfair._partitions import tables_with
from bayesfair.posterior.schema import flat_labels


class Line(NamedTuple):
    """`feature`, by its position, whose means are told in `unit`s or, where it holds codes, the shares of one `level`."""

    name: str
    feature: int
    unit: float = 1.0
    level: int | None = None
    is_share: bool = True


def lines_of(X, features, settings):
    """All lines of a table `X` (obs, feature) of a run with such `settings`, those of a feature's levels together."""
    levels, indicators, lines = levels_of(settings), indicators_of(settings), []
    for feature, name in enumerate(features):
        if name in levels:
            codes = enumerate(levels[name])
            lines += [Line(f"share of {name}={level}", feature, level=code) for code, level in codes]
        elif name in indicators:
            lines.append(Line(f"share of {name}", feature, unit=float(X[:, feature].max()) or 1.0))
        else:
            lines.append(Line(name, feature, is_share=False))
    return lines


def seen(X, line):
    """What the rows (obs, feature) have in a line: (obs,)."""
    column = X[:, line.feature]
    return column if line.level is None else (column == line.level).astype(np.float64)


def means_of(contents, centers, line):
    """The means (draws, cluster) of a line by `centers` (chain, draw, cluster, feature); NaN where a cluster is empty."""
    if line.level is None:
        return centers[..., line.feature].reshape(-1, centers.shape[2]) / line.unit
    has = (contents.X[:, line.feature] == line.level).astype(np.int32)
    rest, held = tables_with(flat_labels(contents.tree), has, 2, centers.shape[2]).transpose(1, 0, 2)
    sizes = rest + held
    return np.divide(held, sizes, out=np.full(sizes.shape, np.nan), where=sizes > 0)

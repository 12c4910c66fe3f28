"""The return type of every loader and simulator, and subsampling in a given ratio of groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

import numpy as np
import pandas as pd

from bayesfair._check import check_integer, generator_of, message


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table to cluster, its sensitive attribute, and what is known of the true clusters.

    All parts share one row index.

    Attributes
    ----------
    name : str
        Name of the data set.
    features : pandas.DataFrame of shape (n_obs, n_features)
        What is clustered. Columns hold numbers, or have the dtype `category`.
    sensitive : pandas.Series or pandas.DataFrame
        The sensitive attribute of every row. The columns of a data frame are crossed into one group.
    target : pandas.Series or None
        A known outcome or the true cluster of every row. It is never used for clustering.
    description : str
        Source, licence, and what was done to the published table.

    Raises
    ------
    ValueError
        If `sensitive` or `target` has another row index than `features`.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_well_specified()
    >>> len(data), list(data.features.columns)
    (100, ['x1', 'x2'])
    """

    name: str
    features: pd.DataFrame
    sensitive: pd.Series | pd.DataFrame
    target: pd.Series | None
    description: str

    def __post_init__(self):
        for argument, part in (("sensitive", self.sensitive), ("target", self.target)):
            if part is not None and not part.index.equals(self.features.index):
                rule, remedy = "share the row index of `features`", "Build all three from one table."
                raise ValueError(message(argument, rule, "another index", remedy))

    def __len__(self):
        return len(self.features)

    def __repr__(self):
        sizes = group_names(self.sensitive).value_counts().sort_index()
        groups = _first([f"{name} {size:,}" for name, size in sizes.items()], "; ")
        sensitive = ", ".join(map(str, pd.DataFrame(self.sensitive).columns))
        return (
            f"Dataset {self.name}: {len(self):,} rows, {self.features.shape[1]} features\n"
            f"  features   {_first([str(name) for name in self.features.columns], ', ')}\n"
            f"  sensitive  {sensitive}: {groups}\n"
            f"  target     {'none' if self.target is None else self.target.name}"
        )


def group_names(sensitive):
    """Name of every row's group, text Series (N,): the values of all sensitive columns joined by ", "."""
    columns = pd.DataFrame(sensitive).astype(str)
    return columns.iloc[:, 0].str.cat(columns.iloc[:, 1:], sep=", ")


def subsample(
    dataset: Dataset, ratio: Mapping[str, int] | Sequence[int], size: int | None = None, *, seed: int = 0
) -> Dataset:
    """Draw rows without replacement so that the groups have exactly a given ratio.

    Rows keep their order and their index. The same seed draws the same rows. Rows of groups that a mapping leaves
    out, and rows without a group, are not drawn.

    Parameters
    ----------
    dataset : Dataset
        Where the rows come from.
    ratio : dict or sequence of int
        {group name: part}, or one part for each group in the sorted order of the groups. Parts are at least 1. They
        are reduced first: 2:2 is 1:1.
    size : int, optional
        Number of rows to draw, a multiple of the sum of the parts. By default the largest possible number.
    seed : int, default 0
        Seed of the draw.

    Returns
    -------
    Dataset
        The drawn rows. The description says how many rows each group has.

    Raises
    ------
    TypeError
        If `ratio` is neither a mapping nor a sequence.
    ValueError
        If a group is unknown, the ratio does not divide the size, or a group has too few rows.

    Notes
    -----
    The Gibbs paper draws Credit (section 5.1) by `subsample(load_credit(sensitive="married"), (1, 1), 120)` and Bank
    (section 5.3) by `subsample(load_bank(sensitive="married"), {"married": 2, "not married": 1}, 939)`.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_vfc_synthetic(unequal=True)
    >>> bf.datasets.subsample(data, {"a": 2, "b": 1}, 30).sensitive.value_counts().to_dict()
    {'a': 20, 'b': 10}
    """
    names = group_names(dataset.sensitive)
    parts = _reduced_parts(ratio, _in_order(dataset.sensitive))
    available = {name: int((names == name).sum()) for name in parts}
    units = _units(parts, available, size)
    rng = generator_of(seed, "seed")
    chosen = [rng.choice(np.flatnonzero(names == name), units * part, replace=False) for name, part in parts.items()]
    rows = np.sort(np.concatenate(chosen))
    drawn = ", ".join(f"{name} {units * part}" for name, part in parts.items())
    return replace(
        dataset,
        features=dataset.features.iloc[rows],
        sensitive=dataset.sensitive.iloc[rows],
        target=None if dataset.target is None else dataset.target.iloc[rows],
        description=f"{dataset.description}\n\nSubsample of {len(rows)} rows (seed {seed}): {drawn}.",
    )


def _in_order(sensitive):
    """Names of the groups, sorted by value as in `encode_groups`: 9 before 10, numbers before text."""
    distinct = pd.DataFrame(sensitive).dropna().drop_duplicates()
    rows = [[(isinstance(value, str), value) for value in row] for row in distinct.itertuples(index=False, name=None)]
    return group_names(distinct.iloc[sorted(range(len(rows)), key=rows.__getitem__)]).tolist()


def _first(parts, separator, most=10):
    """The parts joined; if there are more than `most`, only the first ones and the total number."""
    shown = parts if len(parts) <= most else [*parts[:most], f"... ({len(parts)} in all)"]
    return separator.join(shown)


def _reduced_parts(ratio, groups):
    """{group: part} in the order of `groups`, divided by the greatest common divisor."""
    rule, remedy = f"give a whole number to some of the groups {groups}", "Pass {group: part}, e.g. {'F': 1, 'M': 2}."
    if not isinstance(ratio, (Mapping, tuple, list)):
        raise TypeError(message("ratio", rule, repr(ratio), remedy))
    if not isinstance(ratio, Mapping):
        if len(ratio) != len(groups):
            raise ValueError(message("ratio", f"have one part per group {groups}", f"{len(ratio)} parts", remedy))
        ratio = dict(zip(groups, ratio))
    unknown = [name for name in ratio if name not in groups]
    if unknown or not ratio:
        raise ValueError(message("ratio", rule, f"unknown names {unknown}" if unknown else "none", remedy))
    parts = {name: check_integer("ratio", ratio[name], remedy=remedy) for name in groups if name in ratio}
    divisor = gcd(*parts.values())
    return {name: part // divisor for name, part in parts.items()}


def _units(parts, available, size):
    """How many times the ratio is drawn: `size` over the sum of parts, or as often as the scarcest group allows."""
    step, most = sum(parts.values()), min(available[name] // part for name, part in parts.items())
    wanted = ":".join(f"{part} {name}" for name, part in parts.items())
    if size is None:
        size = most * step
    size = check_integer("size", size, remedy=f"Pass a multiple of {step}, at most {most * step}.")
    if size % step:
        near = [near for near in (size // step * step, (size // step + 1) * step) if 0 < near <= most * step]
        rule = f"be a multiple of {step} for the ratio {wanted}"
        raise ValueError(message("size", rule, size, f"Nearest possible: {near or [most * step]}."))
    if size > most * step:
        rule = f"be at most {most * step} for the ratio {wanted}, whose groups have {available} rows"
        raise ValueError(message("size", rule, size, "Draw fewer rows or another ratio."))
    return size // step

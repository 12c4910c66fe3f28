"""Residuals within clusters: are clusters as round, and tails as light, as squared distances assume?"""

from typing import NamedTuple

import numpy as np
from scipy.special import chdtri  # scipy.stats would take half a second at every start

from bayesfair._names import DataTree
from bayesfair.posterior import sentences
from bayesfair.posterior.schema import columns_of, flat_labels, variable, weight_of
from bayesfair.posterior.tables import evenly_spaced
from bayesfair.posterior.view import once

DRAWS, ROWS = 10, 5_000  # as many are looked at, evenly spaced
FEW_VALUES = 10  # a feature with no more different values is a count or a code, which no density describes
RARE = 0.001  # share of rows that a normal law has beyond the distance from which a row counts as far
LONGER, FARTHER = 1.3, 10 * RARE  # least stretch, and least share of far rows, that is worth a sentence
SURE = 5.0  # standard errors beyond what chance gives


class Residuals(NamedTuple):
    """How far residuals are from a spherical normal law; each measure with its distance from it in standard errors.

    `stretch`: the spread of a cluster in its widest direction over that in its narrowest. `far`: the share of rows that are
    farther from their centre, in units of their cluster's own spread, than one normal row in 1,000 would be.
    """

    stretch: float
    stretch_z: float
    far: float
    tails_z: float

    @property
    def is_long(self) -> bool:
        return self.stretch > LONGER and self.stretch_z > SURE

    @property
    def is_far(self) -> bool:
        """Only if clusters are not long: rows that round clusters take from long ones are far too."""
        return not self.is_long and self.far > FARTHER and self.tails_z > SURE


@once
def residuals_of(tree: "DataTree") -> Residuals | None:
    """The residuals of a run with squared distances; None for other trees.

    They are those of draws, not of the point estimate: if rows come from round clusters, a draw has the rows of each cluster
    as its law has them, whereas each row's likeliest cluster would cut overlapping clusters at a line.
    """
    X = _numbers(tree)
    labels = flat_labels(tree)
    if X is None or len(X) < 3:
        return None
    rows = evenly_spaced(len(X), ROWS)
    draws = labels[evenly_spaced(len(labels), DRAWS)].columns(rows)
    found = [one for one in (_of_draw(X[rows], draw) for draw in draws) if one is not None]
    return Residuals(*np.mean(found, axis=0).tolist()) if found else None


@once
def residuals_sentence(tree: "DataTree") -> str:
    """What residuals within clusters advise; "" where they are as the loss assumes, or where nothing is known of them."""
    found = residuals_of(tree)
    return "" if found is None else sentences.of_residuals(found)


def _numbers(tree):
    """The features (obs, dim) with enough values, if the loss is of squared distances between numbers; else None."""
    X = variable(tree, "observed_data", "X")
    of_squares = tree.attrs.get("estimator") == "GibbsFairClustering" and tree.attrs.get("loss", "kmeans") == "kmeans"
    if X is None or not of_squares or weight_of(tree) is not None:
        return None
    X = X.values[:, [column.kind == "number" for column in columns_of(tree)]].astype(float)
    X = X[:, [len(np.unique(one)) > FEW_VALUES for one in X.T]]
    return X if X.shape[1] else None


def _of_draw(X, labels):
    """`Residuals` of one draw; None if every cluster is too small."""
    clusters = [X[labels == k] for k in np.unique(labels)]
    clusters = [own - own.mean(axis=0) for own in clusters if len(own) > X.shape[1] + 2]
    if not clusters:
        return None
    size = np.array([len(own) for own in clusters])
    stretch = np.average([_stretch(own) for own in clusters], weights=size)
    lengths = [_squared_lengths(own) for own in clusters]
    far = np.average([(own > chdtri(dim, RARE)).mean() for own, dim in lengths], weights=size)
    return stretch, _roundness_z(clusters), far, _tails_z(lengths)


def _stretch(residuals):
    """The spread in the widest direction over that in the narrowest: directions of one half of the rows, spreads of the other.

    So chance does not widen the one and narrow the other.
    """
    halves, both = (residuals[::2], residuals[1::2]), np.zeros(2)
    for one, other in (halves, halves[::-1]):
        both += np.square(other @ np.linalg.eigh(one.T @ one)[1][:, [0, -1]]).sum(axis=0)
    narrow, wide = both
    return np.sqrt(wide / max(narrow, 1e-6 * wide))


def _roundness_z(clusters):
    """The sign test of sphericity, summed over clusters: it depends on directions alone, whatever the tails are.

    For directions u uniform on the sphere, n d (d + 2) / 2 (tr S^2 - 1 / d) with S = mean(u u') has the mean
    (d + 2) (d - 1) / 2, and nearly a chi-squared law (Hallin and Paindaveine 2006).
    """
    dim = clusters[0].shape[1]
    if dim == 1:
        return 0.0
    statistic = 0.0
    for residuals in clusters:
        length = np.linalg.norm(residuals, axis=1)
        direction = residuals[length > 0] / length[length > 0, None]
        of_signs = direction.T @ direction / len(direction)
        statistic += len(direction) * dim * (dim + 2) / 2 * (np.square(of_signs).sum() - 1 / dim)
    degrees = len(clusters) * (dim + 2) * (dim - 1) / 2
    return (statistic - degrees) / np.sqrt(2 * degrees)


def _squared_lengths(residuals):
    """(Squared lengths in units of the cluster's own covariance, the number of its dimensions.)"""
    left, values, _ = np.linalg.svd(residuals, full_matrices=False)
    kept = values > 1e-8 * values[0]
    return len(residuals) * np.square(left[:, kept]).sum(axis=1), int(kept.sum())


def _tails_z(lengths):
    """Kurtosis of all clusters against the normal law's, by the exact mean and variance (Mardia 1974)."""
    off = variance = 0.0
    for squared, dim in lengths:
        n = len(squared)
        off += n * (np.square(squared).mean() - dim * (dim + 2) * (n - 1) / (n + 1))
        spread = 8 * dim * (dim + 2) * (n - 3) * (n - dim - 1) * (n - dim + 1) / ((n + 1) ** 2 * (n + 3) * (n + 5))
        variance += n**2 * spread
    return off / np.sqrt(variance)

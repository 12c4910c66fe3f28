"""Tables from a fair mixture: the true clusters are known and balanced, so that what a posterior states can be checked."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import ndtri

from bayesfair._check import check_integer, check_number, generator_of, message
from bayesfair.datasets.base import Dataset


def make_fair_mixture(
    n_samples: int = 500,
    n_clusters: int = 3,
    n_features: int = 2,
    *,
    n_groups: int = 2,
    shares: Sequence[float] | None = None,
    group_shares: Sequence[float] | None = None,
    centers: ArrayLike | None = None,
    overlap: float = 0.05,
    covariances: ArrayLike | None = None,
    elongation: float = 1.0,
    degrees_of_freedom: float | Sequence[float] | None = None,
    seed: int = 0,
) -> Dataset:
    """Rows of a mixture whose true clusters are fair: every group has its share of every cluster to within one row.

    The features do not depend on the groups. Sizes of clusters and groups are their shares, rounded. Rows come in random
    order.

    Parameters
    ----------
    n_samples : int, at least `n_clusters`, default 500
        Number of rows.
    n_clusters : int, at least 1, default 3
        Number of clusters.
    n_features : int, at least 1, default 2
        Number of features.
    n_groups : int, at least 1, default 2
        Number of groups.
    shares : sequence of float above zero, optional
        The clusters' shares of the rows, or numbers in proportion to them. By default all are equal.
    group_shares : sequence of float above zero, optional
        The groups' shares of the rows, like `shares`.
    centers : array-like of shape (n_clusters, n_features), optional
        The clusters' centres. By default they lie on a circle, or on a line if there is one feature, as `overlap` says.
    overlap : float above 0 and below 0.5, default 0.05
        Distance of neighbouring centres: so large a part of a cluster lies nearer to a neighbour's centre, if clusters are
        round with the mean variance.
    covariances : array-like of shape (n_clusters, n_features, n_features) or (n_features, n_features), optional
        Covariances of the clusters, or one for all. By default their determinants are 1, and `elongation` shapes them.
    elongation : float, at least 1, default 1.0
        How many times a cluster is longer than wide. Every cluster has a random direction of its own.
    degrees_of_freedom : float above zero, or sequence of them, optional
        Degrees of freedom of multivariate t laws, one for all clusters or one for each. `covariances` are then their scale
        matrices. By default, and where they are infinite, clusters are normal.
    seed : int, default 0
        Seed of the simulation.

    Returns
    -------
    Dataset
        The target is the true cluster.

    Raises
    ------
    ValueError
        If a number is out of its range, or shapes do not fit. The message names the argument, the rule and the remedy.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_fair_mixture(100, shares=[2, 1, 1], elongation=3.0)
    >>> round(float(bf.fairness.balance(data.target, data.sensitive)), 3)
    0.923
    """
    n_clusters, n_features = check_integer("n_clusters", n_clusters), check_integer("n_features", n_features)
    n_groups = check_integer("n_groups", n_groups if group_shares is None else len(group_shares))
    least = max(n_clusters, n_groups)
    n_samples = check_integer("n_samples", n_samples, minimum=least, remedy="Ask for a row per cluster and group.")
    rng = generator_of(seed, "seed")
    scales = _covariances(covariances, check_number("elongation", elongation, minimum=1), n_clusters, n_features, rng)
    centers = _centers(centers, overlap, scales, rng)
    degrees = _degrees(degrees_of_freedom, n_clusters)
    code = np.repeat(np.arange(n_groups), whole_sizes(_parts("group_shares", group_shares, n_groups), n_samples))
    code = rng.permutation(code)
    cluster = balanced_clusters(rng, code, whole_sizes(_parts("shares", shares, n_clusters), n_samples))
    points = points_of(rng, cluster, centers, scales, degrees)
    index = pd.RangeIndex(n_samples)
    return Dataset(
        name="fair-mixture",
        features=pd.DataFrame(points, index, columns=[f"x{at}" for at in range(1, n_features + 1)]),
        sensitive=pd.Series(_names(n_groups)[code], index, name="group"),
        target=pd.Series(cluster, index, name="cluster"),
        description=f"Simulation of a fair mixture: {n_clusters} clusters, {n_groups} groups. Seed {seed}.",
    )


def balanced_clusters(rng, code, sizes):
    """Random clusters (N,) of these `sizes` (K,), in which every group of `code` (N,) has its share to within one row."""
    return clusters_of_counts(rng, code, _rounded_table(np.outer(sizes, np.bincount(code)), len(code)))


def clusters_of_counts(rng, code, counts):
    """Random clusters (N,) with these counts (K, J) of the groups of `code` (N,)."""
    cluster = np.empty(len(code), int)
    for group, held in enumerate(counts.T):
        cluster[code == group] = rng.permutation(np.repeat(np.arange(len(counts)), held))
    return cluster


def _rounded_table(times, total):
    """The table `times` / `total`, whose rows and columns add up to whole numbers, with every cell rounded up or down.

    What is left over by rounding down flows from rows to columns, at most 1 through each cell that is not whole.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    (n_rows, n_columns), rest = times.shape, times % total
    capacity = np.zeros((n_rows + n_columns + 2,) * 2, np.int32)
    rows, columns = slice(1, n_rows + 1), slice(n_rows + 1, -1)
    capacity[0, rows], capacity[columns, -1] = rest.sum(1) // total, rest.sum(0) // total
    capacity[rows, columns] = rest > 0
    flow = maximum_flow(csr_array(capacity), 0, len(capacity) - 1).flow.toarray()
    return times // total + flow[rows, columns]


def points_of(rng, cluster, centers, scales, degrees):
    """Features (N, d) of rows in these clusters: normal, or t where the degrees of freedom (K,) are finite."""
    noise = rng.standard_normal((len(cluster), centers.shape[1]))
    noise = np.einsum("nij,nj->ni", np.linalg.cholesky(scales)[cluster], noise)
    finite = np.where(np.isfinite(degrees), degrees, 1.0)[cluster]
    divisor = np.where(np.isfinite(degrees)[cluster], rng.chisquare(finite) / finite, 1.0)
    return centers[cluster] + noise / np.sqrt(divisor)[:, None]


def whole_sizes(shares, total):
    """Whole numbers, each at least 1, that add up to `total` and are nearest to these shares of it."""
    sizes = np.maximum(np.floor(shares * total).astype(int), 1)
    while (short := total - sizes.sum()) != 0:
        free = (sizes > 1) | (short > 0)
        sizes[np.argmax(np.where(free, np.sign(short) * (shares * total - sizes), -np.inf))] += np.sign(short)
    return sizes


def _parts(argument, given, number):
    """Shares (number,) that add up to 1."""
    given = np.ones(number) if given is None else np.asarray(given, float)
    if given.shape != (number,) or not (np.isfinite(given) & (given > 0)).all():
        rule, remedy = f"have {number} numbers above zero", "Pass a share for each."
        raise ValueError(message(argument, rule, given.tolist(), remedy))
    return given / given.sum()


def _covariances(given, elongation, n_clusters, dim, rng):
    """Covariances (K, d, d): those given, or of determinant 1, each elongated in a random direction."""
    if given is None:
        long = np.stack([_rotation(rng, dim)[0] for _ in range(n_clusters)])
        along = long[:, :, None] * long[:, None, :]
        wide = elongation ** (-2 / dim)
        return wide * (np.eye(dim) + (elongation**2 - 1) * along)
    scales = np.asarray(given, float)
    if scales.shape not in ((dim, dim), (n_clusters, dim, dim)):
        rule = f"have the shape {(n_clusters, dim, dim)}, or {(dim, dim)} for all clusters"
        raise ValueError(message("covariances", rule, scales.shape, "Pass a matrix for each cluster."))
    if not np.allclose(scales, np.swapaxes(scales, -1, -2)) or not (np.linalg.eigvalsh(scales) > 0).all():
        rule, remedy = "be symmetric with eigenvalues above zero", "Add a small number to the diagonals."
        raise ValueError(message("covariances", rule, "matrices that are not", remedy))
    return np.broadcast_to(scales, (n_clusters, dim, dim))


def _centers(given, overlap, scales, rng):
    """Centres (K, d): those given, or on a circle with neighbours as near as `overlap` says."""
    n_clusters, dim, _ = scales.shape
    if given is not None:
        centers = np.asarray(given, float)
        if centers.shape != (n_clusters, dim) or not np.isfinite(centers).all():
            rule, remedy = f"have finite numbers and the shape {(n_clusters, dim)}", "Pass a row for each cluster."
            raise ValueError(message("centers", rule, f"the shape {centers.shape}", remedy))
        return centers
    if not 0 < check_number("overlap", overlap) < 0.5:
        raise ValueError(message("overlap", "be above 0 and below 0.5", overlap, "Pass 0.01 for clear clusters."))
    apart = 2 * ndtri(1 - overlap) * np.sqrt(np.trace(scales, axis1=1, axis2=2).mean() / dim)
    if dim == 1:
        return apart * np.arange(n_clusters)[:, None]
    angle = 2 * np.pi * np.arange(n_clusters) / n_clusters
    radius = apart / (2 * np.sin(np.pi / max(n_clusters, 2)))
    return radius * np.stack([np.cos(angle), np.sin(angle)], 1) @ _rotation(rng, dim)[:2]


def _rotation(rng, dim):
    """A random orthogonal matrix (d, d)."""
    return np.linalg.qr(rng.standard_normal((dim, dim)))[0]


def _degrees(given, n_clusters):
    """Degrees of freedom (K,)."""
    degrees = np.asarray(np.inf if given is None else given, float)
    if degrees.shape not in ((), (n_clusters,)) or not (degrees > 0).all():
        rule, remedy = "be a number above zero, or one for each cluster", "Pass float('inf') for normal clusters."
        raise ValueError(message("degrees_of_freedom", rule, degrees.tolist(), remedy))
    return np.broadcast_to(degrees, (n_clusters,))


def _names(n_groups):
    """Names of groups (G,): a, b, ..., or g1, g2, ... if there are more than letters."""
    letters = [chr(ord("a") + at) for at in range(n_groups)]
    return np.array(letters if n_groups <= 26 else [f"g{at}" for at in range(1, n_groups + 1)])

"""Point estimates of the partition among the draws, so as balanced as they are, and credible balls around them."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._check import check_number, message
from bayesfair._names import DataTree
from bayesfair._partitions import check_partition, partition_distance
from bayesfair.posterior.schema import check_rows_of, count_clusters, flat_labels, variable
from bayesfair.posterior.tables import canonical, company, information
from bayesfair.posterior.view import once


@once
def dahl_partition(tree: "DataTree", *, max_draws: int | Literal["auto"] | None = "auto") -> np.ndarray:
    """The draw nearest in least squares to the co-clustering probabilities.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).
    max_draws : int, "auto" or None, default "auto"
        Evenly spaced draws that are candidates and stand for the posterior. "auto" keeps the time to seconds. None takes
        all.

    Returns
    -------
    numpy.ndarray of shape (n_obs,)
        Integer labels.

    References
    ----------
    Dahl (2006). The Gibbs paper, section 3.2.

    Examples
    --------
    >>> import bayesfair as bf
    >>> tree = bf.posterior.tree_from_labels([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]], [[0], [1], [8], [9]])
    >>> bf.posterior.dahl_partition(tree).tolist()
    [0, 0, 1, 1]
    """
    return _best_draw(tree, company, max_draws, lambda candidates: candidates.least_squares)


@once
def reference_partition(tree: "DataTree") -> np.ndarray:
    """The partition that tables, pictures and misclassification probabilities of a tree are about.

    It is stored as `reference_labels` in the group constant_data, and gives clusters their numbers. Its attribute `point`
    says what it is:

    * "likeliest": every row in the cluster where most draws have it. If that breaks the guarantee, clusters get the nearest
      counts of groups that keep it, and rows the likeliest places with these counts;
    * "dahl": the draw of `dahl_partition`, if its expected Binder loss is smaller than that of "likeliest";
    * "mode": every row's most frequent label;
    * "given": the argument of `relabel`.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).

    Returns
    -------
    numpy.ndarray of shape (n_obs,)
        Integer labels. Dahl's if the tree has none.

    Examples
    --------
    >>> import bayesfair as bf
    >>> tree = bf.posterior.tree_from_labels([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]], [[0], [1], [8], [9]])
    >>> bf.posterior.reference_partition(tree).tolist()
    [0, 0, 1, 1]
    """
    reference = variable(tree, "constant_data", "reference_labels")
    return dahl_partition(tree) if reference is None else reference.values.astype(int)


def point_of(tree) -> str:
    """The kind of `reference_partition`, by its name in the tree."""
    reference = variable(tree, "constant_data", "reference_labels")
    return "dahl" if reference is None else reference.attrs.get("point", "dahl")


def binder_partition(
    tree: "DataTree", *, a: float = 1.0, b: float = 1.0, max_draws: int | Literal["auto"] | None = "auto"
) -> np.ndarray:
    """The draw with the least expected Binder loss.

    With a = b this is `dahl_partition`.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).
    a : float above zero, default 1.0
        Cost of a pair that belongs together and is split.
    b : float above zero, default 1.0
        Cost of a pair that does not belong together and is joined. A larger one favours more, smaller clusters.
    max_draws : int, "auto" or None, default "auto"
        As in `dahl_partition`.

    Returns
    -------
    numpy.ndarray of shape (n_obs,)
        Integer labels.

    References
    ----------
    Binder (1978). Wade and Ghahramani (2018), section 2.

    Examples
    --------
    >>> import bayesfair as bf
    >>> tree = bf.posterior.tree_from_labels([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]], [[0], [1], [8], [9]])
    >>> bf.posterior.binder_partition(tree).tolist()
    [0, 0, 1, 1]
    """
    a, b = check_number("a", a), check_number("b", b)
    return _best_draw(tree, company, max_draws, lambda candidates: candidates.binder(a, b))


def vi_partition(tree: "DataTree", *, max_draws: int | Literal["auto"] | None = "auto") -> np.ndarray:
    """The draw with the least expected variation of information from the posterior.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).
    max_draws : int, "auto" or None, default "auto"
        As in `dahl_partition`.

    Returns
    -------
    numpy.ndarray of shape (n_obs,)
        Integer labels.

    References
    ----------
    Wade and Ghahramani (2018), section 2, restricted to draws.

    Examples
    --------
    >>> import bayesfair as bf
    >>> tree = bf.posterior.tree_from_labels([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]], [[0], [1], [8], [9]])
    >>> bf.posterior.vi_partition(tree).tolist()
    [0, 0, 1, 1]
    """
    return _best_draw(tree, information, max_draws, lambda candidates: candidates.variation_of_information)


def map_partition(tree: "DataTree") -> np.ndarray:
    """The draw of highest posterior density.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `lp` of shape (chain, draw) in the group sample_stats.

    Returns
    -------
    numpy.ndarray of shape (n_obs,)
        Integer labels.

    Raises
    ------
    ValueError
        If the tree has no `lp`, as with target="cut": the density of a cut has a normaliser for every decomposition, a sum
        over all clusterings of its fairlets, which is not known.

    Examples
    --------
    >>> import bayesfair as bf
    >>> tree = bf.posterior.tree_from_labels([[0, 0, 1, 1], [0, 0, 0, 1]], [[0.0], [0.1], [1.0], [1.1]], lp=[-1.0, -2.0])
    >>> bf.posterior.map_partition(tree).tolist()
    [0, 0, 1, 1]
    """
    lp = variable(tree, "sample_stats", "lp")
    if lp is None:
        remedy = (
            "Under target='cut' densities are not known. Use dahl_partition or vi_partition, which need only labels."
        )
        raise ValueError(message("tree", "hold `lp` in its group 'sample_stats'", "none", remedy))
    return flat_labels(tree)[np.argmax(lp.values)].astype(np.int64)


def _best_draw(tree, compare, max_draws, loss):
    labels = flat_labels(tree)
    candidates = compare(labels, count_clusters(tree), max_draws)
    return labels[candidates.draw[np.argmin(loss(candidates))]].astype(np.int64)


def check_level(level, usual):
    """Raise a ValueError unless a probability is between 0 and 1."""
    if not 0 < check_number("level", level) < 1:
        raise ValueError(message("level", "be between 0 and 1", level, f"The usual choice is {usual}."))


class CredibleBall(NamedTuple):
    """The smallest ball around a partition that holds a given share of the draws, with its edges.

    The bounds are draws inside the ball, one distinct partition in a row. If the number of clusters is fixed and none is
    empty, the three are the same.

    Attributes
    ----------
    estimate : numpy.ndarray of shape (n_obs,)
        The centre of the ball.
    level : float
        The share of the draws that the ball has to hold.
    metric : str
        "vi" or "binder".
    radius : float
        In units of the metric.
    coverage : float
        The share of the draws inside.
    distance : numpy.ndarray of shape (n_chains * n_draws,)
        Distance of every draw to the centre.
    upper : numpy.ndarray of shape (n_partitions, n_obs)
        The farthest among those with the fewest clusters.
    lower : numpy.ndarray of shape (n_partitions, n_obs)
        The farthest among those with the most clusters.
    horizontal : numpy.ndarray of shape (n_partitions, n_obs)
        The farthest draws.

    References
    ----------
    Wade and Ghahramani (2018), section 4.

    Examples
    --------
    >>> import bayesfair as bf
    >>> tree = bf.posterior.tree_from_labels([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]], [[0], [1], [8], [9]])
    >>> bf.posterior.credible_ball(tree).horizontal.tolist()
    [[0, 0, 0, 1]]
    """

    estimate: np.ndarray
    level: float
    metric: str
    radius: float
    coverage: float
    distance: np.ndarray
    upper: np.ndarray
    lower: np.ndarray
    horizontal: np.ndarray


def credible_ball(
    tree: "DataTree",
    *,
    level: float = 0.95,
    metric: Literal["vi", "binder"] = "vi",
    estimate: ArrayLike | None = None,
    max_draws: int | Literal["auto"] | None = "auto",
) -> CredibleBall:
    """The smallest ball around a partition that holds `level` of the posterior.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).
    level : float between 0 and 1, default 0.95
        Posterior probability of the ball.
    metric : {"vi", "binder"}, default "vi"
        Distance between partitions, see `partition_distance`.
    estimate : array-like of int of shape (n_obs,), optional
        The centre. By default the point estimate of the same metric.
    max_draws : int, "auto" or None, default "auto"
        Draws among which the point estimate is searched, see `dahl_partition`. Distances are to every draw.

    Returns
    -------
    CredibleBall

    Raises
    ------
    ValueError
        If the level is not between 0 and 1, or the metric is unknown.

    References
    ----------
    Wade and Ghahramani (2018), section 4.

    Examples
    --------
    >>> import bayesfair as bf
    >>> tree = bf.posterior.tree_from_labels([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]], [[0], [1], [8], [9]])
    >>> bf.posterior.credible_ball(tree, level=0.5).radius
    0.0
    """
    check_level(level, usual=0.95)
    labels = flat_labels(tree)
    check_rows_of(tree, estimate=estimate)
    if estimate is None:
        estimate = (binder_partition if metric == "binder" else vi_partition)(tree, max_draws=max_draws)
    center = check_partition("estimate", estimate, labels.shape[1])
    distance = partition_distance(labels, center, metric=metric)
    radius = np.sort(distance)[int(np.ceil(level * len(distance) - 1e-9)) - 1]
    inside = np.flatnonzero(distance <= radius + _TIE)
    used = np.array([np.count_nonzero(np.bincount(draw)) for draw in labels[inside]])
    edges = {
        "upper": inside[used == used.min()],
        "lower": inside[used == used.max()],
        "horizontal": inside,
    }
    bounds = {name: _farthest(labels, distance, draws) for name, draws in edges.items()}
    return CredibleBall(center, level, metric, float(radius), len(inside) / len(labels), distance, **bounds)


_TIE = 1e-12  # distances of draws that are the same partition differ by rounding only


def _farthest(labels, distance, draws):
    """The distinct partitions among `draws` at the largest distance, (partitions, obs)."""
    edge = draws[distance[draws] >= distance[draws].max() - _TIE]
    distinct = {canonical(labels[draw]).tobytes(): labels[draw] for draw in edge[::-1]}
    return np.stack(list(distinct.values())[::-1]).astype(np.int64)

"""Point estimates of the partition among the draws, and credible balls around them.

Every estimate is one of the draws, so that it is as balanced as they are.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._check import check_number, message
from bayesfair._names import DataTree
from bayesfair._partitions import partition_distance
from bayesfair.posterior.contingency import canonical, company, information
from bayesfair.posterior.schema import check_partition, count_clusters, flat_labels, variable
from bayesfair.posterior.view import once


@once
def dahl_partition(tree: "DataTree", *, max_draws: int | Literal["auto"] | None = "auto") -> np.ndarray:
    """The draw whose association matrix is nearest to the co-clustering probabilities in least squares: labels (obs,).

    argmin_s sum_ij (eta_ij(s) - etabar_ij)^2, Dahl (2006), section 3.2 of the paper. The candidates, which also stand
    for the posterior, are `max_draws` evenly spaced draws; "auto" keeps the time to seconds, None takes every draw.
    """
    return _best_draw(tree, company, max_draws, lambda candidates: candidates.least_squares)


@once
def reference_partition(tree: "DataTree") -> np.ndarray:
    """The one partition that tables, pictures and misclassification probabilities of a tree are about: labels (obs,).

    It is stored as `reference_labels` in the group constant_data, and gives clusters their numbers. Its attribute `point`
    says what it is. "likeliest": every observation in the cluster where most draws have it, as far as the guarantee allows,
    with as many of every group in a cluster as there are on average. "dahl": `dahl_partition`, as in runs of earlier versions
    and where that has the lesser expected Binder loss. "mode": every observation's most frequent label. "given": the argument
    of `relabel`. Dahl's where the tree names none.
    """
    reference = variable(tree, "constant_data", "reference_labels")
    return dahl_partition(tree) if reference is None else reference.values.astype(int)


def point_of(tree) -> str:
    """What `reference_partition` is, by the names that are told there."""
    reference = variable(tree, "constant_data", "reference_labels")
    return "dahl" if reference is None else reference.attrs.get("point", "dahl")


def binder_partition(
    tree: "DataTree", *, a: float = 1.0, b: float = 1.0, max_draws: int | Literal["auto"] | None = "auto"
) -> np.ndarray:
    """The draw with the least expected Binder loss: labels (obs,).

    A pair that belongs together and is split costs `a`, a pair that does not and is joined costs `b` (Binder 1978;
    Wade & Ghahramani 2018, section 2). With a = b this is `dahl_partition`; a larger `b` favours more, smaller
    clusters. `max_draws` as in `dahl_partition`.
    """
    a, b = check_number("a", a), check_number("b", b)
    return _best_draw(tree, company, max_draws, lambda candidates: candidates.binder(a, b))


def vi_partition(tree: "DataTree", *, max_draws: int | Literal["auto"] | None = "auto") -> np.ndarray:
    """The draw with the least expected variation of information from the posterior: labels (obs,).

    Wade & Ghahramani (2018), section 2, restricted to draws; `max_draws` as in `dahl_partition`.
    """
    return _best_draw(tree, information, max_draws, lambda candidates: candidates.variation_of_information)


def map_partition(tree: "DataTree") -> np.ndarray:
    """The draw of highest posterior density `lp`: labels (obs,).

    ValueError where the tree has no `lp`, as under target="cut": the density of a cut has a normaliser for every
    decomposition, a sum over all clusterings of its fairlets, which nobody knows.
    """
    lp = variable(tree, "sample_stats", "lp")
    if lp is None:
        remedy = (
            "Under target='cut' densities are not known; use dahl_partition or vi_partition, which need only labels."
        )
        raise ValueError(message("tree", "hold `lp` in its group 'sample_stats'", "none", remedy))
    return flat_labels(tree)[np.argmax(lp.values)].astype(np.int64)


def _best_draw(tree, compare, max_draws, loss):
    labels = flat_labels(tree)
    candidates = compare(labels, count_clusters(tree), max_draws)
    return labels[candidates.draw[np.argmin(loss(candidates))]].astype(np.int64)


class CredibleBall(NamedTuple):
    """The smallest ball around `estimate` that holds at least `level` of the draws, with its edges.

    `radius` in units of `metric`, `coverage`: the share of draws inside, `distance` (chains * draws,): of every draw.
    The bounds are draws inside the ball, one distinct partition a row: `horizontal`, the farthest; `upper`, the
    farthest among those with the fewest clusters; `lower`, among those with the most. Where the number of
    clusters is fixed and none is empty, the three are the same.
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
    """`CredibleBall` of the posterior over partitions: Wade & Ghahramani (2018), section 4.

    Its centre is `estimate` (obs,), by default the point estimate of the same metric ("vi" or "binder"); that search
    alone uses `max_draws`, distances to the centre are of every draw.
    """
    if not 0 < check_number("level", level) < 1:
        raise ValueError(message("level", "be between 0 and 1", level, "The usual choice is 0.95."))
    labels = flat_labels(tree)
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

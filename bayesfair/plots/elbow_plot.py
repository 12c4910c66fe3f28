"""The gain from another cluster, with fairness and without."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._check import check_features, check_integer, check_same_rows
from bayesfair._names import Axes
from bayesfair.engines.fairlet_kmeans import cluster_fairlets
from bayesfair.fairlets.decomposition import decompose
from bayesfair.fairness.distances import distance_report
from bayesfair.fairness.plain import plain_kmeans
from bayesfair.plots.style import BESIDE, axes_or_new


class Costs(NamedTuple):
    """Within-cluster sums of squares of the rows by number of clusters, for fair and plain k-means."""

    n_clusters: np.ndarray
    fair: np.ndarray
    plain: np.ndarray


def elbow(
    X: ArrayLike,
    sensitive: ArrayLike,
    n_clusters: Iterable[int] = range(2, 9),
    *,
    composition: Mapping | ArrayLike = "auto",
    random_state: int | np.random.RandomState | None = 0,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the within-cluster sum of squares against the number of clusters, with and without fairness.

    Look for the number past which the fair line falls little. The distance between the lines is the price of balance.

    Parameters
    ----------
    X : array-like of shape (n_obs, n_features)
        Features.
    sensitive : array-like of shape (n_obs,) or (n_obs, n_attributes)
        The groups of the rows.
    n_clusters : iterable of int, default range(2, 9)
        Numbers of clusters.
    composition : "auto", dict, int or array-like, default "auto"
        Members of each group in each fairlet, see `bayesfair.fairlets.decompose`.
    random_state : int or numpy.random.RandomState, default 0
        Seed of k-means.
    ax : matplotlib.axes.Axes, optional
        By default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_well_specified()
    >>> ax = bf.plots.elbow(data.features, data.sensitive, range(2, 5))  # doctest: +SKIP
    """
    costs = elbow_costs(X, sensitive, n_clusters, composition=composition, random_state=random_state)
    ax = axes_or_new(ax)
    ax.plot(costs.n_clusters, costs.fair, "o-", color="#332288", label="fair (whole fairlets)")
    ax.plot(costs.n_clusters, costs.plain, "^--", color="#CC6677", label="without fairness")
    ax.set_xticks(costs.n_clusters)
    ax.set(
        xlabel="number of clusters K", ylabel="within-cluster sum of squares", title="Cost against K", ylim=(0, None)
    )
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(**BESIDE)
    return ax


def elbow_costs(X, sensitive, n_clusters=range(2, 9), *, composition="auto", random_state=0) -> Costs:
    """The arrays behind `elbow`."""
    check_same_rows(X=X, sensitive=sensitive)
    X = check_features(X)
    numbers = np.array([check_integer("n_clusters", k, maximum=len(X)) for k in n_clusters])
    fairlet = decompose(X, sensitive, composition, random_state=random_state).fairlet
    fair, plain = [], []
    for k in numbers.tolist():
        found = cluster_fairlets(X, fairlet, k, n_init=10, random_state=random_state)
        fair.append(distance_report(X, found.labels_[fairlet]).attrs["within_ss"])
        plain.append(plain_kmeans(X, k, n_init=10, seed=random_state)[1])
    return Costs(numbers, np.array(fair), np.array(plain))

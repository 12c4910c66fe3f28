"""What clusters cost: by their number, with fairness and without, and against fairness."""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._check import check_features, check_integer, check_same_rows, message
from bayesfair._names import Axes, DataFrame
from bayesfair.engines.fairlet_kmeans import cluster_fairlets
from bayesfair.estimators.comparison import elbow_of
from bayesfair.fairlets.decomposition import decompose
from bayesfair.fairness.distances import distance_report
from bayesfair.fairness.plain import plain_kmeans
from bayesfair.plots.style import BESIDE, MARKERS, as_written, axes_or_new, cluster_colors, panels

COLUMNS, HEIGHT = 2, 2.4  # columns of panels; inches per panel
FAIRNESS = {
    "balance": "balance, the smallest ratio of two groups in a cluster",
    "gap": "gap, the largest difference of groups' shares in a cluster",
    "kl_error": "fairness error, sum of KL divergences to the target",
}


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


class Panel(NamedTuple):
    """A column of the table and its label. `limits`: of the vertical axis."""

    title: str
    column: str
    label: str
    limits: tuple = (None, None)
    whole: bool = False  # are its values counts?


PANELS = (
    Panel("Cost, sum of squares", "cost", "fair", (0, None)),
    Panel("Stability, adjusted Rand index", "bootstrap_ari", "bootstrap", (None, 1.05)),
    Panel("Doubt, mean P(elsewhere)", "doubt", "rows", (0, None)),
    Panel("Modes", "modes", "found", (0, None), whole=True),
    Panel("Balance, least ratio of groups", "balance", "point estimate", (0, 1.05)),
    Panel("Price of fairness", "fairness_cost", "above plain k-means"),
    Panel("BIC (lower is better)", "bic", "BIC"),
    Panel("Predictive density (higher is better)", "loo", "elpd by LOO"),
)


def cluster_comparison(table: "DataFrame") -> np.ndarray:
    """Draw the table of `bayesfair.compare_clusters`: one panel for each question that it answers.

    A dotted line marks the elbow of the cost. A ring marks the best BIC and predictive density.

    Parameters
    ----------
    table : pandas.DataFrame
        What `bayesfair.compare_clusters` returned.

    Returns
    -------
    numpy.ndarray of shape (n_panels,)
        The matplotlib axes.

    Raises
    ------
    ValueError
        If the table has none of the columns.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_vfc_synthetic()
    >>> table = bf.compare_clusters(bf.FairletKMeans(), data.features, data.sensitive)  # doctest: +SKIP
    >>> axes = bf.plots.cluster_comparison(table)  # doctest: +SKIP
    """
    shown = [panel for panel in PANELS if panel.column in table.columns]
    if not shown:
        rule, remedy = "have columns of bayesfair.compare_clusters", "Pass what it returns."
        raise ValueError(message("table", rule, sorted(map(str, table.columns)), remedy))
    table, axes = table.sort_index(), panels(len(shown), COLUMNS, HEIGHT, sharex=True)
    for ax, panel in zip(axes, shown):
        _draw(ax, panel, table)
    for ax in axes[-COLUMNS:]:
        ax.set_xlabel("number of clusters K")
        ax.tick_params(labelbottom=True)
    as_written(axes[0].figure.suptitle(f"{table.attrs.get('method', 'One method')} at several numbers of clusters"))
    return axes


def _draw(ax, panel, table):
    values = table[panel.column]
    ax.plot(table.index, values, marker="o", color=cluster_colors(1)[0])
    elbow = elbow_of(table) if panel.column == "cost" else None
    if elbow is not None:
        ax.axvline(elbow, color="0.6", linestyle=":", label="elbow")
        ax.legend(frameon=False, fontsize=8)
    best = {"bic": "idxmin", "loo": "idxmax"}.get(panel.column)
    if best and values.notna().any():
        k = getattr(values, best)()
        ax.plot([k], [values[k]], "o", markersize=13, markerfacecolor="none", markeredgecolor="#CC6677")
    if panel.column == "fairness_cost":
        ax.yaxis.set_major_formatter("{x:+.1%}")
    if panel.whole:
        ax.yaxis.get_major_locator().set_params(integer=True)
    ax.set_title(panel.title, fontsize="medium")
    ax.set_ylabel(panel.label, fontsize="small")
    ax.margins(y=0.12)
    ax.set_ylim(*panel.limits)
    ax.set_xticks(table.index)
    ax.spines[["top", "right"]].set_visible(False)


def pareto(
    results: "DataFrame", *, fairness: Literal["gap", "balance", "kl_error"] = "gap", ax: "Axes | None" = None
) -> "Axes":
    """Draw cost against fairness of every method in a table.

    Points that no other of any method beats in both are filled, the others hollow.

    Parameters
    ----------
    results : pandas.DataFrame
        With the columns method, cost and that of `fairness`, as `bayesfair.engines.fairness_path` makes it.
    fairness : {"gap", "balance", "kl_error"}, default "gap"
        The measure of fairness.
    ax : matplotlib.axes.Axes, optional
        By default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If a column is missing.

    Examples
    --------
    >>> import bayesfair as bf
    >>> ax = bf.plots.pareto(path)  # doctest: +SKIP
    """
    missing = {"method", "cost", fairness} - set(results.columns)
    if missing or fairness not in FAIRNESS:
        rule, remedy = (
            f"have columns method, cost and one of {tuple(FAIRNESS)}",
            "Use bayesfair.engines.fairness_path.",
        )
        raise ValueError(message("results", rule, sorted(map(str, results.columns)), remedy))
    ax = axes_or_new(ax)
    best = front(results["cost"].to_numpy(), results[fairness].to_numpy(), higher_is_better=fairness == "balance")
    methods = results.assign(best=best).groupby("method", sort=False)
    colors = cluster_colors(methods.ngroups)
    for i, (method, points) in enumerate(methods):
        points = points.sort_values(fairness)
        ax.plot(points[fairness], points["cost"], "-", color=colors[i], alpha=0.4, linewidth=1)
        faces = [colors[i] if is_best else "white" for is_best in points["best"]]
        style = {"marker": MARKERS[i % len(MARKERS)], "edgecolors": [colors[i]]}
        ax.scatter(points[fairness], points["cost"], c=faces, label=method, zorder=3, **style)
    ax.set(
        xlabel=FAIRNESS[fairness],
        ylabel="cost, sum of squared distances",
        title="Cost against fairness (filled: no other point beats it)",
    )
    ax.spines[["top", "right"]].set_visible(False)
    legend = ax.legend(**BESIDE)
    as_written(*legend.get_texts())
    for handle, color in zip(legend.legend_handles, colors):
        handle.set_facecolor(color)
    return ax


def front(cost, fairness, *, higher_is_better=False):
    """Which points no other point beats: bool per point."""
    unfair = -fairness if higher_is_better else fairness
    no_worse = (cost[:, None] <= cost) & (unfair[:, None] <= unfair)
    better = (cost[:, None] < cost) | (unfair[:, None] < unfair)
    return ~(no_worse & better).any(0)

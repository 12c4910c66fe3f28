"""Cost against fairness: Pareto fronts of several methods in one picture."""

from typing import Literal

from bayesfair._check import message
from bayesfair._names import Axes, DataFrame
from bayesfair.plots.style import BESIDE, MARKERS, as_written, axes_or_new, cluster_colors

LABELS = {
    "balance": "balance, the smallest ratio of two groups in a cluster",
    "gap": "gap, the largest difference of groups' shares in a cluster",
    "kl_error": "fairness error, sum of KL divergences to the target",
}


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
    if missing or fairness not in LABELS:
        rule, remedy = (
            f"have columns method, cost and one of {tuple(LABELS)}",
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
        xlabel=LABELS[fairness],
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

"""A table of several numbers of clusters, one panel per question."""

from typing import NamedTuple

import numpy as np

from bayesfair._check import message
from bayesfair._names import DataFrame
from bayesfair.plots.style import MARKERS, as_written, cluster_colors, panels

COLUMNS, HEIGHT = 2, 2.4  # columns of panels; inches per panel


class Panel(NamedTuple):
    """Columns of the table and their labels, in one panel. `limits`: of its vertical axis."""

    title: str
    lines: dict[str, str]
    limits: tuple = (None, None)
    whole: bool = False  # are its values counts?


PANELS = (
    Panel("Cost, sum of squares", {"cost": "fair", "plain_cost": "without fairness"}, (0, None)),
    Panel("Expected loss", {"expected_loss": "posterior mean"}, (0, None)),
    Panel("Stability, adjusted Rand index", {"bootstrap_ari": "bootstrap", "chains_ari": "chains"}, (None, 1.05)),
    Panel("Doubt, mean P(elsewhere)", {"doubt": "rows"}, (0, None)),
    Panel("Modes", {"modes": "found"}, (0, None), whole=True),
    Panel("Balance, least ratio of groups", {"balance": "point estimate"}, (0, 1.05)),
    Panel("Cost of fairness, share", {"fairness_cost": "above plain k-means"}),
    Panel("BIC (lower is better)", {"bic": "BIC"}),
    Panel("Predictive density (higher is better)", {"loo": "elpd by LOO"}),
)


def cluster_comparison(table: "DataFrame") -> np.ndarray:
    """Draw the table of `bayesfair.compare_clusters`: one panel for each question that it answers.

    A dotted line marks the elbow of the cost. A ring marks the best BIC and predictive density, whose bars are one standard
    error long on either side.

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
    shown = [panel for panel in PANELS if set(panel.lines) & set(table.columns)]
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
    lines = {name: label for name, label in panel.lines.items() if name in table}
    for (name, label), color, marker in zip(lines.items(), cluster_colors(len(panel.lines)), MARKERS):
        ax.plot(table.index, table[name], marker=marker, color=color, label=label)
    if "cost" in lines and table.attrs.get("elbow") is not None:
        ax.axvline(table.attrs["elbow"], color="0.6", linestyle=":", label="elbow")
    if "loo" in lines:
        ax.errorbar(table.index, table["loo"], table["loo_se"], color="0.6", linewidth=1, zorder=0)
    for name, best in (("bic", "idxmin"), ("loo", "idxmax")):
        if name in lines and table[name].notna().any():
            k = getattr(table[name], best)()
            ax.plot([k], [table[name][k]], "o", markersize=13, markerfacecolor="none", markeredgecolor="#CC6677")
    told = ax.get_legend_handles_labels()[1]
    if len(told) > 1:
        ax.legend(
            loc="lower center", bbox_to_anchor=(0.5, 0.97), ncols=len(told), columnspacing=1, frameon=False, fontsize=8
        )
    else:
        ax.set_ylabel(*told, fontsize="small")
    if panel.whole:
        ax.yaxis.get_major_locator().set_params(integer=True)
    ax.set_title(panel.title, fontsize="medium", pad=18 if len(told) > 1 else None)
    ax.margins(y=0.12)
    ax.set_ylim(*panel.limits)
    ax.set_xticks(table.index)
    ax.spines[["top", "right"]].set_visible(False)

"""A table of several numbers of clusters, one panel per question."""

from typing import NamedTuple

import numpy as np

from bayesfair._check import message
from bayesfair._names import DataFrame
from bayesfair.estimators.comparison import elbow_of
from bayesfair.plots.style import as_written, cluster_colors, panels

COLUMNS, HEIGHT = 2, 2.4  # columns of panels; inches per panel


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
    Panel("Cost of fairness, share", "fairness_cost", "above plain k-means"),
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
    if panel.whole:
        ax.yaxis.get_major_locator().set_params(integer=True)
    ax.set_title(panel.title, fontsize="medium")
    ax.set_ylabel(panel.label, fontsize="small")
    ax.margins(y=0.12)
    ax.set_ylim(*panel.limits)
    ax.set_xticks(table.index)
    ax.spines[["top", "right"]].set_visible(False)

"""Rows to look at one by one in a notebook: their clusters, how surely, and where else they may belong."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._check import Refusal
from bayesfair._names import DataTree
from bayesfair.plots.scatter import project, usual_view
from bayesfair.plots.style import cluster_colors
from bayesfair.posterior.membership import memberships
from bayesfair.posterior.relabelling import about
from bayesfair.posterior.view import View

if TYPE_CHECKING:
    from jscatter import Scatter

HEIGHT = 480  # pixels
SIZES = np.linspace(4, 16, 64).tolist()  # of a row that is surely in its cluster, up to one that surely is not


def explore(
    tree: "DataTree",
    X: ArrayLike | None = None,
    *,
    columns: tuple[int | str, int | str] | None = None,
    reference: ArrayLike | None = None,
) -> "Scatter":
    """Show all rows in a notebook, where you zoom, select with a lasso, and point at a row to read about it.

    Positions and colours are those of `uncertainty`, and size grows with the misclassification probability. At the pointer
    stand the row's name, its cluster, the runner-up, the probabilities of both, and the group. Rows far from all others are
    outside of the first view: zoom out. It needs the package jupyter-scatter.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).
    X : array-like of shape (n_obs, n_features), optional
        Features. By default those in the tree.
    columns : pair of int or str, optional
        Two features by name or position. By default the first two principal components, or the feature itself if there is
        one.
    reference : array-like of int of shape (n_obs,), optional
        Clusters of your own. By default the point estimate.

    Returns
    -------
    jscatter.Scatter
        Its `selection()` has the positions of the selected rows.

    Raises
    ------
    ImportError
        If jupyter-scatter is not installed.
    ValueError
        If `columns` does not name two features.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.plots.explore(est.posterior_)  # doctest: +SKIP
    """
    Scatter = _scatter()
    tree = View.of(about(tree, reference))
    position, axes = project(tree, X, columns=columns)
    table, (low, high) = memberships(tree), usual_view(position)
    told = _told(table)
    return Scatter(
        *position.T,
        data=told,
        x_scale=(low[0], high[0]),
        y_scale=(low[1], high[1]),
        axes_labels=list(axes),
        color_by="cluster",
        color_map=cluster_colors(told["cluster"].cat.categories.size).tolist(),
        color_labeling={"variable": "cluster"},
        opacity=0.7,
        size_by=table["misclassification_probability"].to_numpy(),
        size_map=SIZES,
        size_norm=(0, 1),
        size_labeling={"variable": "P(misclassified)"},
        legend=True,
        tooltip=True,
        tooltip_properties=list(told),
        tooltip_histograms=False,
        height=HEIGHT,
    )


def _scatter():
    try:
        from jscatter import Scatter
    except ImportError as error:
        text = "bf.plots.explore needs the package jupyter-scatter. Install it with `pip install 'bayesfair[explore]'`."
        raise ImportError(Refusal(text)) from error
    return Scatter


def _told(table):
    """What stands at the pointer, from a table of `memberships`."""
    import pandas as pd

    names = table.index.map(str)
    table = table.reset_index(drop=True)
    columns = {
        "row": names,
        "cluster": pd.Categorical(table["cluster"], range(table["cluster"].max() + 1)).rename_categories(str),
        "probability": table["probability"],
        "runner-up": table["runner_up"].astype("string").fillna("none"),
        "its probability": table["runner_up_probability"],
    }
    return pd.DataFrame(columns | ({"group": table["group"]} if "group" in table else {}))

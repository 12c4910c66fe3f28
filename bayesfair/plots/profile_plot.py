"""The traits of clusters: a table of every feature by cluster, coloured by the cluster's distance from everyone."""

from textwrap import fill
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._check import check_integer
from bayesfair._names import Axes, DataFrame, DataTree
from bayesfair.plots.style import FIGURE_WIDTH, as_written, axes_or_new
from bayesfair.posterior.profiles import EVERYONE, GROUP, SPREAD, in_words, names_in_words, telling_order
from bayesfair.posterior.profiles import profile as profile_of

LINE, HEAD = 0.27, 1.25  # heights in inches: of a line, and of the rest
COLUMN, LETTER, ASIDE = 0.45, 0.06, 1.0  # least widths in inches: of a column, a letter of a name, and the rest
REACH = 1.5  # standard deviations at the ends of the colour scale
NARROW = 7  # clusters from which letters are smaller


class ProfileGrid(NamedTuple):
    """`text` and `shade` (lines, columns), in standard deviations from everyone; `n_features` lines come before the groups."""

    lines: list[str]
    columns: list[str]
    text: np.ndarray
    shade: np.ndarray
    n_features: int


def profile(
    source: "DataTree | ArrayLike",
    X: ArrayLike | None = None,
    *,
    sensitive_features: ArrayLike | None = None,
    max_lines: int = 12,
    ax: "Axes | None" = None,
) -> "Axes":
    """What the clusters are: every feature by cluster in its own units, the most telling first, and the groups' shares.

    A colour says how many standard deviations a cluster's mean lies above or below that of all rows.

    Parameters
    ----------
    source : xarray.DataTree or array-like of shape (n_obs,)
        A posterior, whose point estimate is shown, or anybody's cluster labels, which may be text.
    X : data frame or array-like of shape (n_obs, n_features), optional
        The table in the units to be shown, as in `bayesfair.posterior.profile`, which has the numbers.
    sensitive_features : array-like of shape (n_obs,) or (n_obs, n_attributes), optional
        Protected groups. By default those of the tree.
    max_lines : int, default 12
        Features and categories shown: those that separate the clusters best.
    ax : matplotlib.axes.Axes, optional
        By default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.load_diabetes()
    >>> labels = (data.features["bmi"] > 28).map({True: "heavy", False: "light"})
    >>> ax = bf.plots.profile(labels, data.features, sensitive_features=data.sensitive)  # doctest: +SKIP
    """
    table = profile_of(source, X, sensitive_features=sensitive_features)
    grid = profile_grid(table, check_integer("max_lines", max_lines))
    width = max(FIGURE_WIDTH, ASIDE + LETTER * max(map(len, grid.lines)) + COLUMN * len(grid.columns))
    ax = axes_or_new(ax, figsize=None if ax is not None else (width, height_of_profile(len(grid.lines))))
    image = ax.imshow(grid.shade, cmap="PuOr", vmin=-REACH, vmax=REACH, aspect="auto", interpolation="nearest")
    size = 8 if len(grid.columns) <= NARROW else 6
    for (line, column), text in np.ndenumerate(grid.text):
        shade = "white" if abs(grid.shade[line, column]) > 0.65 * REACH else "black"
        as_written(ax.text(column, line, text, ha="center", va="center", fontsize=size, color=shade))
    ax.set_xticks(range(len(grid.columns)), grid.columns, fontsize=size)
    ax.set_yticks(range(len(grid.lines)), grid.lines, fontsize=8)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.axhline(grid.n_features - 0.5, color="black", linewidth=0.8)
    ax.axvline(0.5, color="black", linewidth=0.8)
    ticks = ax.xaxis.get_major_ticks() + ax.yaxis.get_major_ticks()
    as_written(*(label for tick in ticks for label in (tick.label1, tick.label2)))
    ax.set_title("What the clusters are: means and shares", fontsize=10)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8, extend="both")
    bar.set_label("standard deviations from everyone", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    return ax


def profile_grid(table: "DataFrame", max_lines=12) -> ProfileGrid:
    """The texts and colours of a table from `bayesfair.posterior.profile`."""
    table = table.iloc[telling_order(table, max_lines)]
    is_group = table.index.get_level_values("feature") == GROUP
    text, spread = in_words(table), table[SPREAD].to_numpy()[:, None]
    off = table[text.columns].to_numpy() - table[[EVERYONE]].to_numpy()
    shade = np.divide(off, spread, out=np.full(off.shape, np.nan), where=spread > 0)
    shade[:, 0] = np.nan
    sizes = table.attrs["sizes"]
    columns = [
        f"{EVERYONE}\n{sum(sizes.values()):,} rows",
        *(f"{_head(name, len(sizes))}\n{size:,}" for name, size in sizes.items()),
    ]
    return ProfileGrid(names_in_words(table), columns, text.to_numpy(), shade, int((~is_group).sum()))


def _head(cluster, n_clusters):
    """A cluster's name: words in lines as wide as its column; numbers follow a word if there is room."""
    name = f"cluster {cluster}" if isinstance(cluster, int) and n_clusters < NARROW else str(cluster)
    return fill(name, max(84 // n_clusters, 6))


def height_of_profile(n_lines):
    """The height in inches of the picture of so many lines."""
    return HEAD + LINE * n_lines

"""One style for every picture: colour-blind safe colours, markers for groups, notebook sizes."""

import numpy as np

from bayesfair._check import message

FIGURE_WIDTH = 7.0  # inches
BESIDE = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "frameon": False, "fontsize": 8}  # place of legends
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*", "<", ">")
# Paul Tol's "muted" scheme without its grey, dark colours first, then black; beyond ten clusters the map `viridis`.
_COLORS = ("#332288", "#CC6677", "#117733", "#DDCC77", "#88CCEE", "#882255", "#44AA99", "#999933", "#AA4499", "#000000")


def cluster_colors(n_clusters):
    """RGBA colours (n_clusters, 4)."""
    from matplotlib import colormaps
    from matplotlib.colors import to_rgba_array

    if n_clusters <= len(_COLORS):
        return to_rgba_array(_COLORS[:n_clusters])
    return colormaps["viridis"](np.linspace(0, 0.95, n_clusters))


def as_written(*texts):
    """Matplotlib's `texts` taken literally: a dollar in a name starts no formula."""
    for text in texts:
        text.set_parse_math(False)


def axes_or_new(ax, height=0.62, figsize=None):
    """`ax`, or the axes of a new figure of that size, by default of notebook width, with its height relative to that."""
    if ax is not None:
        if figsize is not None:
            remedy = "Set the size of ax's figure."
            raise ValueError(message("figsize", "be left out if ax is given", figsize, remedy))
        return ax
    from matplotlib import pyplot as plt

    size = (FIGURE_WIDTH, FIGURE_WIDTH * height) if figsize is None else figsize
    return plt.subplots(figsize=size, layout="constrained")[1]


def panels(total, columns, height, *, figure=None, **settings):
    """The axes (total,) of `figure`, by default of a new one of notebook width, in columns, each `height` inches high."""
    n_rows = -(-total // columns)
    if figure is None:
        from matplotlib import pyplot as plt

        figure = plt.figure(figsize=(FIGURE_WIDTH, height * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, columns, squeeze=False, **settings).ravel()
    for ax in axes[total:]:
        ax.remove()
    return axes[:total]

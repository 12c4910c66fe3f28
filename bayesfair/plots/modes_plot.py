"""The modes of a posterior: the mass of each against its loss, and the rows that differ from the best mode."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._names import DataTree
from bayesfair._percent import percent
from bayesfair.plots.style import FIGURE_WIDTH, cluster_colors
from bayesfair.plots.uncertainty_plot import project
from bayesfair.posterior.found_modes import modes as table_of
from bayesfair.posterior.found_modes import modes_of
from bayesfair.posterior.schema import count_clusters
from bayesfair.posterior.view import View

SHOWN, IN_ROW = 6, 3  # clusterings shown, and in one row
_TOP, _BELOW, _ALONE = 0.37, 0.33, 0.5  # heights of the rows of axes, and of a single one, for width 1
MANY = 5_000  # rows above which a sample of them is drawn
LINEAR = 10.0  # depth of log masses with a linear axis; deeper ones have a logarithmic one
_GREY = "0.35"


class ModeMasses(NamedTuple):
    """The arrays of the upper picture, all (modes,), best first; `kind`: "known", "bounded" from above alone, "unknown".

    `position`: mean clustering loss, or log density if the tree has no loss, named by `axis`. Masses as in `posterior.modes`.
    """

    position: np.ndarray
    axis: str
    log_mass: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    kind: np.ndarray


class Clusterings(NamedTuple):
    """`position` (obs, 2) on two `axes`; `labels` (modes, obs); `moved` from the best mode (modes, obs); `share` moved."""

    position: np.ndarray
    axes: tuple[str, str]
    labels: np.ndarray
    moved: np.ndarray
    share: np.ndarray


def mode_masses(tree) -> ModeMasses:
    """The arrays behind the upper picture of `modes`."""
    table = table_of(tree)
    has_loss = table["loss"].notna().all()
    position = table["loss"] if has_loss else table["lp"]
    axis = "mean clustering loss" if has_loss else "mean log density" if position.notna().all() else "mode"
    position = position.to_numpy() if axis != "mode" else table.index.to_numpy(float)
    log_mass, lower, upper = (table[name].to_numpy() for name in ("log_mass", "lower", "upper"))
    kind = np.where(np.isfinite(log_mass), "known", np.where(np.isfinite(upper), "bounded", "unknown"))
    return ModeMasses(position, axis, log_mass, lower, upper, kind)


def mode_clusterings(tree, X=None, *, columns=None, sample=MANY, seed=0) -> Clusterings:
    """The arrays behind the lower pictures of `modes`, for at most `sample` rows drawn at random (`seed`)."""
    labels = modes_of(tree)["labels"].values.astype(int)
    position, axes = project(tree, X, columns=columns)
    moved = labels != labels[0]
    rows = np.arange(len(position))
    if len(rows) > sample:
        rows = np.sort(np.random.default_rng(seed).choice(len(rows), sample, replace=False))
    return Clusterings(position[rows], axes, labels[:, rows], moved[:, rows], moved.mean(axis=1))


def modes(
    tree: "DataTree", X: ArrayLike | None = None, *, columns: tuple[int | str, int | str] | None = None, figure=None
) -> np.ndarray:
    """Draw the mass of each mode against its loss, and below it the clusterings of up to six modes.

    Bars are intervals of about 95%. An arrow hangs from the upper bound of a mode whose mass is only known to be less. An
    open mark at the foot is a mode of unknown mass. Below -10 the scale of masses is logarithmic if they reach far. Clusters
    have the same colours in all modes, and rows that are elsewhere than in the best mode are drawn large.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).
    X : array-like of shape (n_obs, n_features), optional
        Features. By default those in the tree.
    columns : pair of int or str, optional
        Two features by name or position. By default the first two principal components.
    figure : matplotlib figure or subfigure, optional
        By default a new one.

    Returns
    -------
    numpy.ndarray
        The matplotlib axes, that of the masses first; that of the clustering alone if there is one mode. More than 5,000 rows
        are sampled.

    Raises
    ------
    ValueError
        If `columns` does not name two features.

    Examples
    --------
    >>> import bayesfair as bf
    >>> axes = bf.plots.modes(est.posterior_)  # doctest: +SKIP
    """
    view = View.of(tree)
    masses, clusterings = mode_masses(view), mode_clusterings(view, X, columns=columns)
    colors = cluster_colors(count_clusters(view))
    shown = min(SHOWN, len(masses.log_mass))
    if figure is None:
        from matplotlib import pyplot as plt

        figure = plt.figure(figsize=(FIGURE_WIDTH, FIGURE_WIDTH * height_of_modes(shown)), layout="constrained")
    axes = _axes(figure, shown)
    if shown > 1:
        _draw_masses(axes[0], masses)
    for mode, ax in enumerate(axes[-shown:]):
        _draw_clustering(ax, clusterings, mode, colors)
    if shown == 1:
        axes[0].set_title("One mode was found", fontsize=10)
    return axes


def _draw_masses(ax, masses):
    foot, head = _range(masses)
    if max(-foot, head) > 3 * LINEAR:
        foot, head = 4 * foot, head if head < LINEAR else 4 * head
        ax.set_yscale("symlog", linthresh=LINEAR, linscale=1.5)
        ax.yaxis.set_major_formatter("{x:g}")
    for mode, kind in enumerate(masses.kind):
        _mark(ax, masses, mode, kind, foot)
    notes = ["open mark: mass not known"] * bool((masses.kind == "unknown").any())
    notes += ["bars alone: bounds"] * bool((masses.kind == "bounded").any())
    ax.axhline(0, color="0.85", linewidth=0.8, zorder=0)
    ax.set(xlabel=masses.axis, ylabel="log mass, relative to the best", ylim=(foot, head))
    ax.set_title(f"Modes ({', '.join(notes)})" if notes else "Modes")
    if (masses.kind[1:] == "unknown").all():
        ax.set_yticks([0])  # no mass is known
    ax.margins(x=0.12)
    ax.spines[["top", "right"]].set_visible(False)


def _range(masses):
    """The limits of the mass axis: all known values, with room below for arrows and above for numbers."""
    known = np.concatenate([masses.log_mass, masses.lower, masses.upper])
    lowest, highest = (end(known[np.isfinite(known)]) for end in (np.min, np.max))
    span = highest - lowest
    return lowest - max(2.0, 0.35 * span), highest + max(1.0, 0.12 * min(span, 3 * LINEAR))


def _mark(ax, masses, mode, kind, foot):
    """One mode: a point with its interval, an arrow from its upper bound, or an open mark at the foot; and its number."""
    x, y = masses.position[mode], masses.log_mass[mode]
    style = {"color": _GREY, "linewidth": 1.4}
    if kind == "known":
        ax.plot([x, x], [masses.lower[mode], masses.upper[mode]], **style)
        ax.plot(x, y, "o", color=_GREY, markersize=6)
    elif kind == "bounded":
        y, low = masses.upper[mode], masses.lower[mode]
        ax.plot(x, y, "_", markersize=9, markeredgewidth=1.4, color=_GREY)
        if np.isfinite(low):
            ax.plot([x, x], [low, y], marker="_", markersize=9, markeredgewidth=1.4, **style)
        else:
            ax.annotate("", (x, y), (0, -22), textcoords="offset points", arrowprops={"arrowstyle": "<|-", **style})
    else:
        y = foot
        ax.plot(x, y, "o", markerfacecolor="white", color=_GREY, markersize=6, clip_on=False)
    ax.annotate(str(mode + 1), (x, y), (7, 4), textcoords="offset points", fontsize=9)


def _draw_clustering(ax, clusterings, mode, colors):
    labels, moved = clusterings.labels[mode], clusterings.moved[mode]
    crowd = np.clip(500 / len(labels), 0.15, 1.0)
    many = len(labels) > MANY // 2
    stayed = {"s": 9 * crowd, "alpha": 0.7 if mode == 0 else 0.35}
    for rows, style in ((~moved, stayed), (moved, {"s": 22 * crowd, "alpha": 0.95})):
        ax.scatter(*clusterings.position[rows].T, c=colors[labels[rows]], linewidths=0, rasterized=many, **style)
    more = "" if mode == 0 else f", {percent(clusterings.share[mode])} elsewhere"
    ax.set_title(f"mode {mode + 1}{more}", fontsize=9)
    ax.set(xticks=[], yticks=[])
    for side in ax.spines.values():
        side.set_color("0.8")


def height_of_modes(num_modes):
    """The height of the picture of so many modes, relative to its width."""
    if num_modes == 1:
        return _ALONE
    return _TOP + _BELOW * -(-min(num_modes, SHOWN) // IN_ROW)


def _axes(figure, shown):
    """One axes over the whole width, and one below it for each clustering; a single one alone."""
    if shown == 1:
        return np.array([figure.add_subplot()])
    n_columns = min(shown, IN_ROW)
    n_rows = -(-shown // n_columns)
    grid = figure.add_gridspec(1 + n_rows, n_columns, height_ratios=[_TOP] + [_BELOW] * n_rows)
    below = [figure.add_subplot(grid[1 + at // n_columns, at % n_columns]) for at in range(shown)]
    return np.array([figure.add_subplot(grid[0, :]), *below])

"""Traces of the scalars that show convergence."""

from collections.abc import Sequence

import numpy as np

from bayesfair._check import message
from bayesfair._names import DataTree
from bayesfair._numbers import r_hat as written
from bayesfair.plots.style import FIGURE_WIDTH, as_written, cluster_colors
from bayesfair.posterior.diagnostics import diagnostic_vars, scalar_table, worst_first
from bayesfair.posterior.view import View

SHOWN, BINS = 6, 30
PARTS = 20  # parts of a chain: scalars of 0 and 1 are averaged over as many draws as a part has


def trace(tree: "DataTree", *, var_names: Sequence[str] | None = None, axes=None) -> np.ndarray:
    """Draw every chain's trace and the histogram of its draws, one row for each scalar, with its R-hat.

    Of scalars that are 0 or 1, such as whether two rows are together, the trace is the share of ones in a moving window.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior.
    var_names : sequence of str, optional
        Names of scalars, see `bayesfair.posterior.diagnostic_vars`. By default the six on which the chains agree least.
    axes : array of matplotlib axes of shape (n_scalars, 2), optional
        By default those of a new figure.

    Returns
    -------
    numpy.ndarray of shape (n_scalars, 2)
        The matplotlib axes.

    Raises
    ------
    ValueError
        If a name is unknown.

    Examples
    --------
    >>> import bayesfair as bf
    >>> axes = bf.plots.trace(est.posterior_)  # doctest: +SKIP
    """
    view = View.of(tree)
    scalars, table = diagnostic_vars(view, constant=True), scalar_table(view)
    names = list(worst_first(table).index[:SHOWN]) if var_names is None else list(var_names)
    names = names or list(table.index[:SHOWN])  # nothing moved
    unknown = [name for name in names if name not in scalars]
    if unknown:
        rule = f"be among {', '.join(scalars.data_vars)}"
        raise ValueError(message("var_names", rule, ", ".join(map(repr, unknown)), "Check the spelling."))
    axes = _axes(len(names)) if axes is None else np.asarray(axes).reshape(len(names), 2)
    for (left, right), name in zip(axes, names):
        values = scalars[name].transpose("chain", "draw").values
        window = max(values.shape[1] // PARTS, 1) if _is_truth(values) else 1
        bins = np.array([-0.5, 0.5, 1.5]) if _is_truth(values) else _bins(values)
        for draws, color in zip(values, cluster_colors(len(values))):
            left.plot(*_smoothed(draws, window), color=color, linewidth=0.6 if window == 1 else 1.2, alpha=0.8)
            right.hist(draws, bins=bins, density=True, histtype="step", color=color, linewidth=1.2)
        r_hat = table.loc[name, "r_hat"]
        said = [
            name.replace("_", " "),
            *[f"share of {window} draws"] * (window > 1),
            "no R-hat" if np.isnan(r_hat) else f"R-hat {written(r_hat)}",
        ]
        left.set_xlim(0, values.shape[1])
        left.set_ylabel("\n".join(said), fontsize=8)
        as_written(left.yaxis.label)
        right.set_yticks([])
        right.locator_params(axis="x", nbins=4)
        for ax in (left, right):
            ax.tick_params(labelsize=7)
            ax.spines[["top", "right"]].set_visible(False)
    axes[-1, 0].set_xlabel("draw", fontsize=8)
    axes[-1, 1].set_xlabel("value", fontsize=8)
    axes[0, 0].set_title("trace, one colour per chain", fontsize=9)
    axes[0, 1].set_title("distribution", fontsize=9)
    return axes


def _is_truth(values):
    return np.isin(values, (0, 1)).all() and np.ptp(values) > 0


def _smoothed(draws, window):
    """(number of the draw, mean over the `window` of draws around it)."""
    if window == 1:
        return np.arange(len(draws)), draws
    means = np.convolve(draws, np.full(window, 1 / window), "valid")
    return np.arange(len(means)) + (window - 1) / 2, means


def _bins(values):
    """Edges of `BINS` bins, or of fewer for few whole numbers or within rounding; each holds as many whole numbers."""
    low, high = values.min(), values.max()
    largest = max(abs(low), abs(high))
    if np.array_equal(values, np.round(values)) and largest < 1e9:
        width = max(np.ceil((high - low + 1) / BINS), 1.0)
        return np.arange(low - 0.5, high + width, width)
    no_room = BINS * np.spacing(largest)
    if high - low >= no_room:
        return np.linspace(low, high, BINS + 1)
    half = max(0.5, no_room)
    return np.array([low - half, high + half])


def _axes(n_rows):
    from matplotlib import pyplot as plt

    size = FIGURE_WIDTH, 1.25 * n_rows + 0.6
    widths = {"width_ratios": [2, 1]}
    return plt.subplots(n_rows, 2, figsize=size, layout="constrained", squeeze=False, gridspec_kw=widths)[1]

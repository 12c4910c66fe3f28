"""Checks by eye: do the chains agree, and do simulated tables look like the observed one?"""

from collections.abc import Sequence
from textwrap import fill
from typing import NamedTuple

import numpy as np

from bayesfair._check import message
from bayesfair._draws import in_words
from bayesfair._names import DataTree
from bayesfair._numbers import INTERVAL
from bayesfair._numbers import r_hat as written
from bayesfair.plots.style import BESIDE, as_written, cluster_colors, panels
from bayesfair.posterior.diagnostics import diagnostic_vars, scalar_table, worst_first
from bayesfair.posterior.schema import columns_of
from bayesfair.posterior.view import View

SHOWN = 6  # scalars, or features
BINS = 30
LETTERS = 24  # of a name that fit beside a trace
PARTS = 20  # parts of a chain: scalars of 0 and 1 are averaged over as many draws as a part has
GROUPS = "posterior_predictive", "prior_predictive"
POINTS, FEW_VALUES, COLUMNS = 200, 8, 3
ON_A_LINE = 16  # letters of all level names below a panel that fit one line


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
    if axes is None:
        axes = panels(2 * len(names), 2, 1.4, gridspec_kw={"width_ratios": [2, 1]})
    axes = np.asarray(axes).reshape(len(names), 2)
    for beside, name in zip(axes, names):
        _draw_scalar(*beside, name, scalars[name].transpose("chain", "draw").values, table.loc[name, "r_hat"])
    axes[-1, 0].set_xlabel("draw", fontsize=8)
    axes[-1, 1].set_xlabel("value", fontsize=8)
    axes[0, 0].set_title("trace, one colour per chain", fontsize=9)
    axes[0, 1].set_title("distribution", fontsize=9)
    return axes


def _draw_scalar(left, right, name, values, r_hat):
    """The traces and histograms of a scalar (chain, draw); of one that is 0 or 1 the means of a moving window."""
    is_truth = np.isin(values, (0, 1)).all() and np.ptp(values) > 0
    window = max(values.shape[1] // PARTS, 1) if is_truth else 1
    bins = np.array([-0.5, 0.5, 1.5]) if is_truth else _bins(values)
    for draws, color in zip(values, cluster_colors(len(values))):
        means = np.convolve(draws, np.full(window, 1 / window), "valid") if window > 1 else draws
        middles = np.arange(len(means)) + (window - 1) / 2
        left.plot(middles, means, color=color, linewidth=0.6 if window == 1 else 1.2, alpha=0.8)
        right.hist(draws, bins=bins, density=True, histtype="step", color=color, linewidth=1.2)
    agreed = "no R-hat" if np.isnan(r_hat) else f"R-hat {written(r_hat)}"
    words = fill(in_words(name), LETTERS, break_long_words=False, break_on_hyphens=False)
    said = [words, *[f"share of {window} draws"] * (window > 1), agreed]
    left.set_xlim(0, values.shape[1])
    left.set_ylabel("\n".join(said), fontsize=8)
    as_written(left.yaxis.label)
    right.set_yticks([])
    right.locator_params(axis="x", nbins=4)
    for ax in (left, right):
        ax.tick_params(labelsize=7)
        ax.spines[["top", "right"]].set_visible(False)


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


class Check(NamedTuple):
    """The distribution function, or the share of a value, `at` points (points,): as `observed`, and in 89% of simulations.

    `levels`: of a category, the points' names.
    """

    feature: str
    is_discrete: bool
    at: np.ndarray
    observed: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    levels: tuple[str, ...] = ()


def predictive_checks(tree):
    """A `Check` for each feature of a tree that has simulated tables, `X` (chain, draw, obs, feature)."""
    group = next((name for name in GROUPS if name in getattr(tree, "children", {})), None)
    if group is None or "observed_data" not in tree.children:
        rule, remedy = f"have a group of {GROUPS}", "Pass est.posterior_predictive() or est.prior_predictive()."
        raise ValueError(message("tree", rule, type(tree).__name__, remedy))
    observed = tree["observed_data"]["X"]
    simulated = tree[group]["X"].values.reshape(-1, *observed.shape)
    columns = zip(columns_of(tree), observed.values.T, np.moveaxis(simulated, 2, 0))
    return [_check(column.name, *tables, column.levels) for column, *tables in columns]


def _check(name, observed, simulated, levels):
    values = np.arange(len(levels)) if levels else np.unique(observed)
    is_discrete = bool(levels) or len(values) <= FEW_VALUES
    if is_discrete:
        at = np.union1d(values, np.unique(simulated)) if np.isin(simulated, values).mean() > 0.5 else values
        shares = np.stack([(simulated == value).mean(1) for value in at], 1)
        seen = np.array([(observed == value).mean() for value in at])
    else:
        at = np.linspace(*np.quantile(np.r_[observed, np.quantile(simulated, [0.01, 0.99])], [0, 1]), POINTS)
        shares = np.stack([np.searchsorted(np.sort(table), at, side="right") for table in simulated]) / len(observed)
        seen = np.searchsorted(np.sort(observed), at, side="right") / len(observed)
    return Check(name, is_discrete, at, seen, *np.quantile(shares, INTERVAL, axis=0), levels)


def predictive(tree: "DataTree", *, axes=None) -> np.ndarray:
    """Draw the observed distribution of each feature on the band that holds 89% of the simulated ones.

    The first six features are shown. Features of at most eight values, and categories, are shown by the share of each
    value.

    Parameters
    ----------
    tree : xarray.DataTree
        `est.posterior_predictive()` or `est.prior_predictive()` of a `BayesianFairMixture`.
    axes : array of matplotlib axes of shape (n_features,), optional
        By default those of a new figure.

    Returns
    -------
    numpy.ndarray of shape (n_features,)
        The matplotlib axes.

    Raises
    ------
    ValueError
        If the tree has no simulated tables.

    Examples
    --------
    >>> import bayesfair as bf
    >>> axes = bf.plots.predictive(est.posterior_predictive())  # doctest: +SKIP
    """
    checks = predictive_checks(tree)[:SHOWN]
    columns = min(len(checks), COLUMNS)
    if axes is None:
        axes = panels(len(checks), columns, 2.4)
        axes[0].figure.suptitle("What was observed and what the model simulates", fontsize=10)
    axes = np.ravel(axes)
    blue, red = cluster_colors(2)
    for ax, check in zip(axes, checks):
        if check.is_discrete:
            middle, half = (check.lower + check.upper) / 2, (check.upper - check.lower) / 2
            ax.errorbar(check.at, middle, half, fmt="none", color=blue, linewidth=4, alpha=0.4, label="simulated, 89%")
            ax.plot(check.at, check.observed, "o", color=red, markersize=4, label="observed")
            ax.set(ylabel="share of rows", ylim=(0, None))
            slant = {"rotation": 30, "ha": "right"} if sum(map(len, check.levels)) > ON_A_LINE else {}
            ax.set_xticks(check.at, check.levels or None, **slant)
            as_written(*ax.get_xticklabels())
        else:
            ax.fill_between(
                check.at, check.lower, check.upper, color=blue, alpha=0.4, linewidth=0, label="simulated, 89%"
            )
            ax.plot(check.at, check.observed, color=red, linewidth=1.2, label="observed")
            ax.set(ylabel="share of rows below", ylim=(0, 1))
        ax.set_xlabel(check.feature)
        as_written(ax.xaxis.label)
        ax.spines[["top", "right"]].set_visible(False)
    axes[columns - 1].legend(*axes[0].get_legend_handles_labels(), **BESIDE)
    return axes

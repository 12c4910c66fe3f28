"""Predictive checks: do tables simulated from a fitted mixture look like the observed one?"""

from typing import NamedTuple

import numpy as np

from bayesfair._check import message
from bayesfair._names import DataTree
from bayesfair.plots.style import BESIDE, as_written, cluster_colors, panels
from bayesfair.posterior.schema import columns_of

GROUPS = "posterior_predictive", "prior_predictive"
POINTS, FEW_VALUES, SHOWN, COLUMNS = 200, 8, 6, 3
ON_A_LINE = 16  # letters of all level names below a panel that fit one line


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
    return Check(name, is_discrete, at, seen, *np.quantile(shares, [0.055, 0.945], axis=0), levels)


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
            _name_points(ax, check)
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


def _name_points(ax, check):
    """Ticks at the values of a discrete feature; long names of levels slant."""
    slant = {"rotation": 30, "ha": "right"} if sum(map(len, check.levels)) > ON_A_LINE else {}
    ax.set_xticks(check.at, check.levels or None, **slant)
    as_written(*ax.get_xticklabels())

"""One method at several numbers of clusters: the cost, stability and balance of each."""

import warnings
from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from bayesfair._arviz import load_arviz_stats, own_settings
from bayesfair._check import (
    Interrupted,
    check_integer,
    check_same_rows,
    listed,
    message,
    random_state_of,
    tell,
)
from bayesfair._numbers import percent
from bayesfair._progress import progress
from bayesfair.fairness.distances import distance_report
from bayesfair.fairness.groups import groups_for_fit
from bayesfair.fairness.metrics import balance
from bayesfair.fairness.plain import plain_kmeans, share_above
from bayesfair.gibbs.modes.search import ModeSearch
from bayesfair.posterior.diagnostics import scalar_table
from bayesfair.posterior.found_modes import modes
from bayesfair.posterior.membership import misclassification_probability
from bayesfair.posterior.schema import variable
from bayesfair.posterior.view import View

PARTS = "n_clusters", "n_components"
WITHOUT_JUMPS = ModeSearch(jumps=None)
MANY_BAD = 0.05  # share of rows with such a Pareto k that is told
BAD_PARETO_K = 0.7  # above it a row's part of `az.loo` is not reliable (Vehtari et al. 2024)


def compare_clusters(
    estimator: BaseEstimator,
    X: ArrayLike,
    sensitive_features: ArrayLike | None,
    n_clusters: Iterable[int] = range(2, 9),
    *,
    num_bootstraps: int = 5,
    progress_bar: bool = False,
) -> pd.DataFrame:
    """Fit an estimator at several numbers of clusters and compare the results in a table.

    `bayesfair.plots.cluster_comparison` draws the table.

    Parameters
    ----------
    estimator : estimator
        Any estimator of the package. A clone of it is fitted at each number; its own number of clusters is not used. All
        fits start from the same random numbers.
    X : array-like of shape (n_obs, n_features)
        Features.
    sensitive_features : array-like of shape (n_obs,) or (n_obs, n_attributes), or None
        The groups of the rows.
    n_clusters : iterable of int, default range(2, 9)
        Numbers of clusters, each once, in any order. The largest is fitted first, so that one too many is refused at once.
    num_bootstraps : int, at least 0, default 5
        Samples of the rows, the same for every number. A sampler is short for them: half of its warm-up, a quarter of its
        draws. `GibbsFairClustering` takes one chain, no search for modes, an eighth of its warm-up and a quarter of its draws.
    progress_bar : bool, default False
        Whether to show a progress bar over the fits.

    Returns
    -------
    pandas.DataFrame
        One row for each number, its index `n_clusters`. Columns for which the estimator has no answer are absent, see the
        notes.

    Raises
    ------
    TypeError
        If the estimator has no number of clusters, or `n_clusters` is not a list of numbers.
    ValueError
        If a number is given twice, or there are more clusters than rows or fairlets.

    Notes
    -----
    The columns are:

    * cost: sum of squared distances of the rows to the means of their clusters (numeric X);
    * fairness_cost: how much higher that is than the cost of k-means without fairness, as a share of it, NaN if it is 0
      because each distinct row has a cluster of its own;
    * balance: of `labels_`;
    * bootstrap_ari: mean adjusted Rand index of `labels_` and those of a fit to rows drawn anew within the groups, with
      replacement, on the rows that were drawn. If balance is exact, chance in the sample keeps it below 1;
    * doubt: mean probability that a row is not in its cluster;
    * modes: number of modes found;
    * r_hat: the largest;
    * bic: of `FairMixture`;
    * loo: expected log predictive density of `az.loo`, higher is better (`BayesianFairMixture`). With a fairness factor it is
      that of the fair posterior. A warning says where it is not reliable for many rows;
    * converged: of engines.

    `thinning` becomes 1 where it is "auto", and `modes` a search without jumps, which is cheaper. Masses of modes need
    `modes=bf.gibbs.ModeSearch()`. Convergence is reported by columns, not by warnings.
    The largest number of clusters is fitted first. Ctrl-C returns the rows that are done, with a warning.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_vfc_synthetic()
    >>> engine = bf.FairletKMeans(random_state=0)
    >>> table = bf.compare_clusters(engine, data.features, data.sensitive, range(2, 5), num_bootstraps=2)
    >>> table.index.tolist(), bool(table["cost"].is_monotonic_decreasing)
    ([2, 3, 4], True)
    """
    check_same_rows(X=X, sensitive_features=sensitive_features)
    parameter, numbers = _parameter(estimator), _numbers(n_clusters)
    check_integer("num_bootstraps", num_bootstraps, minimum=0)
    seed = int(random_state_of(estimator.random_state).randint(2**31 - 1))
    estimator = clone(estimator).set_params(**_quietly(estimator), random_state=seed)
    crossed, groups = _crosses(estimator), None
    if sensitive_features is not None:
        groups = groups_for_fit(sensitive_features, _num_samples(X), crossed=crossed)  # small groups are not merged
    rows = {}
    with progress(len(numbers) * (1 + num_bootstraps), "fits", progress_bar) as bar:
        try:
            for k in sorted(numbers, reverse=True):
                asked = clone(estimator).set_params(**{parameter: k})
                fitted = _fit(asked, X, sensitive_features)
                bar.update(1)
                figures = _figures(fitted, X, groups, seed)
                samples = _samples(len(fitted.labels_), groups, num_bootstraps, seed)
                if num_bootstraps:
                    agreements = [_agreement(asked, fitted.labels_, X, groups, drawn, bar) for drawn in samples]
                    figures["bootstrap_ari"] = float(np.mean(agreements))
                rows[k] = figures
        except KeyboardInterrupt:
            if not rows:
                raise
            missing = listed(k for k in numbers if k not in rows)
            tell(f"Interrupted: the table has the rows that were done. It lacks n_clusters = {missing}.", Interrupted)
    done = {k: rows[k] for k in numbers if k in rows}
    table = pd.DataFrame.from_dict(done, orient="index").rename_axis("n_clusters")
    table.attrs["method"] = type(estimator).__name__
    return table


def _parameter(estimator):
    """The name of the parameter for the number of clusters."""
    known = estimator.get_params(deep=False) if isinstance(estimator, BaseEstimator) else {}
    names = [name for name in PARTS if name in known]
    if not names:
        rule, remedy = f"have a parameter {' or '.join(PARTS)}", "Pass an estimator such as bf.FairletKMeans()."
        raise TypeError(message("estimator", rule, repr(estimator), remedy))
    return names[0]


def _crosses(estimator):
    """Whether the estimator balances combinations of sensitive columns."""
    return all(value for name, value in estimator.get_params().items() if name in ("crossed", "target__crossed"))


def _numbers(n_clusters):
    if isinstance(n_clusters, (str, int, float)):
        raise TypeError(message("n_clusters", "be several numbers", repr(n_clusters), "Pass range(2, 9)."))
    numbers = [check_integer("n_clusters", k, remedy="Pass range(2, 9), say.") for k in n_clusters]
    if not numbers or len(set(numbers)) < len(numbers):
        raise ValueError(message("n_clusters", "contain every number once", numbers, "Pass range(2, 9), say."))
    return numbers


def _quietly(estimator):
    """Settings of the fits: one bar for all of them, no thinning, no jumps."""
    known, automatic = estimator.get_params(deep=False), {"thinning": 1, "modes": WITHOUT_JUMPS}
    chosen = {name: value for name, value in automatic.items() if isinstance(known.get(name), str)}
    return {"progress_bar": False, **chosen}


def _briefly(estimator):
    """Settings of the fits to bootstrap samples."""
    known, wanted, part = estimator.get_params(deep=False), {}, {"num_warmup": 2, "num_draws": 4}
    if "modes" in known:  # sweeps are many times cheaper than gradients, and begin at a good clustering
        wanted, part = {"modes": None, "num_chains": 1}, {"num_warmup": 8, "num_draws": 4}
    return wanted | {name: -(-known[name] // n) for name, n in part.items() if name in known}


def _fit(estimator, X, sensitive_features):
    """The fit without advice; Ctrl-C ends it, as a part of its draws is no entry of a table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("error", Interrupted)
        try:
            return estimator.fit(X, sensitive_features=sensitive_features)
        except Interrupted:
            raise KeyboardInterrupt from None


def _samples(n_obs, groups, num_bootstraps, seed):
    """Rows resampled within the groups (num_bootstraps, N): groups keep their sizes, and programs their shapes."""
    rng, code = np.random.default_rng(seed), np.zeros(n_obs, int) if groups is None else groups.code
    drawn = np.empty((num_bootstraps, n_obs), int)
    for members in (np.flatnonzero(code == group) for group in np.unique(code)):
        drawn[:, members] = rng.choice(members, (num_bootstraps, len(members)))
    return drawn


def _agreement(asked, labels, X, groups, drawn, bar):
    """Adjusted Rand index between `labels` and a short fit to the rows `drawn`, on these rows."""
    from sklearn.metrics import adjusted_rand_score

    of_drawn = None if groups is None else groups._replace(code=groups.code[drawn])
    short = _fit(clone(asked).set_params(**_briefly(asked)), _safe_indexing(X, drawn), of_drawn)
    bar.update(1)
    common, first = np.unique(drawn, return_index=True)
    return adjusted_rand_score(labels[common], short.labels_[first])


def _figures(fitted, X, groups, seed):
    """A row of the table, without the bootstrap."""
    labels = fitted.labels_
    figures = _costs(labels, X, fitted, seed, groups is not None)
    if groups is not None:
        figures["balance"] = balance(labels, groups)
    if hasattr(fitted, "posterior_"):
        figures |= _posterior_figures(fitted.posterior_)
    if hasattr(fitted, "bic"):
        figures["bic"] = fitted.bic(X)
    if hasattr(fitted, "converged_"):
        figures["converged"] = bool(fitted.converged_)
    return figures


def _costs(labels, X, fitted, seed, is_fair):
    try:
        rows = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):  # categories
        return {}
    if not np.isfinite(rows).all():  # missing values
        return {}
    costs = {"cost": distance_report(rows, labels).attrs["within_ss"]}
    if is_fair:
        k = fitted.get_params(deep=False)[_parameter(fitted)]
        costs["fairness_cost"] = share_above(costs["cost"], plain_kmeans(rows, k, n_init=10, seed=seed)[1])
    return costs


def _posterior_figures(tree):
    view = View.of(tree)
    figures = {"doubt": float(misclassification_probability(view).mean()), "modes": len(modes(view))}
    figures["r_hat"] = float(scalar_table(view)["r_hat"].max())
    return figures | ({"loo": _loo(tree)} if variable(tree, "log_likelihood", "x") is not None else {})


def _loo(tree):
    load_arviz_stats()
    from arviz_stats import loo

    with warnings.catch_warnings():  # of large Pareto k, which are told below
        warnings.simplefilter("ignore", UserWarning)
        with own_settings():
            told = loo(tree, pointwise=True)
    bad = float((told.pareto_k > BAD_PARETO_K).mean())
    if bad > MANY_BAD:
        k = tree.attrs["n_clusters"]
        text = f"`loo` at {k} clusters is not reliable for {percent(bad)} of the rows (Pareto k above {BAD_PARETO_K})."
        tell(f"{text} Compare by bic, or by held-out rows.")
    return float(told.elpd)


def elbow_of(table):
    """The K whose cost is farthest below the chord, with both axes scaled to [0, 1]; None for fewer than three numbers."""
    if "cost" not in table or len(table) < 3:
        return None
    cost = table["cost"].sort_index()
    if cost.iloc[0] <= cost.iloc[-1]:
        return None
    along = (cost.index - cost.index[0]) / (cost.index[-1] - cost.index[0])
    fallen = (cost.iloc[0] - cost) / (cost.iloc[0] - cost.iloc[-1])
    return int((fallen - along).idxmax())

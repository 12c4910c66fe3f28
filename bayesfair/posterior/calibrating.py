"""How often what a posterior states is true, in simulated tables whose true clusters are known.

The truth is a fair Gaussian mixture fitted to the run's table. The run's own target, loss and rule for the inverse temperature
are applied to each simulated table, at several multiples of the inverse temperature.
"""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayesfair._check import Interrupted, check_integer, check_number, message, random_state_of, tell
from bayesfair._names import DataFrame
from bayesfair._numbers import percent
from bayesfair._partitions import partition_distance
from bayesfair._progress import progress
from bayesfair.fairness.balanced import constraint_of
from bayesfair.posterior.membership import label_sets
from bayesfair.posterior.relabelling import align, apply_permutations
from bayesfair.posterior.schema import groups_of, observed_features, weight_of
from bayesfair.posterior.settings import as_attribute, of_attribute
from bayesfair.posterior.tables import count_labels, one_hot
from bayesfair.posterior.view import once

MULTIPLES = 0.25, 0.35, 0.5, 0.7, 1.0, 1.4
STATEMENTS = "pairs", "likeliest cluster", "credible ball", "label set"
MOST_ROWS = 500  # of a simulated table
DEFAULT = 0.0, 0.0  # the `Dispersion` of the rule "dispersion"
LEVEL = 0.9  # of credible balls, label sets, and the statements of the sentence
BINS, DIGITS = 10, 6
CALIBRATION = "calibration"  # the attribute of a tree that holds the table
WARM_UP, DRAWS = 100, 150  # sweeps and draws of a run
LOOKS, LONGEST = 1.2e7, 5  # of a run, and sweeps from draw to draw, at most


def calibration(
    est,
    n_tables: int = 50,
    multiples: Sequence[float] = MULTIPLES,
    *,
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = None,
    progress_bar: bool = True,
) -> "DataFrame":
    """How often the run's statements would be true, at several multiples of its inverse temperature.

    A truth is simulated: a mixture of normal clusters with full covariances is fitted to the table of the run, every group
    having its share of every cluster. Tables are drawn from it, with the run's groups and known clusters. The run's target,
    loss and rule for the inverse temperature are applied to each, and what is stated is compared with the truth. What is found
    holds as far as the rows of the run look like such a mixture. Ctrl-C keeps the tables that are done.

    The run keeps the result: `est.save` stores it, and `bayesfair.reports.report` shows it.

    Parameters
    ----------
    est : GibbsFairClustering
        A fitted or loaded estimator.
    n_tables : int, at least 2, default 50
        Number of simulated tables, of at most 500 rows each.
    multiples : sequence of float above zero, default (0.25, 0.35, 0.5, 0.7, 1.0, 1.4)
        What the inverse temperature is multiplied by: its mean in a run on the simulated table. It is fixed there.
    n_jobs : int, at least 1, or -1, optional
        Number of joblib tasks at once. By default that of the estimator. Results do not depend on it.
    random_state : int or numpy.random.RandomState, optional
        An int makes results repeatable.
    progress_bar : bool, default True
        Whether to show a progress bar.

    Returns
    -------
    pandas.DataFrame
        Indexed by `multiple` and `statement`:

        * "pairs": two rows are together, with their co-clustering probability;
        * "likeliest cluster": a row is in its likeliest cluster, with the probability of that;
        * "credible ball": the ball around the likeliest clusters that holds 90% of the draws holds the truth;
        * "label set": the smallest set of clusters that holds 90% of a row's probability holds its cluster.

        `stated` is the mean probability, `true` the share of statements that are true, and `error` the mean absolute
        difference of the two over ten bins of the stated probability, weighted by their statements. `score` is the mean
        squared difference of probability and truth (Brier 1950), which also grows if statements say little. Columns that end
        in `_se` are Monte Carlo standard errors, over tables. The `attrs` are `multiple`, that with the least score of pairs;
        `sentence`; `curve`, the columns multiple, stated, true and se of pairs in every bin; `n_tables`; `n_rows`.

    Raises
    ------
    TypeError
        If `est` is not a `GibbsFairClustering`.
    ValueError
        If the run has weights or one cluster, or an argument is out of its range.

    Notes
    -----
    Draws that tell no clusters apart state the same for all pairs, which is right and useless: their error is small. Hence
    the score chooses the multiple.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_fair_mixture(60, 2, seed=1)
    >>> est = bf.GibbsFairClustering(2, random_state=0, progress_bar=False)
    >>> est = est.fit(data.features, sensitive_features=data.sensitive)
    >>> table = bf.posterior.calibration(est, 2, [0.5, 1.0], random_state=0, progress_bar=False)
    >>> table.loc[1.0].index.tolist()
    ['pairs', 'likeliest cluster', 'credible ball', 'label set']
    """
    _refuse(est)
    n_tables = check_integer("n_tables", n_tables, minimum=2, remedy="Two tables are the fewest that have an error.")
    multiples = _checked(multiples)
    seeds = np.random.SeedSequence(int(random_state_of(random_state).randint(2**31 - 1))).spawn(n_tables)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit of the run told them
        trial = _trial(est, multiples)
        tallies = _run(trial, seeds, est.n_jobs if n_jobs is None else n_jobs, progress_bar)
    if len(tallies) < n_tables:
        tell(f"Interrupted: the calibration rests on the {len(tallies)} of {n_tables} tables made so far.", Interrupted)
    table = _table(np.stack(tallies), multiples, trial)
    est._keep(CALIBRATION, as_fact(table))
    return table


def as_fact(table) -> str:
    """The table of `calibration` as an attribute of a tree."""
    columns = {name: np.round(table[name].to_numpy(), DIGITS).tolist() for name in table.columns}
    curve = {name: np.round(values, DIGITS).tolist() for name, values in table.attrs["curve"].items()}
    multiples = table.index.get_level_values("multiple").unique().tolist()
    return as_attribute({"multiples": multiples, "columns": columns, "attrs": table.attrs | {"curve": curve}})


@once
def kept_calibration(tree) -> "DataFrame | None":
    """The table of `calibration` that a tree holds; None without one."""
    import pandas as pd

    if CALIBRATION not in tree.attrs:
        return None
    kept = of_attribute(tree.attrs[CALIBRATION])
    table = pd.DataFrame(kept["columns"], _index(kept["multiples"]))
    table.attrs.update(kept["attrs"])
    return table


def calibration_sentence(tree) -> str:
    """What a kept calibration found; "" without one."""
    table = kept_calibration(tree)
    return "" if table is None else table.attrs["sentence"]


def _index(multiples):
    import pandas as pd

    return pd.MultiIndex.from_product([multiples, STATEMENTS], names=["multiple", "statement"])


def _refuse(est):
    """Raise an error unless `est` is a run with an inverse temperature, of rows that weigh alike."""
    if not hasattr(est, "inverse_temperature"):
        rule, remedy = "be a fitted GibbsFairClustering", "Other posteriors have no inverse temperature to calibrate."
        raise TypeError(message("est", rule, type(est).__name__, remedy))
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(est, "posterior_")
    if weight_of(est.posterior_) is not None:
        remedy = "Fit a table whose rows weigh alike."
        raise ValueError(message("est", "be fitted without sample_weight", "a run with weights", remedy))
    if est.n_clusters == 1:
        remedy = "With one cluster every statement is true."
        raise ValueError(message("est", "have at least 2 clusters", "n_clusters = 1", remedy))


def _checked(multiples):
    """The multiples as numbers above zero, in order, each once."""
    multiples = np.atleast_1d(np.asarray(multiples, dtype=object)).ravel().tolist()
    remedy = "Pass numbers above zero, such as (0.5, 1)."
    if not multiples:
        raise ValueError(message("multiples", "hold at least one number", "none", remedy))
    return sorted({check_number("multiples", one, remedy=remedy) for one in multiples})


class _Trial(NamedTuple):
    """What all simulated tables share: the run, its target and rule for tables of this size, and the truth."""

    est: object
    target: object
    rule: object
    truths: object
    multiples: list
    n_obs: int  # of the run

    def tallies(self, seed):
        """Tallies (multiples, statements, bins, 4) of one table."""
        rng = np.random.default_rng(seed)
        X, cluster = self.truths.table(rng)
        of_table = X, self.truths.groups, self.target
        words, found = int(rng.integers(2**31 - 1)), []
        law = self.est._law_of(*of_table, self.rule, words)
        scalars = _draws(law, law.starts(1)).scalars
        lambdas = [scalars[name].mean() for name, kind in law.statistics.items() if kind.kind == "parameter"]
        for multiple in self.multiples:
            law = self.est._law_of(*of_table, tuple(float(multiple * one) for one in lambdas), words, law.memory)
            draws = _draws(law, law.starts_at(cluster[None])).labels[0]
            found.append(tally(draws, cluster, self.est.n_clusters))
        return np.stack(found)


def _draws(law, states):
    """Draws of one chain from its start, of a short run."""
    from bayesfair.gibbs.run import Chains

    chains = Chains(law, states, 1)
    chains.learn(WARM_UP // 2)
    chains.draws(1, WARM_UP // 2)
    return chains.draws(DRAWS, int(np.clip(LOOKS / (DRAWS * law.looks_per_sweep), 1, LONGEST)))


def _trial(est, multiples) -> _Trial:
    from bayesfair.gibbs.targets import resolve_target, resolve_temperature
    from bayesfair.posterior.truths import Truths, balanced_counts, fitted_truth, some_of  # loads pandas

    tree, encoded = est.posterior_, est._mixed
    X, groups, K = observed_features(tree), groups_of(tree), est.n_clusters
    bounded = not est._loss.translation_invariant  # such losses are of positive numbers, or of shares
    truth = fitted_truth(X, groups.code, est.labels_, K, encoded.n_numbers, encoded.widths, bounded)
    some = some_of(groups, MOST_ROWS)
    target = _for_rows(resolve_target(est.target), len(some.code) / len(X))
    asked = {name: getattr(target, name) for name in ("size_min", "size_max") if hasattr(target, name)}
    constraint = constraint_of(some, getattr(target, "min_balance", "exact"), K, **asked)
    truths = Truths(truth, some, balanced_counts(constraint, some, truth.share))
    rule = resolve_temperature(est.inverse_temperature, est._found)
    return _Trial(est, target, rule, truths, multiples, len(X))


def _for_rows(target, ratio):
    """The target for a table with this part of the rows: bounds of sizes shrink, and compositions are anew."""
    if ratio == 1:
        return target
    from sklearn.base import clone

    target = clone(target)
    if not isinstance(getattr(target, "composition", "auto"), str):
        target.set_params(composition="auto")
    if getattr(target, "size_min", None) is not None:
        target.set_params(size_min=max(1, int(target.size_min * ratio)))
    if getattr(target, "size_max", None) is not None:
        target.set_params(size_max=int(np.ceil(target.size_max * ratio)))
    return target


def _run(trial, seeds, n_jobs, progress_bar):
    """Tallies of the tables, as many as Ctrl-C leaves time for; at least two."""
    from joblib import delayed, effective_n_jobs

    from bayesfair.gibbs.run import tasks

    pool, found = tasks(n_jobs), []
    at_once = effective_n_jobs(pool.n_jobs)
    try:
        with progress(len(seeds), "simulated tables", progress_bar) as bar:
            while len(found) < len(seeds):
                some = seeds[len(found) : len(found) + (at_once if found else 1)]  # the first one compiles alone
                found = found + pool(delayed(trial.tallies)(seed) for seed in some)
                bar.update(len(some))
    except KeyboardInterrupt:
        if len(found) < 2:
            raise
    return found


def tally(draws, cluster, n_clusters):
    """(statements, bins, 4): what `binned` says of every statement of one run."""
    draws = _numbered_alike(draws, n_clusters)
    share = count_labels(draws, n_clusters).T / len(draws)
    likeliest = share.argmax(1)
    known = _matched(likeliest, cluster, n_clusters)  # the true clusters by the draws' numbers
    rows, sets = np.arange(len(cluster)), label_sets(share, LEVEL)
    return np.stack(
        [
            binned(*_pairs(draws, cluster, n_clusters)),
            binned(share.max(1), likeliest == known),
            binned(*_ball(draws, likeliest, cluster)),
            binned((share * sets).sum(1), sets[rows, known]),
        ]
    )


def binned(stated, true):
    """(bins, 4): number, and sums of `stated`, of `true` and of their squared difference, in ten bins of `stated`."""
    stated, true = np.asarray(stated, float), np.asarray(true, float)
    at = np.clip((stated * BINS).astype(int), 0, BINS - 1)
    return np.stack([np.bincount(at, weights, BINS) for weights in (None, stated, true, (stated - true) ** 2)], 1)


def _numbered_alike(draws, n_clusters):
    """Draws whose clusters have the numbers of their likeliest ones."""
    reference = draws[-1]
    for _ in range(2):
        draws = apply_permutations(align(draws, reference, n_clusters), draws)
        reference = count_labels(draws, n_clusters).argmax(0)
    return draws


def _matched(likeliest, cluster, n_clusters):
    """The true clusters (N,), numbered as the likeliest ones with which they share most rows."""
    return apply_permutations(align(cluster[None], likeliest, n_clusters), cluster[None])[0]


def _pairs(draws, cluster, n_clusters):
    """(co-clustering probability, whether truly together) of every pair of rows."""
    hot = one_hot(draws, n_clusters)
    one, other = np.triu_indices(len(cluster), 1)
    return (hot.T @ hot)[one, other] / len(draws), cluster[one] == cluster[other]


def _ball(draws, likeliest, cluster):
    """(share of the draws in the credible ball, whether the truth is in it), of one ball."""
    distance = partition_distance(draws, likeliest)
    radius = np.sort(distance)[int(np.ceil(LEVEL * len(distance))) - 1] + 1e-12
    truth = partition_distance(cluster[None], likeliest)
    return np.array([(distance <= radius).mean()]), truth <= radius


def error_of(tally):
    """Mean absolute difference (...) of stated and true over bins, weighted by statements; `tally` (..., bins, 4)."""
    number, stated, true, _ = np.moveaxis(tally, -1, 0)
    return np.abs(stated - true).sum(-1) / number.sum(-1)


def _figures(tally):
    """(..., 4): mean stated, share true, error, and score."""
    number, stated, true, squared = np.moveaxis(tally.sum(-2), -1, 0)
    return np.stack([stated / number, true / number, error_of(tally), squared / number], -1)


def right_at(tally, level=LEVEL):
    """The share of statements of `level` that are true, between the means of bins; NaN if none is stated so surely.

    `tally` (..., bins, 4).
    """
    used = [one[one[:, 0] > 0] for one in tally.reshape(-1, BINS, 4)]
    at = [np.interp(level, one[:, 1] / one[:, 0], one[:, 2] / one[:, 0], right=np.nan) for one in used]
    return np.reshape(at, tally.shape[:-2])


def jackknife(of_tally, tallies):
    """(`of_tally` of all tables together, its standard error by leaving one of the `tallies` (tables, ...) out)."""
    total, n = tallies.sum(0), len(tallies)
    without = np.stack([of_tally(total - one) for one in tallies])
    return of_tally(total), np.sqrt((n - 1) * without.var(0))


def _table(tallies, multiples, trial):
    """The table of `calibration` from tallies (tables, multiples, statements, bins, 4)."""
    import pandas as pd

    values, se = jackknife(_figures, tallies)
    names = ["stated", "true", "error", "score"]
    table = pd.DataFrame(values.reshape(-1, 4), _index(multiples), names)
    table[[f"{name}_se" for name in names]] = se.reshape(-1, 4)
    best = multiples[int(values[:, 0, 3].argmin())]
    n_rows = len(trial.truths.groups.code)
    right, doubt = jackknife(right_at, tallies[:, :, 0])
    told = {one: (float(value), float(off)) for one, value, off in zip(multiples, right, doubt)}
    facts = {"multiple": best, "n_tables": len(tallies), "n_rows": n_rows, "curve": _curve(tallies[:, :, 0], multiples)}
    kind = {"is_elongated": trial.truths.truth.is_elongated, "is_default": trial.rule == DEFAULT}
    text = sentence(told, best, len(tallies), n_rows, trial.n_obs, **kind)
    table.attrs.update(facts, sentence=text)
    return table


def _curve(tallies, multiples):
    """Columns of the stated and true shares of pairs in every bin that has some, with standard errors."""
    shares, off = jackknife(lambda tally: tally[..., 1:3] / np.maximum(tally[..., :1], 1), tallies)
    of, at = np.nonzero(tallies.sum(0)[..., 0])
    columns = {"stated": shares[of, at, 0], "true": shares[of, at, 1], "se": off[of, at, 1]}
    return {"multiple": [multiples[m] for m in of]} | {name: values.tolist() for name, values in columns.items()}


def sentence(right, best, n_tables, n_rows, n_obs, *, is_elongated=False, is_default=False):
    """What was found, by {multiple: (share of statements of 90% that are true, its standard error)}."""
    kind = "elongated normal clusters" if is_elongated else "normal clusters"
    own = "the default inverse temperature" if is_default else "the run's inverse temperature"
    names = {one: f"{one:g} times {own}" for one in right} | {1: own}
    shown = [one for one in dict.fromkeys((1, best)) if one in right]
    told = "; ".join(_of_cases(names[one] if one == shown[0] else f"{one:g} times it", *right[one]) for one in shown)
    text = f"If these rows came from {kind}, statements of 90% {told}. "
    if best == 1:
        text += "No other multiple that was tried is better. "
    elif best == min(right):
        text += "Smaller multiples were not tried. "
    of_rows = f"{n_rows:,} of the {n_obs:,} rows" if n_rows < n_obs else f"{n_rows:,} rows"
    return (
        text + f"This rests on {n_tables} simulated tables of {of_rows}; the statements are that two rows are together."
    )


def _of_cases(where, share, se):
    """Where statements of 90% are right how often, with the standard error."""
    if np.isnan(share):
        return f"are not made at {where}"
    return f"at {where} would be right in {percent(share)} of cases (± {100 * se:.0f})"

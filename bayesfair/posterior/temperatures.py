"""Losses and lambda of a Gibbs posterior's draws, and the posterior at another inverse temperature, from draws weighed anew."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from bayesfair._arviz import load_arviz_stats
from bayesfair._check import check_number, message
from bayesfair._names import DataFrame, DataTree
from bayesfair.posterior import sentences
from bayesfair.posterior.membership import (
    DOUBTFUL,
    misclassification_probability,
    weighed_misclassification,
)
from bayesfair.posterior.schema import columns_of, groups_of, observed_features, variable, weight_of
from bayesfair.posterior.view import once

LAMBDA_PRIOR = "lambda_shape", "lambda_rate"  # attributes of the root: the gamma prior of a sampled lambda_c
FOUND = "calibrated_temperature"  # likewise, the fixed inverse temperatures that a calibration found
PSEUDO = "log_pseudo_likelihood"
OWN = {PSEUDO: "loss", "log_prior": "lambda"}  # groups made here, recognised by a variable of each


class Energies(NamedTuple):
    """Draws of p(z, lambda) proportional to lambda^(degrees - 1) exp(-lambda (rate + L(z))), or of a fixed lambda's p(z).

    `lambdas` is lambda_c, and `losses` are in units of 1 / lambda_c. `shape`, `rate`: of the gamma prior; None if fixed.
    """

    lambdas: Float[np.ndarray, "chains draws"]
    losses: Float[np.ndarray, "chains draws"]
    shape: float | None = None
    rate: float | None = None

    @property
    def is_sampled(self) -> bool:
        return self.shape is not None

    @property
    def degrees(self) -> float:
        """a + N d / h: the mean of lambda (b + L), which has the law Gamma(a + N d / h, 1) whatever z is."""
        return float((self.lambdas * (self.rate + self.losses)).mean())

    @property
    def log_density(self) -> Float[np.ndarray, "chains draws"]:
        """log p(z) of every draw, with a sampled lambda integrated out, up to a constant."""
        if not self.is_sampled:
            return -self.lambdas * self.losses
        return -self.degrees * np.log(self.rate + self.losses)


@once
def energies_of(tree: "DataTree") -> Energies | None:
    """The energies of a tree of `GibbsFairClustering` under "joint", "optimal" or "labels"; None for other trees."""
    lambda_c, loss = variable(tree, "posterior", "lambda_c"), variable(tree, "sample_stats", "clustering_loss")
    if lambda_c is None or loss is None or variable(tree, "sample_stats", "lp") is None:  # as under "cut"
        return None
    lambdas, losses = lambda_c.values.astype(float), loss.values.astype(float)
    lambda_f, of_fairlets = variable(tree, "posterior", "lambda_f"), variable(tree, "sample_stats", "fairlet_loss")
    if lambda_f is not None and of_fairlets is not None:
        losses = losses + lambda_f.values / lambdas * of_fairlets.values
    shape, rate = (tree.attrs.get(name) for name in LAMBDA_PRIOR)
    least = losses.min() + (rate or 0.0)
    is_known = shape is not None or np.ptp(lambdas) == 0
    has_law = is_known and lambdas.min() > 0 and (least > 0 or (least == 0 and shape is None))
    return Energies(lambdas, losses, shape, rate) if has_law else None


def add_log_groups(tree: "DataTree") -> None:
    """Add the groups to the tree of a Gibbs posterior, (chain, draw), up to constants; other trees stay unchanged.

    log_pseudo_likelihood: `loss`, -lambda L, and `normalizer`, (N d / h) log lambda, each of all rows together: no row has a
    likelihood that `az.loo` could leave out. log_prior: `lambda`, the log of its gamma prior, if sampled.
    """
    import xarray as xr

    energies = energies_of(tree)
    if energies is None:
        return
    lambdas, is_sampled = energies.lambdas, energies.is_sampled
    degrees = energies.degrees - energies.shape if is_sampled else 0.0
    likelihood = {"loss": -lambdas * energies.losses, "normalizer": degrees * np.log(lambdas)}
    groups = {PSEUDO: likelihood}
    if is_sampled:
        groups["log_prior"] = {"lambda": (energies.shape - 1) * np.log(lambdas) - energies.rate * lambdas}
    coords = {dim: tree["posterior"][dim] for dim in ("chain", "draw")}
    for name, values in groups.items():
        tree[name] = xr.Dataset({one: (("chain", "draw"), v) for one, v in values.items()}, coords)


def is_own(tree: "DataTree", group) -> bool:
    """Was a group of the tree made here, from its other groups?"""
    return group in OWN and variable(tree, group, OWN[group]) is not None


FARTHEST = 0.5  # distance from 1 of the factors that are taken by default
GRID = 100  # values of lambda that represent all of its draws
FEWEST = 100  # least effective number of draws under the weights
FEWEST_TO_SMOOTH = 25  # least number of draws: a fifth of them is the tail


@once
def temperature_sensitivity(tree: "DataTree", factors: Sequence[float] | None = None, *, estimator=None) -> "DataFrame":
    """What changes if the inverse temperature were smaller or larger, by weighing the draws anew.

    At factor c the law is p_c(z), proportional to exp(-c lambda L(z)), so that a draw has the weight exp(-(c - 1) lambda L(z)).
    Over fairlets both inverse temperatures are multiplied. Where lambda is sampled, it keeps its posterior law and z is drawn
    given c lambda: p_c(z) = E[exp(-c lambda L(z)) / Z(c lambda)], with Z estimated by the draws. The weight is p_c(z) / p(z).

    Weights are Pareto-smoothed. Where their k-hat is too large, or they are worth fewer than 100 draws, the row is not
    `trusted`, and what depends on its weights is NaN. Then run again at that temperature: pass the row's `lambda_c`, or
    (`lambda_f`, `lambda_c`), as `inverse_temperature`. With `estimator` this function does so. The larger the table, the
    narrower the range of factors that draws can tell. The draws must be of one posterior, not of chains that disagree.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior of `GibbsFairClustering` under "joint", "optimal" or "labels".
    factors : sequence of float, optional
        What every draw's lambda is multiplied by, above zero. By default 1 and two factors on each side of it that the draws
        can carry: at the farthest the logs of the weights have a standard deviation of about 1, and it is at most 0.5 from 1.
    estimator : GibbsFairClustering, optional
        The settings of new runs, one for every factor that the draws cannot carry, at fixed inverse temperatures. Without it
        nothing is run.

    Returns
    -------
    pandas.DataFrame
        Indexed by `factor`, with the columns

        * `lambda_f` (over fairlets), `lambda_c`: posterior means times the factor;
        * `in_doubt`: the share of rows with a probability above 0.1 of being elsewhere than in the cluster shown;
        * `misclassification`: that probability, its mean over rows;
        * `loss`: the mean clustering loss;
        * `ess`: how many draws the weights are worth;
        * `k_hat`: of the weights, -inf where they have no tail, NaN at factor 1;
        * `trusted`: whether the row can be relied on.

        A new run has its number of draws as `ess`, and NaN as `k_hat`. `.attrs["sentence"]` says how many rows are in doubt,
        and what to run for rows that are not trusted.

    Raises
    ------
    ValueError
        If the tree is of another sampler or target, whose density at another temperature is not known, a factor is not
        above zero, or `estimator` is given and the tree has categories, which it holds as numbers.

    References
    ----------
    Vehtari, Simpson, Gelman, Yao and Gabry (2024). Pareto smoothed importance sampling. JMLR 25.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_well_specified()
    >>> est = bf.GibbsFairClustering(2, num_chains=2, num_warmup=200, num_draws=400, random_state=0, progress_bar=False)
    >>> tree = est.fit(data.features, sensitive_features=data.sensitive).posterior_
    >>> bf.posterior.temperature_sensitivity(tree)["trusted"].loc[1.0].item()
    True
    """
    import pandas as pd

    energies = energies_of(tree)
    if energies is None:
        rule = "be of GibbsFairClustering with target='joint', 'optimal' or 'labels'"
        got = "one with an unknown density at other inverse temperatures"
        raise ValueError(message("tree", rule, got, "Fit again at another inverse_temperature, and compare."))
    factors = carried_factors(energies) if factors is None else [check_number("factors", one) for one in factors]
    rows = [_row(tree, energies, factor, estimator) for factor in factors]
    table = pd.DataFrame(rows, index=pd.Index(factors, name="factor"))
    table.attrs["sentence"] = sentences.of_temperatures(table)
    return table


def carried_factors(energies: Energies) -> list[float]:
    """Factors at which the logs of the weights have a standard deviation of at most about 1."""
    spread = energies.log_density.std()
    step = FARTHEST if spread * FARTHEST < 1 else _first_digit(1 / spread)
    return [round(1 + share * step, 12) for share in (-1.0, -0.5, 0.0, 0.5, 1.0)]


def _first_digit(value):
    """A number rounded down to one digit."""
    unit = 10.0 ** np.floor(np.log10(value))
    return float(np.floor(value / unit) * unit)


def _row(tree, energies: Energies, factor, estimator):
    """A row of the table, as a dictionary; at factor 1 its doubt is exactly `misclassification_probability`."""
    num_draws = energies.losses.size
    equal = np.full(num_draws, 1 / num_draws), np.nan
    weights, k_hat = equal if factor == 1 else _smoothed(log_weights(energies, factor))
    ess = 1 / np.square(weights).sum()
    trusted = factor == 1 or (ess >= FEWEST and k_hat <= highest_k(num_draws))
    lambdas = [name for name in ("lambda_f", "lambda_c") if name in tree["posterior"].data_vars]
    row = {name: factor * float(tree["posterior"][name].mean(dtype=float)) for name in lambdas}
    if not trusted and estimator is not None:
        tree, trusted, k_hat = _run_anew(tree, estimator, tuple(row.values())), True, np.nan
        ess = tree["posterior"]["lambda_c"].size
        weights = np.full(ess, 1 / ess)
    doubt = loss = np.array(np.nan)
    if trusted:
        doubt = misclassification_probability(tree) if np.isnan(k_hat) else weighed_misclassification(tree, weights)
        loss = weights @ variable(tree, "sample_stats", "clustering_loss").values.ravel()
    row["in_doubt"] = float((doubt > DOUBTFUL).mean()) if trusted else np.nan
    row |= {"misclassification": float(doubt.mean()), "loss": float(loss)}
    return row | {"ess": float(ess), "k_hat": k_hat, "trusted": bool(trusted)}


def _run_anew(tree, estimator, lambdas):
    """The posterior of the tree's table at fixed inverse temperatures, by the settings of an estimator."""
    from sklearn.base import clone

    if any(column.kind != "number" for column in columns_of(tree)):
        rule, remedy = "be left out for a table with categories", "Fit it at the table's `lambda_c`, and compare."
        raise ValueError(message("estimator", rule, type(estimator).__name__, remedy))
    fixed = clone(estimator).set_params(inverse_temperature=lambdas if len(lambdas) > 1 else lambdas[0])
    told = {"sensitive_features": groups_of(tree), "sample_weight": weight_of(tree)}
    return fixed.fit(observed_features(tree), **told).posterior_


def log_weights(energies: Energies, factor):
    """log p_c(z) - log p(z) of every draw, chain after chain, up to a constant."""
    lambdas, losses, base = (one.ravel() for one in (energies.lambdas, energies.losses, energies.log_density))
    grid = lambdas[:1]
    if energies.is_sampled:
        grid = np.quantile(lambdas, (np.arange(GRID) + 0.5) / GRID)
    log_density = -factor * grid[:, None] * losses
    log_density -= logsumexp(log_density - base, axis=1, keepdims=True)  # the constant for each lambda
    return logsumexp(log_density, axis=0) - base


def _smoothed(log_weights):
    """(weights that sum to 1, their k-hat): inf if a few draws have all the weight, -inf if there is no tail to fit."""
    load_arviz_stats()
    from arviz_stats.base import array_stats

    weights = np.exp(log_weights - logsumexp(log_weights))
    if len(weights) < FEWEST_TO_SMOOTH:
        return weights, np.inf
    try:
        with np.errstate(all="ignore"):  # weights that are 0 to the last bit
            smoothed, k_hat = array_stats.psislw(-log_weights)
    except ValueError:  # all weights of the tail are equal
        k_hat = np.nan
    if np.isnan(k_hat):
        return weights, -np.inf if 1 / np.square(weights).sum() >= FEWEST else np.inf
    return np.exp(smoothed), float(k_hat)


def highest_k(num_draws):
    """The largest k-hat at which weights of so many draws are reliable (Vehtari et al. 2024, section 3.2.4)."""
    return min(1 - 1 / np.log10(num_draws), 0.7)


@once
def temperature_sentence(tree: "DataTree") -> str:
    """The rows in doubt at a smaller and a larger inverse temperature, as far as draws tell; "" without energies."""
    return "" if energies_of(tree) is None else temperature_sensitivity(tree).attrs["sentence"]

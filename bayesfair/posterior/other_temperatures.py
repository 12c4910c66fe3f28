"""The posterior at another inverse temperature, from reweighted draws."""

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from bayesfair._arviz import load_arviz_stats
from bayesfair._check import check_number, message
from bayesfair._names import DataFrame, DataTree
from bayesfair._percent import percent
from bayesfair.posterior.co_clustering_probability import (
    DOUBTFUL,
    misclassification_probability,
    weighed_misclassification,
)
from bayesfair.posterior.energies import Energies, energies_of
from bayesfair.posterior.schema import variable
from bayesfair.posterior.view import once

FACTORS = 0.5, 0.9, 1.0, 1.1, 2.0
GRID = 100  # values of lambda that represent all of its draws
FEWEST = 100  # least effective number of draws under the weights
FEWEST_TO_SMOOTH = 25  # least number of draws: a fifth of them is the tail
IN_WORDS = {0.5: "half", 2.0: "twice"}


@once
def temperature_sensitivity(tree: "DataTree", factors: Sequence[float] = FACTORS) -> "DataFrame":
    """What changes if the inverse temperature were smaller or larger, by weighing the draws anew.

    At factor c the law is p_c(z), proportional to exp(-c lambda L(z)), so that a draw has the weight exp(-(c - 1) lambda L(z)).
    Over fairlets both inverse temperatures are multiplied. Where lambda is sampled, it keeps its posterior law and z is drawn
    given c lambda: p_c(z) = E[exp(-c lambda L(z)) / Z(c lambda)], with Z estimated by the draws. The weight is p_c(z) / p(z).

    Weights are Pareto-smoothed. Where their k-hat is too large, or they are worth fewer than 100 draws, the row is not
    `trusted`, and what depends on its weights is NaN. Then run again at that temperature: pass the row's `lambda_c`, or
    (`lambda_f`, `lambda_c`), as `inverse_temperature`. The larger the table, the narrower the range of factors that draws can
    tell. The draws must be of one posterior, not of chains that disagree.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior of `GibbsFairClustering` under "joint", "optimal" or "labels".
    factors : sequence of float, default (0.5, 0.9, 1.0, 1.1, 2.0)
        What every draw's lambda is multiplied by, above zero.

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

    Raises
    ------
    ValueError
        If the tree is of another sampler or target, whose density at another temperature is not known, or a factor is not
        above zero.

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
    factors = [check_number("factors", factor) for factor in factors]
    rows = [_row(tree, energies, factor) for factor in factors]
    return pd.DataFrame(rows, index=pd.Index(factors, name="factor"))


def _row(tree, energies: Energies, factor):
    """A row of the table, as a dictionary; at factor 1 its doubt is exactly `misclassification_probability`."""
    num_draws = energies.losses.size
    equal = np.full(num_draws, 1 / num_draws), np.nan
    weights, k_hat = equal if factor == 1 else _smoothed(log_weights(energies, factor))
    ess = 1 / np.square(weights).sum()
    trusted = factor == 1 or (ess >= FEWEST and k_hat <= highest_k(num_draws))
    lambdas = [name for name in ("lambda_f", "lambda_c") if name in tree["posterior"].data_vars]
    row = {name: factor * float(tree["posterior"][name].mean(dtype=float)) for name in lambdas}
    doubt = loss = np.array(np.nan)
    if trusted:
        doubt = misclassification_probability(tree) if factor == 1 else weighed_misclassification(tree, weights)
        loss = weights @ variable(tree, "sample_stats", "clustering_loss").values.ravel()
    row["in_doubt"] = float((doubt > DOUBTFUL).mean()) if trusted else np.nan
    row |= {"misclassification": float(doubt.mean()), "loss": float(loss)}
    return row | {"ess": ess, "k_hat": k_hat, "trusted": bool(trusted)}


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
    """A sentence on the rows in doubt at half and twice the inverse temperature, as far as draws tell; "" without energies."""
    if energies_of(tree) is None:
        return ""
    table = temperature_sensitivity(tree)
    known = table[table["trusted"]]
    told = [*known.index[known.index < 1][:1], *known.index[known.index > 1][-1:]]  # the farthest on each side
    shares = [(IN_WORDS.get(factor, f"{factor:g} times"), percent(known.loc[factor, "in_doubt"])) for factor in told]
    texts = [f"at {times} {share}" for times, share in shares[1:]]
    if shares:
        times, share = shares[0]
        texts.insert(0, f"At {times} the inverse temperature {share} of the rows are in doubt")
    lost = table[~table["trusted"] & table.index.isin(IN_WORDS)]
    return " ".join(filter(None, [", ".join(texts) + "." * bool(texts), _what_to_run(lost)]))


def _what_to_run(lost):
    """A sentence on the table's rows that are not reliable; "" without such rows."""
    if not len(lost):
        return ""
    lambdas = [name for name in ("lambda_f", "lambda_c") if name in lost]
    numbers = [", ".join(f"{value:.3g}" for value in row) for row in lost[lambdas].to_numpy()]
    numbers = " and ".join(f"({one})" if len(lambdas) > 1 else one for one in numbers)
    which = " and ".join(IN_WORDS[factor] for factor in lost.index).capitalize()
    k_hats, draws = (
        " and ".join(f"{x:{form}}" for x in lost[name]) for name, form in (("k_hat", ".2f"), ("ess", ".0f"))
    )
    return (
        f"{which} the inverse temperature {'are' if len(lost) > 1 else 'is'} too far for these draws (k-hat {k_hats}, "
        f"effective draws {draws}): run again with inverse_temperature={numbers}."
    )

"""Simulation-based calibration (Talts et al. 2018) of the mixtures at lambda = 0, all replications in one program."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.infer import NUTS
from numpyro.infer.util import log_density
from scipy import stats

import bayesfair as bf
from bayesfair.models.exchange import BETA, tempered
from bayesfair.models.rows import Units

N_OBS, N_COMPONENTS, DIM, N_LEVELS = 25, 2, 2, (3, 2)
NUM_WARMUP, NUM_RANKED, THINNING = 150, 29, 4
UNITS = Units(jnp.zeros(DIM), jnp.ones(DIM), jnp.ones(DIM))  # the prior must not depend on the data
KINDS = ("isotropic", "diag", "full", "categorical", "mixed")


def model_of(kind):
    """A model of one table `rows` (N, columns), continuous columns first."""
    settings = {"n_components": N_COMPONENTS, "n_levels": N_LEVELS}
    if kind == "categorical":
        return lambda rows, **more: bf.models.fair_categorical_mixture(rows, **settings, **more)
    if kind == "mixed":
        settings |= {"covariance_type": "diag", "units": UNITS}
        return lambda rows, **more: bf.models.fair_mixed_mixture(rows[:, :DIM], rows[:, DIM:], **settings, **more)
    settings = {"n_components": N_COMPONENTS, "covariance_type": kind, "units": UNITS}
    return lambda rows, **more: bf.models.fair_gaussian_mixture(rows, **settings, **more)


def blank(kind):
    n_columns = {"categorical": len(N_LEVELS), "mixed": DIM + len(N_LEVELS)}.get(kind, DIM)
    return jnp.zeros((N_OBS, n_columns))


def statistics(kind, model, rows, sites):
    """Functions of the parameters that do not depend on the components' order, and the log density."""
    values = {"log density": log_density(model, (rows,), {}, sites)[0], "least weight": sites["weights"].min()}
    if kind != "categorical":
        values["mean"] = sites["weights"] @ sites["means_base"][:, 0]
        values["distance"] = jnp.abs(sites["means_base"][0] - sites["means_base"][1]).sum()
        values["scale"] = jnp.log(sites["scales"]).mean()
    if kind in ("categorical", "mixed"):
        values["level"] = sites["weights"] @ sites["levels_0"][:, 0]
        values["levels"] = jnp.abs(sites["levels_1"][0, 0] - sites["levels_1"][1, 0])
    if kind == "full":
        values["correlation"] = sites["correlation_cholesky"][:, 1, 0].sum()
    return values


def replicate(kind, likelihood_power, key):
    """Ranks of the true values among NUM_RANKED draws, for data simulated from the prior."""
    model, key_data, key_run = model_of(kind), *jax.random.split(key)
    trace = numpyro.handlers.trace(numpyro.handlers.seed(numpyro.handlers.uncondition(model), key_data))
    simulated = trace.get_trace(blank(kind))
    truth = {name: site["value"] for name, site in simulated.items() if site["type"] == "sample" and name != "x"}
    rows = simulated["x"]["value"]
    kernel, args, settings = NUTS(tempered(model), max_tree_depth=5), (rows,), {BETA: likelihood_power}
    state = kernel.init(key_run, NUM_WARMUP, None, args, settings)

    def step(state, _):
        return kernel.sample(state, args, settings), None

    def ranked(state, _):
        state = jax.lax.scan(step, state, length=THINNING)[0]
        sites = kernel.get_constrain_fn(args, settings)(state.z)
        return state, statistics(kind, model, rows, sites)

    state = jax.lax.scan(step, state, length=NUM_WARMUP)[0]
    _, draws = jax.lax.scan(ranked, state, length=NUM_RANKED)
    true = statistics(kind, model, rows, {name: value for name, value in truth.items() if name != "means"})
    return {name: (draws[name] < true[name]).sum() for name in true}


@cache
def compiled(kind):
    return jax.jit(jax.vmap(partial(replicate, kind), in_axes=(None, 0)))


def rank_p_values(kind, replications, seed, likelihood_power=1.0):
    """p-values of chi-squared tests that ranks 0, ..., 29 are uniform, ten bins, one for each statistic."""
    ranks = compiled(kind)(jnp.float32(likelihood_power), jax.random.split(jax.random.key(seed), replications))
    bins = {name: np.bincount(np.asarray(rank) * 10 // (NUM_RANKED + 1), minlength=10) for name, rank in ranks.items()}
    return {name: float(stats.chisquare(counts).pvalue) for name, counts in bins.items()}

"""Simulation-based calibration (Talts et al. 2018) of the mixtures at lambda = 0, all replications in one program."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.infer import HMC, NUTS
from numpyro.infer.util import log_density
from scipy import stats

import bayesfair as bf
from bayesfair.models.exchange import BETA, tempered
from bayesfair.models.mixtures import Mixture
from bayesfair.models.observed import observe
from bayesfair.models.sparse import log_weights
from bayesfair.models.transfers import Transfers
from bayesfair.models.units import ColumnScaling

N_OBS, N_COMPONENTS, DIM, N_LEVELS = 25, 2, 2, (3, 2)
NUM_WARMUP, NUM_RANKED, THINNING = 152, 29, 4  # a warm-up of whole draws: the chain is compiled once
UNITS = ColumnScaling(np.zeros(DIM), np.ones(DIM))  # the prior must not depend on the data
KINDS = ("isotropic", "diag", "full", "categorical", "mixed", "sparse")
SPARSE, N_SPARSE = bf.models.Prior(weight=0.2), 3
SPARSE_WARMUP, SPARSE_THINNING = 396, 36  # empty and filled components change places seldom


def model_of(kind):
    """A model of one table `rows` (N, columns), continuous columns first."""
    settings = {"n_components": N_COMPONENTS, "n_levels": N_LEVELS}
    if kind == "categorical":
        return lambda rows, **more: bf.models.fair_categorical_mixture(rows, **settings, **more)
    if kind == "mixed":
        settings |= {"covariance_type": "diag", "scaling": UNITS}
        return lambda rows, **more: bf.models.fair_mixed_mixture(rows[:, :DIM], rows[:, DIM:], **settings, **more)
    settings = {"n_components": N_COMPONENTS, "covariance_type": kind, "scaling": UNITS}
    if kind == "sparse":
        settings |= {"n_components": N_SPARSE, "covariance_type": "isotropic", "prior": SPARSE}
    return lambda rows, **more: bf.models.fair_gaussian_mixture(rows, **settings, **more)


def blank(kind):
    n_columns = {"categorical": len(N_LEVELS), "mixed": DIM + len(N_LEVELS)}.get(kind, DIM)
    return jnp.zeros((N_OBS, n_columns))


def kernel_of(kind, model, rows):
    if kind == "isotropic":  # which compiles sooner
        return HMC(tempered(model), num_steps=16, trajectory_length=None)
    if kind != "sparse":
        return NUTS(tempered(model), max_tree_depth=5)
    observed, family = observe(rows, None, None, covariance_type="isotropic", fairness_weight=0.0, scaling=UNITS)
    return Transfers(NUTS(model, max_tree_depth=5), Mixture(family, N_SPARSE, SPARSE), observed)


def sparse_statistics(model, rows, sites, key):
    """With the number of components that labels drawn from psi use, ties broken at random."""
    key_labels, key_ties = jax.random.split(key)
    weights = jnp.exp(log_weights(sites["weight_scores"], SPARSE.typical_weight))
    observed, family = observe(rows, None, None, covariance_type="isotropic", fairness_weight=0.0, scaling=UNITS)
    log_joint = Mixture(family, N_SPARSE, SPARSE).row(observed.units, sites).log_joint_of(observed.table)
    labels = jax.random.categorical(key_labels, log_joint, axis=0)
    occupied = (labels == jnp.arange(N_SPARSE)[:, None]).any(1).sum()
    return {
        "log density": log_density(model, (rows,), {}, sites)[0],
        "largest weight": weights.max(),
        "mean": weights @ sites["means"][:, 0],
        "scale": jnp.log(sites["scales"]),
        "occupied": occupied + jax.random.uniform(key_ties),
    }


def statistics(kind, model, rows, sites, key):
    """Functions of the parameters that do not depend on the components' order, and the log density."""
    if kind == "sparse":
        return sparse_statistics(model, rows, sites, key)
    values = {"log density": log_density(model, (rows,), {}, sites)[0], "least weight": sites["weights"].min()}
    if kind != "categorical":
        values["mean"] = sites["weights"] @ sites["means"][:, 0]
        values["distance"] = jnp.abs(sites["means"][0] - sites["means"][1]).sum()
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
    kernel, args, settings = kernel_of(kind, model, rows), (rows,), {BETA: likelihood_power}
    key_labels = jax.random.fold_in(key, 3)
    num_warmup, thinning = (SPARSE_WARMUP, SPARSE_THINNING) if kind == "sparse" else (NUM_WARMUP, THINNING)
    state = kernel.init(key_run, num_warmup, None, args, settings)

    def step(state, _):
        return kernel.sample(state, args, settings), None

    def ranked(state, number):
        state = jax.lax.scan(step, state, length=thinning)[0]
        sites = kernel.get_constrain_fn(args, settings)(state.z)
        return state, statistics(kind, model, rows, sites, jax.random.fold_in(key_labels, number))

    n_skipped = num_warmup // thinning
    _, draws = jax.lax.scan(ranked, state, jnp.arange(n_skipped + NUM_RANKED))
    true = statistics(kind, model, rows, truth, jax.random.fold_in(key_labels, n_skipped + NUM_RANKED))
    return {name: (draws[name][n_skipped:] < true[name]).sum() for name in true}


@cache
def compiled(kind):
    return jax.jit(jax.vmap(partial(replicate, kind), in_axes=(None, 0)))


def rank_p_values(kind, replications, seed, likelihood_power=1.0):
    """p-values of chi-squared tests that ranks 0, ..., 29 are uniform, ten bins, one for each statistic."""
    ranks = compiled(kind)(jnp.float32(likelihood_power), jax.random.split(jax.random.key(seed), replications))
    bins = {name: np.bincount(np.asarray(rank) * 10 // (NUM_RANKED + 1), minlength=10) for name, rank in ranks.items()}
    return {name: float(stats.chisquare(counts).pvalue) for name, counts in bins.items()}

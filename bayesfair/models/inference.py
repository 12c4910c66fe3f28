"""Drawing the parameters of a fair mixture by NUTS, replica exchange, Gibbs with labels, or a variational guide."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jaxtyping import Array, Float, Int
from numpyro.infer import HMC, NUTS, SVI, Trace_ELBO, init_to_value
from numpyro.infer.autoguide import AutoDiagonalNormal, AutoMultivariateNormal
from numpyro.infer.util import potential_energy, unconstrain_fn
from numpyro.optim import ClippedAdam

from bayesfair.engines.families import Family
from bayesfair.engines.fmc import cluster_gaps, membership
from bayesfair.fairness import Groups
from bayesfair.models.exchange import ReplicaExchange
from bayesfair.models.labels import labelled_kernel
from bayesfair.models.mixtures import (
    Prior,
    assemble,
    fair_mixed_mixture,
    family_of,
    labelled_mixture,
    rows_of,
    sample_parameters,
)
from bayesfair.models.rows import Rows, Units, units_of

__all__ = [
    "INFERENCES",
    "Problem",
    "Sampler",
    "allocate",
    "make_problem",
    "make_sampler",
    "prior_sites",
    "replicate_rows",
    "responsibilities",
    "run_svi",
]

INFERENCES = "nuts", "gibbs", "svi"
LEAPFROG_STEPS = 10  # of a replica: trees would make all replicas wait for the deepest
SVI_STEPS, SVI_RATE, DENSE_UP_TO = 4_000, 0.01, 300  # parameters up to which the guide has all correlations


class Problem(NamedTuple):
    """A checked table (x centred) with its groups, and what the model functions are called with."""

    x: Float[np.ndarray, "obs dim"]
    codes: Int[np.ndarray, "obs features"]
    groups: Groups
    family: Family
    units: Units
    settings: dict

    @property
    def args(self):
        x, codes = (table if table.shape[1] else None for table in (self.x, self.codes))
        return x, codes, self.groups if self.settings["fairness_weight"] > 0 else None

    @property
    def table(self) -> Float[Array, "obs columns"]:
        return rows_of(self.x, self.codes)


class Sampler(NamedTuple):
    """A kernel of `model`, the model's settings, and what is kept of the kernel's states."""

    kernel: Any
    model: Callable
    settings: dict
    collect: Callable  # state -> (sites, statistics)


def make_problem(x, codes, n_levels, groups, n_components, covariance_type, fairness_weight, prior) -> Problem:
    """`x` (N, d) centred, float64; `codes` (N, c) whole numbers."""
    settings = {"n_components": n_components, "covariance_type": covariance_type, "fairness_weight": fairness_weight}
    if codes.shape[1]:
        settings["n_levels"] = n_levels
    units = units_of(x, covariance_type)
    family = family_of(covariance_type, n_levels, n_components)
    return Problem(x, codes, groups, family, units, {**settings, "prior": prior, "units": units})


def make_sampler(problem: Problem, inference, smoothing, inverse_temperatures) -> Sampler:
    """For "nuts", tempered where there are inverse temperatures, or "gibbs"."""
    if inference == "gibbs":
        known = {name: value for name, value in problem.settings.items() if name != "prior"}
        return Sampler(labelled_kernel(*problem.args, **known), labelled_mixture, problem.settings, _of_gibbs)
    settings = {**problem.settings, "smoothing": smoothing}
    if inverse_temperatures is None:
        return Sampler(NUTS(fair_mixed_mixture), fair_mixed_mixture, settings, _of_hmc)
    inner = HMC(fair_mixed_mixture, num_steps=LEAPFROG_STEPS, trajectory_length=None)
    return Sampler(ReplicaExchange(inner, inverse_temperatures), fair_mixed_mixture, settings, _of_exchange)


def _of_hmc(state):
    return state.z, {"lp": -state.potential_energy, "diverging": state.diverging, "num_steps": state.num_steps}


def _of_exchange(state):
    return state.z, {"lp": -state.potential_energy, "diverging": state.diverging, "swap_rate": state.swap_rate.min()}


def _of_gibbs(state):
    parameters = state.block_states[1]
    return state.z, {"lp": -parameters.potential_energy, "diverging": parameters.diverging}


def run_svi(problem: Problem, smoothing, starts, key, num_draws, progress_bar):
    """Sites (num_draws, ...) from a normal guide fitted from the best of `starts`, their statistics, and the losses."""
    settings = {**problem.settings, "smoothing": smoothing}
    model, args = fair_mixed_mixture, problem.args

    def log_density(sites):
        return -potential_energy(model, args, settings, unconstrain_fn(model, args, settings, sites))

    best = max(starts, key=log_density)
    n_parameters = sum(value.size for value in jax.tree.leaves(unconstrain_fn(model, args, settings, best)))
    family = AutoMultivariateNormal if n_parameters <= DENSE_UP_TO else AutoDiagonalNormal
    guide = family(model, init_loc_fn=init_to_value(values=best), init_scale=0.02)
    svi = SVI(model, guide, ClippedAdam(SVI_RATE), Trace_ELBO(num_particles=4))
    key_run, key_draws = jax.random.split(key)
    result = svi.run(key_run, SVI_STEPS, *args, progress_bar=progress_bar, **settings)
    sites = guide.sample_posterior(key_draws, result.params, sample_shape=(num_draws,))
    sites = {name: value for name, value in sites.items() if name in best}
    return sites, {"lp": jax.jit(jax.vmap(log_density))(sites)}, np.asarray(result.losses)


def allocate(problem: Problem, sites, key):
    """Labels (draws, N) from psi, Delta of psi (draws,) and the pointwise log-likelihood (draws, N) of the sites."""
    member = membership(problem.groups.code, len(problem.groups.names))
    keys = jax.random.split(key, len(sites["weights"]))
    parts = _allocate(problem.family, problem.units, problem.table, member, keys, sites)
    return [np.asarray(part) for part in parts]


def responsibilities(problem: Problem, sites, x, codes) -> Float[np.ndarray, "obs clusters"]:
    """psi (N, K) of rows (x centred as the problem's are), averaged over the draws of `sites`."""
    return np.asarray(_mean_psi(problem.family, problem.units, rows_of(x, codes), sites), np.float64)


def _log_joint(family, units, sites, table):
    return Rows(assemble(family, units, sites), units, family).log_joint(table)


@partial(jax.jit, static_argnums=0)
def _allocate(family, units, table, member, keys, sites):
    def one(part):
        key, sites = part
        log_joint = _log_joint(family, units, sites, table)
        psi = jax.nn.softmax(log_joint, 0)
        labels = jax.random.categorical(key, log_joint, axis=0).astype(jnp.int16)
        return labels, cluster_gaps(psi, member, corner=0.0).max(), jax.nn.logsumexp(log_joint, 0)

    return jax.lax.map(one, (keys, sites))


@partial(jax.jit, static_argnums=0)
def _mean_psi(family, units, table, sites):
    def add(total, sites):
        return total + jax.nn.softmax(_log_joint(family, units, sites, table), 0), None

    zero = jnp.zeros((sites["weights"].shape[1], table.shape[0]))
    return jax.lax.scan(add, zero, sites)[0].T / sites["weights"].shape[0]


@partial(jax.jit, static_argnames=("family", "num_obs"))
def replicate_rows(family, units, num_obs, keys, sites):
    """`num_obs` rows (draws, num_obs, columns) simulated from each draw of the sites."""

    def one(part):
        key, sites = part
        return Rows(assemble(family, units, sites), units, family).sample(key, (num_obs,))

    return jax.lax.map(one, (keys, sites))


def prior_sites(problem: Problem, key, num_draws):
    """Draws (num_draws, ...) of the parameters from their prior alone; the fairness factor is none of it."""

    def one(key):
        with numpyro.handlers.seed(rng_seed=key):
            prior = problem.settings["prior"] or Prior()
            return sample_parameters(problem.family, problem.units, problem.settings["n_components"], prior)

    return jax.jit(jax.vmap(one))(jax.random.split(key, num_draws))

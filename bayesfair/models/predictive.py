"""Predictions from draws of a mixture's parameters: labels, psi, and simulated rows. Sites have a leading axis."""

import jax
import jax.numpy as jnp
import numpyro
from jaxtyping import Array, Float

from bayesfair._jit import jit
from bayesfair._rows import sum_of_terms
from bayesfair.models.factor import cluster_gaps
from bayesfair.models.observed import Observed
from bayesfair.models.parameters import Mixture, log_prior, sample_parameters
from bayesfair.models.rows import scaled_table


@jit(static_argnums=0)
def allocate(mixture: Mixture, observed: Observed, member, keys, sites):
    """Labels (draws, N) drawn from psi, its Delta, the log-likelihood (draws, N) and log prior (draws,), 0 if sparse."""

    def one(part):
        key, sites = part
        log_joint = mixture.row(observed.units, sites).log_joint_of(observed.table)
        labels = jax.random.categorical(key, log_joint, axis=0).astype(jnp.int16)
        gap = cluster_gaps(jax.nn.softmax(log_joint, 0), member).max()
        prior = 0.0 if mixture.prior.is_sparse else log_prior(mixture, observed.units, sites)
        return labels, gap, jax.nn.logsumexp(log_joint, 0), prior

    return jax.lax.map(one, (keys, sites))


@jit(static_argnums=0)
def mean_psi(mixture: Mixture, units, rows, sites) -> Float[Array, "obs clusters"]:
    """psi of rows (N, columns), averaged over the draws; a plain float32 sum drifts in proportion to their number."""
    table, num_draws = scaled_table(rows, units, mixture.family), len(sites["weights"])

    def of_draw(i):
        row = mixture.row(units, jax.tree.map(lambda values: values[i], sites))
        return jax.nn.softmax(row.log_joint_of(table), 0)

    return sum_of_terms(of_draw, num_draws).T / num_draws


@jit(static_argnames=("mixture", "num_obs"))
def replicate_rows(mixture: Mixture, units, num_obs, keys, sites):
    """`num_obs` rows (draws, num_obs, columns) simulated from each draw."""
    return jax.lax.map(lambda part: mixture.row(units, part[1]).sample(part[0], (num_obs,)), (keys, sites))


@jit(static_argnums=0)
def prior_sites(mixture: Mixture, units, keys):
    """A draw of the parameters from their prior, without the fairness factor, for each key."""

    def one(key):
        with numpyro.handlers.seed(rng_seed=key):
            return sample_parameters(mixture, units)

    return jax.vmap(one)(keys)

"""A normal guide of a mixture's posterior on the unconstrained scale, fitted from its best start: fast, one mode."""

import jax
import numpy as np
from numpyro.infer import SVI, Trace_ELBO, init_to_value
from numpyro.infer.autoguide import AutoDiagonalNormal, AutoMultivariateNormal
from numpyro.infer.util import unconstrain_fn
from numpyro.optim import ClippedAdam

from bayesfair._jit import jit
from bayesfair._progress import progress
from bayesfair.models.observed import Observed
from bayesfair.models.sampler import Sampler, log_densities

STEPS, CHUNK, RATE, DENSE_UP_TO = 4_000, 500, 0.01, 300  # parameters up to which the guide has all correlations


def draw_from_guide(sampler: Sampler, observed: Observed, starts, key, num_draws, progress_bar):
    """Sites (num_draws, ...), their log densities, and the losses of the fit. starts: sites with a leading axis."""
    first = int(np.argmax(log_densities(sampler, observed, starts)))
    best = jax.tree.map(lambda part: part[first], starts)
    key_run, key_draws = jax.random.split(key)
    state, losses = _start(sampler, observed, best, key_run), []
    with progress(STEPS, "guide", progress_bar) as bar:
        for _ in range(STEPS // CHUNK):
            state, loss = _climb(sampler, observed, best, state)
            losses.append(np.asarray(loss))
            bar.update(CHUNK)
    sites = _draw(sampler, num_draws, observed, best, state, key_draws)
    return sites, log_densities(sampler, observed, sites), np.concatenate(losses)


def _inference(sampler, observed, best, key):
    """SVI ready to run, its first state, and the guide."""
    z = jax.eval_shape(lambda: unconstrain_fn(sampler.model, (observed,), {}, best))
    dense = sum(value.size for value in jax.tree.leaves(z)) <= DENSE_UP_TO
    family = AutoMultivariateNormal if dense else AutoDiagonalNormal
    guide = family(sampler.model, init_loc_fn=init_to_value(values=best), init_scale=0.02)
    svi = SVI(sampler.model, guide, ClippedAdam(RATE), Trace_ELBO(num_particles=4))
    return svi, svi.init(key, observed), guide


@jit(static_argnums=0)
def _start(sampler, observed, best, key):
    return _inference(sampler, observed, best, key)[1]


@jit(static_argnums=0)
def _climb(sampler, observed, best, state):
    svi, *_ = _inference(sampler, observed, best, state.rng_key)
    return jax.lax.scan(lambda state, _: svi.update(state, observed), state, length=CHUNK)


@jit(static_argnums=(0, 1))
def _draw(sampler, num_draws, observed, best, state, key):
    svi, _, guide = _inference(sampler, observed, best, key)
    sites = guide.sample_posterior(key, svi.get_params(state), observed, sample_shape=(num_draws,))
    return {name: sites[name] for name in best}

"""Programs that sample a mixture, in chunks of iterations, compiled once per `Sampler` and shapes of data and states."""

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpyro.handlers import condition
from numpyro.infer import HMC, NUTS
from numpyro.infer.util import potential_energy, unconstrain_fn

from bayesfair._arrays import stack, unstack
from bayesfair._check import tell_of_interruption
from bayesfair._jit import jit
from bayesfair._progress import progress
from bayesfair.models.exchange import ReplicaExchange
from bayesfair.models.labels import sweeping_kernel
from bayesfair.models.mixtures import labelled, marginal
from bayesfair.models.observed import Observed
from bayesfair.models.parameters import Mixture
from bayesfair.models.transfers import Transfers

CHUNK = 50  # iterations per program call
LEAPFROG_STEPS = {"nuts": None, "exchange": 10}  # None: NUTS decides; with replicas its trees would make all wait
# Scalars kept from a state besides its sites.
FIGURES = {
    "nuts": lambda s: {"lp": -s.potential_energy, "diverging": s.diverging, "num_steps": s.num_steps},
    "exchange": lambda s: {"lp": -s.potential_energy, "diverging": s.diverging, "swap_rate": s.swap_rate.min()},
    "gibbs": lambda s: {"lp": -s.block_states[1].potential_energy, "diverging": s.block_states[1].diverging},
}


class Sampler(NamedTuple):
    """Which kernel samples which mixture; hashable. `kind`: "nuts", "exchange" (replicas), "gibbs" (of labels), "svi"."""

    mixture: Mixture
    kind: str
    num_warmup: int
    leapfrog_steps: int | None = None
    inverse_temperatures: tuple[float, ...] | None = None

    @property
    def model(self):
        """The model, a function of an `Observed`; the site of the factor has nothing to sample."""
        return condition(partial(labelled if self.kind == "gibbs" else marginal, self.mixture), {"fairness": 0.0})

    def kernel(self, observed: Observed):
        if self.kind == "gibbs":
            return sweeping_kernel(self.model, lambda observed: (self.mixture, observed))
        if self.leapfrog_steps is None:
            inner = NUTS(self.model)
        else:
            inner = HMC(self.model, num_steps=self.leapfrog_steps, trajectory_length=None)
        if self.mixture.prior.is_sparse and self.mixture.n_components > 1:
            inner = Transfers(inner, self.mixture, observed)
        return ReplicaExchange(inner, self.inverse_temperatures) if self.kind == "exchange" else inner

    def start(self, kernel, observed, key, init_params=None):
        return kernel.init(key, self.num_warmup, init_params, (observed,), {})

    def ready_kernel(self, observed):
        """A kernel with its functions set up by `init`; the data are arguments of these functions."""
        kernel = self.kernel(observed)
        jax.eval_shape(partial(self.start, kernel, observed), jax.random.PRNGKey(0))
        return kernel


@jit(static_argnums=0)
def start_states(sampler: Sampler, observed: Observed, keys, init_params=None):
    """States (chains first) at unconstrained sites, or at NumPyro's own starts."""
    return jax.vmap(partial(sampler.start, sampler.kernel(observed), observed))(keys, init_params)


@jit(static_argnums=(0, 1))
def iterate(sampler: Sampler, vectorized, observed: Observed, state, length):
    """Run `length` iterations, at most CHUNK, so that one program serves all lengths.

    Returns the state (of all chains if `vectorized`) and what is kept (CHUNK, ...), of which the first `length` count.
    """
    kernel, figures = sampler.ready_kernel(observed), FIGURES[sampler.kind]

    def move(state):
        state = kernel.sample(state, (observed,), {})
        return state, (state.z, figures(state))

    def record(i, carried):
        state, new = move(carried[0])
        return state, jax.tree.map(lambda rows, one: rows.at[i].set(one), carried[1], new)

    def chunk(state):
        kept = jax.tree.map(lambda one: jnp.zeros((CHUNK, *one.shape), one.dtype), jax.eval_shape(move, state)[1])
        return jax.lax.fori_loop(0, length, record, (state, kept))

    return jax.vmap(chunk)(state) if vectorized else chunk(state)


@jit(static_argnums=0)
def unconstrained(sampler: Sampler, observed: Observed, sites):
    """Sites (chains, ...) on the unconstrained scale, where kernels start."""
    with warnings.catch_warnings():  # NumPyro expects to enumerate the labels, but they are given
        warnings.simplefilter("ignore", FutureWarning)
        return jax.vmap(partial(unconstrain_fn, sampler.model, (observed,), {}))(sites)


@jit(static_argnums=0)
def constrained(sampler: Sampler, observed: Observed, z):
    """Sites (draws, ...) from unconstrained ones, without deterministic sites."""
    sites = jax.vmap(sampler.ready_kernel(observed).postprocess_fn((observed,), {}))(z)
    return {name: value for name, value in sites.items() if name not in ("gap", "psi", "weight_scores")}


@jit(static_argnums=0)
def log_densities(sampler: Sampler, observed: Observed, sites) -> Float[Array, " draws"]:
    """Log densities of sites (draws, ...) on the unconstrained scale."""
    described = sampler.model, (observed,), {}
    return jax.vmap(lambda one: -potential_energy(*described, unconstrain_fn(*described, one)))(sites)


def resolve_chain_method(method):
    """The way to run chains; "auto" is "parallel" on CPUs and "vectorized" elsewhere.

    "parallel": a thread per chain up to the number of cores. "vectorized": one vmap, in which all wait for the longest
    trajectory.
    """
    if method == "auto":
        return "parallel" if jax.default_backend() == "cpu" else "vectorized"
    return method


def advance(sampler, observed, states, num_steps, method, progress_bar=False, *, keep=True):
    """Run `num_steps` more iterations of all chains: (states, kept values (chains, draws, ...) or None).

    With `keep` they are draws: Ctrl-C returns the chunks that all chains have finished. Without it they are warm-up.
    """
    states, kept = unstack(states), []
    with progress(num_steps, "draws" if keep else "warm-up", progress_bar) as bar:
        try:
            for done in range(0, num_steps, CHUNK):
                length = min(CHUNK, num_steps - done)
                states, new = _chunk(sampler, observed, states, length, method)
                kept.append(new)
                bar.update(length)
        except KeyboardInterrupt:
            if not (keep and kept):
                raise
            tell_of_interruption(len(kept) * CHUNK, num_steps)
    return stack(states), jax.tree.map(lambda *leaves: np.concatenate(leaves, 1), *kept) if kept else None


def _chunk(sampler, observed, states, length, method):
    if method == "vectorized":
        stacked, kept = iterate(sampler, True, observed, stack(states), length)
        return unstack(stacked), jax.tree.map(lambda leaf: np.asarray(leaf)[:, :length], kept)
    move = partial(iterate, sampler, False, observed)
    move(states[0], 0)  # compile before starting threads: they share NumPyro's stack of handlers
    workers = min(len(states), os.cpu_count() or 1) if method == "parallel" else 1
    with ThreadPoolExecutor(workers) as pool:
        done = list(pool.map(lambda state: jax.block_until_ready(move(state, length)), states))
    kept = jax.tree.map(lambda *leaves: np.stack(leaves)[:, :length], *[one for _, one in done])
    return [state for state, _ in done], kept

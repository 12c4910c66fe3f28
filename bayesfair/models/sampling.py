"""Running a NumPyro kernel: compiled once, chains in threads or vectorised, in chunks that Ctrl-C cannot lose."""

import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np

from bayesfair._arrays import stack, unstack
from bayesfair._check import message
from bayesfair._progress import progress

__all__ = ["CHAIN_METHODS", "Chains", "advance", "check_chain_method", "start_chains"]

CHUNK = 50  # iterations between two looks at the progress bar and at Ctrl-C
CHAIN_METHODS = "auto", "parallel", "vectorized", "sequential"


class Chains(NamedTuple):
    """States of the kernel with a leading axis of chains, and how they move on."""

    states: Any
    step: Callable  # one chunk of one chain: (state, length) -> (state, collected)
    constrain: Callable  # the model's sites (draws, ...) from unconstrained ones
    num_chains: int
    method: str


def check_chain_method(method):
    """ "parallel": a thread per chain up to the cores, no virtual devices needed. "vectorized": one vmap, whose chains
    wait for the longest trajectory among them, as one does on an accelerator. "sequential". "auto": parallel on CPUs."""
    if method not in CHAIN_METHODS:
        raise ValueError(message("chain_method", f"be one of {CHAIN_METHODS}", repr(method), "See the docstring."))
    if method == "auto":
        return "parallel" if jax.default_backend() == "cpu" else "vectorized"
    return method


def start_chains(kernel, key, num_chains, num_warmup, init_params, args, kwargs, collect, method) -> Chains:
    """Chains at `init_params` (leading axis of chains). collect(state): what is kept of an iteration."""

    def init(key, params):
        return kernel.init(key, num_warmup, params, args, kwargs)

    states = jax.jit(jax.vmap(init))(jax.random.split(key, num_chains), init_params)

    def chunk(state, length):
        def move(state, _):
            state = kernel.sample(state, args, kwargs)
            return state, collect(state)

        return jax.lax.scan(move, state, length=length)

    step = jax.vmap(chunk, in_axes=(0, None)) if method == "vectorized" else chunk
    constrain = jax.jit(jax.vmap(kernel.postprocess_fn(args, kwargs)))
    return Chains(states, jax.jit(step, static_argnums=1), constrain, num_chains, method)


def advance(chains: Chains, num_steps, description=None, progress_bar=False, *, keep=True):
    """`num_steps` further iterations: (chains, what was collected (chains, draws, ...) as NumPy arrays, or None).

    With `keep` Ctrl-C ends it after the last chunk that all chains have finished, and that much is returned.
    """
    states, kept = unstack(chains.states), []
    lengths = [CHUNK] * (num_steps // CHUNK) + [num_steps % CHUNK] * (num_steps % CHUNK > 0)
    with progress(num_steps, description, progress_bar) as bar:
        try:
            for length in lengths:
                states, collected = _chunk(chains, states, length)
                kept.append(collected)
                bar.update(length)
        except KeyboardInterrupt:
            if not (keep and kept):
                raise
            warnings.warn(f"Interrupted after {len(kept) * CHUNK} iterations: they are kept.", RuntimeWarning, 2)
    parts = jax.tree.map(lambda *leaves: np.concatenate(leaves, 1), *kept) if kept else None
    return chains._replace(states=stack(states)), parts


def _chunk(chains, states, length):
    if chains.method == "vectorized":
        stacked, collected = chains.step(stack(states), length)
        return unstack(stacked), jax.tree.map(np.asarray, collected)
    workers = min(chains.num_chains, os.cpu_count() or 1) if chains.method == "parallel" else 1
    with ThreadPoolExecutor(workers) as pool:
        done = list(pool.map(lambda state: jax.block_until_ready(chains.step(state, length)), states))
    collected = [jax.tree.map(np.asarray, one) for _, one in done]
    return [state for state, _ in done], jax.tree.map(lambda *leaves: np.stack(leaves), *collected)

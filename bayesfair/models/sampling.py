"""Chains that go on in chunks, in threads or vectorised, which Ctrl-C cannot lose."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import numpy as np

from bayesfair._arrays import stack, unstack
from bayesfair._check import Interrupted, tell
from bayesfair._progress import progress
from bayesfair.models.sampler import CHUNK, iterate


def resolve_chain_method(method):
    """ "parallel": a thread per chain up to the cores, no virtual devices needed. "vectorized": one vmap, whose chains
    wait for the longest trajectory among them, as one does on an accelerator. "sequential". "auto": parallel on CPUs."""
    if method == "auto":
        return "parallel" if jax.default_backend() == "cpu" else "vectorized"
    return method


def advance(sampler, observed, states, num_steps, method, progress_bar=False, *, keep=True):
    """`num_steps` further iterations of all chains: (states, what was kept (chains, draws, ...) as NumPy arrays, or None).

    With `keep` they are draws: Ctrl-C ends it after the last chunk that all chains have finished, and that much is returned.
    Without they are warm-up.
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
            tell(f"Interrupted after {len(kept) * CHUNK} iterations: they are kept.", Interrupted)
    return stack(states), jax.tree.map(lambda *leaves: np.concatenate(leaves, 1), *kept) if kept else None


def _chunk(sampler, observed, states, length, method):
    if method == "vectorized":
        stacked, kept = iterate(sampler, True, observed, stack(states), length)
        return unstack(stacked), jax.tree.map(lambda leaf: np.asarray(leaf)[:, :length], kept)
    move = partial(iterate, sampler, False, observed)
    move(states[0], 0)  # compiled before threads: NumPyro's handlers are one stack for all
    workers = min(len(states), os.cpu_count() or 1) if method == "parallel" else 1
    with ThreadPoolExecutor(workers) as pool:
        done = list(pool.map(lambda state: jax.block_until_ready(move(state, length)), states))
    kept = jax.tree.map(lambda *leaves: np.stack(leaves)[:, :length], *[one for _, one in done])
    return [state for state, _ in done], kept

"""A run: warm-up, chunks of draws with a progress bar, a clean stop on Ctrl-C, and a state to resume from."""

import time
import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bayesfair._progress import progress
from bayesfair.gibbs.draws import Draws, concatenate
from bayesfair.gibbs.sampler import ChainState, Info, Schedule, run_chunk
from bayesfair.gibbs.target import Target

__all__ = ["Run", "chain_keys", "draw", "warm_up"]

CHUNK_BYTES = 32_000_000  # of labels held by the sampler at a time, all chains together
MAX_CHUNK = 64
CHUNK_SECONDS = 0.5  # how long the progress bar may stand still and Ctrl-C go unheard, past the first chunk
MIN_BLOCK_ACCEPTANCE = 0.3
MAX_BLOCKS = 64


class Run(NamedTuple):
    """A run that can go on: the chains' keys, sweeps done, states, and the schedule that the warm-up settled on."""

    keys: Int[Array, "chains 2"]
    sweep: int
    states: ChainState
    schedule: Schedule


class Chunk(NamedTuple):
    """What one compiled call returns, cut to the draws that were made."""

    labels: Int[np.ndarray, "chains draws obs"]
    lambda_f: Float[np.ndarray, "chains draws"]
    lambda_c: Float[np.ndarray, "chains draws"]
    info: Info

    def draws(self) -> Draws:
        kept = {name: getattr(self.info, name) for name in Info._fields if name in Draws._fields}
        return Draws(self.labels, self.lambda_f, self.lambda_c, **kept)


def chain_keys(seed: int, num_chains: int) -> Int[Array, "chains 2"]:
    """One key per chain; sweep t of a chain uses fold_in(key, t)."""
    return jax.vmap(lambda chain: jax.random.fold_in(jax.random.PRNGKey(seed), chain))(jnp.arange(num_chains))


def warm_up(run: Run, target: Target, num_warmup: int, progress_bar=False) -> Run:
    """`num_warmup` sweeps that are thrown away; splits the blocks of the blocked kernel while too few are accepted."""
    with progress(num_warmup, "warm-up", progress_bar) as bar:
        for n_sweeps in _pace(num_warmup, _chunk_length(run, target), bar):
            run, chunk = _advance(run, target, n_sweeps, 1)
            poor = chunk.info.block_acceptance.mean() < MIN_BLOCK_ACCEPTANCE
            if run.schedule.reallocation == "blocked" and poor and run.schedule.n_blocks < MAX_BLOCKS:
                run = run._replace(schedule=run.schedule._replace(n_blocks=8 * run.schedule.n_blocks))
    return run


def draw(run: Run, target: Target, num_draws: int, thinning: int = 1, progress_bar=False) -> tuple[Run, Draws]:
    """`num_draws` draws per chain, `thinning` sweeps apart. Ctrl-C keeps what was drawn, if anything was."""
    parts = []  # (run after the chunk, its draws): appended as one, so that an interrupt leaves no half chunk
    try:
        with progress(num_draws, "draws", progress_bar) as bar:
            for n_draws in _pace(num_draws, _chunk_length(run, target), bar):
                after, chunk = _advance(parts[-1][0] if parts else run, target, n_draws, thinning)
                parts.append((after, chunk.draws()))
    except KeyboardInterrupt:
        if not parts:
            raise
        done = sum(draws.lp.shape[1] for _, draws in parts)
        warnings.warn(
            f"Interrupted: kept the {done} of {num_draws} draws made so far; resume(num_draws={num_draws - done}) "
            "makes the others.",
            RuntimeWarning,
            stacklevel=3,
        )
    return parts[-1][0], concatenate([draws for _, draws in parts])


def _advance(run: Run, target: Target, n_draws: int, thinning: int) -> tuple[Run, Chunk]:
    length = _chunk_length(run, target)
    states, labels, temperatures, info = run_chunk(
        run.keys, run.sweep, n_draws, thinning, target, run.states, run.schedule, length
    )
    made = jax.tree.map(lambda part: np.asarray(part)[:, :n_draws], (labels, *temperatures, info))
    return run._replace(sweep=run.sweep + n_draws * thinning, states=states), Chunk(*made)


def _chunk_length(run: Run, target: Target) -> int:
    """Draws in one compiled call; fixed by the problem alone, so that it compiles once."""
    n_chains = run.keys.shape[0]
    return int(np.clip(CHUNK_BYTES // (n_chains * target.n_obs), 1, MAX_CHUNK))


def _pace(total: int, longest: int, bar):
    """Sizes of chunks that add up to `total`, each about CHUNK_SECONDS long as the ones before it went."""
    done, size = 0, 1
    while done < total:
        size = min(size, longest, total - done)
        began = time.perf_counter()
        yield size
        seconds = time.perf_counter() - began
        done += size
        bar.update(size)
        size = max(1, min(2 * size, int(size * CHUNK_SECONDS / max(seconds, 1e-6))))

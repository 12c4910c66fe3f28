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
WINDOW = 32  # sweeps of the warm-up from one decision on the blocks to the next
BLOCKS = (1, 8, 64)
# Eightfold blocks have a log ratio of sqrt(8) times the spread: where small ones were accepted at 0.9 they are at 0.7,
# and where large ones were at 0.3 small ones are at 0.7. So neither decision calls for the other.
SPLIT_BELOW, MERGE_ABOVE = 0.3, 0.9


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
    """`num_warmup` sweeps that are thrown away, in which the blocked kernel settles on a number of blocks.

    After every 32 sweeps of this call the share of blocks accepted in them, all chains pooled, decides: blocks are split
    where it is poor, merged where nearly all are accepted, and merged into the same number once only, so that the search
    ends. Nothing depends on the clock. A shorter warm-up, and sweeps after the last 32, decide nothing; if few blocks
    were accepted at the end, a warning says so.
    """
    adapts = run.schedule.reallocation == "blocked" and target.loss.augmentation is not None
    done, accepted, merged = 0, [], set()  # `accepted`: since the number of blocks last changed
    with progress(num_warmup, "warm-up", progress_bar) as bar:
        for n_sweeps in _pace(num_warmup, _chunk_length(run, target), bar, WINDOW):
            run, chunk = _advance(run, target, n_sweeps, 1)
            done += n_sweeps
            accepted.append(chunk.info.block_acceptance)
            if adapts and done % WINDOW == 0:
                n_blocks = choose_blocks(run.schedule.n_blocks, _recent(accepted), target.n_fairlets, merged)
                if n_blocks != run.schedule.n_blocks:
                    run, accepted = run._replace(schedule=run.schedule._replace(n_blocks=n_blocks)), []
    if accepted and _recent(accepted) < SPLIT_BELOW:
        _warn_of_poor_blocks(run, _recent(accepted))
    return run


def choose_blocks(n_blocks: int, acceptance: float, n_fairlets: int, merged: set[int]) -> int:
    """The next number of blocks: finer, coarser or the same; `merged` collects the numbers that merging has led to."""
    sizes = [min(size, n_fairlets) for size in BLOCKS]
    finer, coarser = [size for size in sizes if size > n_blocks], [size for size in sizes if size < n_blocks]
    if acceptance < SPLIT_BELOW and finer:
        return finer[0]
    if acceptance > MERGE_ABOVE and coarser and coarser[-1] not in merged:
        merged.add(coarser[-1])
        return coarser[-1]
    return n_blocks


def _recent(accepted) -> float:
    """Mean over the last window, or over all sweeps where there were fewer; the same however they were cut."""
    return float(np.concatenate(accepted, axis=1)[:, -WINDOW:].mean(dtype=float))


def _warn_of_poor_blocks(run: Run, acceptance: float):
    warnings.warn(
        f"Only {acceptance:.0%} of the blocks of fairlets were accepted at the end of the warm-up (n_blocks = "
        f"{run.schedule.n_blocks}): clusters will change slowly. Warm up for longer (num_warmup of at least "
        f"{4 * WINDOW}; blocks are split every {WINDOW} sweeps), or pass reallocation='collapsed'.",
        RuntimeWarning,
        stacklevel=4,
    )


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
        done = sum(draws.labels.shape[1] for _, draws in parts)
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


def _pace(total: int, longest: int, bar, window: int | None = None):
    """Sizes of chunks that add up to `total`, each about CHUNK_SECONDS long as the ones before it went, none across a
    multiple of `window`. The clock decides when the bar moves and Ctrl-C is heard; draws and decisions never see it."""
    done, wish, window = 0, 1, window or total
    while done < total:
        size = min(wish, longest, total - done, window - done % window)
        began = time.perf_counter()
        yield size
        seconds = time.perf_counter() - began
        done += size
        bar.update(size)
        wish = max(1, min(2 * wish, int(size * CHUNK_SECONDS / max(seconds, 1e-6))))

"""What draws and their tree will take, told before they are made."""

import os

import numpy as np

from bayesfair._check import message
from bayesfair._memory import free_disk, free_memory, in_words

_ROW = 300  # bytes of every observation that the tree and its summaries take beside the labels
_TARGET, _STATE, _OPENED = 80, 70, 200  # while a Gibbs sampler runs: once, of every chain, of one whose fairlets change
_LARGE = 100_000_000  # bytes; less is not worth a word


def check_memory(
    shape, n_clusters, dim, *, sampling=0, label_bytes=None, fairlets=0, remedy="Ask for fewer draws or chains."
):
    """ValueError where labels of this shape (chains, draws, obs) and what is made of them do not fit into memory.

    `sampling`: bytes of every observation while draws are made, as `sampler_bytes` has them. `label_bytes`: for a label of a
    draw; by default it is held twice in the smallest type, as sampled and as the tree has it. `fairlets`: bytes of those that
    draws keep.
    """
    label_bytes = 2 * _size_of_label(n_clusters) if label_bytes is None else label_bytes
    labels, rest = label_bytes * _count(shape), _beside(shape, n_clusters, dim, sampling)
    _check("memory", labels + fairlets + rest, free_memory(), shape, remedy)


def sampler_bytes(num_chains, dim, *, moves_fairlets):
    """Bytes of every row that a Gibbs sampler takes beside its draws.

    Its own table in float32, and the state of the chains that run at once, with a table of every one's fairlets where these
    change.
    """
    at_once = min(num_chains, os.cpu_count() or 1)
    of_chain = _STATE + (_OPENED + 4 * dim) * moves_fairlets
    return _TARGET + 4 * dim + of_chain * at_once


def fairlet_bytes(num_chains, num_kept, num_obs):
    """Bytes that fairlets of so many draws of each chain take at most: fewer than there are rows of them."""
    return float(num_chains) * num_kept * num_obs * np.min_scalar_type(-num_obs).itemsize


def check_disk(path, shape, n_clusters, dim, *, sampling=0, fairlets=0):
    """ValueError where a run of this shape has no room on the disk of `path`, or its sampler and summaries none in memory.

    The labels of a run that ends are copied, with its clusters numbered, so that there are two of them for a while. `sampling`,
    `fairlets`: as in `check_memory`.
    """
    run = _size_of_label(n_clusters) * _count(shape) + 8 * shape[2] * dim
    remedy = "Ask for fewer draws or chains, or choose another disk."
    _check(f"disk of {os.fspath(path)!r}", 2 * run + fairlets, free_disk(path), shape, remedy)
    beside = _beside(shape, n_clusters, dim, sampling)
    _check("memory", beside, free_memory(), shape, "Ask for fewer draws or chains.")


def _beside(shape, n_clusters, dim, sampling):
    """Bytes of the draws' centres, made and moved, and of what the sampler or, after it, summaries take."""
    return 16 * shape[0] * shape[1] * n_clusters * dim + max(_ROW, sampling) * shape[2]


def _check(place, needed, free, shape, remedy):
    if free is None or needed <= free or needed < _LARGE:
        return
    num_chains, num_draws, num_obs = shape
    rule = f"make draws for which there is room in the {place}, where {in_words(free)} are free"
    got = f"{num_chains} chains of {num_draws:,} draws of {num_obs:,} rows, which take {in_words(needed)}"
    raise ValueError(message("num_draws", rule, got, remedy))


def _size_of_label(n_clusters):
    return np.min_scalar_type(-n_clusters).itemsize


def _count(shape):
    return float(np.prod(shape, dtype=float))

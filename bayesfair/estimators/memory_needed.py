"""Memory that draws and their tree will need, checked before they are made."""

import os

import numpy as np

from bayesfair._check import message
from bayesfair._memory import free_disk, free_memory, in_words

_ROW = 300  # bytes per row that the tree and its summaries need beside the labels
_DATA, _PAIRS, _LABEL, _FAIRLETS = 60, 600, 8, 40  # bytes per row while a Gibbs sampler runs; the last two of a chain
_LARGE = 100_000_000  # bytes; less is never refused


def check_memory(
    shape, n_clusters, dim, *, sampling=0, label_bytes=None, fairlets=0, remedy="Ask for fewer draws or chains."
):
    """Raise a ValueError if labels of this shape (chains, draws, obs) and what is made of them do not fit into memory.

    `sampling`: bytes per row while draws are made. `label_bytes`: per label; by default twice the smallest type, as sampled and
    in the tree. `fairlets`: bytes of the fairlets that draws keep.
    """
    label_bytes = 2 * _size_of_label(n_clusters) if label_bytes is None else label_bytes
    labels, rest = label_bytes * _count(shape), _beside(shape, n_clusters, dim, sampling)
    _check("memory", labels + fairlets + rest, free_memory(), shape, remedy)


def sampler_bytes(num_chains, dim, *, moves_fairlets):
    """Bytes per row of a Gibbs sampler beside its draws: its data and starts, and the chains' states, twice for a while."""
    of_state = _FAIRLETS + 4 * dim if moves_fairlets else _LABEL
    return _DATA + _PAIRS * moves_fairlets + 2 * num_chains * of_state


def fairlet_bytes(num_chains, num_kept, num_obs):
    """Upper bound of the bytes for the fairlets of so many draws per chain: there are fewer fairlets than rows."""
    return float(num_chains) * num_kept * num_obs * np.min_scalar_type(-num_obs).itemsize


def check_disk(path, shape, n_clusters, dim, *, sampling=0, fairlets=0):
    """Raise a ValueError if a run does not fit on the disk of `path`, twice for a while, or its rest in memory."""
    run = _size_of_label(n_clusters) * _count(shape) + 8 * shape[2] * dim
    remedy = "Ask for fewer draws or chains, or choose another disk."
    _check(f"disk of {os.fspath(path)!r}", 2 * run + fairlets, free_disk(path), shape, remedy)
    beside = _beside(shape, n_clusters, dim, sampling)
    _check("memory", beside, free_memory(), shape, "Ask for fewer draws or chains.")


def _beside(shape, n_clusters, dim, sampling):
    """Bytes of the draws' centres, original and renumbered, and of the sampler's needs or, after it, the summaries'."""
    return 16 * shape[0] * shape[1] * n_clusters * dim + max(_ROW, sampling) * shape[2]


def _check(place, needed, free, shape, remedy):
    if free is None or needed <= free or needed < _LARGE:
        return
    num_chains, num_draws, num_obs = shape
    rule = f"make draws that fit into the {in_words(free)} that the {place} has free"
    got = f"{num_chains} chains of {num_draws:,} draws of {num_obs:,} rows, which take {in_words(needed)}"
    raise ValueError(message("num_draws", rule, got, remedy))


def _size_of_label(n_clusters):
    return np.min_scalar_type(-n_clusters).itemsize


def _count(shape):
    return float(np.prod(shape, dtype=float))

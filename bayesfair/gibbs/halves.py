"""Chains in two halves, a thread each: XLA runs the loops of a program on one core."""

from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np

__all__ = ["half_of", "in_halves", "splits"]


def in_halves(program, chains):
    """`program(chains)`, every leaf of which has the chains for its first axis, from both halves at once.

    An odd number is filled up with the first chain. Chains know nothing of each other: the result is that of one call. Where
    there is an accelerator it is one call. What `program` compiles should be compiled before, or both threads do it.
    """
    n_chains = n_of(chains)
    if not splits(n_chains):
        return program(chains)
    halves = [half_of(chains, which) for which in (0, 1)]
    double = jax.config.jax_enable_x64  # which is a thread's own

    def one(half):
        with jax.enable_x64(double):
            return jax.tree.map(np.asarray, program(half))

    with ThreadPoolExecutor(2) as threads:
        ends = list(threads.map(one, halves))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:n_chains], *ends)


def splits(n_chains: int) -> bool:
    """Does `in_halves` split so many chains?"""
    return n_chains > 1 and jax.default_backend() == "cpu"


def half_of(chains, which: int):
    """The first (0) or the second (1) half."""
    n_chains = n_of(chains)
    size = -(-n_chains // 2)
    rows = np.arange(which * size, (which + 1) * size) % n_chains
    return jax.tree.map(lambda part: part[rows], chains)


def n_of(chains) -> int:
    return len(jax.tree.leaves(chains)[0])

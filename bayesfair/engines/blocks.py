"""Rows in blocks, and sums over them: what has a number for every row and cluster lives as long as its block."""

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["aligned_empty", "members", "own_part", "sum_over_blocks", "total"]

ALIGNED = 64  # bytes at whose multiples an array begins that JAX takes over as it is


def aligned_empty(shape, dtype=np.float32):
    """A NumPy array that `jax.device_put` does not copy on a CPU; leave it alone from then on."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(n_bytes + ALIGNED, np.uint8)
    first = -memory.ctypes.data % ALIGNED
    return memory[first : first + n_bytes].view(dtype).reshape(shape)


def members(code, n_groups):
    """Indicators of the groups (groups, rows); none in what fills the last block, whose code is `n_groups`."""
    return (code == jnp.arange(n_groups)[:, None]).astype(jnp.float32)


def sum_over_blocks(of, blocks, *, buffer=None):
    """The sum of `of(block)`, a tree of float arrays, over the leading axis of the tree `blocks`.

    Compensated (Kahan 1965): float32 sums over the blocks of millions of rows round as one addition does. `buffer`: an array
    with that axis too, whose part is a second argument, and a new one a second result, which takes its place. The sum is over
    the rows of all processes where they share them.
    """
    call = of if buffer is not None else lambda block, _: (of(block), ())
    buffer = () if buffer is None else buffer
    n_blocks = len(jax.tree.leaves(blocks)[0])

    def at(tree, i):
        return jax.tree.map(lambda part: jax.lax.dynamic_index_in_dim(part, i, keepdims=False), tree)

    def add(i, carry):
        summed, excess, buffer = carry
        terms, changed = call(at(blocks, i), at(buffer, i))
        terms = jax.tree.map(jnp.subtract, terms, excess)
        new = jax.tree.map(jnp.add, summed, terms)
        excess = jax.tree.map(lambda new, old, term: (new - old) - term, new, summed, terms)
        put = lambda whole, part: jax.lax.dynamic_update_index_in_dim(whole, part, i, 0)  # noqa: E731
        return new, excess, jax.tree.map(put, buffer, changed)

    shapes = jax.eval_shape(lambda: call(at(blocks, 0), at(buffer, 0))[0])
    zero = jax.tree.map(lambda part: own_part(jnp.zeros(part.shape, part.dtype)), shapes)
    summed, _, buffer = jax.lax.fori_loop(0, n_blocks, add, (zero, zero, buffer))
    return (total(summed), buffer) if jax.tree.leaves(buffer) else total(summed)


def total(tree):
    """Sums over the rows of this process as those over the rows of all, where they share them."""
    return jax.lax.psum(tree, "rows") if _is_shared() else tree


def own_part(zero):
    """An array that is made while programs are compiled, as the part of this process of one that differs in others."""
    return jax.lax.pcast(zero, "rows", to="varying") if _is_shared() else zero


def _is_shared():
    """Is a program being traced that processes run with their own rows each (`shares.over_rows`)?"""
    return "rows" in jax.sharding.get_abstract_mesh().manual_axes

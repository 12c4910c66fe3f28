"""Rows in blocks, and sums over them: what has a number for every row and cluster lives as long as its block."""

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["aligned_empty", "members", "sum_over_blocks"]

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
    with that axis too, whose part is a second argument, and a new one a second result, which takes its place.
    """
    call = of if buffer is not None else lambda block, _: (of(block), ())
    buffer = () if buffer is None else buffer
    n_blocks = len(jax.tree.leaves(blocks)[0])

    def at(tree, i):
        return jax.tree.map(lambda part: jax.lax.dynamic_index_in_dim(part, i, keepdims=False), tree)

    def add(i, carry):
        total, excess, buffer = carry
        terms, changed = call(at(blocks, i), at(buffer, i))
        terms = jax.tree.map(jnp.subtract, terms, excess)
        new = jax.tree.map(jnp.add, total, terms)
        excess = jax.tree.map(lambda new, old, term: (new - old) - term, new, total, terms)
        put = lambda whole, part: jax.lax.dynamic_update_index_in_dim(whole, part, i, 0)  # noqa: E731
        return new, excess, jax.tree.map(put, buffer, changed)

    shapes = jax.eval_shape(lambda: call(at(blocks, 0), at(buffer, 0))[0])
    zero = jax.tree.map(lambda part: jnp.zeros(part.shape, part.dtype), shapes)
    total, _, buffer = jax.lax.fori_loop(0, n_blocks, add, (zero, zero, buffer))
    return (total, buffer) if jax.tree.leaves(buffer) else total

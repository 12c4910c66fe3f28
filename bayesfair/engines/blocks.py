"""Rows in blocks, and sums over them: what has a number for every row and cluster lives as long as its block."""

import jax
import jax.numpy as jnp

from bayesfair._arrays import aligned_empty

__all__ = ["aligned_empty", "members", "sum_over_blocks", "sum_over_rows"]


def members(code, n_groups):
    """Indicators of the groups (groups, rows); none in what fills the last block, whose code is `n_groups`."""
    return (code == jnp.arange(n_groups)[:, None]).astype(jnp.float32)


def sum_over_rows(of, rows, size):
    """The sum of `of(part, new)` over parts of `size` rows of the tree `rows`, as `sum_over_blocks` has it, without a copy of
    them: the last part begins earlier, and `new` (size,) is 0 for those of its rows that another had, otherwise 1."""
    n_rows = len(jax.tree.leaves(rows)[0])
    size = min(size, n_rows)

    def of_part(i):
        first = jnp.minimum(i * size, n_rows - size)
        part = jax.tree.map(lambda whole: jax.lax.dynamic_slice_in_dim(whole, first, size), rows)
        return of(part, (first + jnp.arange(size) >= i * size).astype(jnp.float32))

    return sum_over_blocks(of_part, jnp.arange(-(-n_rows // size)))


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

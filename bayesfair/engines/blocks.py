"""Rows in blocks, and sums over them: what has a number for every row and cluster lives as long as its block."""

import jax
import jax.numpy as jnp

__all__ = ["is_shared", "members", "own_part", "sum_over_blocks", "sum_over_rows", "total"]


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
    return jax.lax.psum(tree, "rows") if is_shared() else tree


def own_part(zero):
    """An array that is made while programs are compiled, as the part of this process of one that differs in others."""
    return jax.lax.pcast(zero, "rows", to="varying") if is_shared() else zero


def is_shared():
    """Is a program being traced that processes run with their own rows each (`shares.over_rows`)?"""
    return "rows" in jax.sharding.get_abstract_mesh().manual_axes

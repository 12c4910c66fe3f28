"""Rows in blocks, and sums over them: what has a number for every row and cluster lives as long as its block."""

from functools import partial

import jax
import jax.numpy as jnp

from bayesfair import _parts

__all__ = [
    "is_shared",
    "max_over_rows",
    "members",
    "own_part",
    "sum_over_blocks",
    "sum_over_own_rows",
    "sum_over_rows",
    "total",
]


def members(code, n_groups):
    """Indicators of the groups (groups, rows); none in what fills the last block, whose code is `n_groups`."""
    return (code == jnp.arange(n_groups)[:, None]).astype(jnp.float32)


def max_over_rows(of, rows):
    """The largest of the arrays `of(part)` over parts of the tree `rows`, of all processes where they share the rows."""
    largest = _parts.max_over_rows(of, rows)
    return jax.lax.pmax(largest, "rows") if is_shared() else largest


def sum_over_rows(of, rows, size=_parts.PART):
    """The sum of `of(part, new)` over parts of at most `size` rows of the tree `rows`, of all processes where they
    share them."""
    return total(sum_over_own_rows(of, rows, size))


def sum_over_own_rows(of, rows, size):
    """Of this process alone."""
    return _parts.sum_over_rows(of, rows, size, zero=_own_zeros)


def sum_over_blocks(of, blocks, *, buffer=None, seen=None):
    """The sum of `of(block)`, a tree of float arrays, over the leading axis of the tree `blocks`.

    `buffer`: an array with that axis too, whose part is a second argument, and a new one a second result, which takes its
    place. `seen`: a mask of the blocks that count (blocks,), how many being no part of the program; it has no gradients then.
    The sum is over the rows of all processes where they share them.
    """
    call = of if buffer is not None else lambda block, _: (of(block), ())
    n_blocks = len(jax.tree.leaves(blocks)[0])
    order = None if seen is None else jnp.argsort(~seen)  # a stable sort

    def at(tree, i):
        return jax.tree.map(lambda part: jax.lax.dynamic_index_in_dim(part, i, keepdims=False), tree)

    def term(i, buffer):
        i = i if order is None else order[i]
        found, changed = call(at(blocks, i), at(buffer, i))
        put = lambda whole, part: jax.lax.dynamic_update_index_in_dim(whole, part, i, 0)  # noqa: E731
        return found, jax.tree.map(put, buffer, changed)

    start = () if buffer is None else buffer
    n_terms = n_blocks if seen is None else seen.sum()
    summed, new = _parts.sum_over_terms(term, n_terms, buffer=start, zero=_own_zeros)
    return total(summed) if buffer is None else (total(summed), new)


def total(tree):
    """Sums over the rows of this process as those over the rows of all, where they share them."""
    return _parts.as_few(partial(jax.lax.psum, axis_name="rows"), tree) if is_shared() else tree


def own_part(tree):
    """Arrays that all processes have alike as this one's part of arrays that differ in others. Gradients by them are sums over
    own rows then, and those over all rows as they leave here: in a loop, do it before."""
    return _parts.as_few(partial(jax.lax.pcast, axis_name="rows", to="varying"), tree) if is_shared() else tree


def _own_zeros(shape, dtype):
    return own_part(jnp.zeros(shape, dtype))


def is_shared():
    """Is a program being traced that processes run with their own rows each (`shares.in_shares`)?"""
    return "rows" in jax.sharding.get_abstract_mesh().manual_axes

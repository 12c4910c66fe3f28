"""Loops over many rows in compiled programs, part by part: arrays with several numbers per row live as long as their part."""

import jax
import jax.numpy as jnp

from bayesfair._rows import sum_of_terms

PART = 2**14  # rows of a few dozen numbers fit the cache


def map_rows(of, rows, size=PART):
    """`of(part, numbers of its rows)` for parts of at most `size` rows of the tree `rows`, joined to a tree of all rows."""
    n_rows, n_parts, size = _evenly(rows, size)
    if n_parts <= 1:
        return of(rows, jnp.arange(n_rows, dtype=jnp.int32))

    def put(i, wholes):
        first, part = _part(rows, i, size)
        made = of(part, first.astype(jnp.int32) + jnp.arange(size, dtype=jnp.int32))
        write = lambda whole, part: jax.lax.dynamic_update_slice_in_dim(whole, part, first, 0)  # noqa: E731
        return jax.tree.map(write, wholes, made)

    one = of(_part(rows, 0, 1)[1], jnp.zeros(1, jnp.int32))
    # Not zeros, which XLA makes for all loops of a program at its start.
    room = jax.tree.map(lambda first: jnp.broadcast_to(first, (n_rows, *first.shape[1:])), one)
    return jax.lax.fori_loop(0, n_parts, put, room)


def sum_over_rows(of, rows, size=PART):
    """The sum of `of(part, new)`, a tree of arrays, over parts of `rows`; `new` is false for rows that an earlier part had."""
    n_rows, n_parts, size = _evenly(rows, size)
    if n_parts <= 1:
        return of(rows, jnp.ones(n_rows, bool))

    def term(i):
        first, part = _part(rows, i, size)
        return of(part, first + jnp.arange(size) >= i * size)

    return sum_of_terms(term, n_parts)


def _n_rows(rows):
    return len(jax.tree.leaves(rows)[0])


def _evenly(rows, size):
    """(number of rows, number of parts of at most `size` rows, size of each part, so that the last one repeats few rows)."""
    n_rows = _n_rows(rows)
    n_parts = -(-n_rows // size)
    return n_rows, n_parts, -(-n_rows // max(n_parts, 1))


def _part(rows, i, size):
    """(first row of part i, the part); the last part begins early enough to be as long as the others."""
    first = jnp.minimum(i * size, _n_rows(rows) - size)
    return first, jax.tree.map(lambda whole: jax.lax.dynamic_slice_in_dim(whole, first, size), rows)

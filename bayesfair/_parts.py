"""Many rows in compiled programs, a part of them at a time: what has several numbers for every row lives as long as its part.

Sums are compensated (Kahan 1965): in float32 those over the parts of millions of rows round as one addition does.
"""

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["PART", "as_few", "map_numbered", "map_rows", "max_over_rows", "sum_over_rows", "sum_over_terms"]

PART = 2**14  # rows of a few dozen numbers that stay in the cache


def map_rows(of, rows, size=PART):
    """`of(part)`, an array or a tree of them with a row for every one of the part, for parts of at most `size` rows of the tree
    `rows`, as one whole."""
    return map_numbered(lambda part, _: of(part), rows, size)


def map_numbered(of, rows, size=PART):
    """As `map_rows`, of `of(part, numbers)`, which row each one of the part is: no array of the numbers of all."""
    n_rows, n_parts, size = _evenly(rows, size)
    if n_parts <= 1:
        return of(rows, jnp.arange(n_rows, dtype=jnp.int32))

    def own(i):
        first, part = _part(rows, i, size)
        return first, of(part, first.astype(jnp.int32) + jnp.arange(size, dtype=jnp.int32))

    def put(i, wholes):
        first, made = own(i)
        write = lambda whole, part: jax.lax.dynamic_update_slice_in_dim(whole, part, first, 0)  # noqa: E731
        return jax.tree.map(write, wholes, made)

    def room_of(first):
        """To be written over; it begins with what one row gives, for zeros of all loops of a program XLA makes at its start."""
        return jnp.broadcast_to(first, (n_rows, *first.shape[1:]))

    one = of(_part(rows, 0, 1)[1], jnp.zeros(1, jnp.int32))
    return jax.lax.fori_loop(0, n_parts, put, jax.tree.map(room_of, one))


def max_over_rows(of, rows, size=PART):
    """The largest, entry by entry, of the arrays `of(part)` over parts of at most `size` rows of the tree `rows`."""
    _, n_parts, size = _evenly(rows, size)
    if n_parts <= 1:
        return of(rows)
    largest = lambda i, found: jnp.maximum(found, of(_part(rows, i, size)[1]))  # noqa: E731
    return jax.lax.fori_loop(1, n_parts, largest, of(_part(rows, 0, size)[1]))


def sum_over_rows(of, rows, size=PART, **settings):
    """The sum of `of(part, new)`, a tree of arrays, over parts of at most `size` rows of the tree `rows`. `new`, a boolean for
    every row of the part, is false for those that another had. `settings`: those of `sum_over_terms`."""
    n_rows, n_parts, size = _evenly(rows, size)
    if n_parts <= 1:
        return of(rows, jnp.ones(n_rows, bool))

    def term(i, _):
        first, part = _part(rows, i, size)
        return of(part, first + jnp.arange(size) >= i * size), ()

    return sum_over_terms(term, n_parts, **settings)[0]


def sum_over_terms(of, n_terms, *, buffer=(), zero=jnp.zeros):
    """(the sum of the first result of `of(i, buffer)` over i, the last of its second results, each the next one's `buffer`).

    `zero(shape, dtype)`: what sums begin with.
    """

    def add(i, carry):
        summed, excess, buffer = carry
        terms, buffer = of(i, buffer)
        terms = jax.tree.map(jnp.subtract, terms, excess)
        new = jax.tree.map(jnp.add, summed, terms)
        excess = jax.tree.map(lambda new, old, term: (new - old) - term, new, summed, terms)
        return new, excess, buffer

    shapes = jax.eval_shape(lambda: of(0, buffer)[0])
    start = jax.tree.map(lambda part: zero(part.shape, part.dtype), shapes)
    summed, _, buffer = jax.lax.fori_loop(0, n_terms, add, (start, start, buffer))
    return summed, buffer


def as_few(program, tree):
    """`program` of every array of a tree, which does the same to every number, in one go for all that are of a type: between
    processes it is the turn that takes time, not the numbers."""
    leaves, structure = jax.tree.flatten(tree)
    leaves = [jnp.asarray(leaf) for leaf in leaves]
    for kind in {leaf.dtype: None for leaf in leaves}:  # in an order that all processes have
        own = [at for at, leaf in enumerate(leaves) if leaf.dtype == kind]
        flat = program(jnp.concatenate([leaves[at].ravel() for at in own]))
        cuts = np.cumsum([leaves[at].size for at in own])[:-1]
        for at, part in zip(own, jnp.split(flat, cuts)):
            leaves[at] = part.reshape(leaves[at].shape)
    return structure.unflatten(leaves)


def _n_rows(rows):
    return len(jax.tree.leaves(rows)[0])


def _evenly(rows, size):
    """(how many rows; how many parts of at most `size` of them; the size of each, so that the last one repeats few rows)."""
    n_rows = _n_rows(rows)
    n_parts = -(-n_rows // size)
    return n_rows, n_parts, -(-n_rows // max(n_parts, 1))


def _part(rows, i, size):
    """(the first row of part i, the part): the last one begins early enough to be as long as the others."""
    first = jnp.minimum(i * size, _n_rows(rows) - size)
    return first, jax.tree.map(lambda whole: jax.lax.dynamic_slice_in_dim(whole, first, size), rows)

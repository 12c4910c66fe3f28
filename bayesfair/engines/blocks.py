"""Sums over rows in blocks: what has a number for every row and cluster lives as long as its block."""

import jax
import jax.numpy as jnp

__all__ = ["sum_over_blocks"]


def sum_over_blocks(of, blocks):
    """The sum of `of(block)`, a tree of float arrays, over the leading axis of the tree `blocks`.

    Compensated (Kahan 1965): float32 sums over the blocks of millions of rows round as one addition does.
    """
    first = jax.tree.map(lambda part: jax.ShapeDtypeStruct(part.shape[1:], part.dtype), blocks)
    zero = jax.tree.map(lambda part: jnp.zeros(part.shape, part.dtype), jax.eval_shape(of, first))

    def add(carry, block):
        total, excess = carry
        terms = jax.tree.map(jnp.subtract, of(block), excess)
        new = jax.tree.map(jnp.add, total, terms)
        return (new, jax.tree.map(lambda new, old, term: (new - old) - term, new, total, terms)), None

    return jax.lax.scan(add, (zero, zero), blocks)[0][0]

"""Sums, keys and decisions of sweeps whose rows are in several shards, one in each process (DESIGN.md, section 2.8).

A sweep is one program of all shards. Every shard has its own rows and what is known of the whole: temperatures, centres m,
counts and sums of the clusters. The law is that of one process, as every step leaves the posterior of *all* rows invariant:

* lambda | z and m | z are drawn from sums over all rows (`total`) with the key that all shards have, and are `common`.
* Given m and lambda the rows (units, fairlets) are independent but for prod g_k and, where people are balanced, for the counts
  of groups in clusters. Swaps within a shard keep the counts: each shard makes its own at the same time, with a key of its
  `own`. Where g reads means (KL, binary) a round is kept or not as a whole, by its ratio over all shards.
* Moves that change counts in many places (`BlockedReallocation`, `Bundles`) are proposed by every shard for itself, and
  accepted or not for all of them by the ratio of the summed counts: one decision, `common`.
* Moves that visit people one by one by their exact ratio (`Singles`, `Excursions`, `PairedSingles`) read counts that the
  visit before has changed. They are made by one shard, drawn without looking at the state, given all others: `from_one`.
* `SwapsAcrossShards` exchange the clusters of two people of a group in two shards.

Left out are collapsed visits to fairlets, whose every step would wait for all processes, and jumps between modes. What a
program computes of its own rows alone would be wrong wherever one of these is forgotten: the tests enumerate.

The shards are an axis named `AXIS`: of `jax.shard_map` over processes, or of `jax.vmap` over a list of shards in one. Where
there is none all of this is the identity, and one process draws what it drew.
"""

from functools import partial

import jax
import jax.numpy as jnp

from bayesfair._parts import as_few

__all__ = ["AXIS", "common", "from_one", "is_shared", "of_all", "own", "share", "total"]

AXIS = "rows"


def is_shared() -> bool:
    """Is a program being traced whose rows are in shards?"""
    try:
        jax.lax.axis_size(AXIS)
    except NameError:
        return False
    return True


HALF = 12  # bits


def total(tree):
    """Sums over the rows of this shard as those over all rows: one turn for all of them, as it is waiting for each other that
    takes time. Integers that come with floats go as two of these each, which hold such sums exactly in up to 4096 shards."""
    if not is_shared():
        return tree
    tree = jax.tree.map(jnp.asarray, tree)
    kind = next((leaf.dtype for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)), None)

    def joins(leaf):
        return kind is not None and leaf.dtype == jnp.int32

    def sent(leaf):
        return jnp.stack([leaf >> HALF, leaf & (2**HALF - 1)]).astype(kind) if joins(leaf) else leaf

    def received(leaf, told):
        return jnp.tensordot(jnp.array([2**HALF, 1], jnp.int32), told.astype(jnp.int32), 1) if joins(leaf) else told

    return jax.tree.map(received, tree, as_few(partial(jax.lax.psum, axis_name=AXIS), jax.tree.map(sent, tree)))


def share(which, present, dtype):
    """The share of True among the rows of all shards, those that are `present`; None: all."""
    if present is None:
        return which.mean(dtype=dtype)
    some, everybody = total(((which & present).sum(dtype=dtype), present.sum(dtype=dtype)))
    return some / everybody


def own(key):
    """A key of this shard's own."""
    return jax.random.fold_in(key, jax.lax.axis_index(AXIS)) if is_shared() else key


def common(tree):
    """What the first shard has, in all: what they computed alike, and what decides for all, to the last bit."""
    return _of(tree, 0) if is_shared() else tree


def _of(tree, shard):
    """What that shard has, in all."""
    here = jax.lax.axis_index(AXIS) == shard

    def sent(part):
        part = jnp.asarray(part)
        return jnp.where(here, part, 0).astype(jnp.int32 if part.dtype == bool else part.dtype)

    return jax.tree.map(lambda part, got: got.astype(jnp.asarray(part).dtype), tree, total(jax.tree.map(sent, tree)))


def of_all(part):
    """What every shard has, stacked."""
    return jax.lax.all_gather(part, AXIS)


def from_one(key, before, after, shared):
    """What one shard, drawn with a `key` that all have, has found: (`after` there and `before` in the others; `shared` of
    that one, in all)."""
    if not is_shared():
        return after, shared
    shard = jax.random.randint(key, (), 0, jax.lax.axis_size(AXIS))
    here = jax.lax.axis_index(AXIS) == shard
    return jax.tree.map(lambda new, old: jnp.where(here, new, old), after, before), _of(shared, shard)

"""Rows in compiled programs: sums over rows and values per row, for a hundred rows or for rows on several devices.

Rows lie in blocks; if a mesh gives them to several devices, each has a part of every block, and one message ends a pass.
Sums over blocks are compensated (Kahan 1965): float32 sums of millions of rows round like a single addition.
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from bayesfair._arrays import computed_once

EVERYWHERE = PartitionSpec()


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rows:
    """A tree of arrays (blocks, .., rows), and the mesh whose devices each have a part of every block, None for one device.

    Row i is in block i modulo their number: every block is a systematic sample. Blocks are padded with zeros.
    """

    parts: Any
    mesh: Mesh | None = field(default=None, metadata={"static": True})

    def __len__(self):
        """The number of blocks."""
        return len(jax.tree.leaves(self.parts)[0])

    def beside(self, parts) -> "Rows":
        """These arrays and `parts` of the same rows: a block is a pair."""
        return Rows((self.parts, parts), self.mesh)

    def take(self, blocks) -> "Rows":
        """Some of the blocks."""
        return Rows(jax.tree.map(lambda part: part[blocks], self.parts), self.mesh)

    def pick(self, numbers) -> "Rows":
        """The rows with these numbers in the table, as one block; for one device."""
        at = numbers % len(self), numbers // len(self)
        return Rows(jax.tree.map(lambda part: jnp.moveaxis(part[at[0], ..., at[1]], 0, -1)[None], self.parts))


def total(of, rows: Rows, *params, used=None):
    """The sum over all rows of `of(block, *params)`, a tree of arrays; gradients only with respect to the `params`.

    `used` (blocks,): a mask of the blocks to use, whose number is no part of the program; then there are no gradients.
    """
    if len(rows) == 1:
        return _everywhere(lambda parts, params: _summed(of(_block(parts, 0), *params)), rows, params)
    of = jax.checkpoint(of)

    def own(parts, params):
        params, used = params
        order = None if used is None else jnp.argsort(~used)  # stable
        n_terms = len(rows) if used is None else used.sum()
        return _summed(sum_of_terms(lambda i: of(_block(parts, i if order is None else order[i]), *params), n_terms))

    return _everywhere(own, rows, (params, used))


def largest(of, rows: Rows, *params):
    """The elementwise maximum of the arrays `of(block, *params)`."""

    def own(parts, params):
        further = lambda i, found: jnp.maximum(found, of(_block(parts, i), *params))  # noqa: E731
        found = jax.lax.fori_loop(1, len(rows), further, of(_block(parts, 0), *params))
        return jax.lax.pmax(found, "rows") if _is_shared() else found

    return _everywhere(own, rows, params)


def each(of, rows: Rows, *params):
    """Values per row: `of(block, *params)`, a tree of arrays (.., rows), as arrays (blocks, .., rows)."""

    def own(parts, params):
        made = lambda i: of(_block(parts, i), *params)  # noqa: E731
        if len(rows) == 1:
            return computed_once(jax.tree.map(lambda one: one[None], made(0)))

        def put(i, whole):
            write = lambda whole, one: jax.lax.dynamic_update_index_in_dim(whole, one, i, 0)  # noqa: E731
            return jax.tree.map(write, whole, made(i))

        blank = jax.tree.map(lambda one: _zeros((len(rows), *one.shape), one.dtype), jax.eval_shape(made, 0))
        return jax.lax.fori_loop(0, len(rows), put, blank)

    return _everywhere(own, rows, params, of_rows=True)


def farthest(values, rows: Rows, most):
    """At most `most` rows with the largest `values` (blocks, rows), as arrays (rows, ..), in their order."""

    def own(parts, _):
        parts, values = jax.tree.map(lambda part: jnp.moveaxis(part, -1, 1).reshape(-1, *part.shape[1:-1]), parts)
        first = lambda values, parts: jax.tree.map(  # noqa: E731
            lambda part: part[jax.lax.top_k(values, min(most, len(values)))[1]], (values, parts)
        )
        found = first(values, parts)
        return first(*jax.tree.map(_of_all, found))[1] if _is_shared() else found[1]

    return _everywhere(own, rows.beside(values), ())


def _of_all(found):
    """The results of all devices, on every device. They are gathered by a sum, whose type says that devices agree."""
    blank = _zeros((jax.lax.axis_size("rows"), *found.shape), found.dtype)
    all_found = jax.lax.psum(blank.at[jax.lax.axis_index("rows")].set(found), "rows")
    return all_found.reshape(-1, *found.shape[1:])


def sum_of_terms(of, n_terms):
    """The sum of the trees `of(i)`."""

    def add(i, carry):
        summed, excess = carry
        terms = jax.tree.map(jnp.subtract, of(i), excess)
        new = jax.tree.map(jnp.add, summed, terms)
        return new, jax.tree.map(lambda new, old, term: (new - old) - term, new, summed, terms)

    start = jax.tree.map(lambda part: _zeros(part.shape, part.dtype), jax.eval_shape(lambda: of(0)))
    return jax.lax.fori_loop(0, n_terms, add, (start, start))[0]


def _everywhere(program, rows: Rows, params, of_rows=False):
    """`program(parts, params)` on every device with its part of the rows; results are equal on all, or `of_rows`."""
    if rows.mesh is None:
        return program(rows.parts, params)

    def own(parts, params):
        # Before the blocks, so that gradients are those of own rows and are summed over devices at the end.
        return program(parts, _as_few(lambda flat: jax.lax.pcast(flat, "rows", to="varying"), params))

    where = jax.tree.map(lambda part: of_blocks(part.ndim), rows.parts)
    out = EVERYWHERE
    if of_rows:
        cut = lambda part: jax.ShapeDtypeStruct((*part.shape[:-1], part.shape[-1] // rows.mesh.size), part.dtype)  # noqa: E731
        made = jax.eval_shape(program, jax.tree.map(cut, rows.parts), params)
        out = jax.tree.map(lambda part: of_blocks(part.ndim), made)
    return jax.shard_map(own, mesh=rows.mesh, in_specs=(where, EVERYWHERE), out_specs=out)(rows.parts, params)


def of_blocks(ndim) -> PartitionSpec:
    """The sharding of arrays (blocks, .., rows)."""
    return PartitionSpec(*[None] * (ndim - 1), "rows")


def _block(parts, i):
    return jax.tree.map(lambda part: jax.lax.dynamic_index_in_dim(part, i, keepdims=False), parts)


def _summed(tree):
    """Sum a tree over the devices."""
    return _as_few(lambda flat: jax.lax.psum(flat, "rows"), tree) if _is_shared() else tree


def _zeros(shape, dtype):
    zeros = jnp.zeros(shape, dtype)
    return jax.lax.pcast(zeros, "rows", to="varying") if _is_shared() else zeros


def _is_shared():
    """Is a program being traced that devices run with their own rows?"""
    return "rows" in jax.sharding.get_abstract_mesh().manual_axes


def _as_few(program, tree):
    """Apply `program` to all arrays of a type at once: between devices the number of calls takes the time."""
    leaves, structure = jax.tree.flatten(tree)
    leaves = [jnp.asarray(leaf) for leaf in leaves]
    for kind in {leaf.dtype: None for leaf in leaves}:  # in the same order in all processes
        own = [at for at, leaf in enumerate(leaves) if leaf.dtype == kind]
        flat = program(jnp.concatenate([leaves[at].ravel() for at in own]))
        cuts = np.cumsum([leaves[at].size for at in own])[:-1]
        for at, part in zip(own, jnp.split(flat, cuts)):
            leaves[at] = part.reshape(leaves[at].shape)
    return structure.unflatten(leaves)

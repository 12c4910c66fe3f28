"""Rows over processes: what each of them has, and what all of them find out together."""

import gc
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from bayesfair.distributed import everybody
from bayesfair.fairness import Groups

__all__ = ["ALONE", "Share", "StepInShares", "free", "here", "in_shares", "mesh_of", "share_of", "sum_of_all"]


class Share(NamedTuple):
    """Rows of a table that this process has: those after the ones of the processes before it.

    `sizes`: how many every process has. `groups`: of all rows.
    """

    mesh: Any = None
    sizes: tuple[int, ...] = ()
    groups: Groups | None = None

    @property
    def n_obs(self):
        return sum(self.sizes)

    @property
    def largest(self):
        return max(self.sizes)

    @property
    def place(self):
        """Of this process among those that have rows."""
        return 0 if self.mesh is None else jax.process_index()

    @property
    def n_processes(self):
        """That share the rows."""
        return 1 if self.mesh is None else jax.process_count()

    @property
    def first(self):
        """How many rows come before those of this process."""
        return sum(self.sizes[: self.place])

    def everybody(self, value) -> list:
        """`value` of every process that has rows."""
        return [value] if self.mesh is None else everybody(value)

    def dealt(self, of, tasks) -> list:
        """`of` every task, each of which one process does and tells the others."""
        found = [None] * len(tasks)
        for at, told in enumerate(self.everybody([*map(of, tasks[self.place :: self.n_processes])])):
            found[at :: self.n_processes] = told
        return found

    def of_all(self, values):
        """Values of the rows of this process (obs, ..) as those of all rows."""
        return values if self.mesh is None else np.concatenate(self.everybody(values))

    def take(self, values, rows):
        """Some rows, by their numbers in the whole table, of an array (obs, ..) of which each process has its own."""
        if self.mesh is None:
            return values[rows]
        own = np.flatnonzero((self.first <= rows) & (rows < self.first + len(values)))
        parts = everybody((own, values[rows[own] - self.first]))
        order = np.argsort(np.concatenate([at for at, _ in parts]))
        return np.concatenate([part for _, part in parts])[order]

    def placed(self, problem, specs):
        """Arrays of this process, on the device, as its part of those of all: along the axis that `specs` give to rows."""
        if self.mesh is None:
            return jax.device_put(problem)

        def place(part, spec):
            sharding = jax.sharding.NamedSharding(self.mesh, spec)
            return jax.make_array_from_process_local_data(sharding, np.asarray(part))

        return jax.tree.map(place, problem, specs)


ALONE = Share()  # this process has all rows


def share_of(mesh, groups: Groups) -> tuple[Groups, Share]:
    """(the groups of this process's rows, numbered among those of all; what of all rows these are)."""
    if mesh is None:
        return groups, Share(None, (len(groups.code),), groups)
    everybodys = everybody(groups.names)
    names = sorted(set().union(*everybodys), key=_as_sorted) if len(set(everybodys)) > 1 else groups.names
    groups = Groups(np.array([names.index(name) for name in groups.names], np.int32)[groups.code], tuple(names))
    codes = everybody(groups.code)
    return groups, Share(mesh, tuple(map(len, codes)), groups._replace(code=np.concatenate(codes)))


def _as_sorted(name):
    """Numbers before text, as `encode_groups` has them."""
    try:
        return 0, float(name), name
    except ValueError:
        return 1, 0.0, name


def mesh_of(array):
    """The mesh over whose processes an array lies; None where it is all here."""
    sharding = getattr(array, "sharding", None)
    return sharding.mesh if isinstance(sharding, jax.sharding.NamedSharding) else None


def here(tree):
    """Of arrays that lie over processes this one's part."""
    return jax.tree.map(lambda part: part.addressable_data(0) if isinstance(part, jax.Array) else part, tree)


def free(tree):
    """The memory of arrays that were read for the last time, whoever still holds them."""
    for part in jax.tree.leaves(tree):
        part.delete()
    gc.collect(0)  # as late as then JAX lets go of what was NumPy's


def sum_of_all(value, mesh):
    return value if mesh is None else sum(everybody(value))


def in_shares(program, mesh, in_specs, out_specs):
    """`program` in every process of `mesh` with its rows; its sums over rows are those of all (`blocks.total`)."""
    return program if mesh is None else jax.shard_map(program, mesh=mesh, in_specs=in_specs, out_specs=out_specs)


@dataclass(frozen=True)
class StepInShares:
    """A step of `minimize` `in_shares`: where the arrays of problem and state lie is told by trees of PartitionSpecs."""

    step: Any
    mesh: Any
    problem: Any
    state: Any

    def __call__(self, problem, state):
        def step(problem, state):
            state, *scalars = self.step(problem, state)
            return state, tuple(scalars)

        specs = (self.problem, self.state), (self.state, jax.sharding.PartitionSpec())
        state, scalars = in_shares(step, self.mesh, *specs)(problem, state)
        return state, *scalars

    @property
    def stays_finite(self):
        return getattr(self.step, "stays_finite", False)

    def gathered(self, states, share):
        """A batch of states whose arrays of rows are of all processes: (runs, obs, ..), in order and without what fills up."""
        n_own = share.sizes[share.place]

        def of_all(spec, part):
            return np.concatenate(share.everybody(_as_rows(here(part))[:, :n_own]), 1) if "rows" in spec else part

        return jax.tree.map(of_all, self._specs(states), states)

    def dealt(self, states, like, share):
        """The other way: of `gathered` states this process's part, filled up as those that they are to be `like`."""

        def own(spec, part, like):
            if "rows" not in spec:
                return part
            rows = np.array(_as_rows(here(like)))
            n_own = share.sizes[share.place]
            rows[:, :n_own] = part[:, share.first : share.first + n_own]
            place = jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec(None, *spec))
            return jax.make_array_from_process_local_data(place, _in_blocks(rows, here(like).shape))

        return jax.tree.map(own, self._specs(states), states, like)

    def _specs(self, states):
        """One for every array."""
        return jax.tree.broadcast(self.state, states)


def _as_rows(part):
    """(runs, obs, ..) of (runs, obs), or of blocks of rows (runs, blocks, .., rows)."""
    part = np.asarray(part)
    return part if part.ndim == 2 else np.moveaxis(part, -1, 2).reshape(len(part), -1, *part.shape[2:-1])


def _in_blocks(rows, shape):
    """The other way."""
    return rows if len(shape) == 2 else np.moveaxis(rows.reshape(*shape[:2], shape[-1], *shape[2:-1]), 2, -1)

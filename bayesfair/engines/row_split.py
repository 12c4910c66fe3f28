"""How the rows of a table are split over processes and devices, and into blocks."""

import gc
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding

from bayesfair._arrays import aligned_empty
from bayesfair._rows import EVERYWHERE, Rows, of_blocks
from bayesfair.distributed.messages import everybody
from bayesfair.fairness.groups import Groups

ONE_BLOCK = 2**17  # rows up to which a table is one block


class RowSplit(NamedTuple):
    """The part of the rows that this process has. `mesh`: None if one device has all. `groups`: of all rows."""

    mesh: Any = None
    sizes: tuple[int, ...] = ()
    groups: Groups | None = None

    @property
    def n_obs(self):
        return sum(self.sizes)

    @property
    def place(self):
        """Index of this process among those with rows."""
        return jax.process_index() if len(self.sizes) > 1 else 0

    @property
    def first(self):
        """Number of rows in the processes before this one."""
        return sum(self.sizes[: self.place])

    @property
    def n_devices(self):
        """Number of this process's devices."""
        return 1 if self.mesh is None else len(self.mesh.local_devices)

    def everybody(self, value) -> list:
        """`value` of every process with rows."""
        return everybody(value) if len(self.sizes) > 1 else [value]

    def dealt(self, of, tasks) -> list:
        """`of(task)` for every task; each is done by one process, which sends the result to the others."""
        n_processes, found = max(1, len(self.sizes)), [None] * len(tasks)
        for at, told in enumerate(self.everybody([*map(of, tasks[self.place :: n_processes])])):
            found[at::n_processes] = told
        return found

    def of_all(self, values):
        """Values of this process's rows (obs, ..), concatenated over all processes."""
        return np.concatenate(self.everybody(values))

    def take(self, values, rows):
        """Rows with these numbers in the whole table, from an array (obs, ..) that is split over the processes."""
        if len(self.sizes) < 2:
            return values[rows]
        own = np.flatnonzero((self.first <= rows) & (rows < self.first + len(values)))
        parts = self.everybody((own, values[rows[own] - self.first]))
        order = np.argsort(np.concatenate([at for at, _ in parts]))
        return np.concatenate([part for _, part in parts])[order]

    @property
    def is_small(self):
        """Are the rows one block on one device?"""
        return self.n_obs <= ONE_BLOCK

    def n_blocks(self, size):
        """Number of blocks of about `size` rows."""
        return 1 if self.is_small else -(-self.n_obs // size)

    def in_blocks(self, of, n_blocks) -> Rows:
        """The rows of all processes, with this one's part filled: `of(slice)` gives arrays (rows, ..), put on the device."""
        n_devices = self.n_devices
        size = -(-max(self.sizes) // (n_blocks * n_devices)) * n_devices
        whole = None
        for block in range(n_blocks):
            parts, structure = jax.tree.flatten(of(self._rows_of(block, n_blocks)))
            if whole is None:
                whole = [aligned_empty((n_blocks, *part.shape[1:], size), part.dtype) for part in parts]
            for all_blocks, part in zip(whole, parts):
                all_blocks[block, ..., : len(part)] = np.moveaxis(part, 0, -1)
                all_blocks[block, ..., len(part) :] = 0
        return Rows(structure.unflatten([self.placed(part, of_blocks(part.ndim)) for part in whole]), self.mesh)

    def in_order(self, values):
        """Values of this process's rows (obs, ..), from arrays (blocks, .., rows)."""
        own = here(values)
        ordered = np.empty((self.sizes[self.place], *own.shape[1:-1]), own.dtype)
        for block, part in enumerate(own):
            rows = ordered[self._rows_of(block, len(own))]
            rows[:] = np.moveaxis(part, -1, 0)[: len(rows)]
        return ordered

    def _rows_of(self, block, n_blocks):
        return slice((block - self.first) % n_blocks, None, n_blocks)

    def placed(self, array, where=EVERYWHERE):
        """The array on the device; of arrays of rows, as this process's part of the rows of all."""
        if self.mesh is None:
            return jax.device_put(array)
        return jax.make_array_from_process_local_data(NamedSharding(self.mesh, where), np.asarray(array))


UNSPLIT = RowSplit()  # this process has all rows


def split_rows(mesh, groups: Groups) -> tuple[Groups, RowSplit]:
    """(the groups of this process's rows, numbered as those of all; how the rows are split)."""
    if mesh is None or mesh.size == 1:
        return groups, RowSplit(None, (len(groups.code),), groups)
    everybodys = everybody(groups.names)
    names = sorted(set().union(*everybodys), key=_as_sorted) if len(set(everybodys)) > 1 else groups.names
    groups = Groups(np.array([names.index(name) for name in groups.names], np.int32)[groups.code], tuple(names))
    codes = everybody(groups.code)
    return groups, RowSplit(mesh, tuple(map(len, codes)), groups._replace(code=np.concatenate(codes)))


def _as_sorted(name):
    """Sort key: numbers before text, as in `encode_groups`."""
    try:
        return 0, float(name), name
    except ValueError:
        return 1, 0.0, name


def here(array) -> np.ndarray:
    """The part of an array (.., rows) that this process holds."""
    if not isinstance(array, jax.Array) or array.is_fully_addressable:
        return np.asarray(array)
    parts = sorted(array.addressable_shards, key=lambda part: part.index[-1].start or 0)
    return np.concatenate([np.asarray(part.data) for part in parts], -1)


def free(tree):
    """Free the memory of arrays that are not read again, whoever still holds them."""
    for part in jax.tree.leaves(tree):
        part.delete()
    gc.collect(0)  # only then does JAX release NumPy's memory

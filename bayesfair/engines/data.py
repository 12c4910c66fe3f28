"""What a fit is given: checked columns, groups, weights and a seed, split over processes and devices, and into blocks."""

import gc
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding

from bayesfair._affinities import Nodes
from bayesfair._arrays import aligned_empty, cell_masses, code_masses, distinct_places, row_blocks
from bayesfair._rows import EVERYWHERE, Rows, of_blocks
from bayesfair._tables import Columns, distinct_rows
from bayesfair.distributed.messages import everybody
from bayesfair.fairness.groups import Groups

ONE_BLOCK = 2**17  # rows up to which a table is one block
FEWEST = 30  # least number of rows of a group in a sub-sample


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
        for at, results in enumerate(self.everybody([*map(of, tasks[self.place :: n_processes])])):
            found[at::n_processes] = results
        return found

    def total(self, value):
        """The sum of the values of all processes."""
        return sum(self.everybody(value))

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
        """The array on the device. An array of rows is this process's part of an array of all rows."""
        if self.mesh is None:
            return jax.device_put(array)
        return jax.make_array_from_process_local_data(NamedSharding(self.mesh, where), np.asarray(array))


UNSPLIT = RowSplit()  # this process has all rows


class Data(NamedTuple):
    """What a fit is given: checked columns, groups, weights and a seed.

    Attributes
    ----------
    columns : Columns or Nodes
        The checked columns of the table, or the nodes of a graph.
    groups : Groups
        The groups of the rows.
    given_weight : numpy.ndarray of shape (n_obs,) or None
        Weights of the rows, all above zero. None where all are 1.
    seed : int
        Drives everything random in the fit.
    split : RowSplit
        How the rows of all processes are split.
    workers : RowSplit
        Processes that have the same rows and divide the starts among them.
    own : slice
        Which of the rows belong to this process.
    """

    columns: Columns | Nodes
    groups: Groups
    given_weight: np.ndarray | None
    seed: int
    split: RowSplit = UNSPLIT
    workers: RowSplit = UNSPLIT
    own: slice = slice(None)  # the part that this process holds

    @property
    def X(self):
        """The continuous columns of shape (n_obs, n_features), float32 or float64 as they came in."""
        return self.columns.continuous

    @property
    def weight(self):
        """Weights of the rows, of shape (n_obs,). Newly made if all are 1: for many rows use `weight_of`."""
        return self.weight_of(slice(None))

    def weight_of(self, rows):
        """Weights of some of the rows, a slice or numbers."""
        if self.given_weight is None:
            return np.array(np.broadcast_to(1.0, len(self.groups.code))[rows])
        return self.given_weight[rows]

    @property
    def shuffled(self):
        """The numbers of the rows of all processes in random order, always the same."""
        return np.random.default_rng(self.seed).permutation(self.split.n_obs)

    def take(self, rows):
        """The rows with these numbers in the table that is split over processes. Every process gets all of them."""
        split, weight = self.split, None
        if any(split.everybody(self.given_weight is not None)):
            weight = split.take(self.weight, rows)
        groups = split.groups._replace(code=split.groups.code[rows])
        alike = RowSplit(None, (len(rows),), groups)
        workers = split if len(split.sizes) > 1 else self.workers
        return Data(self.columns.take(rows, split), groups, weight, self.seed, alike, workers)

    def sample(self, rows, n_parts, argument, points):
        """`take(rows)`, and more rows if fewer than `n_parts` differ in `points(columns)`; an error if the table has fewer."""
        split, columns = self.split, self.columns
        known = distinct_places(lambda part: points(columns.take(rows[part], split)), n_parts)
        if len(known) < n_parts:
            own = lambda part: points(columns.take(part))  # noqa: E731
            rows = np.union1d(rows, distinct_rows(own, n_parts, argument, split.everybody, split.first))
        return self.take(rows)

    def blocks(self, of, size) -> Rows:
        """`RowSplit.in_blocks` with about `size` rows in a block; few rows are one block."""
        return self.split.in_blocks(of, 1 if self.split.is_small else -(-self.split.n_obs // size))

    @property
    def total_weight(self):
        """Sum of the weights of the rows of all processes."""
        own = len(self.groups.code) if self.given_weight is None else self.given_weight.sum()
        return float(self.split.total(own))

    @property
    def group_masses(self):
        """Weight of every group in the rows of all processes, of shape (n_groups,)."""
        return self.split.total(code_masses(self.groups.code, len(self.groups.names), self.given_weight))

    def masses_in(self, labels, n_clusters):
        """Weight of every group in hard clusters (n_clusters, n_groups), in the rows of all processes."""
        shape = n_clusters, len(self.groups.names)
        return self.split.total(cell_masses(labels, self.groups.code, shape, self.given_weight))

    @property
    def relative_weight(self):
        """Weights whose mean over all rows is 1, for losses per row."""
        scale = self.split.n_obs / self.total_weight
        return self.weight if scale == 1 else self.weight * scale


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


def stratified(rows, code, most, fewest=FEWEST):
    """About `most` of `rows`, in their order: each group in proportion, but with at least `fewest` rows if it has them."""
    if len(rows) <= most:
        return rows
    blocks, n_groups = [rows[block] for block in row_blocks(len(rows))], code.max() + 1
    size = sum(np.bincount(code[block], minlength=n_groups) for block in blocks)
    left, taken = np.maximum(np.ceil(most * size / len(rows)), fewest).astype(int), []
    for block in blocks:
        group = code[block]
        first = [np.flatnonzero(group == j)[: left[j]] for j in range(n_groups)]
        left -= [*map(len, first)]
        taken.append(block[np.sort(np.concatenate(first))])
    return np.concatenate(taken)


def weights_as_of_all(code, weight, masses):
    """Weights of mean 1 under which each group has the same share of a sample as of all rows, `masses` (groups,)."""
    there = np.bincount(code, weight, len(masses))
    weight = weight * np.divide(masses, there, out=np.zeros(len(masses)), where=there > 0)[code]
    return weight / weight.mean()

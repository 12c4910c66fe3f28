"""Labels of many draws, with a few in memory at a time."""

import numpy as np

BLOCK = 2_000_000  # labels in a block, or one draw
CHUNK = 16  # draws of a chain that are stored and read together


class LabelDraws:
    """Labels of draws, chain after chain, as an array (draws, obs) that is read in blocks.

    A number gives a draw (obs,); positions or a slice give `LabelDraws`, without reading. `np.asarray` reads all.
    """

    def __init__(self, stored, positions=None):
        """`stored` (chain, draw, obs): an array, or a variable of a tree, in memory or on disk."""
        self._stored = stored = stored if is_on_disk(stored) else np.asarray(stored)
        self._flat = None
        if isinstance(stored, np.ndarray) and stored.flags.c_contiguous:
            self._flat = stored.reshape(stored.shape[0] * stored.shape[1], stored.shape[2])
        self._positions = np.arange(stored.shape[0] * stored.shape[1]) if positions is None else positions
        self.dtype = stored.dtype
        self.shape = len(self._positions), stored.shape[2]

    def __len__(self):
        return len(self._positions)

    def __getitem__(self, which):
        if isinstance(which, (int, np.integer)):
            return self._read(self._positions[which : which + 1 or None])[0]
        return LabelDraws(self._stored, self._positions[which])

    def __iter__(self):
        for block in self.blocks():
            yield from block if self._flat is not None else map(np.copy, block)  # a view would keep what was read
            del block

    def __array__(self, dtype=None, copy=None):
        return np.array(self._read(self._positions), dtype=dtype, copy=copy)

    def blocks(self, least=1):
        """Arrays (some draws, obs), with at least `least` draws if there are as many; those in memory are not copied."""
        step = max(least, BLOCK // max(self.shape[1], 1))
        together = step if self._flat is not None else step * -(-CHUNK // step)
        for first in range(0, len(self), together):
            some = self._read(self._positions[first : first + together])
            for part in range(0, len(some), step):
                yield some[part : part + step]
            del some  # before the next is read

    def columns(self, rows):
        """Labels of some rows in all draws (draws, rows)."""
        return self._read(self._positions, np.asarray(rows, np.intp))

    def max(self):
        return max(block.max() for block in self.blocks())

    def min(self):
        return min(block.min() for block in self.blocks())

    def _read(self, positions, rows=None):
        if self._flat is None:
            return self._read_parts(positions, rows)
        consecutive = _as_slice(positions)
        if rows is None:
            return self._flat[consecutive]
        return (
            self._flat[consecutive][:, rows] if isinstance(consecutive, slice) else self._flat[positions[:, None], rows]
        )

    def _read_parts(self, positions, rows):
        """Read the content of one chunk at once."""
        shape = len(positions), self.shape[1] if rows is None else len(rows)
        if 0 in shape:
            return np.empty(shape, self.dtype)
        low, high = (0, self.shape[1]) if rows is None else (rows.min(), rows.max() + 1)
        chain, draw = np.divmod(positions, self._stored.shape[1])
        begins = 1 + np.flatnonzero((np.diff(chain) != 0) | (np.diff(draw // CHUNK) != 0))
        found = None if len(begins) == 0 else np.empty(shape, self.dtype)
        for first, last in zip([0, *begins], [*begins, len(positions)]):
            some = draw[first:last]
            least = some.min()
            part = np.asarray(self._stored[chain[first], slice(least, some.max() + 1), slice(low, high)])
            part = part[_as_slice(some - least)]
            part = part if rows is None else part[:, rows - low]
            if found is None:
                return part
            found[first:last] = part
        return found


def _as_slice(positions):
    """The slice equal to these positions, so that nothing is copied, or the positions if there is none."""
    if len(positions) and (np.diff(positions) == 1).all():
        return slice(positions[0], positions[-1] + 1)
    return positions


def as_labels(labels):
    """`labels` (draws, obs) as `LabelDraws`, whatever their type."""
    return labels if isinstance(labels, LabelDraws) else LabelDraws(np.asarray(labels)[None])


def is_on_disk(array):
    """Is an array a variable of a tree that is read when it is indexed?"""
    variable = getattr(array, "variable", array)
    return not getattr(variable, "_in_memory", True)

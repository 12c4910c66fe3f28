"""Labels on disk as xarray reads them: refused once the run was numbered again, or renumbered, without a copy."""

import os

import numpy as np
from xarray.backends import BackendArray
from xarray.core.indexing import IndexingSupport, LazilyIndexedArray, explicit_indexing_adapter

from bayesfair._check import Refusal


class _OnDisk(BackendArray):
    """`_read` takes an integer, a slice or positions for each dimension."""

    def __init__(self, labels, dtype):
        self._labels, self.shape, self.dtype = labels, labels.shape, dtype

    def __getitem__(self, key):
        return explicit_indexing_adapter(key, self.shape, IndexingSupport.OUTER, self._read)


class _Unchanged(_OnDisk):
    def __init__(self, labels, path):
        super().__init__(labels, labels.dtype)
        self._path = path
        self._known = self._stamp()

    def _stamp(self):
        try:
            stat = os.stat(self._path)
        except FileNotFoundError:
            return None
        return stat.st_ino, stat.st_mtime_ns

    def _read(self, key):
        part, cause = None, None
        try:
            part = np.asarray(self._labels[key])
        except ValueError as error:  # a chunk is gone or damaged
            cause = error
        if cause or self._stamp() != self._known:
            remedy = "Load it again, with load(path) or read_tree(path)."
            told = f"The stored run was written to since it was read, or damaged. {remedy}"
            raise ValueError(Refusal(told)) from cause
        return part


class _Renumbered(_OnDisk):
    def __init__(self, labels, permutations):
        super().__init__(labels, permutations.dtype)
        self._permutations = permutations.reshape(*labels.shape[:2], -1)

    def _read(self, key):
        whole = tuple(one if isinstance(one, slice | np.ndarray) else slice(one, one + 1) for one in key)
        part, permutations = np.asarray(self._labels[whole]), self._permutations[whole[0]][:, whole[1]]
        moved = np.empty(part.shape, self.dtype)
        for at in np.ndindex(part.shape[:2]):
            moved[at] = permutations[at][part[at]]
        return moved[tuple(slice(None) if isinstance(one, slice | np.ndarray) else 0 for one in key)]


def unchanged(labels, path):
    """`labels` for xarray, until the file `path` is made anew."""
    return LazilyIndexedArray(_Unchanged(labels, path))


def renumbered(labels, permutations):
    """`labels` (chain, draw, obs) for xarray, with label k of a draw read as permutations[chain * draws + draw, k]."""
    return LazilyIndexedArray(_Renumbered(labels, permutations))

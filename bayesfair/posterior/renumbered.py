"""Labels on disk with clusters renumbered when read: nothing is copied before."""

import numpy as np
from xarray.backends import BackendArray
from xarray.core.indexing import IndexingSupport, LazilyIndexedArray, explicit_indexing_adapter


def renumbered(labels, permutations):
    """Labels (chain, draw, obs) for xarray, with label k of a draw read as permutations[chain * draws + draw, k]."""
    return LazilyIndexedArray(_Renumbered(labels, permutations))


class _Renumbered(BackendArray):
    def __init__(self, labels, permutations):
        self._labels = labels
        self._permutations = permutations.reshape(*labels.shape[:2], -1)
        self.shape, self.dtype = labels.shape, permutations.dtype

    def __getitem__(self, key):
        return explicit_indexing_adapter(key, self.shape, IndexingSupport.OUTER, self._read)

    def _read(self, key):
        """`key`: an integer, a slice or positions for each dimension."""
        whole = tuple(
            one if isinstance(one, slice | np.ndarray) else slice(one % n, one % n + 1)
            for n, one in zip(self.shape, key)
        )
        chains, draws = (np.arange(n)[one] for n, one in zip(self.shape, whole[:2]))
        part = np.asarray(self._labels[whole])
        moved = np.empty(part.shape, self.dtype)
        for at in np.ndindex(part.shape[:2]):
            moved[at] = self._permutations[chains[at[0]], draws[at[1]]][part[at]]
        return moved[tuple(slice(None) if isinstance(one, slice | np.ndarray) else 0 for one in key)]

"""Labels on disk with their clusters renumbered as they are read: nothing is copied until somebody asks for it."""

import numpy as np
from xarray.backends import BackendArray
from xarray.core.indexing import IndexingSupport, LazilyIndexedArray, explicit_indexing_adapter

__all__ = ["renumbered"]


def renumbered(labels, permutations):
    """Labels (chain, draw, obs), label k of a draw read as permutations[chain * draws + draw, k], as xarray holds them."""
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
        chains, draws, rows = (np.atleast_1d(np.arange(n)[one]) for n, one in zip(self.shape, key))
        own = key[2] if isinstance(key[2], slice) else rows
        part = np.empty((len(chains), len(draws), len(rows)), self.dtype)
        for to_draws, chain in zip(part, chains):
            for to, draw in zip(to_draws, draws):
                to[:] = self._permutations[chain, draw][np.asarray(self._labels[chain, draw])[own]]
        return part[tuple(0 if isinstance(one, (int, np.integer)) else slice(None) for one in key)]

"""Rows of a table in other units, made where they are asked for: large decompositions hold no second table."""

import numpy as np

from bayesfair._arrays import row_blocks
from bayesfair._units import Scaling

__all__ = ["Rows", "blocks", "parts_of", "project"]

BLOCK = 256  # rows of one side that are priced at a time
MADE = 2**14  # rows that are made, and projected, at a time


class Rows:
    """The rows `at` (n,) of X (N, d) in `units`, with their `weight`, if any, as a last column; `rows[which]` is an array of
    some of them, as with an array of all."""

    def __init__(self, X, at, units: Scaling, dtype, weight=None):
        self.X, self.at, self.units, self.dtype, self.weight = X, at, units, np.dtype(dtype), weight
        self.shape = len(at), X.shape[1] + (weight is not None)

    def __len__(self):
        return len(self.at)

    def __getitem__(self, which):
        at = self.at[which]
        Z = np.empty((len(at), self.shape[1]), self.dtype)
        for part in parts_of(len(at), MADE):
            Z[part, : self.X.shape[1]] = self.units.rows(self.X[at[part]], self.dtype)
            if self.weight is not None:
                Z[part, -1] = self.weight[at[part]]
        return Z


def parts_of(count, size=None):
    """Slices of `BLOCK` of so many rows."""
    return row_blocks(count, size or BLOCK)


def blocks(rows, size=None):
    """An array in parts of `BLOCK` rows."""
    return [rows[part] for part in parts_of(len(rows), size)]


def project(place, rows, directions, which=None):
    """Writes rows[which], or all, along directions (k, d) into `place` (k, rows)."""
    for part in parts_of(place.shape[1], MADE):
        place[:, part] = directions @ rows[part if which is None else which[part]].T

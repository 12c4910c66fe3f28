"""Some of the rows of a table, of which an engine can learn what it would from all."""

import numpy as np

__all__ = ["FEWEST", "stratified", "weights_as_of_all"]

FEWEST = 30  # rows of a group in a sub-sample


def stratified(rows, code, most, fewest=FEWEST):
    """About `most` of `rows`, in their order, each group in proportion but with at least `fewest` where it has them."""
    if len(rows) <= most:
        return rows
    group = code[rows]
    size = np.bincount(group)
    wanted = np.maximum(np.ceil(most * size / len(rows)), fewest)
    rank = np.empty(len(rows), int)
    for j in np.flatnonzero(size):
        rank[group == j] = np.arange(size[j])
    return rows[rank < wanted[group]]


def weights_as_of_all(rows, code, weight):
    """Weights, of mean 1, with which some rows have the groups' shares of all rows, whose groups and weights these are."""
    own, held = weight[rows], np.bincount(code, weight)
    there = np.bincount(code[rows], own, len(held))
    own = own * np.divide(held, there, out=np.zeros_like(held), where=there > 0)[code[rows]]
    return own / own.mean()

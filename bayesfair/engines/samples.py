"""Samples of the rows from which an engine can learn what it would from all."""

import numpy as np

from bayesfair._arrays import distinct_places, row_blocks
from bayesfair._check import message
from bayesfair.engines.row_split import UNSPLIT

FEWEST = 30  # least number of rows of a group in a sub-sample


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
    """Weights of mean 1 that give sampled rows the groups' `masses` (groups,) of all rows."""
    there = np.bincount(code, weight, len(masses))
    weight = weight * np.divide(masses, there, out=np.zeros(len(masses)), where=there > 0)[code]
    return weight / weight.mean()


def distinct_rows(points, n_parts, argument, split=UNSPLIT):
    """Numbers in the whole table of `n_parts` rows that differ, or an error; `points(rows)`: some of this process's."""
    own = distinct_places(points, n_parts)
    kinds = np.concatenate(split.everybody(points(own)))
    found = np.unique(kinds, axis=0, return_index=True)[1]
    if len(found) < n_parts:
        rule = f"be at most the number of distinct rows, {len(found)}"
        raise ValueError(message(argument, rule, n_parts, "Ask for fewer, or check why rows repeat."))
    return np.concatenate(split.everybody(own + split.first))[found[:n_parts]]

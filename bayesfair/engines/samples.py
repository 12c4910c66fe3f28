"""Some of the rows of a table, of which an engine can learn what it would from all."""

import numpy as np

from bayesfair._arrays import distinct_places
from bayesfair._check import message
from bayesfair.engines.shares import ALONE

__all__ = ["FEWEST", "distinct_rows", "stratified", "weights_as_of_all", "with_distinct"]

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


def distinct_rows(points, n_parts, argument, share=ALONE):
    """Numbers in the whole table of `n_parts` rows that differ; `points(rows)`: some rows of this process.

    Raises
    ------
    ValueError: with the `argument` that asks for so many parts, where fewer rows differ.
    """
    own = distinct_places(points, n_parts)
    kinds = np.concatenate(share.everybody(points(own)))
    found = np.unique(kinds, axis=0, return_index=True)[1]
    if len(found) < n_parts:
        rule = f"be at most the number of distinct rows, {len(found)}"
        raise ValueError(message(argument, rule, n_parts, "Ask for fewer, or look why rows repeat."))
    return np.concatenate(share.everybody(own + share.first))[found[:n_parts]]


def with_distinct(rows, points, n_parts, distinct):
    """Some rows, joined by the `distinct()` ones where fewer than `n_parts` of them differ; `points(rows)`: of the whole
    table."""
    known = distinct_places(lambda part: points(rows[part]), n_parts)
    return rows if len(known) == n_parts else np.union1d(rows, distinct())

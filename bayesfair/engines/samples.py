"""Samples of the rows from which an engine can learn what it would from all."""

import numpy as np

from bayesfair._arrays import distinct_places, row_blocks
from bayesfair._check import message
from bayesfair._scaling import here_alone

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
    """Weights of mean 1 under which each group has the same share of a sample as of all rows, `masses` (groups,)."""
    there = np.bincount(code, weight, len(masses))
    weight = weight * np.divide(masses, there, out=np.zeros(len(masses)), where=there > 0)[code]
    return weight / weight.mean()


def distinct_rows(points, n_parts, argument, everybody=here_alone, first=0):
    """Numbers in the whole table of `n_parts` rows that differ, or an error; `points(rows)`: some of this process's.

    `everybody(value)` gathers a value over the processes, `first`: number of rows in those before this one.
    """
    own = distinct_places(points, n_parts)
    kinds = np.concatenate(everybody(points(own)))
    found = np.unique(kinds, axis=0, return_index=True)[1]
    if len(found) < n_parts:
        rule = f"be at most the number of distinct rows, {len(found)}"
        raise ValueError(message(argument, rule, n_parts, "Ask for fewer, or check why rows repeat."))
    return np.concatenate(everybody(own + first))[found[:n_parts]]


def check_distinct(X, n_clusters):
    """Check that a table has as many distinct rows as clusters are asked for.

    Parameters
    ----------
    X : array-like of shape (n_obs, n_features)
        Features.
    n_clusters : int
        Number of clusters.

    Raises
    ------
    ValueError
        If fewer rows differ.

    Examples
    --------
    >>> import numpy as np, bayesfair as bf
    >>> bf.engines.check_distinct(np.array([[0.0], [0.0], [1.0]]), 2)
    """
    distinct_rows(X.__getitem__, n_clusters, "n_clusters")

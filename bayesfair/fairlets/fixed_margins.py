"""The weighted rectangular loop on binary matrices with fixed margins, structural zeros included.

G. Wang (2020, Electronic Journal of Statistics 14) for uniform weights; Fout, Fosdick and Koslovsky (2020) and
Chakraborty, Bhattacharya and Pati (2023, arXiv 2305.17557) for weights; Algorithm 1 of the Gibbs paper.

A step draws a cell (i1, j1). If H[i1, j1] = 1: j2 is drawn among the zeros of row i1, then i2 among the ones of column
j2. If it is 0: i2 is drawn among the *ones of column j1*, then j2 among the *zeros of row i2*. A checkerboard is
swapped with the heat-bath or Metropolis probability of w' / w. The proposal is symmetric: the four starting cells of a
checkerboard propose it with (1/z_i1 + 1/z_i2)(1/o_j1 + 1/o_j2) over the number of cells, with z the zeros of a row that
may become ones and o the ones of a column, the same before and after.

Structural zeros (weight 0) can split the matrices into classes that 2 x 2 swaps do not connect, such as the two
derangements of three. With structural zeros half of the steps are *alternating cycles*: from a random row walk to a one
of the row, to an admissible zero of its column, and so on until the walk is back in its first row; a walk that meets a
row or column twice proposes nothing. A row has r_i ones and a column its admissible cells less c_j zeros, whatever the
matrix, so the reversed cycle is as probable as the cycle: symmetric again. Two matrices with the same margins differ by
such cycles, each of at most min(shape) rows, so every matrix can be reached.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._check import Refusal, check_integer, listed, message

CELLS = 200_000_000  # of rows and columns that are read between two looks for Ctrl-C: less than a second


class Info(NamedTuple):
    """Statistics of a run: shares of the steps that proposed a change and that made one."""

    proposal_rate: float
    acceptance_rate: float


def feasible_matrix(row_sums: ArrayLike, column_sums: ArrayLike, zeros: ArrayLike | None = None) -> np.ndarray:
    """A binary matrix with given margins, found by a maximum flow from rows to columns.

    Parameters
    ----------
    row_sums : array-like of int of shape (n_rows,)
        Ones in every row, at least 0.
    column_sums : array-like of int of shape (n_columns,)
        Ones in every column, at least 0, with the same total.
    zeros : array-like of bool of shape (n_rows, n_columns), optional
        Where the matrix must be 0.

    Returns
    -------
    numpy.ndarray of shape (n_rows, n_columns)
        Zeros and ones, int8.

    Raises
    ------
    ValueError
        If there is no such matrix. The message names rows that need more ones than their columns can take.

    Examples
    --------
    >>> feasible_matrix([2, 1], [1, 1, 1]).sum(1).tolist()
    [2, 1]
    """
    import networkx as nx

    r, c = _margin("row_sums", row_sums), _margin("column_sums", column_sums)
    if r.sum() != c.sum():
        rule = f"have the total of `row_sums`, {r.sum()}"
        raise ValueError(message("column_sums", rule, c.sum(), "Every one is in both."))
    shape = len(r), len(c)
    zeros = np.zeros(shape, bool) if zeros is None else np.asarray(zeros, bool)
    if zeros.shape != shape:
        raise ValueError(message("zeros", f"have the shape {shape}", zeros.shape, "Give every cell a value."))
    graph = nx.DiGraph()
    graph.add_nodes_from(("source", "sink"))
    graph.add_edges_from(("source", ("row", i), {"capacity": int(n)}) for i, n in enumerate(r))
    graph.add_edges_from((("column", j), "sink", {"capacity": int(n)}) for j, n in enumerate(c))
    graph.add_edges_from((("row", i), ("column", j), {"capacity": 1}) for i, j in np.argwhere(~zeros).tolist())
    total, flow = nx.maximum_flow(graph, "source", "sink")
    if total < r.sum():
        raise ValueError(Refusal(_cut(graph, r, c, zeros)))
    H = np.zeros(zeros.shape, np.int8)
    for i in range(len(r)):
        H[i, [j for (_, j), sent in flow["row", i].items() if sent]] = 1
    return H


def _cut(graph, r, c, zeros):
    """Find rows that cannot get enough from the columns open to them."""
    import networkx as nx

    near = nx.minimum_cut(graph, "source", "sink")[1][0]
    rows = [i for i in range(len(r)) if ("row", i) in near]
    inside = np.array([("column", j) in near for j in range(len(c))])
    open_cells = ~zeros[rows][:, ~inside]
    columns = np.flatnonzero(~zeros[rows].all(0))
    most = int(c[inside].sum() + open_cells.sum())
    return (
        f"No binary matrix has these margins: rows {listed(rows)} need {r[rows].sum()} ones, and the columns open to them, "
        f"{listed(columns)}, can give them at most {most}. Remedy: change their sums"
        + (", or open cells that `zeros` closes." if zeros.any() else ".")
    )


def _margin(argument, sums):
    values = np.asarray(sums)
    if values.ndim != 1 or values.dtype.kind not in "iu" or not len(values) or (values < 0).any():
        got = f"{values.dtype} of shape {values.shape}" + (f", the least {values.min()}" if values.size else "")
        remedy = "Give the sum of every row and column."
        raise ValueError(message(argument, "be whole numbers of at least 0", got, remedy))
    return values.astype(np.int64)


def rectangular_loop(H, weights, num_steps, random_state=0, *, margins=None, acceptance="heat-bath"):
    """Run the weighted rectangular loop on a binary matrix with fixed margins.

    The steps are reversible for p(H) proportional to the product of the weights under the ones of H, over all binary
    matrices with the margins of H and no one where the weight is zero.

    Parameters
    ----------
    H : array-like or SciPy sparse matrix of shape (n_rows, n_columns), or None
        Zeros and ones, where the loop starts. None with `margins`.
    weights : array-like of shape (n_rows, n_columns)
        Finite and at least 0. The matrix stays 0 where the weight is 0.
    num_steps : int, at least 0
        Number of steps.
    random_state : int of at least 0 or None, default 0
        The seed. None is another one every time.
    margins : pair of array-like of int, optional
        Sums of the rows and of the columns. The loop starts at their `feasible_matrix`.
    acceptance : {"heat-bath", "metropolis"}, default "heat-bath"
        Probability of a swap: w' / (w + w') as published, or min(1, w' / w), which moves more often.

    Returns
    -------
    H : numpy.ndarray of shape (n_rows, n_columns)
        The matrix after the last step, int8.
    info : Info
        The shares of the steps that proposed a change (`proposal_rate`) and that made one (`acceptance_rate`).

    Raises
    ------
    TypeError
        If `num_steps` or `random_state` is not a whole number.
    ValueError
        If H has other entries than 0 and 1, or a one where the weight is 0; if weights have another shape, are negative
        or not finite; if both or none of H and margins are given; if no matrix has the margins; or if the acceptance is
        unknown.

    References
    ----------
    The Gibbs paper, Algorithm 1. Wang (2020). Fout, Fosdick and Koslovsky (2020). Chakraborty, Bhattacharya and Pati
    (2023).

    Examples
    --------
    >>> H, info = rectangular_loop(np.eye(3), np.ones((3, 3)), 100)
    >>> H.sum(0).tolist()
    [1, 1, 1]
    """
    if (H is None) == (margins is None):
        rule = "be given if and only if H is None"
        raise ValueError(message("margins", rule, margins, "Pass either a matrix, or sums of rows and columns."))
    if margins is not None:
        H = feasible_matrix(*margins, zeros=np.asarray(weights) == 0)
    H, log_weights = _check_input(H, weights)
    if random_state is not None:
        remedy = "Pass a whole number for repeatable results. Keys of JAX are not read."
        check_integer("random_state", random_state, minimum=0, remedy=remedy)
    num_steps = check_integer("num_steps", num_steps, minimum=0)
    if acceptance not in ("heat-bath", "metropolis"):
        remedy = "The two have the same target; 'metropolis' moves more often."
        raise ValueError(message("acceptance", "be 'heat-bath' or 'metropolis'", repr(acceptance), remedy))
    proposed, accepted = _run(H, log_weights, num_steps, random_state, acceptance == "metropolis")
    return H, Info(proposed / max(num_steps, 1), accepted / max(num_steps, 1))


def _run(H, log_weights, num_steps, random_state, metropolis):
    """Make the steps in place; returns the numbers of proposals and of changes."""
    from bayesfair._chance import seeded  # imported late: Numba takes a second
    from bayesfair.fairlets.loop_kernels import CLOSED, run

    closed = np.isneginf(log_weights)
    with_cycles = bool(closed.any())
    H[closed] = CLOSED
    s, length, made = seeded(random_state), max(1, CELLS // sum(H.shape)), []
    for done in range(0, num_steps, length):
        made.append(run(s, H, log_weights, min(length, num_steps - done), metropolis, with_cycles))
    H[closed] = 0
    return np.sum(made, axis=0).tolist() if made else (0, 0)


def check_binary(argument, H):
    """A dense or sparse matrix as an array of zeros and ones."""
    H = np.asarray(H.toarray() if hasattr(H, "toarray") else H)
    if H.ndim != 2 or 0 in H.shape or not np.isin(H, (0, 1)).all():
        rule, remedy = "be a matrix of zeros and ones", "Use the indicator of the cells."
        raise ValueError(message(argument, rule, f"{H.dtype} of shape {H.shape}", remedy))
    return H


def _check_input(H, weights):
    H, weights = check_binary("H", H), np.asarray(weights, dtype=float)
    if weights.shape != H.shape:
        remedy = "Give every cell its weight."
        raise ValueError(message("weights", f"have the shape of H, {H.shape}", weights.shape, remedy))
    bad = weights[~(np.isfinite(weights) & (weights >= 0))]
    if len(bad):
        remedy = "Use 0 for a cell that must stay 0."
        raise ValueError(message("weights", "be finite and at least 0", bad[0], remedy))
    if (H * (weights == 0)).any():
        row, column = np.argwhere(H * (weights == 0))[0]
        remedy = "Start from a matrix that the weights allow."
        raise ValueError(message("H", "be 0 wherever the weight is 0", f"a one in cell ({row}, {column})", remedy))
    with np.errstate(divide="ignore"):
        return np.array(H, np.int8, order="C"), np.log(np.ascontiguousarray(weights))

"""The weighted rectangular loop on binary matrices with fixed margins, structural zeros included.

G. Wang (2020, Electronic Journal of Statistics 14) for uniform weights; Fout, Fosdick and Koslovsky (2020) and
Chakraborty, Bhattacharya and Pati (2023, arXiv 2305.17557) for weights; Algorithm 1 of the Gibbs paper.

A step draws a cell (i1, j1). If H[i1, j1] = 1: j2 is drawn among the zeros of row i1, then i2 among the ones of column
j2. If it is 0: i2 is drawn among the *ones of column j1*, then j2 among the *zeros of row i2*. A checkerboard is
swapped with the heat-bath or Metropolis probability of w' / w. The proposal is symmetric: the four starting cells of a
checkerboard propose it with (1/z_i1 + 1/z_i2)(1/o_j1 + 1/o_j2) over the number of cells, with z the zeros of a row and
o the ones of a column, the same before and after.

Structural zeros (weight 0) can split the matrices into classes that 2 x 2 swaps do not connect, such as the two
derangements of three. With structural zeros half of the steps are *alternating cycles*: from a random row walk to a one
of the row, to an admissible zero of its column, and so on until the walk is back in its first row; a walk that meets a
row or column twice proposes nothing. A row has r_i ones and a column its admissible cells less c_j zeros, whatever the
matrix, so the reversed cycle is as probable as the cycle: symmetric again. Two matrices with the same margins differ by
such cycles, each of at most min(shape) rows, so every matrix can be reached.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from bayesfair._check import check_integer, listed, message
from bayesfair._jit import jit


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
        raise ValueError(_cut(graph, r, c, zeros))
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


def rectangular_loop(key, H, weights, num_steps, *, margins=None, acceptance="heat-bath"):
    """Run the weighted rectangular loop on a binary matrix with fixed margins.

    The steps are reversible for p(H) proportional to the product of the weights under the ones of H, over all binary
    matrices with the margins of H and no one where the weight is zero.

    Parameters
    ----------
    key : jax.Array
        A JAX random key.
    H : array-like or SciPy sparse matrix of shape (n_rows, n_columns), or None
        Zeros and ones, where the loop starts. None with `margins`.
    weights : array-like of shape (n_rows, n_columns)
        Finite and at least 0. The matrix stays 0 where the weight is 0.
    num_steps : int, at least 0
        Number of steps.
    margins : pair of array-like of int, optional
        Sums of the rows and of the columns. The loop starts at their `feasible_matrix`.
    acceptance : {"heat-bath", "metropolis"}, default "heat-bath"
        Probability of a swap: w' / (w + w') as published, or min(1, w' / w), which moves more often.

    Returns
    -------
    H : jax.Array of shape (n_rows, n_columns)
        The matrix after the last step, int8.
    info : Info
        The shares of the steps that proposed a change (`proposal_rate`) and that made one (`acceptance_rate`).

    Raises
    ------
    TypeError
        If `num_steps` is not a whole number.
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
    >>> H, info = rectangular_loop(jax.random.PRNGKey(0), np.eye(3), np.ones((3, 3)), 100)
    >>> np.asarray(H).sum(0).tolist()
    [1, 1, 1]
    """
    if (H is None) == (margins is None):
        rule = "be given if and only if H is None"
        raise ValueError(message("margins", rule, margins, "Pass either a matrix, or sums of rows and columns."))
    if margins is not None:
        H = feasible_matrix(*margins, zeros=np.asarray(weights) == 0)
    H, log_weights = _check_input(H, weights)
    num_steps = check_integer("num_steps", num_steps, minimum=0)
    if acceptance not in ("heat-bath", "metropolis"):
        remedy = "The two have the same target; 'metropolis' moves more often."
        raise ValueError(message("acceptance", "be 'heat-bath' or 'metropolis'", repr(acceptance), remedy))
    cycles = bool(np.isneginf(log_weights).any())
    H, proposed, accepted = _run(key, H, jnp.asarray(log_weights), num_steps, acceptance, cycles)
    return H, Info(float(proposed) / max(num_steps, 1), float(accepted) / max(num_steps, 1))


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
        return H.astype(np.int8), np.log(weights)


def pick(mask, uniform):
    """(index of a True entry, uniform over them, from a uniform number; is there one?)."""
    count = mask.sum()
    rank = jnp.minimum((uniform * count).astype(jnp.int32), count - 1)
    return jnp.argmax(jnp.cumsum(mask) > rank), count > 0


def rectangle(H, cell, uniforms):
    """The matrix with the checkerboard of (cell, two uniform numbers) swapped, or H if there is none."""
    i1, j1 = cell
    one = H[i1, j1] == 1
    j2_first, row_open = pick(H[i1] == 0, uniforms[0])
    i2_second, column_open = pick(H[:, j2_first] == 1, uniforms[1])
    i2_first, other_open = pick(H[:, j1] == 1, uniforms[0])
    j2_second, zeros_open = pick(H[i2_first] == 0, uniforms[1])
    i2, j2 = jnp.where(one, i2_second, i2_first), jnp.where(one, j2_first, j2_second)
    possible = jnp.where(one, row_open & column_open, other_open & zeros_open)
    diagonal, other = (H[i1, j1] == 1) & (H[i2, j2] == 1), (H[i1, j2] == 1) & (H[i2, j1] == 1)
    board = (diagonal & (H[i1, j2] == 0) & (H[i2, j1] == 0)) | (other & (H[i1, j1] == 0) & (H[i2, j2] == 0))
    rows, columns = jnp.stack([i1, i2, i1, i2]), jnp.stack([j1, j2, j2, j1])
    return jnp.where(possible & board, H.at[rows, columns].set(1 - H[rows, columns]), H)


def cycle(H, allowed, first_row, uniforms):
    """The matrix with the alternating cycle of (first row, uniforms (length, 2)) swapped, or H if there is none."""
    n_rows, n_columns = H.shape

    def step(walk, pair):
        new, row, rows_met, columns_met, state = walk  # state: 0 walking, 1 closed, 2 failed
        column, has_one = pick(H[row] == 1, pair[0])
        following, has_zero = pick((H[:, column] == 0) & allowed[:, column], pair[1])
        closed = following == first_row
        fails = ~has_one | ~has_zero | columns_met[column] | (rows_met[following] & ~closed)
        stepped = new.at[row, column].set(0).at[following, column].set(1)
        walking = state == 0
        state = jnp.where(walking, jnp.where(fails, 2, jnp.where(closed, 1, 0)), state)
        new = jnp.where(walking & ~fails, stepped, new)
        return (new, following, rows_met.at[following].set(True), columns_met.at[column].set(True), state), None

    met = jnp.zeros(n_rows, bool).at[first_row].set(True)
    start = H, jnp.asarray(first_row), met, jnp.zeros(n_columns, bool), jnp.asarray(0)
    (new, _, _, _, state), _ = jax.lax.scan(step, start, uniforms)
    return jnp.where(state == 1, new, H)


def log_acceptance(H, new, log_weights, acceptance):
    """Log probability of accepting a proposed matrix; -inf if it has a one on a structural zero."""
    gained, lost = (new == 1) & (H == 0), (new == 0) & (H == 1)
    log_ratio = jnp.where(gained, log_weights, 0.0).sum() - jnp.where(lost, log_weights, 0.0).sum()
    return jax.nn.log_sigmoid(log_ratio) if acceptance == "heat-bath" else jnp.minimum(log_ratio, 0.0)


@jit(static_argnames=("acceptance", "cycles"))
def _run(key, H, log_weights, num_steps, acceptance, cycles):
    n_rows, n_columns = H.shape
    allowed = log_weights > -jnp.inf

    def propose(key, H):
        key_kind, key_row, key_column, key_walk = jax.random.split(key, 4)
        row = jax.random.randint(key_row, (), 0, n_rows)
        column = jax.random.randint(key_column, (), 0, n_columns)
        uniforms = jax.random.uniform(key_walk, (min(n_rows, n_columns) if cycles else 1, 2))
        board = partial(rectangle, H, (row, column), uniforms[0])
        if not cycles:
            return board()
        return jax.lax.cond(jax.random.bernoulli(key_kind), board, lambda: cycle(H, allowed, row, uniforms))

    def step(t, carry):
        H, proposed, accepted = carry
        key_propose, key_accept = jax.random.split(jax.random.fold_in(key, t))
        new = propose(key_propose, H)
        changes = (new != H).any()
        log_chance = log_acceptance(H, new, log_weights, acceptance)
        taken = changes & (jnp.log(jax.random.uniform(key_accept)) < log_chance)
        return jnp.where(taken, new, H), proposed + changes, accepted + taken

    return jax.lax.fori_loop(0, num_steps, step, (jnp.asarray(H), 0, 0))

"""Decompositions from binary matrices."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._arrays import cell_masses
from bayesfair._check import check_same_length, check_same_rows, message, row_names
from bayesfair.fairlets.compositions import Capacities, anchor_group
from bayesfair.fairlets.decomposition import DecomposedRows, Decomposition, features_of
from bayesfair.fairlets.dissimilarity import Dissimilarity, resolve_dissimilarity
from bayesfair.fairlets.fixed_margins import check_binary
from bayesfair.fairness.groups import Groups, encode_groups


def from_matrices(
    matrices: Mapping,
    sensitive: ArrayLike | Groups | None = None,
    X: ArrayLike | None = None,
    *,
    dissimilarity: str | Dissimilarity = "kmeans",
    power: float = 1.0,
) -> Decomposition:
    """The decomposition that binary matrices describe, the inverse of `Decomposition.matrices`.

    Parameters
    ----------
    matrices : dict
        {group: matrix of zeros and ones of shape (fairlets, members)}, arrays or SciPy sparse matrices. Every member is
        in one fairlet.
    sensitive : array-like of shape (n_obs,) or (n_obs, n_attributes), or Groups, optional
        The groups of the rows. Members come in the order of the rows. By default the rows are the members of the first
        group, then those of the next.
    X : array-like of shape (n_obs, n_features), optional
        Features, for the cost. Without them the cost is NaN.
    dissimilarity : str or Dissimilarity, default "kmeans"
        What a member pays, see `decompose`.
    power : float, default 1.0
        Power of "minkowski".

    Returns
    -------
    Decomposition
        Fairlet i is row i of the matrices. Its cost is not proved optimal.

    Raises
    ------
    ValueError
        If a matrix has other entries, columns that do not sum to 1, or another number of fairlets; if a fairlet has no
        members; or if the groups or rows do not match the matrices.

    References
    ----------
    The Gibbs paper, section 3.1.

    Examples
    --------
    >>> found = from_matrices({"a": np.eye(2), "b": [[0, 1], [1, 0]]}, X=[[0.0], [5.0], [1.0], [6.0]])
    >>> found.fairlet.tolist(), found.cost
    ([0, 1, 1, 0], 52.0)
    """
    named = {str(name): _fairlets_of(str(name), matrix) for name, matrix in matrices.items()}
    if len({n_fairlets for _, n_fairlets in named.values()}) != 1:
        got = {name: n_fairlets for name, (_, n_fairlets) in named.items()}
        remedy = "Fairlets without a member of a group have a row of zeros."
        _refuse("have a row for each fairlet in every group", got, remedy)
    groups = _groups_of({name: len(own) for name, (own, _) in named.items()}, sensitive)
    fairlet = np.empty(len(groups.code), np.int32)
    for group, name in enumerate(groups.names):
        fairlet[groups.code == group] = named[name][0]
    composition = cell_masses(fairlet, groups.code, (named[groups.names[0]][1], len(named)))
    if not composition.any(1).all():
        _refuse("have no empty fairlet", f"one in row {int((~composition.any(1)).argmax())}", "Leave the row out.")
    anchored = anchor_group(Capacities(composition, composition)) is not None
    rows = DecomposedRows(groups, X, resolve_dissimilarity(dissimilarity, power), row_names(X))
    return _with_cost(Decomposition(fairlet, composition, np.nan, 0.0, anchored, rows), sensitive)


def _fairlets_of(name, matrix):
    """(the fairlet of every member, the number of fairlets)."""
    from scipy.sparse import csc_array, issparse

    H = csc_array(matrix if issparse(matrix) else check_binary("matrices", matrix))
    H.eliminate_zeros()
    held = np.diff(H.indptr)
    wrong = held != 1
    if (H.data != 1).any() or wrong.any():
        got = f"{held[wrong][0]} ones in column {int(wrong.argmax())}" if wrong.any() else "other entries"
        _refuse("have a single one in every column", f"{got} of {name!r}", "Every member is in one fairlet.")
    return H.indices, H.shape[0]


def _with_cost(found, sensitive):
    """The decomposition with its cost, if its features are known."""
    rows = found.rows
    if rows.X is None:
        return found
    if sensitive is not None:
        check_same_rows(sensitive=sensitive, X=rows.X)
    X = features_of(rows.X)
    check_same_length("X", len(X), "matrices", len(found.fairlet))
    rows.dissimilarity.check(X)
    return found._replace(cost=float(found.distances().sum()))


def _groups_of(sizes, sensitive):
    """`Groups` of the rows, which must have these sizes."""
    if sensitive is None:
        return Groups(np.repeat(np.arange(len(sizes), dtype=np.int32), list(sizes.values())), tuple(sizes))
    groups = encode_groups(sensitive, argument="sensitive")
    found = dict(zip(groups.names, groups.sizes.tolist()))
    if found != sizes:
        _refuse(f"have a column for each row of every group, {found}", sizes)
    return groups


def _refuse(rule, value, remedy="See Decomposition.matrices for their form."):
    raise ValueError(message("matrices", rule, value, remedy))

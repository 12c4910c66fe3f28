"""Undoing label switching: every draw gets the cluster numbers of one reference partition, the likeliest one or a given."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from bayesfair._arrays import cell_masses
from bayesfair._check import Refusal
from bayesfair._names import DataTree
from bayesfair._partitions import check_partition, tables_with
from bayesfair.posterior.draws import LabelDraws, as_labels, is_on_disk
from bayesfair.posterior.guarantees import balance_to_keep, everyone, masses_of
from bayesfair.posterior.point_estimates import dahl_partition, point_of, reference_partition
from bayesfair.posterior.schema import (
    check_rows_of,
    count_clusters,
    flat_labels,
    groups_of,
    other_than_run,
    variable,
)
from bayesfair.posterior.tables import binder_loss, count_labels
from bayesfair.posterior.view import View

HEAD = 1_000  # rows among which most clusters have one
ROUNDS = 10  # of the likeliest partition and the numbers of clusters, each by the other


def relabel(tree: "DataTree", reference: ArrayLike | None = None) -> "DataTree":
    """Number the clusters of all draws alike: cluster k overlaps most with cluster k of a reference.

    The overlap of all clusters together is the largest that a one-to-one assignment allows. Every posterior variable with a
    dimension `cluster` follows. Partitions do not change, nor does the state of the sampler.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).
    reference : array-like of int of shape (n_obs,), optional
        A partition, which becomes that of the new tree. By default `reference_partition(tree)`.

    Returns
    -------
    xarray.DataTree
        A new tree. It does not depend on the numbers that clusters had before. Labels on disk stay there and are renumbered
        as they are read.

    Notes
    -----
    The Hungarian algorithm solves the assignment on the contingency table.

    Examples
    --------
    >>> import bayesfair as bf
    >>> tree = bf.posterior.tree_from_labels([[0, 0, 1, 1], [1, 1, 0, 0]], [[0.0], [0.1], [1.0], [1.1]])
    >>> bf.posterior.relabel(tree, [1, 1, 0, 0])["posterior"]["labels"].values[0].tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0]]
    """
    import xarray as xr

    labels = flat_labels(tree)
    check_rows_of(tree, reference=reference)
    point = point_of(tree) if reference is None else "given"
    reference = (
        reference_partition(tree) if reference is None else check_partition("reference", reference, labels.shape[1])
    )
    n_clusters = max(count_clusters(tree), int(reference.max()) + 1)
    permutations = align(labels, reference, n_clusters)
    tree = View.of(tree).tree
    posterior, relabelled = with_numbers(tree["posterior"].to_dataset(), permutations), tree.copy()
    relabelled["posterior"] = type(tree)(posterior, children=relabelled["posterior"].children)
    constant = tree["constant_data"].to_dataset() if "constant_data" in tree.children else xr.Dataset()
    named = xr.DataArray(reference.astype(permutations.dtype), dims="obs", attrs={"point": point})
    relabelled["constant_data"] = type(tree)(constant.assign(reference_labels=named))
    if "modes" in tree.children:
        relabelled["modes"] = type(tree)(number_modes(tree["modes"].to_dataset(), reference, n_clusters))
    return relabelled


def about(tree: "DataTree", reference) -> "DataTree":
    """The tree itself if `reference` is None, else the tree relabelled to that partition, which becomes its reference."""
    return tree if reference is None else relabel(tree, reference)


def numbered_alike(tree: "DataTree") -> "DataTree":
    """The tree itself if all draws have its reference's cluster numbers, else `relabel(tree)`: joined runs do not agree."""
    labels, known = flat_labels(tree), variable(tree, "constant_data", "reference_labels")
    if known is None or "chain" in other_than_run(tree):
        return relabel(tree)
    of_draws = dahl_partition(tree) if point_of(tree) == "mode" else known.values  # a mode is made of such draws
    n_clusters = max(count_clusters(tree), int(known.max()) + 1)
    numbers, used = align(labels, of_draws, n_clusters), masses_of(tree).any(2)
    moved = numbers[:, : used.shape[1]] != np.arange(used.shape[1])
    return relabel(tree) if (moved & used).any() else tree


def align(labels, reference, n_clusters):
    """Permutations (draws, n_clusters) of each draw's numbers to those of `reference`; ties by first appearance."""
    tables = tables_with(labels, reference, n_clusters, n_clusters)
    kind = np.promote_types(labels.dtype, np.min_scalar_type(-n_clusters))
    permutations = np.empty((len(labels), n_clusters), dtype=kind)
    for permutation, draw, table in zip(permutations, labels, tables):
        order = np.argsort(_first_appearance(draw, n_clusters), kind="stable")
        permutation[order] = linear_sum_assignment(table.T[order], maximize=True)[1]
    return permutations


def apply_permutations(permutations, labels):
    """`labels` (draws, obs) renumbered by `permutations` (draws, n_clusters), in a new array of their type."""
    moved = np.empty(labels.shape, permutations.dtype)
    for to, permutation, draw in zip(moved, permutations, labels):
        to[:] = permutation[draw]
    return moved


def with_numbers(posterior, permutations):
    """The Dataset `posterior` with labels and variables of clusters renumbered by `permutations` (draws, n_clusters)."""
    of_clusters = {name: v for name, v in posterior.data_vars.items() if {"chain", "draw", "cluster"} <= set(v.dims)}
    moved = {name: _move_clusters(values, permutations) for name, values in of_clusters.items()}
    return posterior.assign({**moved, "labels": renumber(posterior["labels"], permutations)})


def renumber(labels, permutations):
    """Labels (chain, draw, obs) with `permutations` (chains * draws, n_clusters), as an xarray.Variable; on disk, when read."""
    import xarray as xr

    dims = "chain", "draw", "obs"
    if not is_on_disk(labels):
        return xr.Variable(dims, apply_permutations(permutations, LabelDraws(labels)).reshape(labels.shape))
    from bayesfair.posterior.labels_on_disk import renumbered  # loads xarray

    return xr.Variable(dims, renumbered(labels, permutations))


def number_modes(modes, reference, n_clusters):
    """Modes, best first, with `labels` renumbered: the best as in `reference` (obs,), the others as in the best."""
    labels = modes["labels"].values.astype(np.min_scalar_type(-n_clusters))
    best = apply_permutations(align(labels[:1], reference, n_clusters), labels[:1])[0]
    return modes.assign(labels=(("mode", "obs"), apply_permutations(align(labels, best, n_clusters), labels)))


def order_by_size(partition, n_clusters):
    """The same partition with clusters numbered from the largest to the smallest, ties by first appearance."""
    sizes = np.bincount(partition, minlength=n_clusters)
    order = np.lexsort((_first_appearance(partition, n_clusters), -sizes))
    return np.argsort(order)[partition]


def _first_appearance(draw, n_clusters):
    """The first row of each cluster; as many as there are rows for an empty one."""
    for part in (draw[:HEAD], draw):
        first = np.full(n_clusters, len(draw))
        first[part[::-1]] = np.arange(len(part))[
            ::-1
        ]  # for repeated positions the last assignment, the first row, stays
        if first.max() < len(draw):
            break
    return first


def _move_clusters(values, permutations):
    """`values` with the entry of old cluster k at its new number, permutations[draw, k]."""
    front = values.transpose("chain", "draw", "cluster", ...)
    if front.sizes["cluster"] != permutations.shape[1]:
        raise ValueError(
            Refusal(
                f"`reference` has more clusters than {values.name!r} has entries along `cluster`. "
                "Use a reference among the draws."
            )
        )
    source = np.argsort(permutations, axis=1).reshape(front.shape[:3] + (1,) * (front.ndim - 3))
    return front.copy(data=np.take_along_axis(front.values, source, axis=2)).transpose(*values.dims)


def likeliest(tree, reference, n_clusters):
    """(labels (obs,), permutations (draws, n_clusters)); None if `reference` (obs,) has the smaller expected loss.

    Every row gets its most frequent label. If that breaks the guarantee, clusters get the nearest counts that keep it, and a
    transport finds the likeliest labels with these. (The mean counts of draws would move four to twenty times as many rows.)
    """
    flat, constraint = flat_labels(tree), balance_to_keep(tree)
    code = None if constraint is None else (groups_of(tree) or everyone(tree)).code
    permutations = align(flat, reference, n_clusters)
    for _ in range(ROUNDS):
        renumbered = LabelDraws(renumber(tree["posterior"]["labels"], permutations))
        counts = count_labels(renumbered, n_clusters)
        labels = most_frequent(renumbered, counts)
        if constraint is not None:
            labels = _placed(labels, counts, code, constraint)
        before, permutations = permutations, align(flat, labels, n_clusters)
        if (permutations == before).all():
            break
    worse = binder_loss(flat, labels, n_clusters) > binder_loss(flat, reference, n_clusters)
    return None if worse else (labels, permutations)


def most_frequent(flat, counts):
    """Every row's most frequent label (obs,), by `counts` of the draws; a cluster that every draw uses keeps a row."""
    used = np.all([np.bincount(draw, minlength=len(counts)) > 0 for draw in as_labels(flat)], axis=0)
    labels, always = counts.argmax(axis=0), np.flatnonzero(used)
    if not np.isin(always, labels).all():
        member, row = linear_sum_assignment(counts.max(axis=0) - counts[always])
        labels[row] = always[member]
    return labels.astype(flat.dtype)


def _placed(labels, counts, code, constraint):
    """The labels (obs,) if they keep the guarantee; else those of a transport by `counts` (clusters, obs) of the draws."""
    held = cell_masses(labels, code, (len(counts), code.max() + 1))
    if constraint.satisfied(held[held.any(1)]).all():
        return labels
    from bayesfair.balanced.placement import cheapest_near  # loads Numba

    return cheapest_near(held, -counts.T, code, constraint, np.zeros(held.T.shape))

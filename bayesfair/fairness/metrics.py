"""Every fairness measure, defined once on the masses of the groups in the clusters.

The base table is `group_masses`: entry (k, j) counts the members of group j in cluster k, or sums their soft
assignments. The `cluster_*` functions map masses (..., K, J) to one value per cluster (..., K), for any leading axes
(chains, draws); the measure of a whole clustering is their minimum, maximum or sum over clusters.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from bayesfair._arrays import cell_masses, namespace
from bayesfair._check import check_in_memory, check_same_length, check_same_rows, check_weights, message
from bayesfair.fairness.groups import Groups, encode_groups, target_proportions
from bayesfair.fairness.values import encode_values

_ROW_SUM_TOLERANCE = 1e-5  # a float32 softmax over a thousand clusters stays within it


def balance(
    labels_or_soft: ArrayLike, sensitive: ArrayLike | Groups, *, sample_weight: ArrayLike | None = None
) -> float:
    """The smallest ratio of two groups' sizes within a cluster.

    The minimum is over clusters and over pairs of groups. A cluster that lacks a group gives 0. Empty clusters do not
    count. If there is only one group, balance is 1.

    Parameters
    ----------
    labels_or_soft : array-like of shape (n_obs,) or (n_obs, n_clusters)
        The cluster of every row, or soft assignments whose rows sum to 1.
    sensitive : array-like of shape (n_obs,) or (n_obs, n_attributes), or Groups
        The groups of the rows, see `encode_groups`. `Groups` that cross attributes give the least balanced attribute.
    sample_weight : array-like of shape (n_obs,), optional
        How many rows each one stands for. By default one.

    Returns
    -------
    float
        In [0, 1]. Larger is fairer.

    Raises
    ------
    ValueError
        If lengths or row indexes differ, a label is missing, or soft assignments are negative, not finite or do not
        sum to 1.

    References
    ----------
    FMC, eq. (3). VFC, eq. (1), for more than two groups.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.fairness.balance([0, 0, 0, 1, 1], ["F", "M", "M", "F", "M"])
    0.5
    """
    groups = encode_groups(sensitive, argument="sensitive")
    masses = group_masses(labels_or_soft, sensitive, sample_weight=sample_weight)
    return float(np.nanmin(cluster_balance(masses, groups)))


def gap(labels_or_soft: ArrayLike, sensitive: ArrayLike | Groups, *, sample_weight: ArrayLike | None = None) -> float:
    """The largest difference between groups in the share of their rows that a cluster holds.

    For more than two groups the differences are averaged over the pairs of groups.

    Parameters
    ----------
    labels_or_soft : array-like of shape (n_obs,) or (n_obs, n_clusters)
        The cluster of every row, or soft assignments whose rows sum to 1.
    sensitive : array-like of shape (n_obs,) or (n_obs, n_attributes), or Groups
        The groups of the rows, see `encode_groups`.
    sample_weight : array-like of shape (n_obs,), optional
        How many rows each one stands for. By default one.

    Returns
    -------
    float
        In [0, 1]. Smaller is fairer; 0 is fair.

    Raises
    ------
    ValueError
        If lengths or row indexes differ, a label is missing, soft assignments do not sum to 1, or a group has no
        weight.

    References
    ----------
    Delta of FMC: eq. (4) for labels, eq. (6) for soft assignments, eq. (14) for more than two groups, read as the mean
    over the J (J - 1) / 2 unordered pairs. Over ordered pairs it would be twice eq. (6) for two groups.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.fairness.gap([0, 0, 0, 1, 1], ["F", "M", "M", "F", "M"])
    0.1666...
    """
    return float(_gaps(labels_or_soft, sensitive, sample_weight).max())


def additive_gap(
    labels_or_soft: ArrayLike, sensitive: ArrayLike | Groups, *, sample_weight: ArrayLike | None = None
) -> float:
    """The sum over clusters of the differences whose maximum is `gap`.

    Parameters
    ----------
    labels_or_soft : array-like of shape (n_obs,) or (n_obs, n_clusters)
        The cluster of every row, or soft assignments whose rows sum to 1.
    sensitive : array-like of shape (n_obs,) or (n_obs, n_attributes), or Groups
        The groups of the rows, see `encode_groups`.
    sample_weight : array-like of shape (n_obs,), optional
        How many rows each one stands for. By default one.

    Returns
    -------
    float
        In [0, 2]. Smaller is fairer; 0 is fair.

    Raises
    ------
    ValueError
        As `gap`.

    Notes
    -----
    FMC bounds the distance of balance from the best balance by this number. The bound fails for a small cluster that
    lacks a group: its balance is 0 and its share is negligible.

    References
    ----------
    FMC, eq. (5), after Kim et al. (2025).

    Examples
    --------
    >>> import bayesfair as bf
    >>> round(bf.fairness.additive_gap([0, 0, 0, 1, 1], ["F", "M", "M", "F", "M"]), 4)
    0.3333
    """
    return float(_gaps(labels_or_soft, sensitive, sample_weight).sum())


def _gaps(labels_or_soft, sensitive, sample_weight):
    """`cluster_gap` of every cluster; raises a ValueError if a group has no weight, and so no shares."""
    groups = encode_groups(sensitive, argument="sensitive")
    masses = group_masses(labels_or_soft, sensitive, sample_weight=sample_weight)
    without = [name for name, mass in zip(groups.names, masses.sum(0)) if mass == 0]
    if without:
        remedy = "Leave its rows out."
        raise ValueError(message("sample_weight", "give every group some weight", f"none of {without[0]!r}", remedy))
    return cluster_gap(masses)


def kl_error(
    labels_or_soft: ArrayLike,
    sensitive: ArrayLike | Groups,
    target: Mapping | ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """The Kullback-Leibler divergence from the target proportions, summed over clusters.

    It is 0 if every cluster has the target proportions, and infinite if a cluster lacks a group that the target asks
    for. Empty clusters add nothing.

    Parameters
    ----------
    labels_or_soft : array-like of shape (n_obs,) or (n_obs, n_clusters)
        The cluster of every row, or soft assignments whose rows sum to 1.
    sensitive : array-like of shape (n_obs,) or (n_obs, n_attributes), or Groups
        The groups of the rows, see `encode_groups`.
    target : dict or array-like of shape (n_groups,), optional
        The wanted proportions: {name: proportion}, or in the order of the groups' names. By default those of the data.
    sample_weight : array-like of shape (n_obs,), optional
        How many rows each one stands for. By default one.

    Returns
    -------
    float
        At least 0, in nats. Smaller is fairer.

    Raises
    ------
    ValueError
        If lengths or row indexes differ, or the target does not name every group, has a negative entry or does not sum
        to 1.

    References
    ----------
    VFC, eq. (2) and (3): the sum over k of KL(U || P_k), U being the target.

    Examples
    --------
    >>> import bayesfair as bf
    >>> round(bf.fairness.kl_error([0, 0, 1, 1], ["F", "M", "F", "M"]), 6)
    0.0
    """
    check_same_rows(sensitive=sensitive, labels=labels_or_soft, sample_weight=sample_weight)
    groups = encode_groups(sensitive, argument="sensitive")
    masses = group_masses(labels_or_soft, groups, sample_weight=sample_weight)
    target = check_target(target, groups, None if sample_weight is None else masses.sum(0))
    return float(cluster_kl(masses, target).sum())


def group_masses(
    labels_or_soft: ArrayLike, sensitive: ArrayLike | Groups, *, sample_weight: ArrayLike | None = None
) -> np.ndarray:
    """How much of each group each cluster holds, float (K, J): counts for labels, sums for soft assignments.

    Clusters are the distinct labels in sorted order, or the columns of an (N, K) array whose rows sum to one.
    """
    check_same_rows(sensitive=sensitive, labels=labels_or_soft, sample_weight=sample_weight)
    groups = encode_groups(sensitive, argument="sensitive")
    assignment, levels = encode_assignment(labels_or_soft)
    check_same_length("labels", len(assignment), "sensitive", len(groups.code))
    weight = None if sample_weight is None else check_weights(sample_weight, len(groups.code), sensitive=sensitive)
    if assignment.ndim == 2:
        held = assignment if weight is None else assignment * weight[:, None]
        return np.stack([held[groups.code == j].sum(axis=0) for j in range(len(groups.names))], axis=1)
    return cell_masses(assignment, groups.code, (len(levels), len(groups.names)), weight).astype(np.float64)


def cluster_balance(masses: np.ndarray, groups: Groups | None = None) -> np.ndarray:
    """The smallest over the largest group of each cluster.

    Parameters
    ----------
    masses : numpy.ndarray of shape (..., n_clusters, n_groups)
        Rows, or their weights, of each group in each cluster.
    groups : Groups, optional
        The groups of the masses. If they cross attributes, the least balanced attribute counts.

    Returns
    -------
    numpy.ndarray of shape (..., n_clusters)
        In [0, 1]. NaN for an empty cluster.

    References
    ----------
    FMC, eq. (3).
    """
    return np.min([_balances(held) for held in masses_of_attributes(masses, groups)], axis=0)


def _balances(masses):
    smallest, largest = masses.min(axis=-1), masses.max(axis=-1)
    return np.divide(smallest, largest, out=np.full(largest.shape, np.nan), where=largest > 0)


def rows_off(masses: np.ndarray) -> np.ndarray:
    """|n_gk - (N_g / N) n_k| (..., K, J); below 1 everywhere if a clustering is as balanced as whole rows can be."""
    share = masses.sum(axis=-2, keepdims=True) / masses.sum((-2, -1), keepdims=True)
    return np.abs(masses - masses.sum(axis=-1, keepdims=True) * share)


def masses_of_attributes(masses, groups: Groups | None):
    """The masses (..., K, J) summed over the groups of every attribute, as a list; themselves if there are no attributes."""
    if groups is None or not groups.attributes:
        return [masses]
    return [_summed(masses, part) for part in groups.attributes]


def _summed(masses, part):
    """Masses (..., K, J) of crossed groups, summed over those that share a value of one attribute."""
    return masses @ (part.code[:, None] == np.arange(len(part.names)))


def looked_at(masses, groups: Groups) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """{name: (its groups, their masses)} of every attribute by itself and, last, of their combinations (or the one, "")."""
    each = {part.column: (part.names, _summed(masses, part)) for part in groups.parts}
    return each | {" x ".join(each): (groups.names, masses)}


def off_by_attribute(masses, groups: Groups) -> dict[str, np.ndarray]:
    """The most rows (..., K) by which a count differs from its share, as `looked_at`; empty for one attribute."""
    if not groups.parts:
        return {}
    return {name: rows_off(held).max(-1) for name, (_, held) in looked_at(masses, groups).items()}


def cluster_gap(masses: np.ndarray) -> np.ndarray:
    """The mean over pairs of groups of the difference in the share of the group that each cluster holds.

    Parameters
    ----------
    masses : numpy.ndarray of shape (..., n_clusters, n_groups)
        Rows, or their weights, of each group in each cluster.

    Returns
    -------
    numpy.ndarray of shape (..., n_clusters)
        In [0, 1].

    References
    ----------
    FMC, eq. (14).
    """
    return gaps_of_shares(masses / masses.sum(axis=-2, keepdims=True))


def gaps_of_shares(share, corner=0.0):
    """`cluster_gap` of the shares (..., K, J) of the groups that the clusters hold, in NumPy and JAX alike.

    corner: if not 0, |x| becomes sqrt(x^2 + corner), which has a gradient everywhere.
    """
    first, second = np.triu_indices(share.shape[-1], k=1)
    xp = namespace(share)
    if len(first) == 0:
        return xp.zeros(share.shape[:-1], share.dtype)
    difference = share[..., first] - share[..., second]
    return xp.sqrt(xp.square(difference) + corner).mean(-1)


def cluster_kl(masses: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The Kullback-Leibler divergence from the target to the proportions of each cluster.

    Parameters
    ----------
    masses : numpy.ndarray of shape (..., n_clusters, n_groups)
        Rows, or their weights, of each group in each cluster.
    target : numpy.ndarray of shape (n_groups,)
        The wanted proportions.

    Returns
    -------
    numpy.ndarray of shape (..., n_clusters)
        In nats. 0 for an empty cluster.

    References
    ----------
    VFC, eq. (2).
    """
    size = masses.sum(axis=-1, keepdims=True)
    proportion = np.divide(masses, size, out=np.broadcast_to(target, masses.shape).copy(), where=size > 0)
    return rel_entr(target, proportion).sum(axis=-1)


def encode_assignment(labels_or_soft):
    """Cluster codes (N,) and the K labels in sorted order; or soft assignments (N, K) as float64 and 0 to K - 1."""
    check_in_memory("labels", labels_or_soft)
    array = np.asarray(labels_or_soft)
    if array.ndim == 2:
        return _check_soft(array), list(range(array.shape[1]))
    if array.ndim != 1:
        rule = "be one label per row, or soft assignments (N, K)"
        raise ValueError(message("labels", rule, f"{array.ndim} dimensions", "Pass est.labels_ or predict_proba(X)."))
    return encode_values(array, "labels")


def check_target(target, groups, masses=None, *, argument="target"):
    """`target` as J proportions that sum to one, (J,), in the order of the groups; None: shares of their `masses` or sizes."""
    if target is None:
        return target_proportions(groups) if masses is None else masses / masses.sum()
    if isinstance(target, Mapping):
        target = _by_name(target, groups.names, argument)
    check_in_memory(argument, target)
    proportions = np.asarray(target, dtype=np.float64)
    rule = f"hold one proportion for each of the groups {groups.names}, at least 0 and summing to 1"
    remedy = "Pass {name: proportion}, or None for the proportions of the data."
    if proportions.shape != (len(groups.names),):
        raise ValueError(message(argument, rule, f"shape {proportions.shape}", remedy))
    if not (proportions >= 0).all() or abs(proportions.sum() - 1) > _ROW_SUM_TOLERANCE:
        raise ValueError(message(argument, rule, proportions.tolist(), remedy))
    return proportions


def _by_name(target, names, argument):
    if set(target) != set(names):
        rule, remedy = f"name exactly the groups {names}", "See encode_groups(sensitive).names."
        raise ValueError(message(argument, rule, tuple(target), remedy))
    return [target[name] for name in names]


def _check_soft(array):
    rule = "be soft assignments (N, K): rows of finite shares, none negative, summing to 1"
    try:
        soft = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        got = f"entries that are not numbers ({error})"
        raise TypeError(message("labels", rule, got, "Normalise each row.")) from error
    if 0 in soft.shape:
        raise ValueError(message("labels", rule, f"shape {soft.shape}", "Check the filter that made it."))
    wrong = ~(soft >= 0).all(axis=1) | ~(np.abs(soft.sum(axis=1) - 1) <= _ROW_SUM_TOLERANCE)
    if wrong.any():
        row = int(np.argmax(wrong))
        got = f"a row {row} that sums to {soft[row].sum():.6g} with smallest entry {soft[row].min():.6g}"
        raise ValueError(message("labels", rule, got, "Normalise each row."))
    return soft

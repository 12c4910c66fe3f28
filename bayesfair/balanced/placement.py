"""Place rows in given clusters, all together, so that every cluster is balanced, given the cost of each place."""

from dataclasses import dataclass

import numpy as np

from bayesfair._arrays import cell_masses
from bayesfair._interrupts import heard
from bayesfair.balanced.annealing import AnnealedRows, Multipliers, balanced_moments
from bayesfair.balanced.transport import assign
from bayesfair.fairness.balanced import BalanceConstraint, least_room

SMALL = 4_000  # rows times clusters
NODES = 2_000  # limit of the branch and bound
UNFAIR = 1e-4  # error of the duals' counts, relative to an average cluster
STEPS, RATE = 24, 2.0  # number and ratio of temperatures, from the spread of the costs down


def balanced_placement(cost, code, constraint: BalanceConstraint):
    """Labels (N,) whose clusters are balanced, of nearly the least sum of cost[i, label_i]; `cost` (N, K), `code` groups (N,).

    Up to SMALL places in all it is an integer programme for HiGHS (`scipy.optimize.milp`), whose answer is within 0.1% of the
    best. Beyond, where single rows are a small part of a cluster, the programme with soft labels is solved by its duals, as
    in `annealing`, at a falling temperature; its counts of every group in every cluster are rounded to whole rows
    (`nearest_counts`), and the labels are the cheapest of those with these counts. A cluster may stay empty.
    """
    if cost.size <= SMALL:
        labels = _programme(cost, code, constraint)
        if labels is not None:
            return labels
    return _by_duals(cost, code, constraint)


def _programme(cost, code, constraint):
    """The labels found by an integer programme, or None if it found no balanced ones."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array, eye_array, kron

    n_obs, n_clusters = cost.shape
    A, b = constraint.rows()
    one_each = kron(eye_array(n_obs), csr_array(np.ones((1, n_clusters))), format="csr")
    held = csr_array((np.ones(n_obs), (code, np.arange(n_obs))), shape=(A.shape[1], n_obs))
    balanced = kron(csr_array(csr_array(A) @ held), eye_array(n_clusters), format="csr")
    found = heard(
        milp,
        cost.ravel(),
        integrality=np.ones(cost.size),
        bounds=Bounds(0, 1),
        constraints=[LinearConstraint(one_each, 1, 1), LinearConstraint(balanced, -np.inf, np.repeat(b, n_clusters))],
        options={"node_limit": NODES, "mip_rel_gap": 0.001},
    )
    if found.x is None:
        return None
    labels = found.x.reshape(cost.shape).argmax(1)
    counts = cell_masses(labels, code, (n_clusters, A.shape[1]))
    return labels if constraint.satisfied(counts[counts.any(1)]).all() else None


def _by_duals(cost, code, constraint):
    cost = cost - cost.min(1, keepdims=True)
    counts, duals = _soft(cost, code, constraint)
    return cheapest_near(counts, cost, code, constraint, duals)


def cheapest_near(counts, cost, code, constraint, duals):
    """The cheapest labels (N,) whose whole counts are nearest to `counts` (K, J); `duals` (J, K) are approximate."""
    sizes = np.bincount(code, minlength=counts.shape[1])
    used = np.sort(np.argsort(-counts.sum(1), kind="stable")[: max(1, min(len(cost), (counts.sum(1) >= 0.5).sum()))])
    share = counts[used].sum(1) / counts[used].sum()
    wanted = counts[used] if len(used) == len(counts) else share[:, None] * sizes
    _, whole = least_room(constraint, sizes, wanted)
    labels = np.empty(len(cost), int)
    for group in range(len(sizes)):
        rows = np.flatnonzero(code == group)
        labels[rows] = used[assign(cost[np.ix_(rows, used)], whole[:, group], duals[group, used])[0]]
    return labels


@dataclass(frozen=True)
class _Costs:
    """A loss for `annealing`, with rows of costs in every cluster and unit vectors as "centres"."""

    def soft(self, centers):
        return np.zeros(centers.shape[:-1]), centers, False


def _soft(cost, code, constraint):
    """Expected counts (K, J) of the cheapest balanced soft labels, and the duals of the groups (J, K)."""
    multipliers, n_clusters = Multipliers.of(constraint), cost.shape[1]
    rows = AnnealedRows(cost, code, multipliers.A.shape[1], np.ones(len(cost)))
    temperature = max(cost.mean(), np.finfo(np.float32).tiny)
    mu = np.zeros((1, len(multipliers.A), n_clusters))
    for _ in range(STEPS):
        mu, found = balanced_moments(_Costs(), rows, multipliers, np.eye(n_clusters)[None], mu, temperature, UNFAIR)
        temperature, mu = temperature / RATE, mu * RATE
    return found.counts[0].T, multipliers.alpha(mu)[0] * temperature

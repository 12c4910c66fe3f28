"""Groups of observations and the fairness of a clustering, each measure defined once."""

from bayesfair.fairness.balanced import (
    AtLeastBalanced,
    BalanceConstraint,
    WithinOnePerson,
    balance_constraint,
    nearest_counts,
)
from bayesfair.fairness.groups import (
    Groups,
    cross_attributes,
    encode_groups,
    groups_for_fit,
    known_groups,
    merge_small_groups,
    target_proportions,
)
from bayesfair.fairness.metrics import (
    additive_gap,
    balance,
    check_target,
    cluster_balance,
    cluster_gap,
    cluster_kl,
    gap,
    gaps_of_shares,
    group_masses,
    kl_error,
    masses_of_attributes,
    persons_off,
)
from bayesfair.fairness.per_cluster import report

__all__ = [
    "AtLeastBalanced",
    "BalanceConstraint",
    "Groups",
    "WithinOnePerson",
    "additive_gap",
    "balance",
    "balance_constraint",
    "check_target",
    "cluster_balance",
    "cluster_gap",
    "cluster_kl",
    "cross_attributes",
    "encode_groups",
    "gap",
    "gaps_of_shares",
    "group_masses",
    "groups_for_fit",
    "kl_error",
    "known_groups",
    "masses_of_attributes",
    "merge_small_groups",
    "nearest_counts",
    "persons_off",
    "report",
    "target_proportions",
]

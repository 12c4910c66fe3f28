"""Groups of observations and the fairness of a clustering, each measure defined once."""

from bayesfair.fairness.groups import (
    Groups,
    encode_groups,
    groups_for_fit,
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
)
from bayesfair.fairness.report import report

__all__ = [
    "Groups",
    "additive_gap",
    "balance",
    "check_target",
    "cluster_balance",
    "cluster_gap",
    "cluster_kl",
    "encode_groups",
    "gap",
    "gaps_of_shares",
    "group_masses",
    "groups_for_fit",
    "kl_error",
    "merge_small_groups",
    "report",
    "target_proportions",
]

"""Groups of rows and the fairness of a clustering, with each measure defined once."""

from bayesfair.fairness.distances import distance_report
from bayesfair.fairness.groups import Groups, cross_attributes, encode_groups, merge_small_groups
from bayesfair.fairness.metrics import additive_gap, balance, gap, kl_error
from bayesfair.fairness.per_cluster import report

__all__ = [
    "Groups",
    "additive_gap",
    "balance",
    "cross_attributes",
    "distance_report",
    "encode_groups",
    "gap",
    "kl_error",
    "merge_small_groups",
    "report",
]

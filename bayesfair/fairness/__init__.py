"""Groups of observations and the fairness of a clustering, each measure defined once."""

from bayesfair.fairness.groups import Groups, encode_groups, target_proportions

__all__ = ["Groups", "encode_groups", "target_proportions"]

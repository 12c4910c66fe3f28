"""Fairlets: compositions, optimal decomposition, and the rectangular loop on matrices with fixed margins."""

from bayesfair.fairlets.compositions import (
    Capacities,
    anchor_group,
    capacities,
    rule_of_small_groups,
    singleton_capacities,
)
from bayesfair.fairlets.decomposition import Decomposition, decompose, describe_gap
from bayesfair.fairlets.dissimilarity import Bregman, Dissimilarity, Minkowski, Weighted, resolve_dissimilarity
from bayesfair.fairlets.fixed_margins import rectangular_loop
from bayesfair.fairlets.members import fairlet_centers, member_table

__all__ = [
    "Bregman",
    "Capacities",
    "Decomposition",
    "Dissimilarity",
    "Minkowski",
    "Weighted",
    "anchor_group",
    "capacities",
    "decompose",
    "describe_gap",
    "fairlet_centers",
    "member_table",
    "rectangular_loop",
    "resolve_dissimilarity",
    "rule_of_small_groups",
    "singleton_capacities",
]

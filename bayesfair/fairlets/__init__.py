"""Fairlets: compositions, optimal decomposition, and the rectangular loop on matrices with fixed margins."""

from bayesfair.fairlets.capacities import Capacities, anchor_group, capacities, singleton_capacities
from bayesfair.fairlets.dissimilarity import Dissimilarity, resolve_dissimilarity

__all__ = [
    "Capacities",
    "Dissimilarity",
    "anchor_group",
    "capacities",
    "resolve_dissimilarity",
    "singleton_capacities",
]

"""The cheapest balanced labels: annealing with the groups' duals, exact transport, descent. No sampler is in here."""

from bayesfair.balanced.centroids import CENTROIDS, Centroids, medians, resolve_centroids
from bayesfair.balanced.labels import Cheapest, balanced_labels, cheapest_labels, cooled_labels
from bayesfair.balanced.placement import balanced_placement
from bayesfair.balanced.problem import BalancedProblem

__all__ = [
    "CENTROIDS",
    "BalancedProblem",
    "Centroids",
    "Cheapest",
    "balanced_labels",
    "balanced_placement",
    "cheapest_labels",
    "cooled_labels",
    "medians",
    "resolve_centroids",
]

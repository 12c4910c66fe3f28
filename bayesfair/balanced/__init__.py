"""The cheapest balanced labels: annealing with the groups' duals, exact transport, descent; no sampler."""

from bayesfair.balanced.centroids import Centroids
from bayesfair.balanced.labels import Cheapest, balanced_labels, cheapest_labels
from bayesfair.balanced.problem import BalancedProblem

__all__ = ["BalancedProblem", "Centroids", "Cheapest", "balanced_labels", "cheapest_labels"]

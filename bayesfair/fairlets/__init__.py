"""Fairlets: compositions, optimal decomposition, and the rectangular loop on matrices with fixed margins."""

from bayesfair.fairlets.decomposition import Decomposition, decompose
from bayesfair.fairlets.dissimilarity import Dissimilarity, Minkowski
from bayesfair.fairlets.fixed_margins import feasible_matrix, rectangular_loop
from bayesfair.fairlets.matrices import from_matrices
from bayesfair.fairlets.members import fairlet_centers

__all__ = [
    "Decomposition",
    "Dissimilarity",
    "Minkowski",
    "decompose",
    "fairlet_centers",
    "feasible_matrix",
    "from_matrices",
    "rectangular_loop",
]

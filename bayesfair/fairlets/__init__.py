"""Fairlets: compositions, optimal decomposition, and the rectangular loop on matrices with fixed margins."""

from bayesfair.fairlets.decomposition import Decomposition, decompose
from bayesfair.fairlets.dissimilarity import Bregman, Dissimilarity, Minkowski
from bayesfair.fairlets.fixed_margins import rectangular_loop
from bayesfair.fairlets.members import fairlet_centers

__all__ = ["Bregman", "Decomposition", "Dissimilarity", "Minkowski", "decompose", "fairlet_centers", "rectangular_loop"]

"""Point-estimate engines, one file per paper, on one loop (`optimize`) and one file of mixture mathematics."""

from bayesfair.engines.fair_mixture import FairMixture
from bayesfair.engines.variational import VariationalFairClustering

__all__ = ["FairMixture", "VariationalFairClustering"]

"""Point-estimate engines, one file per paper, on one loop (`optimize`) and one file of mixture mathematics."""

from bayesfair.engines.big_learn import BigLearnMixture
from bayesfair.engines.fair_mixture import FairMixture
from bayesfair.engines.fairlet_kmeans import FairletKMeans
from bayesfair.engines.path import fairness_path
from bayesfair.engines.tilted_kmeans import TiltedKMeans
from bayesfair.engines.variational import VariationalFairClustering

__all__ = [
    "BigLearnMixture",
    "FairMixture",
    "FairletKMeans",
    "TiltedKMeans",
    "VariationalFairClustering",
    "fairness_path",
]

"""Point-estimate engines: one file per paper on one template (`base`) and one loop (`optimize`)."""

import bayesfair._jax  # noqa: F401
from bayesfair.engines.balanced_kmeans import BalancedKMeans
from bayesfair.engines.base import Engine, check_distinct
from bayesfair.engines.big_learn import BigLearnMixture
from bayesfair.engines.checks import check_engine
from bayesfair.engines.data import Data
from bayesfair.engines.fair_mixture import FairMixture
from bayesfair.engines.fairlet_kmeans import FairletKMeans
from bayesfair.engines.path import fairness_path
from bayesfair.engines.tilted_kmeans import TiltedKMeans
from bayesfair.engines.variational import VariationalFairClustering

__all__ = [
    "BalancedKMeans",
    "BigLearnMixture",
    "Data",
    "Engine",
    "FairMixture",
    "FairletKMeans",
    "TiltedKMeans",
    "VariationalFairClustering",
    "check_distinct",
    "check_engine",
    "fairness_path",
]

"""Point-estimate engines: one file per paper on one template (`base`) and one loop (`optimize`).

Each is loaded on first use, as JAX takes seconds to import.
"""

from typing import TYPE_CHECKING

from bayesfair._lazy import lazily

_HOMES = {
    "BalancedKMeans": "bayesfair.engines.balanced_kmeans",
    "BigLearnMixture": "bayesfair.engines.big_learn",
    "Engine": "bayesfair.engines.base",
    "FairMixture": "bayesfair.engines.fair_mixture",
    "FairletKMeans": "bayesfair.engines.fairlet_kmeans",
    "TiltedKMeans": "bayesfair.engines.tilted_kmeans",
    "VariationalFairClustering": "bayesfair.engines.variational",
    "check_distinct": "bayesfair._tables",
    "check_engine": "bayesfair.testing",
    "fairness_path": "bayesfair.engines.path",
}

__all__ = [
    "BalancedKMeans",
    "BigLearnMixture",
    "Engine",
    "FairMixture",
    "FairletKMeans",
    "TiltedKMeans",
    "VariationalFairClustering",
    "check_distinct",
    "check_engine",
    "fairness_path",
]

if TYPE_CHECKING:
    from bayesfair._tables import check_distinct
    from bayesfair.engines.balanced_kmeans import BalancedKMeans
    from bayesfair.engines.base import Engine
    from bayesfair.engines.big_learn import BigLearnMixture
    from bayesfair.engines.fair_mixture import FairMixture
    from bayesfair.engines.fairlet_kmeans import FairletKMeans
    from bayesfair.engines.path import fairness_path
    from bayesfair.engines.tilted_kmeans import TiltedKMeans
    from bayesfair.engines.variational import VariationalFairClustering
    from bayesfair.testing import check_engine
else:
    __getattr__, __dir__ = lazily(__name__, _HOMES)

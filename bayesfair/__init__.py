"""Bayesian fair clustering: clusters whose balance is guaranteed, and how sure each membership is.

Everything public hangs off this module and is imported on first use, so that `import bayesfair` stays light.
"""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from bayesfair._lazy import lazily

try:
    __version__ = version("bayesfair")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "unknown"

_ROOMS = (
    "datasets",
    "fairness",
    "distributed",
    "fairlets",
    "gibbs",
    "engines",
    "models",
    "posterior",
    "plots",
)
_HOMES = {
    "BalancedKMeans": "bayesfair.engines",
    "BayesianFairMixture": "bayesfair.estimators",
    "BigLearnMixture": "bayesfair.engines",
    "FairMixture": "bayesfair.engines",
    "FairletKMeans": "bayesfair.engines",
    "GibbsFairClustering": "bayesfair.estimators",
    "TiltedKMeans": "bayesfair.engines",
    "VariationalFairClustering": "bayesfair.engines",
    "audit": "bayesfair.reports",
    "compare_clusters": "bayesfair.estimators",
    "enable_compilation_cache": "bayesfair._cache",
    "report": "bayesfair.reports",
}

__all__ = ["__version__", *_HOMES, *_ROOMS]

if TYPE_CHECKING:  # the same names for type checkers, which do not call `__getattr__`
    from bayesfair import datasets as datasets
    from bayesfair import distributed as distributed
    from bayesfair import engines as engines
    from bayesfair import fairlets as fairlets
    from bayesfair import fairness as fairness
    from bayesfair import gibbs as gibbs
    from bayesfair import models as models
    from bayesfair import plots as plots
    from bayesfair import posterior as posterior
    from bayesfair._cache import enable_compilation_cache as enable_compilation_cache
    from bayesfair.engines.balanced_kmeans import BalancedKMeans as BalancedKMeans
    from bayesfair.engines.big_learn import BigLearnMixture as BigLearnMixture
    from bayesfair.engines.fair_mixture import FairMixture as FairMixture
    from bayesfair.engines.fairlet_kmeans import FairletKMeans as FairletKMeans
    from bayesfair.engines.tilted_kmeans import TiltedKMeans as TiltedKMeans
    from bayesfair.engines.variational import VariationalFairClustering as VariationalFairClustering
    from bayesfair.estimators.bayesian_fair_mixture import BayesianFairMixture as BayesianFairMixture
    from bayesfair.estimators.comparison import compare_clusters as compare_clusters
    from bayesfair.estimators.gibbs_fair_clustering import GibbsFairClustering as GibbsFairClustering
    from bayesfair.reports.auditing import audit as audit
    from bayesfair.reports.page import report as report
else:
    __getattr__, __dir__ = lazily(__name__, _HOMES | {room: f"{__name__}.{room}" for room in _ROOMS})

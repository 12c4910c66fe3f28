"""The samplers behind scikit-learn's interface: settings in, tree out.

Each one is loaded on first use, as NumPyro takes seconds to import.
"""

from typing import TYPE_CHECKING

from bayesfair._lazy import lazily

_HOMES = {
    "BayesianFairMixture": "bayesfair.estimators.bayesian_fair_mixture",
    "GibbsFairClustering": "bayesfair.estimators.gibbs_fair_clustering",
    "compare_clusters": "bayesfair.estimators.comparison",
}

__all__ = ["BayesianFairMixture", "GibbsFairClustering", "compare_clusters"]

if TYPE_CHECKING:
    from bayesfair.estimators.bayesian_fair_mixture import BayesianFairMixture
    from bayesfair.estimators.comparison import compare_clusters
    from bayesfair.estimators.gibbs_fair_clustering import GibbsFairClustering
else:
    __getattr__, __dir__ = lazily(__name__, _HOMES)

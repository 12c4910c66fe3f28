"""The posterior over clusterings: the tree that holds it, and every summary of it."""

from importlib import import_module

from bayesfair.posterior.co_clustering_probability import (
    co_clustering,
    co_clustering_columns,
    medoids,
    misclassification_probability,
)
from bayesfair.posterior.diagnostics import diagnostic_vars, summary
from bayesfair.posterior.files import check_destination, read_tree, write_tree
from bayesfair.posterior.partitions import (
    CredibleBall,
    binder_partition,
    credible_ball,
    dahl_partition,
    map_partition,
    partition_distance,
    reference_partition,
    vi_partition,
)
from bayesfair.posterior.relabelling import relabel
from bayesfair.posterior.tree import build_tree

_ESTIMATORS = {
    "BayesianFairMixture": "bayesfair.posterior.bayesian_fair_mixture",
    "GibbsFairClustering": "bayesfair.posterior.gibbs_fair_clustering",
}

__all__ = [
    "BayesianFairMixture",
    "CredibleBall",
    "GibbsFairClustering",
    "binder_partition",
    "build_tree",
    "check_destination",
    "co_clustering",
    "co_clustering_columns",
    "credible_ball",
    "dahl_partition",
    "diagnostic_vars",
    "map_partition",
    "medoids",
    "misclassification_probability",
    "partition_distance",
    "read_tree",
    "reference_partition",
    "relabel",
    "summary",
    "vi_partition",
    "write_tree",
]


def __getattr__(name):
    if name in _ESTIMATORS:  # they load JAX, which no summary needs
        return getattr(import_module(_ESTIMATORS[name]), name)
    raise AttributeError(f"module 'bayesfair.posterior' has no attribute {name!r}")

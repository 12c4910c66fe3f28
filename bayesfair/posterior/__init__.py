"""The posterior over clusterings: the tree that holds it, and every summary of it."""

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
from bayesfair.posterior.tree import build_tree, draws_of

__all__ = [
    "CredibleBall",
    "binder_partition",
    "build_tree",
    "check_destination",
    "co_clustering",
    "co_clustering_columns",
    "credible_ball",
    "dahl_partition",
    "diagnostic_vars",
    "draws_of",
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

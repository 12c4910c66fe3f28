"""The posterior over clusterings: the tree that holds it, and every summary of it."""

from bayesfair._partitions import partition_distance
from bayesfair.posterior.calibrating import calibration
from bayesfair.posterior.diagnostics import diagnostic_vars, summary
from bayesfair.posterior.files import read_tree, write_tree
from bayesfair.posterior.found_modes import modes, occupied_clusters
from bayesfair.posterior.joint_statements import Credibility, credibility, sure_rows
from bayesfair.posterior.membership import memberships, misclassification_probability
from bayesfair.posterior.merging import concatenate
from bayesfair.posterior.pairs import co_clustering, co_clustering_graph, fairlet_graph, fairlet_probability
from bayesfair.posterior.point_estimates import (
    CredibleBall,
    binder_partition,
    credible_ball,
    dahl_partition,
    map_partition,
    reference_partition,
    vi_partition,
)
from bayesfair.posterior.profiles import profile
from bayesfair.posterior.relabelling import relabel
from bayesfair.posterior.salso import salso_partition
from bayesfair.posterior.temperatures import temperature_sensitivity
from bayesfair.posterior.tree import tree_from_labels

__all__ = [
    "Credibility",
    "CredibleBall",
    "binder_partition",
    "calibration",
    "co_clustering",
    "co_clustering_graph",
    "concatenate",
    "credibility",
    "credible_ball",
    "dahl_partition",
    "diagnostic_vars",
    "fairlet_graph",
    "fairlet_probability",
    "map_partition",
    "memberships",
    "misclassification_probability",
    "modes",
    "occupied_clusters",
    "partition_distance",
    "profile",
    "read_tree",
    "reference_partition",
    "relabel",
    "salso_partition",
    "summary",
    "sure_rows",
    "temperature_sensitivity",
    "tree_from_labels",
    "vi_partition",
    "write_tree",
]

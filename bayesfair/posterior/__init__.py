"""The posterior over clusterings: the tree that holds it, and every summary of it."""

from bayesfair._partitions import partition_distance
from bayesfair.posterior.cluster_profiles import profile
from bayesfair.posterior.co_clustering_probability import co_clustering, misclassification_probability
from bayesfair.posterior.consensus import co_clustering_graph
from bayesfair.posterior.diagnostics import diagnostic_vars, summary
from bayesfair.posterior.files import read_tree, write_tree
from bayesfair.posterior.given_draws import tree_from_labels
from bayesfair.posterior.membership_table import memberships
from bayesfair.posterior.merging import concatenate
from bayesfair.posterior.mode_tables import modes
from bayesfair.posterior.modes_in_words import modes_sentence
from bayesfair.posterior.number_of_clusters import given_occupied, occupied_clusters, occupied_sentence
from bayesfair.posterior.other_temperatures import temperature_sensitivity
from bayesfair.posterior.partitions import (
    CredibleBall,
    binder_partition,
    credible_ball,
    dahl_partition,
    map_partition,
    reference_partition,
    vi_partition,
)
from bayesfair.posterior.partners import fairlet_graph, fairlet_probability, fairlet_summary
from bayesfair.posterior.relabelling import relabel
from bayesfair.posterior.salso import salso_partition
from bayesfair.posterior.units import with_scaler
from bayesfair.posterior.view import View

__all__ = [
    "CredibleBall",
    "View",
    "binder_partition",
    "co_clustering",
    "co_clustering_graph",
    "concatenate",
    "credible_ball",
    "dahl_partition",
    "diagnostic_vars",
    "fairlet_graph",
    "fairlet_probability",
    "fairlet_summary",
    "given_occupied",
    "map_partition",
    "memberships",
    "misclassification_probability",
    "modes",
    "modes_sentence",
    "occupied_clusters",
    "occupied_sentence",
    "partition_distance",
    "profile",
    "read_tree",
    "reference_partition",
    "relabel",
    "salso_partition",
    "summary",
    "temperature_sensitivity",
    "tree_from_labels",
    "vi_partition",
    "with_scaler",
    "write_tree",
]

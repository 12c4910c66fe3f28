"""The posterior over clusterings: the tree that holds it, and every summary of it."""

from bayesfair._partitions import partition_distance, tables_with
from bayesfair.posterior.access import (
    count_clusters,
    flat_labels,
    group_names,
    groups_of,
    observed_features,
    variable,
)
from bayesfair.posterior.co_clustering_probability import (
    co_clustering,
    co_clustering_columns,
    medoids,
    misclassification_probability,
)
from bayesfair.posterior.diagnostics import diagnostic_vars, summarise, summary
from bayesfair.posterior.files import check_destination, read_tree, write_tree, write_whole
from bayesfair.posterior.guarantee import at_least, fairlet_capacities, guarantee, guaranteed_balance, masses_of
from bayesfair.posterior.modes import MODE_FIGURES, modes, modes_of, occupancy
from bayesfair.posterior.modes_in_words import chains_apart, modes_sentence
from bayesfair.posterior.partitions import (
    CredibleBall,
    binder_partition,
    credible_ball,
    dahl_partition,
    map_partition,
    reference_partition,
    vi_partition,
)
from bayesfair.posterior.relabelling import relabel
from bayesfair.posterior.saved import FORMAT, read_run, settings_of, small_groups
from bayesfair.posterior.tree import build_tree, draws_of
from bayesfair.posterior.verdict import Verdict, judge, of_all_chains, reading, warn_of_disagreement, worst_first

__all__ = [
    "FORMAT",
    "MODE_FIGURES",
    "CredibleBall",
    "Verdict",
    "at_least",
    "binder_partition",
    "build_tree",
    "chains_apart",
    "check_destination",
    "co_clustering",
    "co_clustering_columns",
    "count_clusters",
    "credible_ball",
    "dahl_partition",
    "diagnostic_vars",
    "draws_of",
    "fairlet_capacities",
    "flat_labels",
    "group_names",
    "groups_of",
    "guarantee",
    "guaranteed_balance",
    "judge",
    "map_partition",
    "masses_of",
    "medoids",
    "misclassification_probability",
    "modes",
    "modes_of",
    "modes_sentence",
    "observed_features",
    "occupancy",
    "of_all_chains",
    "partition_distance",
    "read_run",
    "read_tree",
    "reading",
    "reference_partition",
    "relabel",
    "settings_of",
    "small_groups",
    "summarise",
    "summary",
    "tables_with",
    "variable",
    "vi_partition",
    "warn_of_disagreement",
    "worst_first",
    "write_tree",
    "write_whole",
]

"""The posterior over clusterings: the tree that holds it, and every summary of it."""

from bayesfair._files import check_destination, write_whole
from bayesfair._partitions import partition_distance, tables_with
from bayesfair.posterior.co_clustering_probability import (
    co_clustering,
    co_clustering_columns,
    medoids,
    misclassification_probability,
)
from bayesfair.posterior.contingency import evenly_spaced
from bayesfair.posterior.diagnostics import diagnostic_vars, is_guide, scalar_table, summary
from bayesfair.posterior.files import read_run, read_tree, write_tree
from bayesfair.posterior.guarantees import (
    at_least,
    balance_kept,
    doubt_of_fairlets,
    fairlet_capacities,
    guarantee,
    guaranteed_balance,
    masses_of,
)
from bayesfair.posterior.in_short import Note, brief
from bayesfair.posterior.labels import LabelDraws
from bayesfair.posterior.membership_table import memberships, runners_up
from bayesfair.posterior.memory import check_disk, check_memory, sampler_bytes
from bayesfair.posterior.merging import concatenate
from bayesfair.posterior.mode_tables import MODE_FIGURES, modes, modes_of
from bayesfair.posterior.modes_in_words import chains_apart, modes_sentence
from bayesfair.posterior.number_of_clusters import given_occupied, occupied_clusters, occupied_sentence
from bayesfair.posterior.partitions import (
    CredibleBall,
    binder_partition,
    credible_ball,
    dahl_partition,
    map_partition,
    point_of,
    reference_partition,
    vi_partition,
)
from bayesfair.posterior.relabelling import numbered_alike, relabel
from bayesfair.posterior.salso import salso_partition
from bayesfair.posterior.saved import FORMAT, cost_of, plain, settings_of, small_groups
from bayesfair.posterior.schema import (
    check_whole,
    count_clusters,
    flat_labels,
    group_names,
    groups_of,
    observed_features,
    variable,
)
from bayesfair.posterior.state import STATE, arrays_of, state_dataset
from bayesfair.posterior.store import begin_run, check_store, continue_run, is_stored
from bayesfair.posterior.tree import add_derived, build_tree, draws_of
from bayesfair.posterior.verdict import Verdict, judge, of_all_chains, reading, warn_of_disagreement, worst_first
from bayesfair.posterior.view import View

__all__ = [
    "FORMAT",
    "MODE_FIGURES",
    "STATE",
    "CredibleBall",
    "LabelDraws",
    "Note",
    "Verdict",
    "View",
    "add_derived",
    "arrays_of",
    "at_least",
    "balance_kept",
    "begin_run",
    "binder_partition",
    "brief",
    "build_tree",
    "chains_apart",
    "check_destination",
    "check_disk",
    "check_memory",
    "check_store",
    "check_whole",
    "co_clustering",
    "co_clustering_columns",
    "concatenate",
    "continue_run",
    "cost_of",
    "count_clusters",
    "credible_ball",
    "dahl_partition",
    "diagnostic_vars",
    "doubt_of_fairlets",
    "draws_of",
    "evenly_spaced",
    "fairlet_capacities",
    "flat_labels",
    "given_occupied",
    "group_names",
    "groups_of",
    "guarantee",
    "guaranteed_balance",
    "is_guide",
    "is_stored",
    "judge",
    "map_partition",
    "masses_of",
    "medoids",
    "memberships",
    "misclassification_probability",
    "modes",
    "modes_of",
    "modes_sentence",
    "numbered_alike",
    "observed_features",
    "occupied_clusters",
    "occupied_sentence",
    "of_all_chains",
    "partition_distance",
    "plain",
    "point_of",
    "read_run",
    "read_tree",
    "reading",
    "reference_partition",
    "relabel",
    "runners_up",
    "salso_partition",
    "sampler_bytes",
    "scalar_table",
    "settings_of",
    "small_groups",
    "state_dataset",
    "summary",
    "tables_with",
    "variable",
    "vi_partition",
    "warn_of_disagreement",
    "worst_first",
    "write_tree",
    "write_whole",
]

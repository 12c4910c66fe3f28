"""Point-estimate engines, one file per paper, on one template (`base`), one loop (`optimize`) and one file of mixture
mathematics (`families`)."""

from bayesfair.engines.base import Engine, check_distinct
from bayesfair.engines.big_learn import BigLearnMixture
from bayesfair.engines.fair_mixture import FairMixture
from bayesfair.engines.fairlet_kmeans import FairletKMeans, cluster_fairlets
from bayesfair.engines.families import COVARIANCE_TYPES, Components, Family, Table, pack_factor, sample_rows
from bayesfair.engines.fmc import cluster_gaps, membership
from bayesfair.engines.optimize import Outcome, minimize
from bayesfair.engines.path import fairness_path
from bayesfair.engines.tables import (
    Encoder,
    categorical_positions,
    encoder_of,
    fit_encoder,
    read_columns,
    read_table,
)
from bayesfair.engines.tilted_kmeans import TiltedKMeans
from bayesfair.engines.variational import VariationalFairClustering
from bayesfair.fairness import gaps_of_shares

__all__ = [
    "COVARIANCE_TYPES",
    "BigLearnMixture",
    "Components",
    "Encoder",
    "Engine",
    "FairMixture",
    "FairletKMeans",
    "Family",
    "Outcome",
    "Table",
    "TiltedKMeans",
    "VariationalFairClustering",
    "categorical_positions",
    "check_distinct",
    "cluster_fairlets",
    "cluster_gaps",
    "encoder_of",
    "fairness_path",
    "fit_encoder",
    "gaps_of_shares",
    "membership",
    "minimize",
    "pack_factor",
    "read_columns",
    "read_table",
    "sample_rows",
]

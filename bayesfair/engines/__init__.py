"""Point-estimate engines, one file per paper, on one template (`base`), one loop (`optimize`) and one file of mixture
mathematics (`families`)."""

from bayesfair.engines.balanced_kmeans import BalancedKMeans
from bayesfair.engines.base import Data, Engine, check_distinct
from bayesfair.engines.big_learn import BigLearnMixture
from bayesfair.engines.checks import check_engine
from bayesfair.engines.fair_mixture import FairMixture
from bayesfair.engines.fairlet_kmeans import FairletKMeans, cluster_fairlets
from bayesfair.engines.families import COVARIANCE_TYPES, Components, EncodedTable, Family, pack_factor, sample_rows
from bayesfair.engines.mixture import MixtureEngine
from bayesfair.engines.optimize import Outcome, minimize
from bayesfair.engines.path import fairness_path
from bayesfair.engines.tables import (
    Columns,
    Encoder,
    categorical_positions,
    encoder_of,
    fit_encoder,
    read_columns,
    read_groups,
    read_table,
)
from bayesfair.engines.tilted_kmeans import TiltedKMeans
from bayesfair.engines.variational import VariationalFairClustering

__all__ = [
    "COVARIANCE_TYPES",
    "BalancedKMeans",
    "BigLearnMixture",
    "Columns",
    "Components",
    "Data",
    "EncodedTable",
    "Encoder",
    "Engine",
    "FairMixture",
    "FairletKMeans",
    "Family",
    "MixtureEngine",
    "Outcome",
    "TiltedKMeans",
    "VariationalFairClustering",
    "categorical_positions",
    "check_distinct",
    "check_engine",
    "cluster_fairlets",
    "encoder_of",
    "fairness_path",
    "fit_encoder",
    "minimize",
    "pack_factor",
    "read_columns",
    "read_groups",
    "read_table",
    "sample_rows",
]

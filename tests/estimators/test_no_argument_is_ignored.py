"""No argument of an estimator is accepted and ignored: one table of all parameters, of every target, inference and objective.

A line says of an estimator with some settings which parameters are read, and which are refused by name, with a value that is
not their default. A new parameter fails the test until the table says what it does.
"""

from inspect import signature
from typing import NamedTuple

import numpy as np
import pytest

import bayesfair as bf

X = np.column_stack([np.random.default_rng(0).integers(4, size=(40, 2)), np.arange(40) // 20]).astype(float)
GROUPS = np.array(["f", "m"] * 20)
MESH = object()  # stands for a mesh of processes


class Line(NamedTuple):
    estimator: type
    settings: dict
    read: str  # decide the results; "progress_bar", "mesh" and "chain_method" how they are computed
    refused: dict


COMMON = "n_clusters random_state progress_bar "
GIBBS = f"{COMMON} loss target categorical_features min_group_size inverse_temperature num_chains num_warmup num_draws "
GIBBS += "thinning modes n_jobs "
ALONE = {"category_weight": 2.0, "merged_group_name": "rest"}  # without what they belong to
MIXTURE = (
    "n_components fairness_weight covariance_type categorical_features inference prior num_chains num_draws starts "
)
MIXTURE += "random_state progress_bar "
CHAINS = "num_warmup chain_method"
AFFINITY = {"affinity": "precomputed", "n_neighbors": 5}
VARIATIONAL = f"{COMMON} objective target_proportions n_init max_iter tol "
ERROR = "fairness_weight max_fairness_error"
FMC = "n_components covariance_type categorical_features solver batch_size subsample n_init max_iter tol random_state "
FMC += "progress_bar"
GAP = "gap_margin min_share"
TILTED = f"{COMMON} tilt solver n_init max_iter tol"
BIG = "n_components max_iter min_eigenvalue n_local_steps matching_probabilities weight_prior tol n_init random_state "
BALANCED = f"{COMMON} min_balance crossed size_min size_max loss min_group_size n_init max_iter"
FAIRLETS = f"{COMMON} composition n_init max_iter tol "

Gibbs, Mixture = bf.GibbsFairClustering, bf.BayesianFairMixture
Variational, Fmc, Tilted = bf.VariationalFairClustering, bf.FairMixture, bf.TiltedKMeans
CATEGORIES = {"categorical_features": [0, 1, 2]}
TABLE = [
    *(Line(Gibbs, {"target": target}, GIBBS, ALONE) for target in ("labels", "joint", "cut", "optimal")),
    Line(Gibbs, {"categorical_features": [2], "min_group_size": 2}, f"{GIBBS} {' '.join(ALONE)}", {}),
    Line(Mixture, {"inference": "nuts"}, f"{MIXTURE} smoothing tempering {CHAINS}", {}),
    Line(Mixture, {"inference": "nuts", "fairness_weight": 0}, f"{MIXTURE} tempering {CHAINS}", {"smoothing": 0.2}),
    Line(Mixture, {"inference": "gibbs"}, f"{MIXTURE} {CHAINS}", {"smoothing": 0.2, "tempering": True}),
    Line(
        Mixture,
        {"inference": "svi"},
        f"{MIXTURE} smoothing",
        {"tempering": True, "num_warmup": 7, "chain_method": "vectorized"},
    ),
    Line(
        Mixture,
        CATEGORIES,
        f"{MIXTURE} smoothing tempering {CHAINS}".replace("covariance_type ", ""),
        {"covariance_type": "diag"},
    ),
    Line(Variational, {"objective": "kmeans"}, f"{VARIATIONAL} {ERROR} mesh", AFFINITY),
    Line(Variational, {"objective": "kmedians"}, f"{VARIATIONAL} {ERROR} mesh", AFFINITY),
    Line(Variational, {"objective": "ncut"}, f"{VARIATIONAL} {ERROR} affinity n_neighbors", {"mesh": MESH}),
    Line(
        Variational,
        {"objective": "ncut", "affinity": "precomputed"},
        f"{VARIATIONAL} {ERROR} affinity",
        {"mesh": MESH, "n_neighbors": 5},
    ),
    Line(
        Variational,
        {"max_fairness_error": 0.1},
        f"{VARIATIONAL} max_fairness_error mesh",
        {"fairness_weight": 1.0, **AFFINITY},
    ),
    Line(Fmc, {}, f"{FMC} max_gap fairness_weight {GAP} mesh", {"gap_subsample": 30}),
    Line(
        Fmc,
        {"max_gap": 0.1, "batch_size": 20},
        f"{FMC} gap_subsample max_gap {GAP}",
        {"fairness_weight": 1.0, "mesh": MESH},
    ),
    Line(Fmc, {"fairness_weight": 1.0}, f"{FMC} fairness_weight {GAP} mesh", {"max_gap": 0.1, "gap_subsample": 30}),
    # Of weights, 0 is one end: a `fairness_path` that begins there takes the settings of the others.
    Line(
        Fmc,
        CATEGORIES,
        f"{FMC} max_gap fairness_weight {GAP} mesh".replace("covariance_type ", ""),
        {"covariance_type": "diag", "gap_subsample": 30},
    ),
    Line(Tilted, {"solver": "newton"}, f"{TILTED} mesh", {"learning_rate": 0.1, "batch_size": 7, "n_epochs": 2}),
    Line(Tilted, {"solver": "sgd"}, f"{TILTED} learning_rate batch_size n_epochs", {"mesh": MESH}),
    Line(bf.BigLearnMixture, {}, f"{BIG} progress_bar mesh", {}),
    Line(bf.BalancedKMeans, {}, BALANCED, {"merged_group_name": "rest"}),
    Line(bf.BalancedKMeans, {"min_group_size": 2}, f"{BALANCED} merged_group_name", {}),
    Line(bf.FairletKMeans, {}, f"{FAIRLETS} min_group_size exact_up_to", {"merged_group_name": "rest"}),
    Line(bf.FairletKMeans, {"min_group_size": 2}, f"{FAIRLETS} min_group_size exact_up_to merged_group_name", {}),
    Line(
        bf.FairletKMeans,
        {"composition": "singletons"},
        FAIRLETS,
        {"exact_up_to": 9, "min_group_size": 2, "merged_group_name": "rest"},
    ),
]
every_line = pytest.mark.parametrize("line", TABLE, ids=lambda line: f"{line.estimator.__name__}-{line.settings}")


@every_line
def test_the_table_knows_every_parameter(line):
    named = [*line.read.split(), *line.refused]
    assert sorted(named) == sorted(signature(line.estimator).parameters)


def test_every_parameter_is_read_somewhere():
    lines = {(line.estimator, name) for line in TABLE for name in signature(line.estimator).parameters}
    assert lines - {(line.estimator, name) for line in TABLE for name in line.read.split()} == set()


@every_line
def test_what_is_not_read_is_refused_by_name(line):
    parts = {"n_components" if "n_components" in signature(line.estimator).parameters else "n_clusters": 2}
    for name, value in line.refused.items():
        estimator = line.estimator(**{**parts, **line.settings, name: value})
        with pytest.raises((ValueError, UserWarning), match=rf"\b{name}\b"):
            estimator.fit(X, sensitive_features=GROUPS)

"""One run of each sampler for all files, to be read and not changed: 40 rows in two groups and three clusters."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import bayesfair as bf

RNG = np.random.default_rng(1)
X = np.vstack([RNG.normal(0, 1, (20, 2)), RNG.normal(2, 1, (20, 2))])
SHORT = {"num_chains": 2, "num_warmup": 30, "num_draws": 40, "progress_bar": False}


@pytest.fixture(scope="session")
def people():
    table = pd.DataFrame(X, columns=["age", "income"], index=[f"p{i}" for i in range(40)])
    return SimpleNamespace(X=X, table=table, sex=np.array(["f", "m"] * 20))


@pytest.fixture(scope="session")
def fit(people):
    """Of a seed, and of the table with another index."""

    def run(seed, table=people.table):
        est = bf.GibbsFairClustering(3, target="optimal", num_starts=0, random_state=seed, **SHORT)
        return est.fit(table, sensitive_features=people.sex)

    return run


@pytest.fixture(scope="session")
def run(fit):
    return fit(0)


@pytest.fixture(scope="session")
def mixture(people):
    est = bf.BayesianFairMixture(3, inference="gibbs", starts=("random",), random_state=0, **SHORT)
    return est.fit(people.table, sensitive_features=people.sex)

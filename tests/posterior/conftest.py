"""One run of each sampler for all files, to be read and not changed: 40 rows in two groups and three clusters."""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from toys import tables

import bayesfair as bf

RNG = np.random.default_rng(1)
X = np.vstack([RNG.normal(0, 1, (20, 2)), RNG.normal(2, 1, (20, 2))])
PEOPLE = SimpleNamespace(
    X=X,
    table=pd.DataFrame(X, columns=["age", "income"], index=[f"p{i}" for i in range(40)]),
    sex=np.array(["f", "m"] * 20),
)
SHORT = {"num_chains": 2, "num_draws": 40, "progress_bar": False}


@pytest.fixture(scope="session")
def people():
    return PEOPLE


@cache
def fit_of(seed):
    est = bf.GibbsFairClustering(3, target="optimal", modes=None, num_warmup=30, random_state=seed, **SHORT)
    return est.fit(PEOPLE.table, sensitive_features=PEOPLE.sex)


@cache
def mixture_of_table():
    """As tests/estimators/test_bayesian_fair_mixture.py fits it."""
    est = bf.BayesianFairMixture(2, inference="gibbs", random_state=0, **{**SHORT, **tables.MIXTURE})
    return est.fit(tables.MIXED, sensitive_features=tables.SEX)


# Asked for within a file, which says how programs are compiled.
@pytest.fixture(scope="module")
def fit():
    return fit_of


@pytest.fixture(scope="module")
def run():
    return fit_of(0)


@pytest.fixture(scope="module")
def mixture():
    return mixture_of_table()

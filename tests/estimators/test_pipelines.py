"""Pipelines hand `sensitive_features` to every estimator, and new rows have the columns of the fit."""

from functools import wraps

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bayesfair as bf
from bayesfair.engines.tables import read_columns

N = 60
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(N, 3)), columns=list("abc"))
MIXED = FRAME.assign(town=np.resize(["York", "Hull", "Leeds"], N))
GROUP = np.resize(["f", "m"], N)
ESTIMATORS = [
    bf.BalancedKMeans,
    bf.BayesianFairMixture,
    bf.BigLearnMixture,
    bf.FairletKMeans,
    bf.FairMixture,
    bf.GibbsFairClustering,
    bf.TiltedKMeans,
    bf.VariationalFairClustering,
]


@pytest.mark.parametrize("routing", [True, False])
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_pipeline_hands_on_the_groups(kind, routing, monkeypatch):
    """Under their own name with metadata routing, and without it behind the name of the step."""
    given = {}

    @wraps(kind.fit)
    def fit(self, X, y=None, **named):
        given.update(named)
        return self

    monkeypatch.setattr(kind, "fit", fit)
    name = "sensitive_features" if routing else f"{kind.__name__.lower()}__sensitive_features"
    with config_context(enable_metadata_routing=routing):
        make_pipeline(StandardScaler(), kind()).fit(FRAME, **{name: GROUP})
    assert given["sensitive_features"] is GROUP


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("table", [FRAME, MIXED], ids=["numbers", "mixed"])
def test_other_columns_than_those_of_the_fit_are_told_before_what_is_in_them(table, frame):
    est = bf.FairMixture(2)
    read_columns(est, table, None, reset=True)
    columns = table.to_dict("list")
    order = list(columns)[::-1]
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        read_columns(est, frame({name: columns[name] for name in order}), None, reset=False)
    with pytest.raises(ValueError, match="now missing:\n- b"):
        read_columns(est, frame({name: columns[name] for name in order if name != "b"}), None, reset=False)
    with pytest.raises(ValueError, match="unseen at fit time:\n- street"):
        read_columns(est, frame({"street": columns["a"], **columns}), None, reset=False)


SHORT = {"num_chains": 1, "num_warmup": 1, "num_draws": 1, "num_starts": 0, "progress_bar": False, "random_state": 0}


@pytest.mark.filterwarnings("ignore:Too few draws to tell")
def test_the_sampler_tells_columns_of_other_units_and_those_that_follow_from_the_groups():
    X = FRAME.assign(income=1000 * FRAME.a, sex=GROUP)
    est = bf.GibbsFairClustering(2, target="optimal", **SHORT)
    with (
        pytest.warns(UserWarning, match="in column 'income': distances hardly see"),
        pytest.warns(UserWarning, match="Column 'sex' of `X` follows from `sensitive_features`"),
    ):
        est.fit(X, sensitive_features=GROUP)

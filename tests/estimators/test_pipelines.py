"""Pipelines hand on `sensitive_features`, new rows have the columns of the fit, and scikit-learn's own checks pass."""

from functools import wraps

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import bayesfair as bf
from bayesfair._tables import read_columns
from bayesfair.models import sampler

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


SHORT = {"num_chains": 1, "num_warmup": 1, "num_draws": 1, "modes": None, "progress_bar": False, "random_state": 0}


@pytest.mark.filterwarnings("ignore:Too few draws to tell")
def test_the_sampler_tells_columns_of_other_units_and_those_that_follow_from_the_groups():
    X = FRAME.assign(income=1000 * FRAME.a, sex=GROUP)
    est = bf.GibbsFairClustering(2, target="optimal", **SHORT)
    with (
        pytest.warns(UserWarning, match="in column 'income': distances hardly see"),
        pytest.warns(UserWarning, match="Column 'sex' of `X` follows from `sensitive_features`"),
    ):
        est.fit(X, sensitive_features=GROUP)


FIXED = {"target": "optimal", "inverse_temperature": (0.5, 1.0)}
CHECKED = [
    bf.GibbsFairClustering(2, **FIXED, **SHORT).set_params(num_warmup=5, num_draws=10),
    bf.BayesianFairMixture(2, num_chains=1, num_warmup=1, num_draws=2, starts=["k-means"], progress_bar=False),
]
READ = """check_dont_overwrite_parameters check_dtype_object check_estimators_dtypes check_estimators_nan_inf
check_estimators_overwrite_params check_f_contiguous_array_estimator check_fit2d_1feature check_fit_score_takes_y
check_n_features_in check_n_features_in_after_fitting check_positive_only_tag_during_fit check_readonly_memmap_input
check_sample_weights_list check_sample_weights_pandas_series check_sample_weights_shape"""
# Forms of tables and parameters, which every estimator reads by the same function: test_every_engine.py has these checks.
SEEN = "check_clustering check_estimators_fit_returns_self check_pipeline_consistency"  # in the tests of each estimator
REFUSED = "check_sample_weight_equivalence_on_dense_data"  # has weights of 0, of which the posterior says nothing


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:No sensitive features given", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        (estimator, check)
        for checked in CHECKED
        for estimator, check in estimator_checks_generator(checked)
        if check.func.__name__ not in [REFUSED, *SEEN.split(), *READ.split()]
    ],
    ids=lambda one: getattr(getattr(one, "func", one), "__name__", type(one).__name__),
)
def test_conventions_of_scikit_learn(estimator, check, monkeypatch):
    """Mixtures with one leapfrog step: there are many shapes."""
    monkeypatch.setitem(sampler.LEAPFROG_STEPS, "nuts", 1)
    check(estimator)

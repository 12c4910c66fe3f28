"""Every engine on every kind of table: what all promise."""

import warnings
from copy import copy
from functools import cache

import numpy as np
import pandas
import polars
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tiers import tiers

import bayesfair as bf
from bayesfair._compilations import compilations
from bayesfair.engines import checks

ENGINES = [
    bf.FairMixture(2, n_init=2, max_gap=0.3, tol=1e-4, max_iter=500, random_state=0),
    bf.VariationalFairClustering(2, n_init=3, random_state=0),
    bf.BigLearnMixture(2, max_iter=40, random_state=0),
    bf.TiltedKMeans(2, random_state=0, n_init=2),
    bf.FairletKMeans(2, random_state=0),
    bf.BalancedKMeans(2, n_init=4, random_state=0),
]
UNTILTED = bf.TiltedKMeans(2, tilt=0.0, random_state=0, n_init=2)
TABLES = {
    "well specified": bf.datasets.make_well_specified,
    "misspecified": bf.datasets.make_misspecified,
    "synthetic": bf.datasets.make_vfc_synthetic,
    "unequal": lambda: bf.datasets.make_vfc_synthetic(unequal=True),
}
every_engine = pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: type(engine).__name__)
every_table = pytest.mark.parametrize("table", TABLES)


@every_engine
def test_promises_of_the_house(engine):
    """scikit-learn's own checks are run one by one, each engine's in its file."""
    bf.engines.check_engine(engine, scikit_learn=False)


NUMBERS = {
    "FairMixture": "n_components max_gap fairness_weight gap_margin min_share batch_size subsample n_init max_iter tol",
    "VariationalFairClustering": "n_clusters n_neighbors fairness_weight max_fairness_error n_init max_iter tol",
    "BigLearnMixture": "n_components min_eigenvalue n_local_steps weight_prior n_init max_iter tol",
    "TiltedKMeans": "n_clusters tilt learning_rate batch_size n_init max_iter tol",
    "BalancedKMeans": "n_clusters min_balance min_group_size n_init max_iter",
    "FairletKMeans": "n_clusters min_group_size exact_up_to n_init max_iter tol",
}
SIXTY = np.random.default_rng(0).normal(size=(60, 2)), np.resize(["a", "b"], 60)
NO_NUMBERS = (
    True,
    np.True_,
    "",
    "0.5",
    float("nan"),
    np.inf,
    np.float32("nan"),
    1j,
    [1],
    np.array([0.5]),
    np.array(True),
    -1,
)


@every_engine
def test_numeric_settings_are_refused_by_name(engine):
    for name in NUMBERS[type(engine).__name__].split():
        for value in NO_NUMBERS:
            with pytest.raises((TypeError, ValueError), match=f"`{name}` must"):
                type(engine)(**{name: value}).fit(SIXTY[0], sensitive_features=SIXTY[1])


@every_engine
@pytest.mark.parametrize("value", [0, 2.5])
def test_counts_are_whole_and_at_least_one(engine, value):
    counts = {"n_clusters", "n_components", "n_local_steps", "n_init", "max_iter", "batch_size"}
    for name in counts & set(NUMBERS[type(engine).__name__].split()):
        with pytest.raises((TypeError, ValueError), match=f"`{name}` must be an integer"):
            type(engine)(**{name: value}).fit(SIXTY[0], sensitive_features=SIXTY[1])


@pytest.mark.parametrize("value", [1.5, np.float32(1.5), 0.0, 0])
def test_a_fraction_of_the_rows_is_at_most_one(value):
    with pytest.raises(ValueError, match="`subsample` must be"):
        bf.FairMixture(2, subsample=value).fit(SIXTY[0], sensitive_features=SIXTY[1])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("number", [np.float16, np.float32, np.float64])
def test_scalars_of_numpy_are_numbers(number):
    few = {"n_init": np.int8(2), "max_iter": np.int16(30), "tol": number(1e-3), "random_state": 0}
    mixture = {"max_gap": number(0.5), "gap_margin": number(0.5), "min_share": number(0.25), "subsample": number(0.5)}
    bf.FairMixture(np.int8(2), **mixture, **few).fit(SIXTY[0], sensitive_features=SIXTY[1])
    engine = bf.VariationalFairClustering(np.int8(2), fairness_weight=number(0.5), **few)
    assert len(engine.fit(SIXTY[0], sensitive_features=SIXTY[1]).labels_) == 60


def test_a_path_over_categories_is_refused_with_the_column_named():
    table = pandas.DataFrame({"x": SIXTY[0][:, 0], "work": np.resize(["u", "v"], 60)})
    with pytest.raises(TypeError, match="`X` must hold numbers only, got 'u' at row 0, column 'work'"):
        bf.engines.fairness_path(ENGINES[0], table, SIXTY[1], "max_gap", [0.1])


@every_engine
def test_new_rows_are_placed_by_what_was_fitted(engine):
    """Whatever set_params has changed since."""
    est = copy(fitted(engine))
    methods = [
        getattr(est, name) for name in ("predict", "predict_proba", "score_samples", "bic") if hasattr(est, name)
    ]
    placed = [method(frame()) for method in methods]
    est.set_params(**dict.fromkeys(est.get_params(), object()))
    for method, before in zip(methods, placed):
        np.testing.assert_array_equal(method(frame()), before)


@pytest.mark.slow
@every_engine
@every_table
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*fairness_error_ is infinite")
def test_every_table_of_the_papers_in_pandas_polars_and_a_pipeline(engine, table):
    """A hundred rows of each, so that one compiled program serves all tables of two columns."""
    data = TABLES[table]()
    rows = np.random.default_rng(0).permutation(len(data.features))[:100]
    X, sensitive = data.features.iloc[rows], data.sensitive.iloc[rows]
    est = clone(engine).fit(X, sensitive_features=sensitive)
    assert est.labels_.shape == est.predict(X).shape == (100,)
    assert set(np.unique(est.labels_)) <= {0, 1}
    assert bf.fairness.report(est.labels_, sensitive, X).shape[0] >= 1
    polar = polars.DataFrame({name: X[name].to_numpy() for name in X})
    np.testing.assert_array_equal(clone(engine).fit(polar, sensitive_features=sensitive.array).labels_, est.labels_)
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), clone(engine)).fit(X, sensitive_features=sensitive)
    assert pipeline[-1].labels_.shape == (100,)


@every_engine
def test_float32_is_read_as_it_is_and_tells_what_its_float64_tells(engine):
    X = frame().to_numpy(np.float32)
    est = clone(engine).fit(X, sensitive_features=GROUP)
    assert est.read(X, reset=False).continuous is X
    wide = clone(engine).fit(X.astype(np.float64), sensitive_features=GROUP)
    np.testing.assert_array_equal(est.labels_, wide.labels_)
    np.testing.assert_allclose(est.objective_trace_, wide.objective_trace_, rtol=1e-5)
    np.testing.assert_array_equal(est.predict(X), wide.predict(X.astype(np.float64)))


VARIANTS = {
    "weight": bf.FairMixture(2, fairness_weight=1.0, n_init=2, random_state=0),
    "batches": bf.FairMixture(2, max_gap=0.3, n_init=2, batch_size=20, max_iter=30, random_state=0),
    "full": bf.FairMixture(2, max_gap=0.3, n_init=2, covariance_type="full", random_state=0),
    "path": bf.VariationalFairClustering(2, max_fairness_error=0.5, random_state=0),
    "ncut": bf.VariationalFairClustering(2, objective="ncut", random_state=0),
    "kmedians": bf.VariationalFairClustering(2, objective="kmedians", random_state=0),
    "sgd": bf.TiltedKMeans(2, solver="sgd", batch_size=20, max_iter=30, n_init=2, random_state=0),
    "tilt": bf.TiltedKMeans(2, tilt=50.0, n_init=2, random_state=0),
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_second_fit_of_the_same_shape_compiles_nothing(variant):
    """Other settings than those of `test_promises_of_the_house`, which looks at this too."""
    checks.compiles_once(VARIANTS[variant])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_second_fit_with_missing_values_compiles_nothing():
    hole = (np.arange(60)[:, None] == 3) & (np.arange(3) == 1)
    engine = bf.BigLearnMixture(2, max_iter=20, random_state=0)
    clone(engine).fit(frame().mask(hole))
    with compilations() as compiled:
        clone(engine).fit((1.1 * frame()).mask(hole[::-1]))
    assert compiled == []


GROUP = np.resize(["f", "m"], 60)


def frame(change=None):
    rng = np.random.default_rng(0)
    X = rng.normal([0.2, 0.5, 0.8], 0.05, (60, 3)) + np.repeat([[0, 0, 0], [0.4, -0.3, 0.2]], 30, 0)
    X = pandas.DataFrame(X, columns=["age", "income", "bmi"])
    return X if change is None else change(X)


@cache
def fitted(engine):
    """To that table; several tests share it."""
    return clone(engine).fit(frame(), sensitive_features=GROUP)


def with_entry(value):
    return lambda X: X.mask((X.index.to_numpy()[:, None] == 7) & (X.columns == "income"), value)


REFUSED = {
    "one name twice": (lambda X: X.set_axis(["age", "age", "bmi"], axis=1), "share the name 'age'"),
    "dates": (lambda X: X.assign(day=pandas.Timestamp("2020-01-01")), "dates or durations in column 'day'"),
    "infinity": (with_entry(np.inf), "inf at row 7, column 'income'"),
    "lazy": (lambda X: polars.from_pandas(X).lazy(), r"got a LazyFrame. Pass X.collect\(\)"),
    "1e155": (with_entry(1e155), r"1e\+155 in column 'income'"),
    "1e300": (with_entry(1e300), r"1e\+300 in column 'income'"),
    "too large": (lambda X: X * 1e300, r"got .*(a spread of|e\+299 in column|e\+300 in column)"),
    "text": (lambda X: X.assign(town="York"), "'York' at row 0, column 'town'"),
    "NaN": (with_entry(np.nan), "nan at row 7, column 'income'"),
}


@every_engine
@pytest.mark.parametrize("kind", REFUSED)
def test_hostile_tables_are_refused_with_the_column_named(engine, kind):
    if (kind, type(engine)) in {("text", bf.FairMixture), ("NaN", bf.BigLearnMixture)}:
        pytest.skip("allowed")
    change, match = REFUSED[kind]
    with pytest.raises((ValueError, TypeError), match=match):
        clone(engine).fit(frame(change), sensitive_features=GROUP)


SCALES = [2.0**-996, 2.0**-66, 2.0**66, 2.0**250]


@every_engine
@pytest.mark.parametrize("scale", tiers(SCALES, [SCALES[0], SCALES[-1]]))
@pytest.mark.filterwarnings("ignore:`X` spreads by no more than")
def test_the_scale_of_the_numbers_changes_no_label(engine, scale):
    if isinstance(engine, bf.BigLearnMixture):
        pytest.skip("its start is in the units of X; refused in its own tests")
    if isinstance(engine, bf.TiltedKMeans):  # whose tilt is in the units of X
        engine = UNTILTED
    plain, other = fitted(engine), clone(engine).fit(scale * frame(), sensitive_features=GROUP)
    np.testing.assert_array_equal(other.labels_, plain.labels_)
    np.testing.assert_array_equal(other.predict(scale * frame()), plain.predict(frame()))


@every_engine
def test_time_stamps_are_ordinary_numbers(engine):
    """Which of two starts that lead to the same clusters is told is a matter of rounding."""
    if isinstance(engine, bf.BigLearnMixture):
        pytest.skip("refused in its own tests")
    late = clone(engine).fit(frame() + 1e8, sensitive_features=GROUP)
    assert adjusted_rand_score(fitted(engine).labels_, late.labels_) == 1


@pytest.mark.slow
@pytest.mark.parametrize("engine", [*ENGINES[:2], *ENGINES[3:]], ids=lambda engine: type(engine).__name__)
def test_columns_of_other_units_are_told_where_distances_are_of_raw_columns(engine):
    """Constant columns have none. BigLearn has a warning of its own."""
    apart = frame().assign(fixed=1.0, income=3000 * frame().income)
    with pytest.warns(
        UserWarning, match=r"in column 'income': distances hardly see .*StandardScaler \(--standardize\)"
    ):
        clone(engine).fit(apart, sensitive_features=GROUP)


@pytest.mark.slow
def test_mixtures_that_scale_every_column_by_itself_take_any_units():
    apart = frame().assign(income=3000 * frame().income)
    clone(ENGINES[0]).set_params(covariance_type="diag").fit(apart, sensitive_features=GROUP)


@every_engine
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_sensitive_column_among_the_features_is_told_where_groups_are_used(engine):
    X = frame().assign(sex=np.unique(GROUP, return_inverse=True)[1])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        clone(engine).fit(X, sensitive_features=GROUP)
    told = [one for one in told if "Column 'sex' of `X` follows from `sensitive_features`" in str(one.message)]
    assert [one.filename for one in told] == [__file__] * engine.uses_groups

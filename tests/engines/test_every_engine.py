"""Every engine on every kind of table: what all promise."""

import warnings
from copy import copy
from functools import cache

import numpy as np
import pandas
import polars
import pytest
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import estimator_checks_generator
from tiers import tiers

import bayesfair as bf
from bayesfair import testing as checks
from bayesfair.testing import GROUP, table

ENGINES = [
    bf.FairMixture(2, n_init=2, max_gap=0.3, tol=1e-4, max_iter=500, random_state=0),
    bf.VariationalFairClustering(2, n_init=3, random_state=0),
    bf.BigLearnMixture(2, max_iter=40, random_state=0),
    bf.TiltedKMeans(2, random_state=0, n_init=2),
    bf.FairletKMeans(2, random_state=0),
    bf.BalancedKMeans(2, n_init=2, random_state=0),
]
UNTILTED = bf.TiltedKMeans(2, tilt=0.0, random_state=0, n_init=2)


def name_of(engine):
    return type(engine).__name__


every_engine = pytest.mark.parametrize("engine", ENGINES, ids=name_of)


@pytest.mark.parametrize("engine", tiers(ENGINES, [ENGINES[4]]), ids=name_of)
def test_promises_of_the_house(engine, monkeypatch):
    monkeypatch.setattr(checks, "CHECKS", [check for check in checks.CHECKS if check is not checks.sample_weights])
    bf.engines.check_engine(engine, scikit_learn=False)


@pytest.mark.parametrize("engine", tiers(ENGINES, [ENGINES[4]]), ids=name_of)
def test_the_promise_about_sample_weights(engine, monkeypatch):
    """By tables of other sizes, which are compiled anew."""
    monkeypatch.setattr(checks, "CHECKS", [checks.sample_weights])
    bf.engines.check_engine(engine, scikit_learn=False)


ALIKE = """check_fit_score_takes_y check_estimators_overwrite_params check_dont_overwrite_parameters check_dtype_object
check_fit_check_is_fitted check_f_contiguous_array_estimator check_n_features_in_after_fitting check_estimators_dtypes
check_sample_weights_pandas_series check_sample_weights_shape check_positive_only_tag_during_fit check_fit_idempotent
check_methods_sample_order_invariance check_sample_weight_equivalence_on_dense_data"""


@pytest.mark.slow
@pytest.mark.parametrize("engine", [ENGINES[0], ENGINES[2], ENGINES[4]], ids=name_of)
@pytest.mark.filterwarnings("ignore:No sensitive features given", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:BigLearnMixture. no row has its largest")  # tables of any scale, fitted in haste
def test_conventions_of_scikit_learn(engine):
    """All of the engine that compiles nothing; of those that read categories or missing values what is not alike in all
    engines and `check_engine` does not look at."""
    for estimator, check in estimator_checks_generator(clone(engine).set_params(max_iter=20)):
        name = getattr(check, "func", check).__name__
        if name not in (checks.DRAWN_ANEW if isinstance(engine, bf.FairletKMeans) else ALIKE.split()):
            check(estimator)


OF_FMC = (
    "n_components max_gap fairness_weight gap_margin min_share batch_size gap_subsample subsample n_init max_iter tol"
)
NUMBERS = {
    "FairMixture": OF_FMC,
    "VariationalFairClustering": "n_clusters n_neighbors fairness_weight max_fairness_error n_init max_iter tol",
    "BigLearnMixture": "n_components min_eigenvalue n_local_steps weight_prior n_init max_iter tol",
    "TiltedKMeans": "n_clusters tilt learning_rate batch_size n_epochs n_init max_iter tol",
    "BalancedKMeans": "n_clusters min_balance size_min size_max min_group_size n_init max_iter",
    "FairletKMeans": "n_clusters min_group_size exact_up_to n_init max_iter tol",
}
SIXTY = np.random.default_rng(0).normal(size=(60, 2)), np.resize(["a", "b", "b"], 60)
COUNTS = {"n_clusters", "n_components", "n_local_steps", "n_init", "max_iter", "batch_size", "n_epochs"}
COUNTS |= {"size_min", "size_max"}
NO_NUMBERS = True, np.True_, "", "0.5", float("nan"), np.inf, np.float32("nan"), 1j, [1], np.array([0.5]), -1


@every_engine
def test_numeric_settings_are_refused_by_name(engine):
    for name in NUMBERS[name_of(engine)].split():
        for value in NO_NUMBERS + (name in COUNTS) * (0, 2.5):
            with pytest.raises((TypeError, ValueError), match=f"`{name}` must"):
                type(engine)(**{name: value}).fit(SIXTY[0], sensitive_features=SIXTY[1])


@pytest.mark.parametrize(
    ("engine", "match"),
    [
        (bf.FairMixture(covariance_type="tied"), "`covariance_type` must be one of"),
        (bf.FairMixture(solver="newton"), "`solver` must be one of"),
        (bf.FairMixture(subsample=1.5), "`subsample` must be"),
        (bf.FairMixture(max_gap=0.1, fairness_weight=1.0), "`fairness_weight` must be left out if max_gap is given"),
        (bf.FairMixture(gap_margin=1.5), "`gap_margin` must be a finite number above zero and at most 1, got 1.5"),
        (bf.VariationalFairClustering(objective="kmode"), "`objective` must be one of"),
        (bf.VariationalFairClustering(fairness_weight=1.0, max_fairness_error=0.1), "must be left out if max_fairn"),
        (bf.VariationalFairClustering(target_proportions=[1.0]), "`target_proportions` must hold one proportion for"),
        (bf.BigLearnMixture(matching_probabilities=(0.5, 0.1, 0.1)), "`matching_probabilities` must be three numbers"),
        (bf.TiltedKMeans(solver="lloyd"), "`solver` must be one of 'newton', 'sgd'"),
        (bf.FairletKMeans(composition="pairs"), "`composition` must be 'auto'"),
        (bf.BalancedKMeans(min_balance=0.9), "at most the data's own Balance"),
        (bf.BalancedKMeans(min_balance="some"), "`min_balance` must be"),
        (bf.BalancedKMeans(loss="cosine"), "`loss` must be one of"),
        (bf.BalancedKMeans(50, min_balance=0.5), "min_balance"),
        (bf.BalancedKMeans(3, size_max=[20, 20, 19]), r"The nearest that do: size_max=\[2\d, 2\d, \d\d\]"),
    ],
)
def test_other_settings_are_refused_by_name(engine, match):
    with pytest.raises(ValueError, match=match):
        engine.fit(SIXTY[0], sensitive_features=SIXTY[1])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scalars_of_numpy_are_numbers():
    """Of the shapes of the engine in ENGINES, whose programs are compiled."""
    few = {"n_init": np.int8(3), "max_iter": np.int16(30), "tol": np.float16(1e-3), "random_state": 0}
    engine = bf.VariationalFairClustering(np.int8(2), fairness_weight=np.float16(0.5), **few)
    assert len(engine.fit(table(), sensitive_features=GROUP).labels_) == 60


def test_a_path_over_categories_is_refused_with_the_column_named():
    X = pandas.DataFrame({"x": SIXTY[0][:, 0], "work": np.resize(["u", "v"], 60)})
    with pytest.raises(TypeError, match="`X` must hold numbers only, got 'u' at row 0, column 'work'"):
        bf.engines.fairness_path(ENGINES[0], X, SIXTY[1], "max_gap", [0.1])


@every_engine
def test_new_rows_are_placed_by_what_was_fitted(engine):
    """Whatever set_params has changed since."""
    est = copy(fitted(engine))
    there = [name for name in ("predict", "predict_proba", "score_samples", "bic") if hasattr(est, name)]
    methods = [getattr(est, name) for name in there]
    placed = [method(table()) for method in methods]
    est.set_params(**dict.fromkeys(est.get_params(), object()))
    for method, before in zip(methods, placed):
        np.testing.assert_array_equal(method(table()), before)


@every_engine
def test_float32_is_read_as_it_is_and_tells_what_its_float64_tells(engine):
    X = table().to_numpy(np.float32)
    est = clone(engine).fit(X, sensitive_features=GROUP)
    assert est.read(X, reset=False).continuous is X
    wide = clone(engine).fit(X.astype(np.float64), sensitive_features=GROUP)
    np.testing.assert_array_equal(est.labels_, wide.labels_)
    np.testing.assert_allclose(est.objective_trace_, wide.objective_trace_, rtol=1e-5)
    np.testing.assert_array_equal(est.predict(X), wide.predict(X.astype(np.float64)))


VARIANTS = [
    bf.VariationalFairClustering(2, max_fairness_error=0.5, n_init=3, random_state=0),
    bf.VariationalFairClustering(2, objective="ncut", random_state=0),
    bf.TiltedKMeans(2, solver="sgd", batch_size=20, max_iter=30, n_init=2, random_state=0),
]


@pytest.mark.slow
@pytest.mark.parametrize("engine", VARIANTS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_second_fit_of_the_same_shape_compiles_nothing(engine):
    """Other settings than those of `test_promises_of_the_house`, which looks at this too."""
    checks.compiles_once(engine)


@cache
def fitted(engine):
    """Several tests share it."""
    return clone(engine).fit(table(), sensitive_features=GROUP)


@every_engine
def test_further_hostile_tables_are_refused(engine):
    """Beside those of `check_engine`."""
    far = {r"1e\+155": table().replace(table().iloc[7, 1], 1e155), "e[+](299|300)|a spread of": 1e300 * table()}
    for got, X in far.items():
        with pytest.raises(ValueError, match=got):
            clone(engine).fit(X, sensitive_features=GROUP)
    with pytest.raises(TypeError, match=r"got a LazyFrame. Pass X.collect\(\)"):
        clone(engine).fit(polars.from_pandas(table()).lazy(), sensitive_features=GROUP)


@every_engine
@pytest.mark.filterwarnings("ignore:`X` spreads by no more than")
def test_the_scale_of_the_numbers_changes_no_label(engine):
    """Of time stamps, to which 1e8 is added, which of two starts that lead to the same clusters is told is a matter of
    rounding."""
    if isinstance(engine, bf.BigLearnMixture):
        pytest.skip("its start is in the units of X; refused in its own tests")
    late = clone(engine).fit(table() + 1e8, sensitive_features=GROUP)
    assert adjusted_rand_score(fitted(engine).labels_, late.labels_) == 1
    if isinstance(engine, bf.TiltedKMeans):  # whose tilt is in the units of X
        engine = UNTILTED
    for scale in (2.0**-996, 2.0**250):
        plain, other = fitted(engine), clone(engine).fit(scale * table(), sensitive_features=GROUP)
        np.testing.assert_array_equal(other.labels_, plain.labels_)
        np.testing.assert_array_equal(other.predict(scale * table()), plain.predict(table()))


@every_engine
@pytest.mark.filterwarnings("ignore:`X` spreads by no more than")
def test_numbers_that_underflow_become_zero_whatever_numpy_is_told(engine):
    """Costs in the units of a tiny table, and probabilities of far rows, failed under `np.seterr(all="raise")`."""
    if isinstance(engine, bf.TiltedKMeans):  # whose tilt is in the units of X
        engine = UNTILTED
    X = table() * (1.0 if isinstance(engine, bf.BigLearnMixture) else 2.0**-996)
    with np.errstate(all="raise"):
        est = clone(engine).fit(X, sensitive_features=GROUP)
        est.predict(X)
        if hasattr(est, "predict_proba"):
            assert np.isfinite(est.predict_proba(X)).all()


@every_engine
def test_columns_of_other_units_are_told_where_distances_are_of_raw_columns(engine):
    """Before any work: warnings are errors here. Constant columns have no units. BigLearn has a warning of its own."""
    apart = table().assign(bmi=1.0, income=3000 * table().income)
    told = r"in column 'income': distances hardly see .*StandardScaler"
    if isinstance(engine, bf.BigLearnMixture):
        told = "column 'income' spreads by .*: all starts are practically the same"
    with pytest.raises(UserWarning, match=told):
        clone(engine).fit(apart, sensitive_features=GROUP)


@every_engine
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_sensitive_column_among_the_features_is_told_where_groups_are_used(engine):
    X = table()[["age", "income"]].assign(sex=np.unique(GROUP, return_inverse=True)[1])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        clone(engine).fit(X, sensitive_features=GROUP)
    told = [one for one in told if "Column 'sex' of `X` follows from `sensitive_features`" in str(one.message)]
    assert [one.filename for one in told] == [__file__] * engine.uses_groups


EVERYBODY = [*ENGINES, bf.GibbsFairClustering(2, random_state=0), bf.BayesianFairMixture(2, random_state=0)]


@pytest.mark.parametrize("estimator", EVERYBODY, ids=name_of)
def test_groups_in_the_place_of_y_are_refused_by_name(estimator):
    for groups in (GROUP, pandas.DataFrame({"sex": GROUP}), bf.fairness.encode_groups(GROUP), GROUP[0] == GROUP):
        with pytest.raises(TypeError, match=r"`y` must be left out.*sensitive_features="):
            clone(estimator).fit(table(), groups)


def test_numbers_in_the_place_of_y_are_told_where_clusters_are_not_fair():
    with pytest.raises(UserWarning, match=r"without any fairness.*second argument, `y`, is not read"):
        clone(ENGINES[4]).fit(table(), np.unique(GROUP, return_inverse=True)[1])


def test_a_stop_before_there_is_a_result_says_what_is_kept_in_one_sentence(monkeypatch):
    engine = clone(ENGINES[4])

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(bf.FairletKMeans, "solve", stopped)
    with pytest.raises(KeyboardInterrupt, match=r"^Stopped before there was a result: nothing new is kept\.$"):
        engine.fit(table(), sensitive_features=GROUP)
    monkeypatch.undo()
    labels = engine.fit(table(), sensitive_features=GROUP).labels_
    monkeypatch.setattr(bf.FairletKMeans, "solve", stopped)
    with pytest.raises(KeyboardInterrupt, match="nothing new is kept, and the earlier fit stays") as told:
        engine.fit(table(), sensitive_features=GROUP)
    assert len(told.traceback) <= 4
    assert engine.labels_ is labels

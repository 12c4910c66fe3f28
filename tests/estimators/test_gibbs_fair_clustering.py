"""The estimator: what scikit-learn expects, what a file keeps, and what bad input is told."""

import pickle
import re
from dataclasses import replace
from html import escape

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import bayesfair as bf
from bayesfair import gibbs
from bayesfair.estimators import GibbsFairClustering
from bayesfair.posterior.diagnostics import brief
from bayesfair.posterior.settings import as_attribute, of_attribute
from bayesfair.posterior.tree import draws_of

SHORT = {"target": "joint", "num_chains": 2, "num_warmup": 6, "num_draws": 10, "random_state": 0, "progress_bar": False}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # ten draws


def fit(data, **settings):
    return GibbsFairClustering(2, **{**SHORT, **settings}).fit(data.features, sensitive_features=data.sensitive)


@pytest.fixture(scope="module")
def fitted(data):
    return fit(data)


@pytest.fixture(scope="module")
def cut(data):
    return fit(data, target="cut", modes=None)


def same_draws(a, b):
    for group in ("posterior", "sample_stats", "sampler_state"):
        for name, values in a.posterior_[group].data_vars.items():
            np.testing.assert_array_equal(values.values, b.posterior_[group][name].values, err_msg=name)


def test_every_draw_is_balanced(data, fitted):
    assert (fitted.posterior_["sample_stats"]["balance"] == 1).all()  # 50 : 50, fairlets of one and one
    assert bf.fairness.balance(fitted.labels_, data.sensitive) == 1
    assert set(fitted.labels_) == set(fitted.map_labels_) == {0, 1}
    np.testing.assert_array_equal(fitted.labels_, bf.posterior.reference_partition(fitted.posterior_))
    told = bf.posterior.misclassification_probability(fitted.posterior_)
    np.testing.assert_array_equal(fitted.misclassification_probability_, told)
    assert (fitted.posterior_["posterior"]["labels"].dtype, fitted.n_iter_) == (np.int8, 16)
    assert inverse_temperatures(fitted, "lambda_f") > 1


def test_resume_from_a_file_is_one_longer_run(data, fitted, tmp_path):
    fitted.save(tmp_path / "run.nc")
    loaded = GibbsFairClustering.load(tmp_path / "run.nc")
    assert loaded.get_params() == fitted.get_params()
    np.testing.assert_array_equal(loaded.cluster_centers_, fitted.cluster_centers_)
    resumed = loaded.resume(7)
    longer = fit(data, num_draws=17)
    same_draws(resumed, longer)
    np.testing.assert_array_equal(resumed.labels_, longer.labels_)
    assert resumed.feature_names_in_.tolist() == longer.feature_names_in_.tolist()


def test_columns_named_by_numbers_are_no_feature_names_as_in_scikit_learn(data, tmp_path):
    est = fit(data)
    numbered = data.features.set_axis(range(data.features.shape[1]), axis=1)
    est.fit(numbered, sensitive_features=data.sensitive).predict(numbered)  # warned that X had no valid names
    assert not hasattr(est, "feature_names_in_")
    est.save(tmp_path / "run.nc")
    assert not hasattr(GibbsFairClustering.load(tmp_path / "run.nc"), "feature_names_in_")


@pytest.mark.slow
def test_automatic_thinning_is_told_stored_and_gone_on_with(data, tmp_path, monkeypatch):
    """Chosen once, and the same draws however the run is cut."""
    monkeypatch.setattr("bayesfair.gibbs.thinning.WORTH", 5.0)
    settings = {"thinning": "auto", "num_warmup": 120, "modes": None}
    auto = fit(data, num_draws=20, **settings)
    assert auto.thinning_ > 1
    assert auto.n_iter_ == 120 + 20 * auto.thinning_
    auto.save(tmp_path / "run.nc")
    again = GibbsFairClustering.load(tmp_path / "run.nc")
    assert (again.thinning, again.thinning_) == ("auto", auto.thinning_)
    # Clusters are renumbered by the partition of all draws, so the trees agree to the last bit.
    same_draws(again.resume(num_draws=10), fit(data, num_draws=30, **settings))


SETTINGS = [  # of all types
    gibbs.Dispersion(2, 1), gibbs.Dispersion(), bf.models.Prior(weight=3.0, sd=(0.4, 0.6)),
    bf.models.Prior(mean=dist.Laplace(0.0, 1.0), weight=[1.0, 2.0]), bf.models.Prior(weight=dist.Gamma(1.0, 200.0)),
    (0.5, 1.0), [0.5, 1.0], ("k-means",), (np.float64(0.5), 1), ["sex"], [[1, 1]] * 50, [(1, [2, (3,)])],
    np.array([0.5, 2.0]), np.ones((50, 2), int), np.array([True, False]),
    {"a": 1, "b": 0}, {1: 2, 0: np.int64(3)}, {"F": 1, "M": (2, None)}, {1: "a", "b": [(), {}]}, {"__type__": [1]},
    "auto", None, 1.0, 2, np.float32(0.5), np.int64(5), True, False, np.False_,
]  # fmt: skip


def same_value(one, other):
    """Equal, of the same type but for NumPy's scalars, part by part."""
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and np.array_equal(one, other)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same_value, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(same_value, one.values(), other.values()))
    return one == other and isinstance(one, str) == isinstance(other, str)


def test_settings_come_back_as_they_were():
    """What `save` writes and `load` reads is what `as_attribute` and `of_attribute` do to the parameters."""
    for value in SETTINGS:
        assert same_value(of_attribute(as_attribute(value)), value), value
    assert not same_value(gibbs.Dispersion(2, 1), [2, 1])  # this can fail
    assert not same_value((2, 1), [2, 1])
    for value in (1j, object(), np.random.RandomState(0)):  # what no file holds
        assert of_attribute(as_attribute(value)) is None
    assert of_attribute("Tensor(3)") == "Tensor(3)"


@pytest.mark.slow
def test_a_random_state_that_has_a_state_is_not_stored_and_booleans_of_numpy_are_booleans(data, tmp_path):
    est = fit(data, random_state=np.random.RandomState(0), progress_bar=np.False_)
    est.save(tmp_path / "run.nc")
    loaded = GibbsFairClustering.load(tmp_path / "run.nc")
    assert loaded.random_state is None
    same_draws(loaded.resume(3), est.resume(3))


def test_a_notebook_shows_the_diagram_and_the_posterior_in_short(fitted):
    shown = fitted._repr_html_()
    assert "sk-top-container" in shown
    notes, sizes = brief(fitted.posterior_), np.bincount(fitted.labels_)
    assert "How sure:" in [note.headline for note in notes]
    for html in (shown, fitted._repr_mimebundle_()["text/html"]):
        assert all(escape(note.text) in html for note in notes)
        assert f"{len(sizes)}, of {', '.join(map(str, sizes))} rows." in html
    assert "How sure:" not in clone(fitted)._repr_html_()


def test_pickles_clones_polars_and_numpy_give_the_same_draws(data, fitted):
    same_draws(pickle.loads(pickle.dumps(fitted)), fitted)
    frame = pl.from_pandas(data.features)
    by_polars = clone(fitted).fit(frame, sensitive_features=pl.Series(data.sensitive.tolist()))
    same_draws(by_polars, fitted)
    labels = clone(fitted).fit_predict(data.features.to_numpy(), sensitive_features=list(data.sensitive))
    np.testing.assert_array_equal(labels, fitted.labels_)


def inverse_temperatures(est, name):
    """How many different ones there are."""
    return np.unique(est.posterior_["posterior"][name].values).size


def test_the_inverse_temperatures_of_a_fit_can_be_handed_back(data):
    settings = {"target": "optimal", "modes": None}
    known = fit(data, inverse_temperature="holmes-walker", **settings).inverse_temperature_
    again = fit(data, inverse_temperature=known, **settings)
    np.testing.assert_allclose(again.inverse_temperature_, known, rtol=1e-6)
    assert inverse_temperatures(again, "lambda_f") == inverse_temperatures(again, "lambda_c") == 1


def test_rows_go_to_their_likeliest_cluster_by_the_power_of_the_loss(data):
    est = fit(data, loss=gibbs.Minkowski(3.0), target="optimal", modes=None)
    assert bf.fairness.balance(est.labels_, data.sensitive) == 1
    soft, far = est.predict_proba(data.features), cdist(data.features, est.cluster_centers_, "minkowski", p=3.0)
    np.testing.assert_array_equal(est.predict(data.features), soft.argmax(1))
    certain = soft.max(1) > 0.95
    assert certain.mean() > 0.3
    np.testing.assert_array_equal(soft.argmax(1)[certain], far.argmin(1)[certain])


@pytest.mark.slow
def test_a_loss_of_your_own_survives_a_file(data, tmp_path):
    def distance(x, y):
        return np.abs(x - y).sum()

    est = fit(data, loss=gibbs.Loss(pair=distance, degree=1), target="optimal", modes=None)
    est.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match=r"Pass the bf\.gibbs\.Loss"):
        GibbsFairClustering.load(tmp_path / "run.nc")
    again = GibbsFairClustering.load(tmp_path / "run.nc", loss=gibbs.Loss(pair=distance, degree=1))
    same_draws(again.resume(3), est.resume(3))


BAD_SETTINGS = [
    ({"n_clusters": 51}, "There are 50 fairlets"),
    ({"n_clusters": 0}, "`n_clusters` must be an integer"),
    ({"modes": "many"}, "`modes` must be 'auto'"),
    ({"modes": gibbs.ModeSearch(num_starts=0)}, "`num_starts` must be an integer"),
    ({"n_clusters": 2.5}, "`n_clusters` must be an integer"),
    ({"inverse_temperature": (0.0, 1.0)}, "`inverse_temperature` must be a finite number above zero"),
    ({"inverse_temperature": (1.0, -2.0)}, "`inverse_temperature` must be a finite number above zero"),
    ({"inverse_temperature": "warm"}, "'dispersion', 'calibrated', 'holmes-walker', a number, a pair"),
    ({"inverse_temperature": "loss-likelihood-bootstrap"}, "It is withdrawn"),
    ({"inverse_temperature": 1.0}, "a pair for targets over fairlets, got one number"),
    ({"inverse_temperature": (1.0, 2.0), "target": "labels"}, "one number for target='labels', got a pair"),
    ({"loss": "cosine"}, "`loss` must be one of"),
    ({"target": "posterior"}, "`target` must be one of"),
    ({"target": gibbs.Joint(composition=(3, 1))}, "`composition` must be near the ratio"),
    ({"target": gibbs.Joint(composition=[[1, 1]] * 49)}, "`composition` must use every row"),
    ({"target": gibbs.Joint(fairlet_move="jumps")}, "`fairlet_move` must be"),
    ({"target": gibbs.Joint(composition="singletons", keep_fairlets=True)}, "`keep_fairlets` must be left out"),
    ({"target": gibbs.Cut(inner_steps=0)}, "`inner_steps` must be an integer"),
    ({"target": gibbs.Labels(size_min=0)}, "`size_min` must be an integer"),
    ({"num_draws": 0}, "`num_draws` must be an integer"),
    ({"num_warmup": -1}, "`num_warmup` must be an integer"),
    ({"thinning": "often"}, "`thinning`.*'auto'"),
    ({"thinning": 2.5}, "`thinning`.*'auto'"),
    ({"loss": "itakura-saito"}, "must be above 0"),
]


@pytest.mark.parametrize(("settings", "text"), BAD_SETTINGS)
def test_bad_settings_are_told(data, settings, text):
    negative = data.features - data.features.max()
    with pytest.raises((ValueError, TypeError), match=text):
        GibbsFairClustering(**{"n_clusters": 2, **SHORT, **settings}).fit(negative, sensitive_features=data.sensitive)


ROWS, AB = np.random.default_rng(0).normal(size=(20, 2)), ["a", "b"] * 10
CELL = np.arange(40).reshape(20, 2) == 7
BAD_TABLES = [
    (np.where(CELL, np.nan, ROWS), AB, "NaN"),
    (np.where(CELL, np.inf, ROWS), AB, "infinity"),
    (np.full((20, 2), "x"), AB, "could not convert string to float"),
    (pd.DataFrame({"a": []}), [], "0 sample"),
    (ROWS, [None, *AB[1:]], "missing"),
    (ROWS, ["a"] * 20, "at least two groups"),
    (ROWS, AB[:-1], "one entry per row"),
    (np.eye(2)[[0, 0, 1, 1] * 5], AB, "`n_clusters` must be at most the number of distinct rows, 2, got 3"),
    (ROWS[:1], AB[:1], "at least two groups"),
]


@pytest.mark.parametrize(("X", "groups", "text"), BAD_TABLES)
def test_bad_tables_are_told(X, groups, text):
    with pytest.raises((ValueError, TypeError), match=text):
        GibbsFairClustering(3, **SHORT).fit(X, sensitive_features=groups)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["joint", "labels"])
def test_as_many_clusters_as_rows_that_differ_work(target):
    """It ran on or hung where distances are tied."""
    X, s = np.eye(5)[(np.arange(40) // 2) % 5], np.resize(["f", "m"], 40)
    fixed = (2.0,) if target == "labels" else (1.0, 2.0)
    short = {**SHORT, "target": target, "num_warmup": 20, "num_draws": 20, "inverse_temperature": fixed}
    est = GibbsFairClustering(5, **short).fit(X, sensitive_features=s)
    assert bf.fairness.balance(est.labels_, s) > 0
    np.testing.assert_allclose(est.inverse_temperature_, fixed, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Group 'b' has 1 of 40 rows")
@pytest.mark.parametrize("name", ["one feature, rows repeated", "a constant column and a group of one member"])
def test_awkward_tables_work(name):
    X, s = np.random.default_rng(1).normal(size=(40, 2)), np.array(["a", "b"] * 20)
    alone = name.endswith("member")
    if alone:
        X, s[:-1] = np.column_stack([X, np.ones(40)]), "a"
    else:
        X = np.repeat(X[:10, :1], 4, 0)
    est = GibbsFairClustering(1 if alone else 3, **SHORT)
    labels = est.fit(X, sensitive_features=s).labels_
    assert len(set(labels)) == est.n_clusters
    assert np.isfinite(est.posterior_["sample_stats"]["lp"]).all()


SCALE = 2.0**60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "degree", "plain", "scaled"),
    [
        ("kmeans", 2, gibbs.Dispersion(2, 0.5), gibbs.Dispersion(2, 0.5 * SCALE**2)),
        ("manhattan", 1, (0.5, 1.5), (0.5 / SCALE, 1.5 / SCALE)),
    ],
)
def test_the_size_of_the_numbers_changes_the_units_and_nothing_else(data, loss, degree, plain, scaled):
    one = fit(data, loss=loss, inverse_temperature=plain).resume(3)
    large = replace(data, features=SCALE * data.features)
    two = fit(large, loss=loss, inverse_temperature=scaled).resume(3)
    np.testing.assert_array_equal(one.posterior_["posterior"]["labels"], two.posterior_["posterior"]["labels"])
    for group, variable, power in (
        ("posterior", "lambda_c", -degree),
        ("posterior", "lambda_f", -degree),
        ("sample_stats", "fairlet_loss", degree),
        ("sample_stats", "clustering_loss", degree),
    ):
        known = one.posterior_[group][variable].values.astype(float)
        np.testing.assert_allclose(two.posterior_[group][variable].values, SCALE**power * known, rtol=1e-12)


@pytest.mark.parametrize(
    ("loss", "change", "text"),
    [
        ("kmeans", lambda X: 1e100 * X, "a spread whose powers fit float64"),
        ("manhattan", lambda X: 1e-200 * X, "a spread whose powers fit float64"),
        ("kmeans", lambda X: X.assign(x1=X["x1"].where(X.index != 3, 1e155)), r"1e\+155 in column 'x1'"),
        ("kmeans", lambda X: X + 1e16, "float64 can resolve.* in column 'x1'"),
    ],
)
def test_numbers_that_cannot_be_held_are_refused_by_name(data, loss, change, text):
    with pytest.raises(ValueError, match=text):
        GibbsFairClustering(2, loss=loss, **SHORT).fit(change(data.features), sensitive_features=data.sensitive)


def test_groups_in_the_place_of_y_are_refused(data):
    with pytest.raises(TypeError, match=r"`y` must be left out.* Pass groups as fit\(X, sensitive_features"):
        GibbsFairClustering(2, **SHORT).fit(data.features, data.sensitive)


def test_settings_of_a_target_are_those_of_a_nested_estimator(data):
    est = GibbsFairClustering(2, **{**SHORT, "target": gibbs.Labels(min_balance=0.8)})
    assert est.get_params()["target__min_balance"] == 0.8
    other = clone(est).set_params(target__min_balance=0.5)
    assert (est.target.min_balance, other.target.min_balance) == (0.8, 0.5)
    assert "target=Labels(min_balance=0.8)" in repr(est)
    assert pickle.loads(pickle.dumps(est)).target.get_params() == est.target.get_params()


@pytest.mark.slow
def test_a_table_that_was_changed_after_the_fit_is_not_gone_on_with(data, fitted, tmp_path):
    """The table of a tree is the user's own array: a resumed run mixed draws of two of them."""
    X = np.array(data.features, order="C")
    est = GibbsFairClustering(2, **SHORT).fit(X, sensitive_features=data.sensitive)
    assert np.shares_memory(X, est.posterior_["observed_data"]["X"].values)
    X *= 100
    for goes_on in (lambda: est.resume(2), lambda: est.save(tmp_path / "run.nc")):
        with pytest.raises(ValueError, match=r"`X` must be unchanged since the fit, got a table that was changed"):
            goes_on()
    X[:] = data.features
    est.save(tmp_path / "run.nc")
    same_draws(GibbsFairClustering.load(tmp_path / "run.nc").resume(2), est.resume(2))


def _interrupted(*_):
    raise KeyboardInterrupt


@pytest.mark.slow
def test_a_second_fit_that_fails_leaves_the_first_as_it_was(data, tmp_path, monkeypatch):
    """It left its own encoding, names, store and seed with the posterior of the first, and rows went to other clusters."""
    frame = data.features.assign(kind=np.where(np.arange(len(data.features)) % 3 == 0, "u", "v"))
    est = GibbsFairClustering(2, **{**SHORT, "target": "optimal"}).fit(frame, sensitive_features=data.sensitive)
    other = frame.assign(kind=frame["kind"].replace("u", "w"), more=1.0).set_axis(frame.index + 5)
    again, before = pickle.loads(pickle.dumps(est)), vars(est).copy()
    monkeypatch.setattr("bayesfair.estimators.gibbs_fair_clustering.warm_up", _interrupted)
    for n_clusters, error in [(500, ValueError), (2, KeyboardInterrupt)]:
        with pytest.raises(error):
            est.set_params(n_clusters=n_clusters).fit(
                other, sensitive_features=data.sensitive.set_axis(other.index), store=tmp_path / "run.zarr"
            )
    assert vars(est).keys() == before.keys()
    assert all(vars(est)[name] is value for name, value in before.items())
    np.testing.assert_array_equal(est.predict(frame), again.predict(frame))
    same_draws(est.resume(2), again.resume(2))


CHANGED = {
    "n_clusters": 3,
    "loss": "manhattan",
    "target": gibbs.Joint(composition="singletons"),
    "inverse_temperature": (1.0, 1.0),
    "thinning": 3,
}


def test_resuming_with_other_settings_is_refused_but_for_what_may_change(fitted):
    """Draws of two laws were one posterior, or a KeyError ended it."""
    for name, value in CHANGED.items():
        est, before = pickle.loads(pickle.dumps(fitted)), fitted.get_params()[name]
        est.set_params(**{name: value})
        with pytest.raises(
            ValueError, match=re.escape(f"`{name}` must be that of the fit, {before!r}, got {value!r}. resume()")
        ):
            est.resume(2)
        same_draws(est, fitted)
    est = pickle.loads(pickle.dumps(fitted)).set_params(num_draws=3, progress_bar=False, n_jobs=1)
    assert est.resume().posterior_["posterior"].sizes["draw"] == 13
    assert est.resume(1).posterior_["posterior"].sizes["draw"] == 14


def test_files_of_other_runs_are_told(fitted, tmp_path):
    path = tmp_path / "run.nc"
    tree = fitted.posterior_.copy()
    del tree["sampler_state"]
    bf.posterior.write_tree(tree, path)
    with pytest.raises(ValueError, match="not a run of GibbsFairClustering"):
        GibbsFairClustering.load(path)
    tree = fitted.posterior_.copy()
    tree.attrs["format"] = 3
    bf.posterior.write_tree(tree, path)
    with pytest.raises(ValueError, match="a run of another version of bayesfair"):
        GibbsFairClustering.load(path)


def test_what_the_chains_say_is_told_after_fit_and_resume(data, fitted):
    """What that is: tests/posterior/test_modes.py."""
    for goes_on in (lambda: fit(data), lambda: pickle.loads(pickle.dumps(fitted)).resume(1)):
        with pytest.warns(ConvergenceWarning, match="Too few draws to tell|do not agree") as told:
            goes_on()
        assert told[0].filename == __file__


@pytest.mark.slow
def test_a_posterior_without_density_has_no_map_and_all_else(cut, tmp_path):
    with pytest.raises(AttributeError, match=r"no `map_labels_`.*Under target='cut' densities are not known"):
        cut.map_labels_  # noqa: B018
    assert "lp" not in bf.posterior.summary(cut.posterior_).index
    assert inverse_temperatures(cut, "lambda_f") == 1 < inverse_temperatures(cut, "lambda_c")
    cut.save(tmp_path / "run.nc")
    loaded = GibbsFairClustering.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(loaded.misclassification_probability_, cut.misclassification_probability_)
    assert bf.plots.trace(loaded.posterior_).shape[1] == 2
    assert "lp" not in draws_of(loaded.posterior_).scalars

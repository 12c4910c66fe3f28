"""New rows: memberships one by one, and places all together."""

import pickle

import numpy as np
import pandas as pd
import pytest
from tiers import tiers
from toys.tables import PLAIN, THIRDS

import bayesfair as bf
from bayesfair.estimators.mixed_tables import distances
from bayesfair.gibbs.loss import resolve_loss

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few draws
SHORT = {"num_chains": 2, "num_warmup": 30, "num_draws": 30, "modes": None, "random_state": 0, "progress_bar": False}


@pytest.fixture(scope="module")
def table():
    return PLAIN, pd.Series(THIRDS, PLAIN.index, name="sex")


@pytest.fixture(scope="module", params=tiers(["labels", "joint"], ["labels"]))
def fitted(request, table):
    X, groups = table
    return bf.GibbsFairClustering(2, target=request.param, **SHORT).fit(X, sensitive_features=groups)


@pytest.mark.slow
def test_memberships_of_new_rows_are_means_over_draws(fitted, table):
    X = table[0].iloc[:7]
    posterior = fitted.posterior_["posterior"]
    units = 3.0 if fitted.target == "joint" else 1.0  # rows of a fairlet
    total = np.zeros((7, 2))
    for chain in range(2):
        for draw in range(30):
            centers, temperature = (posterior[name].values[chain, draw] for name in ("centers", "lambda_c"))
            weight = np.exp(-temperature / units * np.square(X.values[:, None] - centers).sum(2))
            total += weight / weight.sum(1, keepdims=True)
    np.testing.assert_allclose(fitted.predict_proba(X), total / 60, atol=1e-9)
    np.testing.assert_array_equal(fitted.predict_proba(X.iloc[:1])[0], fitted.predict_proba(X)[0])


def test_new_rows_are_placed_as_balanced_as_the_draws(fitted, table):
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(60, 2)) + 4 * (np.arange(60) % 3 == 0)[:, None], columns=["x", "y"])
    groups = np.array(["a", "b", "b"])[np.arange(60) % 3]  # all of one cluster are of one group
    labels = fitted.reassign(X, sensitive_features=groups)
    assert bf.fairness.balance(fitted.predict(X), groups) < 0.1
    assert bf.fairness.balance(labels, groups) >= (0.5 if fitted.target == "joint" else 0.45)
    assert (labels == fitted.predict(X)).mean() > 0.5
    np.testing.assert_array_equal(labels, fitted.reassign(X, sensitive_features=groups))
    np.testing.assert_array_equal(fitted.predict(X), fitted.predict_proba(X).argmax(1))
    with pytest.raises(ValueError, match=r"groups of the fit, 'a', 'b', got 'c'.*spelling"):
        fitted.reassign(table[0].iloc[:3], sensitive_features=["a", "b", "c"])


def test_new_rows_are_placed_with_groups_of_the_same_index(fitted, table):
    X, groups = (part.iloc[:30] for part in table)
    for other in (groups[::-1], groups.set_axis(range(900, 930))):
        with pytest.raises(ValueError, match="`sensitive_features` must have the row index of `X`"):
            fitted.reassign(X, sensitive_features=other)


def test_new_rows_are_placed_by_the_sensitive_column_of_the_fit(fitted, table):
    """Both columns hold the same levels: nothing but their names tells them apart."""
    X, groups = (part.iloc[:30] for part in table)
    for other in (groups.rename("single"), groups.to_frame("single")):
        with pytest.raises(ValueError, match="must have the columns of the fit, 'sex', got 'single'"):
            fitted.reassign(X, sensitive_features=other)
    expected = fitted.reassign(X, sensitive_features=groups)
    for same in (groups.to_frame(), groups.rename(None), groups.to_numpy(), bf.fairness.encode_groups(groups)):
        np.testing.assert_array_equal(fitted.reassign(X, sensitive_features=same), expected)


@pytest.mark.slow
def test_merged_groups_are_known_by_the_name_of_the_merged_one(table):
    X, groups = table[0], np.array([*["a"] * 40, *["b"] * 40, *["c"] * 5, *["d"] * 5])
    est = bf.GibbsFairClustering(2, target="optimal", min_group_size=8, **SHORT).fit(X, sensitive_features=groups)
    labels = est.reassign(X.iloc[:6], sensitive_features=["a", "b", "c", "d", "e", "a"])
    assert set(labels) <= {0, 1}


def test_without_groups_there_is_nothing_to_balance(table):
    with pytest.warns(UserWarning, match="without any fairness"):
        est = bf.GibbsFairClustering(2, target="optimal", inverse_temperature=(1.0, 1.0), **SHORT).fit(table[0])
    np.testing.assert_array_equal(est.reassign(table[0], sensitive_features=None), est.predict(table[0]))


CENTERS_AT_EDGES = {"kl": ([[0.0, 4.0], [9.0, 4.0]], 9.0), "binary": ([[0.0, 0.5], [1.0, 0.5]], 1.0)}


@pytest.mark.parametrize("unit", [1.0, 1e-9])
@pytest.mark.parametrize("loss", CENTERS_AT_EDGES)
def test_a_centre_at_the_edge_of_the_domain_takes_no_rows_from_elsewhere(loss, unit):
    """0 log(0 / 0) made every count free in a cluster of zeros."""
    unit = unit if loss == "kl" else 1.0
    centers, top = np.array(CENTERS_AT_EDGES[loss][0]) * unit, CENTERS_AT_EDGES[loss][1] * unit
    rows = np.array([[0.0, centers[0, 1]], [top, centers[0, 1]]])
    dissimilarity = resolve_loss(loss).dissimilarity
    cost = distances(dissimilarity, rows, np.vstack([centers, [[np.nan, np.nan]]]).astype(np.float32)) / unit
    assert cost[0, 0] < 1e-5 < 1 < cost[0, 1] < np.inf
    assert cost[1, 1] < 1e-5 < 5 < cost[1, 0] < np.inf
    assert np.isinf(cost[:, 2]).all()


def test_a_column_of_zeros_tells_no_cluster_from_another():
    """Nor do rows that have something there: it costs all of them the same."""
    dissimilarity = resolve_loss("kl").dissimilarity
    cost = distances(dissimilarity, np.array([[1e-9, 1e-9]]), np.array([[1e-9, 0.0], [4e-9, 0.0]]))
    alone = distances(dissimilarity, np.array([[1e-9]]), np.array([[1e-9], [4e-9]]))
    np.testing.assert_allclose(np.diff(cost), np.diff(alone), rtol=1e-9)
    assert np.isfinite(distances(dissimilarity, np.ones((1, 2)), np.zeros((2, 2)))).all()


def test_new_rows_are_placed_by_the_settings_of_the_fit(fitted, table):
    X, groups = table
    est = pickle.loads(pickle.dumps(fitted))
    places = est.predict(X), est.predict_proba(X), est.reassign(X, sensitive_features=groups)
    est.set_params(loss="manhattan", n_clusters=3, target=bf.gibbs.Cut(composition="singletons"))
    others = est.predict(X), est.predict_proba(X), est.reassign(X, sensitive_features=groups)
    for one, other in zip(places, others):
        np.testing.assert_array_equal(one, other)


def test_new_rows_in_other_units_are_told(fitted, table):
    X = table[0]
    fitted.predict_proba(X.iloc[:5])
    for other in (1000 + 50 * X, X / 1000 - 40):
        with pytest.warns(UserWarning, match="give new rows the units and the scaling of the fit"):
            fitted.predict_proba(other)

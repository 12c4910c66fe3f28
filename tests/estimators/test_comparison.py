"""One method at several numbers of clusters: its columns by number, and what is the same whatever else is asked."""

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from toys.tables import MIXED, MIXTURE, SEX

import bayesfair as bf
from bayesfair._check import Interrupted, tell
from bayesfair.estimators import comparison
from bayesfair.models import sampler as sampling

RNG = np.random.default_rng(0)
CENTERS = np.array([[-6.0, 0.0], [6.0, 0.0], [0.0, 9.0], [0.0, -9.0]])
TRUTH = np.arange(120) % 4
X = pd.DataFrame(CENTERS[TRUTH] + RNG.normal(size=(120, 2)), columns=["east", "north"], index=np.arange(120)[::-1])
GROUPS = pd.Series(np.where(np.arange(120) // 4 % 2, "F", "M"), index=X.index)
GIBBS = bf.GibbsFairClustering(
    target="optimal", num_chains=2, num_warmup=32, num_draws=40, modes=None, random_state=0, progress_bar=False
)


@pytest.fixture(scope="module")
def table():
    return bf.compare_clusters(bf.FairletKMeans(random_state=0), X, GROUPS, [3, 2, 6, 4], num_bootstraps=2)


def test_costs_and_fairness_are_those_of_single_fits_and_the_true_number_is_found(table):
    assert table.index.tolist() == [3, 2, 6, 4]
    assert table.index.name == "n_clusters"
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    fit = bf.FairletKMeans(4, random_state=seed).fit(X, sensitive_features=GROUPS)
    assert table.loc[4, "cost"] == pytest.approx(fit.inertia_)
    assert table.loc[4, "balance"] == bf.fairness.balance(fit.labels_, GROUPS)
    plain = KMeans(4, n_init=10, random_state=seed).fit(X.to_numpy()).inertia_
    assert table.loc[4, "fairness_cost"] == pytest.approx(fit.inertia_ / plain - 1)
    assert table["converged"].all()
    assert table.attrs == {"method": "FairletKMeans"}
    assert comparison.elbow_of(table) == 4
    assert table["bootstrap_ari"].idxmax() == 4
    assert (
        table.loc[4, "bootstrap_ari"] > 0.6
    )  # not 1: clusters of a sample are not balanced, as those of the table are


def test_the_order_and_other_numbers_change_nothing(table):
    again = bf.compare_clusters(bf.FairletKMeans(9, random_state=0), X, GROUPS, [4, 2], num_bootstraps=2)
    pd.testing.assert_frame_equal(again, table.loc[[4, 2]], check_exact=True)
    assert comparison.elbow_of(again) is None  # of two


def test_bootstrap_samples_keep_the_groups_sizes():
    groups = bf.fairness.encode_groups(GROUPS)
    drawn = comparison._samples(120, groups, 3, 0)
    assert drawn.shape == (3, 120)
    for one in drawn:
        np.testing.assert_array_equal(groups.code[one], groups.code)
        assert 60 < len(np.unique(one)) < 95  # 1 - 1/e of them
    assert not np.array_equal(drawn[0], drawn[1])


@pytest.mark.slow
def test_attributes_that_are_balanced_one_by_one_are_so_in_the_samples_too():
    """Of the crossings one is rarer than a cluster, so that none could be balanced."""
    columns = pd.DataFrame({"sex": GROUPS, "region": np.where(np.arange(120) % 5, "south", "north")})
    columns.loc[(columns["sex"] == columns["sex"].iloc[0]) & (columns.index > 5), "region"] = "south"
    engine = bf.BalancedKMeans(crossed=False, min_balance=0.02, n_init=1, random_state=0)
    assert bf.fairness.balance(np.zeros(120), columns) < 0.02
    told = bf.compare_clusters(engine, X, columns, [3], num_bootstraps=1)
    assert told["balance"].item() >= 0.02  # that of the crossings is 0
    assert told["bootstrap_ari"].item() > 0


def test_the_bootstrap_compares_rows_with_themselves():
    """An estimator that knows everybody's cluster agrees with itself, whatever rows it is given; one that guesses does not."""

    class Known(bf.FairletKMeans):
        def fit(self, X, y=None, *, sensitive_features=None):
            self.labels_ = (
                (np.asarray(X["east"]) > 0).astype(int) if self.max_iter > 1 else RNG.integers(2, size=len(X))
            )
            return self

    groups = bf.fairness.encode_groups(GROUPS)
    labels = (np.asarray(X["east"]) > 0).astype(int)
    bar = type("Bar", (), {"update": staticmethod(lambda n: None)})
    (drawn,) = comparison._samples(120, groups, 1, 0)
    assert comparison._agreement(Known(2), labels, X, groups, drawn, bar) == 1
    assert abs(comparison._agreement(Known(2, max_iter=1), labels, X, groups, drawn, bar)) < 0.2


@pytest.mark.slow
def test_samplers_tell_doubt_modes_and_r_hat():
    gibbs = bf.compare_clusters(GIBBS, X, GROUPS, [2, 4], num_bootstraps=1)
    assert {"doubt", "modes", "r_hat"} <= set(gibbs.columns)
    assert "converged" not in gibbs
    assert gibbs.loc[4, "bootstrap_ari"] > 0.6
    assert gibbs.loc[4, "doubt"] < 0.02


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`X` has standard deviations from")  # income is in no unit of age
def test_mixtures_tell_bic_and_loo_and_of_categories_no_costs(monkeypatch):
    monkeypatch.setitem(sampling.LEAPFROG_STEPS, "nuts", 8)  # trees take seconds to compile
    settings = {"n_clusters": [2], "num_bootstraps": 0}
    engine = bf.compare_clusters(bf.FairMixture(max_gap=0.2, n_init=2, random_state=0), MIXED, SEX, **settings)
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    fit = bf.FairMixture(2, max_gap=0.2, n_init=2, random_state=seed).fit(MIXED, sensitive_features=SEX)
    assert engine.loc[2, "bic"] == fit.bic(MIXED)
    assert not {"bootstrap_ari", "cost"} & set(engine)
    assert comparison.elbow_of(engine) is None
    mixture = bf.BayesianFairMixture(**MIXTURE, num_draws=40, random_state=0, progress_bar=False)
    monkeypatch.setattr(comparison, "MANY_BAD", -1.0)
    with pytest.warns(UserWarning, match=r"`loo` at 2 clusters is not reliable for \d+% of the rows"):
        sampler = bf.compare_clusters(mixture, MIXED, SEX, **settings)
    assert np.isfinite(sampler.loc[2, "loo"])


def test_without_groups_and_samples_their_columns_are_absent():
    with pytest.warns(UserWarning, match="without any fairness"):
        table = bf.compare_clusters(bf.FairletKMeans(random_state=0), X, None, [2], num_bootstraps=0)
    assert set(table.columns) == {"cost", "converged"}


BAD = [
    (bf.FairletKMeans(), {"n_clusters": 4}, "be several numbers"),
    (bf.FairletKMeans(), {"n_clusters": []}, "contain every number once"),
    (bf.FairletKMeans(), {"n_clusters": [2, 3, 2]}, "contain every number once"),
    (bf.FairletKMeans(), {"n_clusters": [0, 1]}, "at least 1"),
    (bf.FairletKMeans(), {"n_clusters": [2.5]}, "be an integer"),
    (bf.FairletKMeans(), {"n_clusters": range(2, 62)}, "There are 60 fairlets: ask for fewer"),
    (bf.FairletKMeans(), {"num_bootstraps": -1}, "`num_bootstraps` must be an integer, at least 0"),
    (bf.FairletKMeans(), {"sensitive_features": GROUPS[:5]}, "one entry per row"),
    (bf.FairletKMeans, {}, "have a parameter n_clusters or n_components"),
    ("k-means", {}, "have a parameter n_clusters or n_components"),
]


@pytest.mark.parametrize(("estimator", "settings", "text"), BAD)
def test_bad_input_is_refused_before_much_is_done(estimator, settings, text, monkeypatch):
    fits = []
    monkeypatch.setattr(comparison, "_figures", lambda *_: fits.append(1) or {})
    with pytest.raises((ValueError, TypeError), match=text):
        bf.compare_clusters(estimator, X, **{"sensitive_features": GROUPS, **settings})
    assert fits == []


@pytest.mark.parametrize("call", [1, 2])
def test_ctrl_c_keeps_the_rows_that_are_done(call, monkeypatch):
    """An interrupted fit keeps what it has, which is no entry of a table."""
    fit, calls = bf.FairletKMeans.fit, []

    def interrupted(self, *arguments, **named):
        calls.append(1)
        if len(calls) == call:
            tell("Interrupted: kept a part.", Interrupted)
        return fit(self, *arguments, **named)

    monkeypatch.setattr(bf.FairletKMeans, "fit", interrupted)

    def compared():
        return bf.compare_clusters(bf.FairletKMeans(random_state=0), X, GROUPS, [2, 3], num_bootstraps=0)

    if call == 1:
        with pytest.raises(KeyboardInterrupt):
            compared()
        return
    with pytest.warns(Interrupted, match="has the rows that were done. It lacks n_clusters = 2"):
        assert compared().index.tolist() == [3]


@pytest.mark.parametrize("values", [(0.0, 1.0), (0.1, 0.7)])
def test_a_cost_of_zero_is_no_denominator(values):
    """k-means of as many distinct rows as clusters costs 0, but for rounding: a share of it was 4e30, or no share."""
    few = np.array([[a, b] for a in values for b in values])[np.arange(64) % 4]
    women = np.where(np.arange(64) % 4 == 0, "f", "m")
    table = bf.compare_clusters(bf.BalancedKMeans(random_state=0), few, women, [2, 4], num_bootstraps=0)
    assert table["fairness_cost"].isna().tolist() == [False, True]
    assert (table["cost"] > 0.1).all()

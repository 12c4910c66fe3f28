"""`sample_weight` and categories in the Gibbs posterior: the laws against naive ones, the estimator against its promises."""

from itertools import permutations

import numpy as np
import pandas as pd
import polars
import pytest

import bayesfair as bf
from bayesfair._tables import Columns
from bayesfair.estimators.mixed_tables import mixed_table
from bayesfair.fairness import encode_groups
from bayesfair.gibbs import Dispersion, Joint, Labels, Minkowski
from bayesfair.gibbs.fairlets import LOSS_C, LOSS_F
from bayesfair.gibbs.loss import resolve_loss
from bayesfair.gibbs.target import Table
from bayesfair.gibbs.units import LOSS

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few draws
N = 40
SETTINGS = {
    "num_chains": 2,
    "num_warmup": 20,
    "num_draws": 30,
    "modes": None,
    "target": "optimal",
    "random_state": 0,
    "progress_bar": False,
}


def people(n=N):
    rng = np.random.default_rng(0)
    kind = np.arange(n) // 2 % 2
    return pd.DataFrame(
        {
            "age": rng.normal(3.0 * kind, 1.0),
            "town": np.where(rng.random(n) < 0.8, np.array(["York", "Hull"])[kind], "Leeds"),
            "hours": rng.normal(20 - 5 * kind, 4.0),
            "owns": rng.random(n) < 0.2 + 0.6 * kind,
        }
    )


SEX = np.resize(["f", "m"], N)


def encoded(X, loss="kmeans", category_weight="auto", weight=None):
    X, where = X.astype({"town": object, "owns": object}), [1, 3]
    columns = Columns(X[["age", "hours"]].to_numpy(float), X[["town", "owns"]].to_numpy(object), ["age", "hours"])
    mixed = mixed_table(columns, where, list(X), resolve_loss(loss), category_weight, weight)
    return mixed, mixed.numbers(columns)


@pytest.mark.parametrize(("loss", "power"), [("kmeans", 2.0), ("manhattan", 1.0), (Minkowski(3.0), 3.0)])
def test_two_rows_pay_for_their_numbers_and_for_every_category_in_which_they_differ(loss, power):
    X = people()
    _, Z = encoded(X, loss, 2.5)
    paid = resolve_loss(loss).dissimilarity.pairwise(Z, Z)
    for i, j in [(0, 1), (3, 8), (2, 17), (5, 5), (9, 30)]:
        a, b = X.iloc[i], X.iloc[j]
        numbers = abs(a["age"] - b["age"]) ** power + abs(a["hours"] - b["hours"]) ** power
        expected = numbers + 2.5 * (int(a["town"] != b["town"]) + int(a["owns"] != b["owns"]))
        np.testing.assert_allclose(paid[i, j], expected if loss == "kmeans" else expected ** (1 / power), atol=1e-12)


def test_the_loss_of_a_cluster_is_that_of_its_pairs():
    """sum ||x - mean||^2 = sum over pairs of D / (2 n): k-prototypes' dissimilarity, and the law that follows."""
    X = people().iloc[:6]
    _, Z = encoded(X, category_weight=1.7)

    def naive(labels):
        total = 0.0
        for k in (0, 1):
            own = X[labels == k]
            for (_, a), (_, b) in ((one, other) for one in own.iterrows() for other in own.iterrows()):
                differ = int(a["town"] != b["town"]) + int(a["owns"] != b["owns"])
                total += ((a["age"] - b["age"]) ** 2 + (a["hours"] - b["hours"]) ** 2 + 1.7 * differ) / (2 * len(own))
        return total

    for labels in [np.array(row) for row in {*permutations([0, 0, 1, 1, 0, 1]), (0, 0, 1, 1, 1, 1)}]:
        np.testing.assert_allclose(loss_of(labels, Z, "kmeans"), naive(labels), rtol=1e-5)


def table_of(X, groups, weight=None, loss="kmeans", temperature=(0.1,)):
    """A table of two clusters; lambda has N d / 2 degrees of freedom."""
    weight = np.ones(len(X)) if weight is None else weight
    return Table(X, groups, weight, 2, resolve_loss(loss), temperature, weight.sum() * X.shape[1] / 2, 0)


def loss_of(labels, Z, loss):
    """The clustering loss that the posterior over labellings of encoded rows has."""
    law = Labels().prepare(table_of(Z, encode_groups(SEX[: len(Z)]), loss=loss))
    return law.state(0, labels, 1.0).number[LOSS]


@pytest.mark.parametrize("loss", ["kl", "binary"])
def test_categories_pay_entropies_under_losses_without_a_scale(loss):
    """Of the levels in the cluster under "kl", of each level against all others under "binary"."""
    X = people().iloc[:12][["town", "owns"]].astype(object)
    columns = Columns(np.zeros((12, 0)), X.to_numpy(), [])
    mixed = mixed_table(columns, [0, 1], list(X), resolve_loss(loss), "auto", None)

    def entropy(shares):
        return -sum(share * np.log(share) for share in shares if share > 0)

    def naive(labels):
        total = 0.0
        for own in (X[labels == k] for k in (0, 1)):
            for name, n_levels in (("town", 3), ("owns", 2)):
                shares = own[name].value_counts(normalize=True)
                alone = loss == "kl" or n_levels == 2
                paid = entropy(shares) if alone else sum(entropy([share, 1 - share]) for share in shares)
                total += len(own) * paid
        return total

    rng = np.random.default_rng(0)
    for labels in (rng.permutation(np.resize([0, 0, 1], 12)) for _ in range(20)):
        np.testing.assert_allclose(loss_of(labels, mixed.numbers(columns), loss), naive(labels), rtol=1e-4)


def test_automatic_category_weight_is_a_standard_deviation_whatever_the_unit():
    X = people()
    wide = X.assign(age=1000 * X["age"], hours=1000 * X["hours"])
    one, other = encoded(X)[1], encoded(wide)[1]
    np.testing.assert_allclose(other, 1000 * one, rtol=1e-9)
    variance = X[["age", "hours"]].to_numpy().var(0).mean()
    np.testing.assert_allclose(one[:, 5].max() ** 2, variance)
    weight = np.arange(1, N + 1)
    again = np.repeat(X[["age", "hours"]].to_numpy(), weight, axis=0).var(0).mean()
    np.testing.assert_allclose(encoded(X, weight=weight)[1][:, 5].max() ** 2, again)


def test_a_loss_without_scale_refuses_a_weight_of_categories():
    with pytest.raises(ValueError, match="`category_weight` must be 'auto' or 1"):
        encoded(people(), "kl", category_weight=2.0)
    with pytest.raises(ValueError, match="`loss` must support categorical features, got 'itakura-saito'"):
        encoded(people(), "itakura-saito")
    assert encoded(people(), "kl")[1].max() > 1


def test_a_column_of_very_many_levels_is_told():
    with pytest.warns(UserWarning, match="column 'town' has 30 levels in 40 rows"):
        encoded(people().assign(town=[f"row {i % 30}" for i in range(N)]))


@pytest.fixture(scope="module")
def fitted():
    X = people().astype({"town": "category"})
    est = bf.GibbsFairClustering(2, **SETTINGS).fit(X, sensitive_features=SEX, sample_weight=np.resize([1.0, 3.0], N))
    return X, est


@pytest.mark.slow
def test_a_mixed_table_is_fitted_and_predicts(fitted):
    X, est = fitted
    assert est.n_features_in_ == 4
    assert list(est.feature_names_in_) == ["age", "town", "hours", "owns"]
    assert est.posterior_["observed_data"]["feature"].values.tolist() == [
        "age", "hours", "town=Hull", "town=Leeds", "town=York", "owns=True",
    ]  # fmt: skip
    assert bf.fairness.balance(est.labels_, SEX) == 1
    assert (est.predict(X) == est.labels_).mean() > 0.9
    assert est.predict_proba(X).shape == (N, 2)
    assert bf.fairness.balance(est.reassign(X[:10], sensitive_features=SEX[:10]), SEX[:10]) == 1
    polar = polars.DataFrame({name: X[name].to_numpy() for name in X})
    np.testing.assert_array_equal(est.predict(polar), est.predict(X))
    with pytest.raises(ValueError, match="`X` must hold categories seen in fit"):
        est.predict(X.assign(town="Bath"))


@pytest.mark.slow
def test_weights_and_categories_are_stored_and_a_run_goes_on_as_if_it_had_not_stopped(fitted, tmp_path):
    X, est = fitted
    est.save(tmp_path / "run.nc")
    again = bf.GibbsFairClustering.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(again.predict(X), est.predict(X))
    np.testing.assert_array_equal(again.cluster_centers_, est.cluster_centers_)
    np.testing.assert_array_equal(est.posterior_["constant_data"]["weight"], np.resize([1.0, 3.0], N))
    own = again.labels_ == 0
    Z, weight = again.posterior_["observed_data"]["X"].values, np.resize([1.0, 3.0], N)
    np.testing.assert_allclose(again.cluster_centers_[0], np.average(Z[own], 0, weight[own]))
    stored = bf.GibbsFairClustering(2, **SETTINGS).fit(
        X, sensitive_features=SEX, sample_weight=weight, store=tmp_path / "store.zarr"
    )
    np.testing.assert_array_equal(stored.posterior_["posterior"]["labels"], est.posterior_["posterior"]["labels"])
    longer = again.resume(10).posterior_["posterior"]
    np.testing.assert_array_equal(longer["labels"].values, stored.resume(10).posterior_["posterior"]["labels"].values)


def test_weights_are_refused_where_they_are_none():
    X = people()[["age", "hours"]]
    est = bf.GibbsFairClustering(2, **SETTINGS)
    for bad in (np.zeros(N), np.ones(N - 1), -np.ones(N), np.full(N, np.nan), np.append(np.ones(N - 1), 0)):
        with pytest.raises(ValueError, match="`sample_weight` must"):
            est.fit(X, sensitive_features=SEX, sample_weight=bad)


@pytest.mark.parametrize("target", [Labels(), Joint()])
def test_whole_weights_give_the_law_of_repeated_rows_held_together(target):
    """The losses, and the degrees of freedom of lambda: N is the sum of the weights. Over fairlets all weights are 2."""
    rng = np.random.default_rng(1)
    X, group = rng.normal(size=(8, 2)), np.resize(["a", "b"], 8)
    weight = np.full(8, 2.0) if target.name == "joint" else np.resize([1.0, 2.0, 3.0], 8)
    copy_of = np.repeat(np.arange(8), weight.astype(int))
    for labels in ([0, 0, 1, 1, 0, 0, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0, 1, 1]):
        told = []
        for rows, w in ((np.arange(8), weight), (copy_of, None)):
            # Balance counts rows: it is not what is looked at.
            groups = encode_groups(group[rows] if target.name == "joint" else np.zeros(len(rows)))
            law = target.prepare(table_of(X[rows], groups, w, temperature=Dispersion(2.0, 1.0)))
            told.append(losses_of(law, np.array(labels)[rows], rows))
        np.testing.assert_allclose(*told, rtol=1e-12)


def losses_of(law, labels, rows):
    """(losses, the shape of lambda's law); fairlets are pairs of neighbours, each copy with a copy."""
    if law.target.name == "labels":
        return [law.state(0, labels, 1.0).number[LOSS], law.schedule.shape]
    copy = np.concatenate([np.arange((rows == i).sum()) for i in range(8)])
    fairlet = np.unique(np.stack([rows // 2, copy], 1), axis=0, return_inverse=True)[1].ravel()
    _, first = np.unique(fairlet, return_index=True)
    state = law.state(0, fairlet, labels[first], 1.0, 1.0)
    return [state.value[LOSS_F], state.value[LOSS_C], law.plan.shape]

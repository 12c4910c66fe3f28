"""Calibration: tallies by hand, a truth that is fitted, a planted inverse temperature, and what is refused."""

import numpy as np
import pandas as pd
import pytest

import bayesfair as bf
from bayesfair._check import Interrupted
from bayesfair.estimators import gibbs_fair_clustering
from bayesfair.posterior import calibrating
from bayesfair.posterior.calibrating import (
    BINS,
    binned,
    error_of,
    jackknife,
    kept_calibration,
    right_at,
    sentence,
    tally,
)
from bayesfair.posterior.truths import fitted_truth

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of short runs
FAST = {"num_chains": 1, "num_warmup": 60, "num_draws": 60, "modes": None, "random_state": 0, "progress_bar": False}


def root_of_distance(x, m):
    """A loss of one's own."""
    total = 0.0
    for j in range(len(x)):
        total += abs(x[j] - m[j]) ** 0.5
    return total


def fitted(data, n_clusters=3, **settings):
    est = bf.GibbsFairClustering(n_clusters, **FAST | settings)
    return est.fit(data.features, sensitive_features=data.sensitive)


@pytest.fixture
def short(monkeypatch):
    """Runs whose figures nobody reads."""
    monkeypatch.setattr(calibrating, "WARM_UP", 10)
    monkeypatch.setattr(calibrating, "DRAWS", 20)


def calibrated(est, n_tables=2, multiples=(0.5, 1.0), **settings):
    return bf.posterior.calibration(est, n_tables, multiples, progress_bar=False, **{"random_state": 0} | settings)


@pytest.fixture(scope="module")
def round_clusters():
    return bf.datasets.make_fair_mixture(60, 3, overlap=0.1, seed=1)


@pytest.fixture(scope="module")
def est(round_clusters):
    return fitted(round_clusters)


def test_the_error_of_bins_is_that_of_a_case_by_hand():
    """.92 and .98 state .95 on average and hold once; .05 never holds, as .0 and 1 hold where stated: 0.9 and 0.1 of 5."""
    tallied = binned(np.array([0.92, 0.98, 0.05, 0.0, 1.0]), np.array([1, 0, 0, 0, 1]))
    assert tallied.shape == (BINS, 4)
    np.testing.assert_allclose(tallied[9], [3, 2.9, 2, 0.08**2 + 0.98**2])
    np.testing.assert_allclose(tallied[0], [2, 0.05, 0, 0.05**2])
    assert error_of(tallied) == pytest.approx((0.9 + 0.05) / 5)
    two = np.stack([binned([0.85], [1]) + binned([0.95, 0.95], [1, 0])])
    assert right_at(two)[0] == pytest.approx(0.75)  # halfway between 1 and 1/2
    assert np.isnan(right_at(binned([0.85], [1])))


def test_the_jackknife_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(0).normal(size=(30, 1))
    mean, se = jackknife(lambda total: total[..., 0] / total[..., 1], np.stack([values, np.ones((30, 1))], -1))
    assert mean == pytest.approx(values.mean())
    assert se == pytest.approx(values.std(ddof=1) / np.sqrt(30))


def test_tallies_of_two_draws_by_hand():
    """Rows 0 and 1 are together for sure, row 3 alone with row 2 in one of two draws, which differ in their numbers."""
    draws = np.array([[0, 0, 1, 1], [1, 1, 0, 1]])
    found = tally(draws, np.array([0, 0, 1, 1]), 2)
    pairs, likeliest, ball, sets = found
    assert pairs[:, 0].sum() == 6
    np.testing.assert_allclose(pairs[9], [1, 1, 1, 0])  # rows 0 and 1
    np.testing.assert_allclose(pairs[5], [3, 1.5, 1, 0.75])  # row 3 with each other row
    np.testing.assert_allclose(pairs[0], [2, 0, 0, 0])
    np.testing.assert_allclose(likeliest[9], [3, 3, 3, 0])
    assert likeliest[5, :2].tolist() == [1, 0.5]
    assert ball.sum(0).tolist() == [1, 1, 1, 0]
    np.testing.assert_allclose(sets.sum(0), [4, 4, 4, 0])


@pytest.mark.parametrize("widths", [[], [3, 1]], ids=["numbers", "categories"])
def test_the_truth_that_is_fitted_has_the_shapes_of_the_table(widths):
    """Two long clusters that k-means would cut: a few steps of EM find covariances, centres and shares of levels."""
    covariance = np.array([[4.0, 1.5], [1.5, 1.0]])
    made = {"covariances": covariance, "centers": [[0, 0], [0, 5]], "seed": 0, "shares": [2, 1]}
    data = bf.datasets.make_fair_mixture(3_000, 2, 2, **made)
    z, rng = data.target.to_numpy(), np.random.default_rng(0)
    level = np.where(rng.random(3_000) < 0.8, z, 2)
    columns = [level[:, None] == np.arange(3), z[:, None] == 1][: len(widths)]
    X = np.concatenate([data.features.to_numpy(), *columns], 1)
    code = (data.sensitive == "b").to_numpy().astype(int)
    start = (X[:, 1] > 2.5).astype(int)
    truth = fitted_truth(X, code, start, 2, 2, widths, bounded=False)
    np.testing.assert_allclose(truth.share, [2 / 3, 1 / 3], atol=0.02)
    np.testing.assert_allclose(truth.center, made["centers"], atol=0.2)
    np.testing.assert_allclose(truth.covariance, [covariance] * 2, atol=0.5)
    assert truth.is_elongated
    rows = truth.features(rng, z)
    assert rows.shape == X.shape
    if widths:
        np.testing.assert_allclose(rows[z == 0, 2:5].mean(0), [0.8, 0, 0.2], atol=0.03)
        assert set(np.unique(rows[:, 2:])) == {0, 1}


def test_numbers_stay_in_their_range_where_the_loss_needs_it():
    X = np.random.default_rng(0).gamma(1.0, size=(90, 2))
    truth = fitted_truth(X, np.zeros(90, int), np.arange(90) % 2, 2, 2, [], bounded=True)
    rows = truth.features(np.random.default_rng(1), np.arange(500) % 2)
    assert (rows >= X.min(0)).all()
    assert (rows <= X.max(0)).all()


def test_true_clusters_of_simulated_tables_are_balanced_and_have_the_groups_of_the_run():
    data = bf.datasets.make_fair_mixture(700, 3, group_shares=[0.7, 0.2, 0.1], seed=2)
    trial = calibrating._trial(fitted(data, num_draws=20), [1.0])
    X, cluster = trial.truths.table(np.random.default_rng(0))
    code = trial.truths.groups.code
    assert len(X) == len(cluster) == 500
    assert np.bincount(code).tolist() == [350, 100, 50]
    counts = np.stack([np.bincount(code[cluster == k], minlength=3) for k in range(3)])
    assert np.abs(counts - np.outer(counts.sum(1), [0.7, 0.2, 0.1])).max() < 1


@pytest.fixture(scope="module")
def planted():
    """Fixed lambda four times 1 / (2 sigma^2) on round tables, sigma being 1."""
    data = bf.datasets.make_fair_mixture(90, 3, overlap=0.12, seed=0)
    return calibrated(fitted(data, inverse_temperature=2.0), 8, (0.125, 0.25, 1.0))


def test_an_inverse_temperature_four_times_too_large_is_seen(planted):
    assert planted.attrs["multiple"] == 0.25
    error = planted["error"].xs("pairs", level="statement")
    assert error[1.0] > 2.5 * error[0.25]
    stated, true = planted.loc[1.0, "label set"][["stated", "true"]]
    assert true < stated - 0.05
    assert "If these rows came from normal clusters" in planted.attrs["sentence"]
    assert "at 0.25 times it" in planted.attrs["sentence"]


def test_the_table_has_every_statement_at_every_multiple_with_errors(planted):
    assert planted.index.names == ["multiple", "statement"]
    assert len(planted) == 3 * 4
    assert planted[["stated", "true"]].to_numpy().min() >= 0
    assert planted[["stated", "true"]].to_numpy().max() <= 1
    assert planted[["error_se", "score_se"]].xs("pairs", level="statement").to_numpy().min() > 0
    assert set(planted.attrs["curve"]) == {"multiple", "stated", "true", "se"}


def test_results_depend_on_the_seed_and_not_on_the_number_of_tasks(est, short):
    one, two = calibrated(est, 3, n_jobs=1), calibrated(est, 3, n_jobs=2)
    assert one.equals(two)
    assert one.attrs == two.attrs
    assert not one.equals(calibrated(est, 3, random_state=1))


def test_a_loaded_run_gives_the_same(est, tmp_path, short):
    est.posterior_.attrs.pop("calibration", None)
    est.save(tmp_path / "run.nc")
    again = bf.GibbsFairClustering.load(tmp_path / "run.nc")
    assert "calibration" not in bf.posterior.summary(again.posterior_).sentences
    table = calibrated(again)
    assert bf.posterior.summary(again.posterior_).sentences["calibration"] == table.attrs["sentence"]
    assert table.equals(calibrated(est))
    again.save(tmp_path / "calibrated.nc")
    kept = kept_calibration(bf.posterior.read_tree(tmp_path / "calibrated.nc"))
    pd.testing.assert_frame_equal(kept, table, check_exact=False, atol=1e-6)
    assert kept.attrs["sentence"] == table.attrs["sentence"]
    assert kept_calibration(bf.posterior.read_tree(tmp_path / "run.nc")) is None


@pytest.mark.slow  # five fits, a folder, and three continuations
def test_calibrated_is_the_run_at_the_multiple_that_was_found(round_clusters, tmp_path, short, monkeypatch):
    def found(est, **settings):
        asked.append((est.inverse_temperature, settings["random_state"]))
        return real(est, 2, (0.3, 0.5), **settings)

    real, asked = gibbs_fair_clustering.calibration, []
    monkeypatch.setattr(gibbs_fair_clustering, "calibration", found)
    monkeypatch.setattr(gibbs_fair_clustering, "SHORT", 30)
    X, groups = round_clusters.features, round_clusters.sensitive
    est = bf.GibbsFairClustering(3, **FAST, inverse_temperature="calibrated").fit(X, sensitive_features=groups)
    multiple = kept_calibration(est.posterior_).attrs["multiple"]
    assert asked == [("dispersion", est._seed)]
    assert multiple in (0.3, 0.5)
    short = bf.GibbsFairClustering(3, **FAST | {"num_warmup": 30, "num_draws": 30, "random_state": est._seed})
    rule = multiple * short.fit(X, sensitive_features=groups).inverse_temperature_[0]
    fixed = bf.GibbsFairClustering(3, **FAST, inverse_temperature=rule)
    labels = fixed.fit(X, sensitive_features=groups).posterior_["posterior"]["labels"]
    assert (est.posterior_["posterior"]["labels"] == labels).all()
    est.save(tmp_path / "run.nc")
    stored = bf.GibbsFairClustering(3, **FAST, inverse_temperature="calibrated")
    stored.fit(X, sensitive_features=groups, store=tmp_path / "run.zarr")
    runs = [bf.GibbsFairClustering.load(tmp_path / name).resume(20) for name in ("run.nc", "run.zarr")]
    fixed.resume(20)
    for run in runs:
        assert kept_calibration(run.posterior_).equals(kept_calibration(est.posterior_))
        assert np.array_equal(run.posterior_["posterior"]["labels"], fixed.posterior_["posterior"]["labels"])
    calibrated(runs[1], 2, (0.4, 0.8))  # another one takes the place of the first, and the run's lambda stays
    reread = bf.GibbsFairClustering.load(tmp_path / "run.zarr")
    assert kept_calibration(reread.posterior_).attrs["multiple"] in (0.4, 0.8)
    assert (reread.resume(20).posterior_["posterior"]["lambda_c"] == rule).all()


def test_calibrated_refuses_weights(round_clusters):
    data, weight = round_clusters, 1 + np.arange(60) % 2
    est = bf.GibbsFairClustering(3, **FAST, inverse_temperature="calibrated")
    with pytest.raises(ValueError, match="`sample_weight` must be left out with inverse_temperature='calibrated'"):
        est.fit(data.features, sensitive_features=data.sensitive, sample_weight=weight)


def test_ctrl_c_keeps_the_tables_that_are_done(est, monkeypatch, short):
    real, calls = calibrating._Trial.tallies, []

    def interrupted(self, seed):
        calls.append(seed)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(self, seed)

    monkeypatch.setattr(calibrating._Trial, "tallies", interrupted)
    with pytest.warns(Interrupted, match="rests on the 3 of 6 tables"):
        table = calibrated(est, 6, n_jobs=1)
    assert table.attrs["n_tables"] == 3
    calls[:] = [0, 0]
    with pytest.raises(KeyboardInterrupt):
        calibrated(est, 6, n_jobs=1)


@pytest.mark.parametrize(
    "settings",
    [
        {"target": "joint"},
        {"target": "cut"},
        {"target": "optimal"},
        {"inverse_temperature": "holmes-walker"},
        {"inverse_temperature": bf.gibbs.Dispersion(1.0, 0.5)},
        {"target": "joint", "inverse_temperature": (1.0, 2.0)},
        {"target": "optimal", "inverse_temperature": "holmes-walker"},
        {"loss": "manhattan"},
        {"loss": "kl"},
        pytest.param(
            {"loss": bf.gibbs.Loss(divergence=root_of_distance), "inverse_temperature": 1.0}, id="a loss of one's own"
        ),
        {"target": bf.gibbs.Labels(min_balance=0.5, size_min=5)},
    ],
    ids=str,
)
def test_every_target_loss_and_rule_is_calibrated(settings, short):
    data = bf.datasets.make_fair_mixture(40, 2, seed=1)
    features = data.features + 9.0
    est = bf.GibbsFairClustering(2, **FAST | settings).fit(features, sensitive_features=data.sensitive)
    table = calibrated(est)
    assert table["true"].between(0, 1).all()
    assert np.isfinite(table.to_numpy()).all()


def test_categories_crossed_groups_and_runs_without_groups(short):
    data = bf.datasets.make_fair_mixture(60, 2, seed=1)
    features = data.features.assign(kind=np.where(data.target == 0, "a", "b"), flag=np.arange(60) % 2)
    sensitive = np.stack([data.sensitive, np.tile(list("xxy"), 20)], 1)
    table = calibrated(bf.GibbsFairClustering(2, **FAST).fit(features, sensitive_features=sensitive))
    assert np.isfinite(table.to_numpy()).all()
    with pytest.warns(UserWarning, match="sensitive_features"):
        est = bf.GibbsFairClustering(2, **FAST).fit(data.features)
    assert np.isfinite(calibrated(est).to_numpy()).all()


def test_targets_of_fewer_rows_have_smaller_bounds_and_compositions_of_their_own():
    smaller = calibrating._for_rows(bf.gibbs.Labels(size_min=300, size_max=900), 0.5)
    assert (smaller.size_min, smaller.size_max) == (150, 450)
    assert calibrating._for_rows(bf.gibbs.Joint(composition=(1, 2)), 0.5).composition == "auto"
    assert calibrating._for_rows(bf.gibbs.Joint(composition=(1, 2)), 1).composition == (1, 2)


def test_sentences():
    told = {0.5: (0.91, 0.012), 1.0: (0.7, 0.03)}
    text = sentence(told, 0.5, 50, 442, 442, is_elongated=True)
    assert text.startswith(
        "If these rows came from elongated normal clusters, statements of 90% at the run's inverse temperature would be "
        "right in 70% of cases (± 3); at 0.5 times it would be right in 91% of cases (± 1). Smaller multiples were not "
        "tried. This rests on 50 simulated tables of 442 rows"
    )
    assert "No other multiple that was tried is better" in sentence(told, 1.0, 50, 500, 2_000)
    assert "of 500 of the 2,000 rows" in sentence(told, 1.0, 50, 500, 2_000)
    assert "Smaller" not in sentence(told | {0.25: (0.95, 0.01)}, 0.5, 50, 442, 442)
    assert "; are not made at 0.5 times it." in sentence(told | {0.5: (np.nan, np.nan)}, 0.5, 50, 442, 442)
    assert "90% at the default inverse temperature" in sentence(told, 0.5, 50, 442, 442, is_default=True)
    alone = sentence({0.5: (0.91, 0.012)}, 0.5, 50, 442, 442)
    assert "at 0.5 times the run's inverse temperature would be right in 91%" in alone


def test_what_cannot_be_calibrated_is_refused(est, round_clusters):
    data = round_clusters
    for bad in ({"n_tables": 1}, {"multiples": (0.5, 0)}, {"multiples": ()}, {"multiples": (-1,)}):
        with pytest.raises(ValueError, match=f"`{next(iter(bad))}` must"):
            bf.posterior.calibration(est, **bad)
    weighted = bf.GibbsFairClustering(2, **FAST)
    weighted.fit(data.features, sensitive_features=data.sensitive, sample_weight=1 + np.arange(60) % 2)
    with pytest.raises(ValueError, match="fitted without sample_weight"):
        calibrated(weighted)
    with pytest.raises(ValueError, match="at least 2 clusters"):
        calibrated(fitted(data, 1))
    tree = bf.posterior.tree_from_labels([[0, 0, 1, 1]], [[0.0], [0.1], [1.0], [1.1]])
    for other in (tree, bf.BayesianFairMixture(2)):
        with pytest.raises(TypeError, match="be a fitted GibbsFairClustering"):
            calibrated(other)
    with pytest.raises(ValueError, match="not fitted"):
        calibrated(bf.GibbsFairClustering(2))

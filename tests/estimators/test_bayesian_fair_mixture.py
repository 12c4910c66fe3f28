"""`BayesianFairMixture` as its users meet it."""

import pickle
import warnings
from functools import cache
from types import SimpleNamespace

import jax
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro.infer import log_likelihood
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from tiers import tiers
from toys.tables import HALVES, MIXED, MIXTURE, SEX

import bayesfair as bf
from bayesfair._compilations import compilations
from bayesfair.estimators import bayesian_fair_mixture
from bayesfair.models import Prior, sampler
from bayesfair.plots.checks import predictive_checks
from bayesfair.posterior.schema import columns_of, groups_of
from bayesfair.reports import pictures

DRAWS = sampler.CHUNK  # of a fit, of what is resumed and of what Ctrl-C leaves: programs for so many are compiled once
SHORT = {**MIXTURE, "num_draws": DRAWS, "random_state": 0, "progress_bar": False}
pytestmark = [  # fifty draws
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto"),
]


@pytest.fixture(autouse=True, scope="module")
def _few_leapfrog_steps():
    """In the place of NUTS, whose trees take half a minute to compile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sampler.LEAPFROG_STEPS, "nuts", 8)
        yield
    fitted_by.cache_clear()  # a worker may come back to this file when its compiled programs are forgotten


def mixture(**settings):
    """Most tests take these settings and this table, for which one program is compiled."""
    short = {**SHORT, **settings}
    if short.get("inference") == "svi":
        short.pop("num_warmup")
    return bf.BayesianFairMixture(2, **short)


@cache
def fitted_by(inference):
    return mixture(inference=inference).fit(MIXED, sensitive_features=SEX)


@pytest.fixture(params=tiers(["nuts", "gibbs", "svi"], ["nuts"]))
def fitted(request):
    return fitted_by(request.param)


def use(est):
    """A fit that predicts and resumes."""
    est.predict_proba(MIXED)
    est.posterior_predictive(40)
    return est if est.inference == "svi" else est.resume(DRAWS)


@pytest.mark.slow
def test_a_second_fit_compiles_nothing(fitted):
    """Of another table of the same shape, with another weight and seed."""
    use(pickle.loads(pickle.dumps(fitted)))
    other, table = (
        clone(fitted).set_params(fairness_weight=0.3, random_state=1),
        MIXED[::-1].assign(age=MIXED["income"]),
    )
    with compilations() as compiled:
        use(other.fit(table, sensitive_features=SEX[::-1]))
    assert compiled == []


def test_the_tree_has_what_every_summary_picture_and_page_reads(fitted, tmp_path, monkeypatch):
    tree = fitted.posterior_
    chains, draws = (1, 2 * DRAWS) if fitted.inference == "svi" else (2, DRAWS)
    assert dict(tree["posterior"]["labels"].sizes) == {"chain": chains, "draw": draws, "obs": 90}
    assert tree["posterior"]["means"].dims == ("chain", "draw", "cluster", "continuous")
    assert {"lp", "gap", "balance"} <= set(tree["sample_stats"].data_vars)
    assert tree["log_likelihood"]["x"].shape == (chains, draws, 90)
    assert "gap" in bf.posterior.summary(tree).index
    import arviz as az

    assert np.isfinite(az.loo(tree).elpd)
    assert (az.psense_summary(tree, var_names=["weights"], round_to=6)[["prior", "likelihood"]] > 0).all(axis=None)
    assert bf.plots.uncertainty(tree) is not None
    assert bf.plots.trace(tree).shape[1] == 2
    monkeypatch.setattr(pictures, "render", lambda *_: (b"", ""))
    page = bf.report(tree, tmp_path / "report.html").read_text()
    assert "most frequent cluster" in page
    assert "Dahl" not in page
    assert "the method does not guarantee it" in page


def test_it_finds_the_two_clusters_in_the_units_of_the_table(fitted):
    found = fitted.labels_ == fitted.labels_[0]
    assert max(np.mean(found == (HALVES == 0)), np.mean(found == (HALVES == 1))) > 0.95
    means = fitted.means_[np.argsort(fitted.means_[:, 0])]
    np.testing.assert_allclose(means, [[40, 2e4], [46, 2.5e4]], rtol=0.05)
    assert fitted.misclassification_probability_.shape == (90,)
    assert fitted.hard_gap_ == pytest.approx(bf.fairness.gap(fitted.labels_, SEX))
    posterior = fitted.posterior_["posterior"]
    labels, means = posterior["labels"].values, posterior["means"].values
    for chain, draw in [(0, 0), (0, 39), (len(labels) - 1, 20)]:  # parameters follow their labels
        ages = [MIXED["age"][labels[chain, draw] == k].mean() for k in range(2)]
        assert np.argmax(ages) == np.argmax(means[chain, draw, :, 0])


def test_predict_proba_is_the_average_of_psi_for_new_rows_too(fitted):
    psi = fitted.predict_proba(MIXED)
    np.testing.assert_allclose(psi.sum(1), 1, atol=1e-4)
    np.testing.assert_allclose(fitted.predict_proba(MIXED.iloc[5:9]), psi[5:9], atol=1e-5)
    np.testing.assert_array_equal(fitted.predict(MIXED), psi.argmax(1))
    if fitted.inference != "gibbs":  # there labels follow psi and the factor
        share = np.stack([(fitted.posterior_["posterior"]["labels"].values == k).mean((0, 1)) for k in range(2)], 1)
        assert np.abs(share - psi).max() < 0.25  # over 4 standard errors of 100 draws
        np.testing.assert_array_equal(fitted.predict(MIXED)[psi.max(1) > 0.8], fitted.labels_[psi.max(1) > 0.8])
    with pytest.raises(ValueError, match="categories seen in fit"):
        fitted.predict(MIXED.assign(colour="blue"))


def test_memberships_of_many_draws_sum_to_one_and_do_not_drift():
    """A float32 sum of 20,000 shares drifts by more than `gap` allows."""
    est = pickle.loads(pickle.dumps(fitted_by("nuts")))
    few = est.predict_proba(MIXED)
    repeated = {name: np.tile(value, (1, 250) + (1,) * (value.ndim - 2)) for name, value in est._run.draws.items()}
    est._run = est._run._replace(draws=repeated)
    many = est.predict_proba(MIXED)
    np.testing.assert_allclose(many.sum(1), 1, atol=1e-12)
    np.testing.assert_allclose(many, few, atol=5e-7)


@pytest.mark.parametrize(("step", "error"), [("gap", RuntimeWarning), ("_with_draws_of", ZeroDivisionError)])
def test_an_error_after_sampling_loses_no_draws(step, error, monkeypatch):
    """Also a warning that is an error, as pytest is set up here."""
    monkeypatch.setattr(bayesian_fair_mixture, step, lambda *_: 1 / 0)
    est = mixture()
    with pytest.raises(error):
        est.fit(MIXED, sensitive_features=SEX)
    assert est.posterior_["posterior"].sizes["draw"] == DRAWS


def test_saved_runs_predict_and_resume_to_the_same_draws(fitted, tmp_path):
    fitted.save(tmp_path / "run.nc")
    loaded = bf.BayesianFairMixture.load(tmp_path / "run.nc")
    np.testing.assert_allclose(loaded.predict_proba(MIXED), fitted.predict_proba(MIXED), atol=1e-5)
    np.testing.assert_array_equal(loaded.labels_, fitted.labels_)
    if fitted.inference == "svi":
        with pytest.raises(ValueError, match="A guide cannot be resumed"):
            loaded.resume(5)
        return
    copy = pickle.loads(pickle.dumps(fitted))
    one, other = (est.resume(DRAWS).posterior_ for est in (loaded, copy))
    assert one["posterior"].sizes["draw"] == 2 * DRAWS
    for name, values in one["posterior"].data_vars.items():
        np.testing.assert_array_equal(values, other["posterior"][name])
    np.testing.assert_array_equal(one["sample_stats"]["lp"], other["sample_stats"]["lp"])
    with pytest.raises(ValueError, match="not a run of GibbsFairClustering"):
        bf.GibbsFairClustering.load(tmp_path / "run.nc")
    with pytest.raises(ValueError, match=r"`fairness_weight` must be that of the fit, 1\.0, got 9\.0"):
        copy.set_params(fairness_weight=9.0).resume(2)


def test_a_loaded_run_goes_on_with_the_attributes_that_its_groups_cross(tmp_path):
    both = pd.DataFrame({"sex": np.asarray(SEX), "again": np.asarray(SEX)}, index=MIXED.index)
    mixture().fit(MIXED, sensitive_features=both).save(tmp_path / "run.nc")
    resumed = bf.BayesianFairMixture.load(tmp_path / "run.nc").resume(DRAWS)
    assert [part.column for part in groups_of(resumed.posterior_).crosses] == ["sex", "again"]


def test_predictive_checks_take_one_line(fitted):
    for group in ("prior_predictive", "posterior_predictive"):
        tree = getattr(fitted, group)(40)
        assert [ax.get_xlabel() for ax in bf.plots.predictive(tree)] == ["age", "income", "colour"]
    checks = predictive_checks(tree)
    inside = np.mean((checks[0].observed >= checks[0].lower - 0.02) & (checks[0].observed <= checks[0].upper + 0.02))
    assert inside > 0.85


@pytest.mark.parametrize("n_draws", [7, 60])
def test_a_posterior_is_checked_by_fifty_tables_or_by_all_draws_if_it_has_fewer(fitted, monkeypatch, n_draws):
    monkeypatch.setattr(type(fitted._run), "sites", {"weights": np.zeros((n_draws, 2))})
    monkeypatch.setattr(type(fitted), "_predictive", lambda *told: told[2]["weights"])
    assert len(fitted.posterior_predictive()) == min(n_draws, 50)
    with pytest.raises(ValueError, match=f"There are {n_draws} draws"):
        fitted.posterior_predictive(n_draws + 1)


def test_an_interrupted_run_keeps_what_it_drew_and_makes_the_rest(monkeypatch, tmp_path):
    chunk, calls = sampler._chunk, []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 4:  # two chunks of warm-up and one of draws before
            raise KeyboardInterrupt
        return chunk(*args)

    monkeypatch.setattr(sampler, "_chunk", interrupted)
    est = mixture(num_draws=500)
    with pytest.warns(RuntimeWarning, match="kept the 50 of 500 draws made so far. Resume the run"):
        est.fit(MIXED, sensitive_features=SEX)
    assert est.posterior_["posterior"].sizes["draw"] == sampler.CHUNK
    assert est.posterior_.attrs["unfinished"] == "50 of 500 draws per chain"
    monkeypatch.undo()
    est.save(tmp_path / "run.nc")
    again = bf.BayesianFairMixture.load(tmp_path / "run.nc").resume()
    assert again.posterior_["posterior"].sizes["draw"] == 500
    assert "unfinished" not in again.posterior_.attrs


def test_a_second_mode_is_told(monkeypatch):
    """One chain that has the rows in other clusters than the other one."""
    est = pickle.loads(pickle.dumps(fitted_by("nuts")))
    draws = {name: value.copy() for name, value in est._run.draws.items()}
    draws["labels"][1] = np.roll(draws["labels"][1], 1, axis=-1)
    draws["lp"][1] += 100
    apart = est._run._replace(draws=draws)
    monkeypatch.setattr(type(apart), "draw", lambda *_: apart)
    with pytest.warns(
        ConvergenceWarning, match=r"do not agree.* tempering=True visits all modes in one chain\."
    ) as told:
        est.resume(1)
    assert told[0].filename == __file__


@pytest.mark.slow
def test_chain_methods_draw_from_one_law():
    """Means of lp of 300 draws of two chains differ by less than 1.5 nats: over five standard errors."""
    lp = []
    for method in ("parallel", "vectorized", "sequential"):  # one program for two of them
        est = mixture(chain_method=method, num_draws=300).fit(MIXED, sensitive_features=SEX)
        lp.append(est.posterior_["sample_stats"]["lp"].values.mean())
    assert np.ptp(lp) < 1.5


BAD = [
    ({"inference": "guess"}, {}, "`inference` must be one of"),
    ({"fairness_weight": -1}, {}, "`fairness_weight`"),
    ({"fairness_weight": np.nan}, {}, "`fairness_weight`"),
    ({"n_components": 91}, {}, "ask for fewer"),
    ({"n_components": 0}, {}, "`n_components`"),
    ({"prior": 3}, {}, "`prior` must be"),
    ({"chain_method": "warp"}, {}, "`chain_method`"),
    ({"starts": ["anywhere"]}, {}, "`starts` must be"),
    ({"starts": {"fair"}}, {}, "`starts` must be"),
    ({"tempering": [0.5, 0.9]}, {}, "`tempering` must be .* the last one 1"),
    ({"tempering": "yes"}, {}, "`tempering` must be"),
    ({"tempering": None}, {}, "`tempering` must be"),
    ({"covariance_type": "round"}, {}, "`covariance_type`"),
    ({}, {"sensitive_features": ["F"] * 90}, "at least two groups"),
    ({}, {"sensitive_features": SEX[:5]}, "one entry per row"),
    ({}, {"X": MIXED.assign(age=np.nan)}, "be finite"),
    ({}, {"X": MIXED.assign(age=1e20 * MIXED["age"])}, "a standard deviation of .* in column 'age'"),
    ({}, {"X": MIXED[:0], "sensitive_features": SEX[:0]}, "minimum|at least|0 sample"),
    ({}, {"X": MIXED[["age"]] * 0}, "distinct rows"),
    ({"prior": Prior(mean=lambda scaling: None)}, {}, "`prior` must have numbers and plain distributions"),
    ({"prior": Prior(weight=0.01), "inference": "svi"}, {}, "at least 1 if inference is 'svi'"),
]


@pytest.mark.parametrize(("settings", "data", "text"), BAD)
def test_bad_input_is_refused_with_a_remedy(settings, data, text):
    est = bf.BayesianFairMixture(**{"n_components": 2, **SHORT, **settings})
    with pytest.raises((ValueError, TypeError), match=text):
        est.fit(data.get("X", MIXED), sensitive_features=data.get("sensitive_features", SEX))


@pytest.mark.filterwarnings("ignore:The chains do not agree")
def test_clusters_on_one_value_are_told_and_rows_without_a_density_are_refused():
    rng = np.random.default_rng(0)
    X = MIXED[["age"]].assign(gain=np.where(rng.random(90) < 0.8, 0, rng.gamma(2, 2000, 90)))
    est = mixture(
        covariance_type="diag", fairness_weight=0, num_warmup=100, starts=["k-means"], tempering=np.bool_(False)
    )
    with pytest.warns(
        ConvergenceWarning, match=r"a standard deviation in 'gain' is below 0\.3% of the table's in some draws"
    ):
        est.fit(X, sensitive_features=SEX)
    with pytest.raises(ValueError, match="`X` must be near the rows of the fit, got row 1"):
        est.predict(X[:2].assign(age=[30.0, 1e20]))


def test_new_rows_are_judged_one_by_one_and_the_draws_serve_the_models():
    """In the units of the table: the model of NumPyro gives rows the densities that the fit kept."""
    est = fitted_by("nuts")
    np.testing.assert_allclose(est.predict_proba(MIXED[:1]), est.predict_proba(MIXED)[:1], atol=1e-6)
    posterior, run, some = est.posterior_["posterior"], est._run, slice(60, 90)
    names = [name for name in ("weights", "means", "scales", "levels_0", "levels_1") if name in posterior]
    draws = {name: posterior[name].values[0].astype(np.float32) for name in names}
    settings = {"n_components": 2, "n_levels": run.encoder.n_levels, "covariance_type": est.covariance_type}
    told = jax.jit(
        lambda draws: log_likelihood(bf.models.fair_mixed_mixture, draws, run.x[some], run.codes[some], **settings)["x"]
    )(draws)
    kept = est.posterior_["log_likelihood"]["x"].values[0, :, some]
    np.testing.assert_allclose(told, kept, rtol=1e-3, atol=1e-3)


def test_columns_that_determine_each_other_are_told_under_full_covariances():
    correlation = np.eye(3)
    correlation[0, 1] = correlation[1, 0] = 1 - 1e-6
    draws = {"scales": np.ones((1, 1, 1, 3)), "correlation_cholesky": np.linalg.cholesky(correlation)[None, None, None]}
    run = SimpleNamespace(draws=draws, observed=SimpleNamespace(units=SimpleNamespace(spread=np.ones(3))))
    est = bf.BayesianFairMixture(1, covariance_type="full")
    est._names = {"continuous": ["age", "months", "height"]}
    with pytest.warns(ConvergenceWarning, match=r"in 'age', 'months' \(given the other columns\) is below 0\.3%"):
        est._warn_of_narrow(run)
    draws["correlation_cholesky"] = np.linalg.cholesky(0.5 * correlation + 0.5 * np.eye(3))[None, None, None]
    est._warn_of_narrow(run)


SPARSE = {
    "fairness_weight": 0.02,
    "prior": Prior(weight=0.05, mean=dist.Normal(0.0, 1.5)),
    "num_chains": 2,
    "num_warmup": 200,
    "num_draws": 100,
    "random_state": 0,
    "progress_bar": False,
}


HEAPS = np.array([-9.0, 0.0, 7.0])[np.arange(60) % 3, None] + np.random.default_rng(0).normal(size=(60, 1))


@pytest.fixture(scope="module")
def sparse():
    """Three clusters have probability 0.69 (4,000 draws of NUTS); Gibbs draws stay with a fourth for a hundred at times.

    The table is changed after the fit, which must not reach it."""
    X = HEAPS.copy()
    est = bf.BayesianFairMixture(6, inference="gibbs", **{**SPARSE, "num_draws": 1000})
    est.fit(X, sensitive_features=np.arange(60) // 3 % 2)
    X *= 100
    return est


@pytest.mark.slow
def test_a_sparse_mixture_finds_how_many_clusters_there_are(sparse):
    tree = sparse.posterior_
    np.testing.assert_array_equal(tree["observed_data"]["X"], HEAPS)
    labels, occupied = tree["posterior"]["labels"].values, tree["sample_stats"]["occupied"].values
    np.testing.assert_array_equal(occupied, [[len(np.unique(draw)) for draw in chain] for chain in labels])
    assert bf.posterior.occupied_clusters(tree)["probability"].idxmax() == 3
    assert len(np.unique(sparse.labels_)) == 3
    assert bf.posterior.summary(tree).sentences["occupied"].startswith("The number of occupied clusters is 3 in")


@pytest.mark.slow
def test_a_sparse_run_is_saved_predicts_and_resumes(sparse, tmp_path):
    sparse.save(tmp_path / "run.nc")
    loaded = bf.BayesianFairMixture.load(tmp_path / "run.nc")
    assert loaded.get_params() == sparse.get_params()
    rows = np.array([[-9.0], [0.0], [7.0]])
    psi = sparse.predict_proba(rows)
    np.testing.assert_allclose(loaded.predict_proba(rows), psi, atol=1e-5)
    np.testing.assert_allclose(psi.sum(1), 1, atol=1e-4)
    copy = pickle.loads(pickle.dumps(sparse))
    one, other = (est.resume(20).posterior_ for est in (loaded, copy))
    np.testing.assert_array_equal(one["posterior"]["labels"], other["posterior"]["labels"])
    assert one["sample_stats"]["occupied"].sizes["draw"] == sparse.num_draws + 20
    np.testing.assert_array_equal(one["observed_data"]["X"], HEAPS)
    for table in (loaded.prior_predictive(5), loaded.posterior_predictive(5)):
        assert columns_of(table) == columns_of(loaded.posterior_)
        (values,) = (node["X"].values for name, node in table.children.items() if name != "observed_data")
        assert np.isfinite(values).all()


@pytest.mark.slow
def test_a_concentration_with_a_prior_is_a_parameter_and_without_groups_it_warns_and_is_an_ordinary_mixture():
    """In one fit, as each compiles a sampler of its own. Of mixtures that are not sparse: test_pipelines.py."""
    short = {"num_warmup": 50, "num_draws": 50, "starts": ("k-means",)}
    est = bf.BayesianFairMixture(6, **{**SPARSE, "prior": Prior(weight=dist.Gamma(1.0, 20.0)), **short})
    with pytest.warns(UserWarning, match="without any fairness"):
        tree = est.fit(HEAPS).posterior_
    assert est.gap_ == 0
    assert "group" not in tree["constant_data"]
    concentration = tree["posterior"]["concentration"].values
    assert concentration.shape == (2, 50)
    assert 0 < concentration.mean() < 0.5
    assert "concentration" in bf.posterior.summary(tree).index


@pytest.mark.parametrize(("empty_draws", "is_told"), [(4, False), (80, True)])
def test_a_component_that_is_empty_in_few_draws_alarms_nobody(empty_draws, is_told):
    labels = np.tile([0, 0, 1, 1, 0, 1], (1, 800, 1))
    draws = np.arange(empty_draws, 800)
    labels[0, draws, 4 + draws % 2] = 2  # no row is there in most draws
    tree = bf.posterior.tree_from_labels(labels, np.arange(6.0)[:, None])
    run = SimpleNamespace(mixture=SimpleNamespace(prior=SimpleNamespace(is_sparse=False)))
    fitted = SimpleNamespace(n_components=3, labels_=np.array([0, 0, 1, 1, 0, 1]), posterior_=tree, _run=run)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        bf.BayesianFairMixture._warn_of_empty(fitted)
    assert len(told) == is_told

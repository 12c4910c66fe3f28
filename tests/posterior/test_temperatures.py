"""Draws weighed anew for other inverse temperatures, against posteriors that are enumerated at both."""

import warnings

import arviz as az
import numpy as np
import pytest
import xarray as xr
from draws import draws_of
from exact_fairlets import LAMBDA_C, LAMBDA_F, Tiny, normalise
from exact_units import TinyUnits
from scipy import stats

import bayesfair as bf
from bayesfair.gibbs import Dispersion
from bayesfair.posterior import temperature_sensitivity, temperatures
from bayesfair.posterior.diagnostics import brief
from bayesfair.posterior.temperatures import add_log_groups, energies_of
from bayesfair.posterior.tree import add_derived, build_tree

DRAWS = 4_000
FACTORS = 0.5, 0.8, 1.25, 2.0
NEAR, SEEN = 0.004, 0.02  # of a probability: systematic draws are that good, planted bugs are worse by that much
PRIOR = Dispersion(1.5, 0.4)
CHANGED = {"weights squared": lambda log_weights: lambda *asked: 2 * log_weights(*asked)}
CHANGED["lambda sampled, weighed as if it were fixed"] = lambda _: (
    lambda energies, factor: -(factor - 1) * (energies.lambdas * energies.losses).ravel()
)


def some(law, seed=0):
    """DRAWS states by systematic draws from a law (states,), in any order."""
    places = (np.arange(DRAWS) + 0.5) / DRAWS
    return np.random.default_rng(seed).permutation(np.searchsorted(np.cumsum(law), places).clip(max=len(law) - 1))


def tree_of(labels, X, code, facts, **scalars):
    """A tree of two chains."""
    scalars = {name: values.reshape(2, -1) for name, values in scalars.items()}
    draws = draws_of(labels.reshape(2, -1, labels.shape[-1]), lp=np.zeros((2, len(labels) // 2)), **scalars)
    return build_tree(draws, X, code, facts=facts, n_clusters=2)


@pytest.fixture(scope="module")
def fixed():
    """Over fairlets, eq. (9) of the paper: (tree, labels of all states, both losses)."""
    t = Tiny("1:1", "kmeans")
    labels = np.array([np.array(cluster)[list(fairlet)] for fairlet, cluster in t.states])
    drawn = some(t.joint())
    scalars = {"fairlet_loss": t.losses[0][drawn], "clustering_loss": t.losses[1][drawn]}
    scalars |= {"lambda_f": np.full(DRAWS, LAMBDA_F), "lambda_c": np.full(DRAWS, LAMBDA_C)}
    return tree_of(labels[drawn], t.X, t.code, {}, **scalars), labels, t.losses


@pytest.fixture(scope="module")
def sampled():
    """Balanced labellings with lambda ~ Gamma(PRIOR): (tree, labels of all states, loss, degrees)."""
    t = TinyUnits("3:3", "exact", "kmeans")
    labels = np.array([z for z in t.states if t.in_balance(z)])
    loss, degrees = np.array([t.value(z) for z in labels]), PRIOR.shape + t.X.size / 2
    drawn = some(normalise(-degrees * np.log(PRIOR.rate + loss)))
    quantiles = np.random.default_rng(1).permutation((np.arange(DRAWS) + 0.5) / DRAWS)
    lambdas = stats.gamma.ppf(quantiles, degrees) / (PRIOR.rate + loss[drawn])
    facts = {"lambda_shape": PRIOR.shape, "lambda_rate": PRIOR.rate}
    tree = tree_of(labels[drawn], t.X, t.codes[0], facts, clustering_loss=loss[drawn], lambda_c=lambdas)
    return tree, labels, loss, degrees


def law_of_fixed(losses, factor):
    return normalise(-factor * (LAMBDA_F * losses[0] + LAMBDA_C * losses[1]))


def law_of_sampled(loss, degrees, factor):
    """z given `factor` times lambda, and lambda as the posterior has it, on a fine grid of lambda."""
    grid = np.linspace(1e-3, 40, 20_001)
    of_lambda = normalise(-degrees * np.log(PRIOR.rate + loss)) @ stats.gamma.pdf(
        grid, degrees, scale=1 / (PRIOR.rate + loss)[:, None]
    )
    given = np.exp(-factor * grid * (loss - loss.min())[:, None])
    return given / given.sum(0) @ of_lambda / of_lambda.sum()


def doubt(tree, labels, law):
    """1 - P(row in its cluster) (obs,) under a law of states, numbered like the tree's own partition."""
    reference = bf.posterior.reference_partition(tree)
    flipped = ((1 - labels) == reference).sum(1) > (labels == reference).sum(1)
    return law @ (np.where(flipped[:, None], 1 - labels, labels) != reference)


def differences(tree, labels, loss, laws):
    """How far the table is from exact misclassification and loss, at most."""
    table = temperature_sensitivity(tree, list(laws))
    told = table[["misclassification", "loss"]].to_numpy()
    expected = [(doubt(tree, labels, law).mean(), law @ loss) for law in laws.values()]
    return np.abs(told - expected).max()


def error_of_fixed(fixed):
    tree, labels, losses = fixed
    return differences(tree, labels, losses[1], {factor: law_of_fixed(losses, factor) for factor in FACTORS})


def error_of_sampled(sampled):
    tree, labels, loss, degrees = sampled
    return differences(tree, labels, loss, {factor: law_of_sampled(loss, degrees, factor) for factor in FACTORS})


def test_weighed_draws_have_the_exact_shares_at_other_temperatures(fixed, sampled):
    assert error_of_fixed(fixed) < NEAR
    assert error_of_sampled(sampled) < NEAR


@pytest.mark.parametrize(("bug", "kind"), list(zip(CHANGED, ("fixed", "sampled"))))
def test_wrong_weights_are_seen(fixed, sampled, monkeypatch, bug, kind):
    monkeypatch.setattr(temperatures, "log_weights", CHANGED[bug](temperatures.log_weights))
    assert (error_of_fixed(fixed) if kind == "fixed" else error_of_sampled(sampled)) > SEEN


def test_the_loss_of_the_other_kind_is_seen(fixed):
    tree, labels, losses = fixed
    swapped, stats = tree.copy(), tree["sample_stats"]
    swapped["sample_stats"] = stats.to_dataset().assign(
        fairlet_loss=stats["clustering_loss"], clustering_loss=stats["fairlet_loss"]
    )
    assert error_of_fixed((swapped, labels, losses)) > SEEN


def test_at_factor_1_everything_is_as_it_was(sampled):
    tree = sampled[0]
    row = temperature_sensitivity(tree).loc[1.0]
    probability = bf.posterior.misclassification_probability(tree)
    assert row["in_doubt"] == (probability > 0.1).mean()
    assert row["lambda_c"] == pytest.approx(float(tree["posterior"]["lambda_c"].mean()))
    assert energies_of(tree).degrees == pytest.approx(sampled[3], rel=0.01)


def test_a_sentence_tells_both_sides_in_summary_and_in_short(fixed):
    tree = fixed[0]
    told, table = bf.posterior.summary(tree).sentences["temperature"], temperature_sensitivity(tree)
    shares = [f"{table.loc[factor, 'in_doubt']:.0%}" for factor in (0.5, 1.5)]
    assert told == f"At half the inverse temperature {shares[0]} of the rows are in doubt, at 1.5 times {shares[1]}."
    assert brief(tree)[-1].text == told
    assert temperature_sensitivity(tree, [2.0]).attrs["sentence"].startswith("At twice the inverse temperature")


def far(energy):
    """A tree of fixed lambda 1 with such energies."""
    labels = np.tile([0, 0, 1, 1], (len(energy), 1))
    scalars = {"clustering_loss": energy, "lambda_c": np.ones(len(energy))}
    return tree_of(labels, np.arange(4.0)[:, None], [0, 1, 0, 1], {}, **scalars)


def test_one_draw_tells_nothing_of_other_temperatures():
    one = far(np.array([3.0, 4.0])).isel(chain=[0])
    assert temperature_sensitivity(one)["trusted"].tolist() == [False, False, True, False, False]


def test_weights_that_cannot_be_trusted_are_told_and_what_to_do():
    tree = far(1000 + 30 * np.random.default_rng(0).normal(size=2000))
    table = temperature_sensitivity(tree, [0.5, 1.0, 2.0, 3.0])
    assert table.loc[2.0, ["in_doubt", "misclassification", "loss"]].isna().all()
    assert table["trusted"].tolist() == [False, True, False, False]
    told = table.attrs["sentence"]
    assert told.startswith("These draws cannot tell what changes at half, twice and 3 times the inverse temperature (")
    assert told.endswith("run again with inverse_temperature=0.5, 2 and 3.")


@pytest.mark.parametrize("sd", [0.3, 3.0, 30.0, 3000.0])
@pytest.mark.parametrize("seed", range(5))
def test_draws_carry_the_factors_that_are_asked_by_default(sd, seed):
    """Up to half from 1 where they carry more; a table of 10 million rows has an sd of some thousands."""
    table = temperature_sensitivity(far(1e6 + sd * np.random.default_rng(seed).normal(size=2000)))
    assert table["trusted"].all()
    assert 0.3 < sd * (table.index.max() - 1) < 1.1 or table.index.max() == 1.5
    assert table.index[2] == 1


def test_factors_that_draws_cannot_carry_are_run_anew_by_the_settings_of_an_estimator():
    rng = np.random.default_rng(0)
    truth, groups = np.arange(60) % 2, np.arange(60) // 2 % 2
    X = rng.normal(size=(60, 2)) + 2 * truth[:, None]
    settings = {"num_chains": 2, "num_warmup": 50, "num_draws": 100, "modes": None, "progress_bar": False}
    est = bf.GibbsFairClustering(2, thinning=1, random_state=0, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of so short a run
        tree = est.fit(X, sensitive_features=groups).posterior_
        table = temperature_sensitivity(tree, [1.0, 6.0], estimator=est)
        fixed = bf.GibbsFairClustering(2, thinning=1, random_state=0, **settings)
        fixed.set_params(inverse_temperature=float(table.loc[6.0, "lambda_c"])).fit(X, sensitive_features=groups)
    assert table["trusted"].all()
    assert table.loc[6.0, "ess"] == 200
    assert table.loc[6.0, "misclassification"] == pytest.approx(fixed.misclassification_probability_.mean())
    assert table.loc[6.0, "loss"] == pytest.approx(float(fixed.posterior_["sample_stats"]["clustering_loss"].mean()))
    assert table.loc[1.0, "misclassification"] == est.misclassification_probability_.mean()
    assert est.inverse_temperature == "dispersion"


def test_weights_of_two_values_have_no_tail_and_are_trusted():
    """As where many draws are in the best state: Pareto smoothing has nothing to fit."""
    table = temperature_sensitivity(far(np.arange(2000.0) % 2), [0.5, 2.0])
    assert table["trusted"].all()
    np.testing.assert_allclose(table.loc[2.0, "loss"], 1 / (1 + np.e), rtol=1e-3)


@pytest.mark.parametrize("lacks", ["lp", "the prior of lambda"])
def test_trees_whose_density_elsewhere_is_not_known_are_refused(lacks):
    """As under target="cut", and of another sampler."""
    tree = far(np.arange(40.0))
    del tree["log_pseudo_likelihood"]
    if lacks == "lp":
        tree["sample_stats"] = tree["sample_stats"].to_dataset().drop_vars("lp")
    else:
        tree["posterior"]["lambda_c"].values[0, 0] = 2.0
    with pytest.raises(ValueError, match="unknown density at other inverse temperatures"):
        temperature_sensitivity(tree)
    assert "temperature" not in bf.posterior.summary(tree).sentences
    assert "log_pseudo_likelihood" not in add_derived(tree).tree.children


def for_arviz(tree, posterior):
    """What power-scaling reads: the exponential of the loss in the place of a likelihood."""
    known = {"log_likelihood": "log_pseudo_likelihood", "log_prior": "log_prior"}
    logs = {name: tree[own].to_dataset() for name, own in known.items() if own in tree.children}
    return xr.DataTree.from_dict({"posterior": posterior, **logs})


def test_arviz_scales_likelihood_and_prior_by_powers(sampled):
    """Its weights are those of L^-degrees raised to the power, and leave-one-out is none of its uses."""
    tree, loss = sampled[0], sampled[0]["sample_stats"]["clustering_loss"].values
    asked = for_arviz(tree, tree["posterior"].to_dataset())
    told = az.psense_summary(asked, var_names=["lambda_c"], round_to=6)
    assert (told[["prior", "likelihood"]] > 0).all(axis=None)
    likelihood = tree["log_pseudo_likelihood"]["loss"] + tree["log_pseudo_likelihood"]["normalizer"]
    lambdas = tree["posterior"]["lambda_c"].values
    exact_likelihood = 6 * np.log(lambdas) - lambdas * loss
    np.testing.assert_allclose(likelihood, exact_likelihood, atol=0.05)
    for name in (None, "loss"):
        with pytest.raises((TypeError, KeyError, ValueError), match=r"log.likelihood"):
            az.loo(tree, var_name=name)


def test_a_fixed_temperature_has_a_likelihood_alone_and_any_scalar_may_be_asked_about():
    tree = far(10 + np.random.default_rng(0).normal(size=400))
    assert "log_prior" not in tree.children
    scalars = bf.posterior.diagnostic_vars(tree)[["clustering_loss"]]
    assert az.psense(for_arviz(tree, scalars), group="likelihood")["clustering_loss"] > 0.1


def test_trees_saved_before_are_read_and_joined_with_new_ones(sampled, tmp_path):
    new = sampled[0]
    old = new.copy()
    del old["log_pseudo_likelihood"], old["log_prior"]
    bf.posterior.write_tree(old, tmp_path / "old.nc")
    old = bf.posterior.read_tree(tmp_path / "old.nc")
    both = bf.posterior.concatenate([one.isel(chain=[at], missing_dims="ignore") for at, one in enumerate((new, old))])
    assert both["log_prior"]["lambda"].shape == (2, DRAWS // 2)
    add_log_groups(old)
    np.testing.assert_array_equal(old["log_pseudo_likelihood"]["loss"], new["log_pseudo_likelihood"]["loss"])

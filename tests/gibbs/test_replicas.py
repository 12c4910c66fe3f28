"""Replicas at several inverse temperatures: exact for every target, with what breaks them planted; and where fits use them."""

import jax.numpy as jnp
import numpy as np
import pytest
from exact import CHAINS, NOISE, distance_to, joint, label_law, law_of, many_draws, settings, start, tiny
from exact_modes import SAMPLED, far

import bayesfair as bf
from bayesfair._arrays import on_device
from bayesfair.gibbs import Settings, as_pytree, replicas
from bayesfair.gibbs.replicas import Tempered
from bayesfair.gibbs.run import KeepFairlets, Run, chain_keys

BETAS = 0.1, 0.3, 0.6, 1.0


@as_pytree
class Repelled(Tempered):
    """A planted bug: states go where they cost more."""

    def energies(self, state):
        return -super().energies(state)


@as_pytree
class AsCold(Tempered):
    """A planted bug: every replica draws lambda by the law of the coldest."""

    def drawn_temperatures(self, key, state):
        return Tempered(self.inner, jnp.ones_like(self.betas)).drawn_temperatures(key, state)


@as_pytree
class OnTheFirstLadder(Tempered):
    """A planted bug: fixed lambdas stay at the ladder on which the trial began."""

    def drawn_temperatures(self, key, state):
        return state.replicas.lambdas


@pytest.mark.parametrize(("kind", "agrees"), [(Tempered, True), (OnTheFirstLadder, False)])
def test_replicas_at_fixed_temperatures_keep_the_law_on_a_ladder_that_was_spaced_anew(kind, agrees):
    t = tiny("1:1", "manhattan", dtype=np.float32)
    target = kind(t.target, on_device(BETAS, np.float32))
    states = kind(t.target, on_device((0.01, 0.02, 0.03, 1.0), np.float32)).replicate(start(t, CHAINS).states)
    run = Run(chain_keys(0, CHAINS), 0, states, target.moves(settings(t)), KeepFairlets())
    draws = many_draws(run, target, 20_000)
    assert (distance_to(label_law(t, joint(t, "manhattan")), draws) < NOISE) == agrees
    assert 0 < draws.scalars["exchange_rate"].mean() < 1
    assert np.diff(draws.scalars["round_trips"]).min() >= 0
    together, matched = (part[..., None] == part[..., None, :] for part in (draws.labels, draws.fairlets.fairlet))
    assert together[matched].all()  # both are the coldest replica's


@pytest.mark.parametrize(("kind", "agrees"), [(Tempered, True), (AsCold, False), (Repelled, False)])
def test_replicas_with_a_sampled_temperature_keep_the_law(kind, agrees):
    """(b + L)^(-beta D) each: from the worst state of all, with two far modes."""
    f = far("optimal", prior=SAMPLED, dtype=np.float32)
    target = kind(f.target, on_device(BETAS, np.float32))
    states = target.replicate(f.at([int(f.law.argmin())] * CHAINS, np.full(CHAINS, float(f.modes.dispersion[0]))))
    run = Run(chain_keys(0, CHAINS), 0, states, target.moves(Settings(2, f.target.loss)))
    assert (distance_to(law_of(f.labels, f.law), many_draws(run, target, 20_000)) < NOISE) == agrees


def test_the_ladder_is_spaced_by_rejections():
    betas = replicas.spaced(np.array([0.01, 0.1, 1.0]), np.array([0.9, 0.1]))
    np.testing.assert_allclose(betas, [0.01, 0.01 * 10 ** (0.5 / 0.9), 1.0])
    assert (np.diff(replicas.spaced(np.geomspace(0.01, 1, 5), np.array([0, 0, 1.0, 0]))) > 0).all()


def corners(n_obs=32):
    """Four clumps at the corners of a square: two ways to make two clusters, which weigh about as much."""
    rng = np.random.default_rng(0)
    corner = np.array([[0, 0], [6, 0], [0, 6], [6, 6.05]])[np.arange(n_obs) % 4]
    return corner + 0.6 * rng.normal(size=(n_obs, 2)), rng.integers(2, size=n_obs)


SMALL = {"num_warmup": 256, "num_draws": 150, "random_state": 0, "progress_bar": False}


@pytest.mark.slow
def test_a_loss_without_centres_crosses_its_modes_and_tells_their_masses():
    X, sensitive = corners()
    est = bf.GibbsFairClustering(2, loss="manhattan", target="labels", **SMALL).fit(X, sensitive_features=sensitive)
    tree, modes = est.posterior_, bf.posterior.modes(est.posterior_)
    assert tree["sample_stats"]["round_trips"][:, -1].min() >= 4
    assert modes.attrs["masses"] == "shares of draws"
    assert len(modes) == 2
    assert modes["chains"].tolist() == [4, 4]
    assert bf.posterior.summary(tree)["r_hat"].max() < 1.1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # thirty draws
def test_a_run_in_replicas_is_saved_and_goes_on(tmp_path):
    """Of a loss with centres, which has replicas where they are asked for."""
    X, sensitive = corners()
    asked = {"target": "optimal", "tempering": True, "reallocation": "blocked", **SMALL}
    whole = bf.GibbsFairClustering(2, **asked | {"num_draws": 30})
    tree = whole.fit(X, sensitive_features=sensitive, store=tmp_path / "run.zarr").posterior_
    assert bf.posterior.read_tree(tmp_path / "run.zarr").identical(tree)
    assert "round_trips" in tree["sample_stats"]
    assert "modes" not in tree.children
    part = bf.GibbsFairClustering(2, **asked | {"num_draws": 10})
    part.fit(X, sensitive_features=sensitive).save(tmp_path / "run.nc")
    again = bf.GibbsFairClustering.load(tmp_path / "run.nc").resume(num_draws=20)
    for group in ("posterior", "sample_stats", "sampler_state"):
        for name, values in tree[group].data_vars.items():
            np.testing.assert_array_equal(values, again.posterior_[group][name], err_msg=f"{group}/{name}")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # twenty draws
def test_where_nothing_makes_round_trips_it_is_said():
    X = np.random.default_rng(0).normal(size=(400, 6))
    est = bf.GibbsFairClustering(4, target="optimal", tempering=True, **SMALL | {"num_warmup": 64, "num_draws": 20})
    with pytest.warns(RuntimeWarning, match="too few round trips"):
        est.fit(X, sensitive_features=np.arange(400) % 2)
    assert "round_trips" not in est.posterior_["sample_stats"]


@pytest.mark.parametrize(
    ("choices", "match"),
    [
        ({"tempering": "yes"}, "`tempering` must be one of"),
        ({"tempering": True, "target": "cut"}, "`tempering` must be left out for a target without a density"),
    ],
)
def test_what_tempering_may_not_be(choices, match):
    X, sensitive = corners()
    with pytest.raises(ValueError, match=match):
        bf.GibbsFairClustering(2, **SMALL, **choices).fit(X, sensitive_features=sensitive)

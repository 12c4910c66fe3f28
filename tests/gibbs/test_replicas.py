"""Replicas at several inverse temperatures: exact for every target, with what breaks them planted; and where fits use them."""

from collections import Counter

import jax.numpy as jnp
import numpy as np
import pytest
from exact import CHAINS, NOISE, TEMPERATURES, distance_to, joint, label_law, many_draws, settings, tiny
from exact_modes import SAMPLED, far
from sklearn.exceptions import ConvergenceWarning

import bayesfair as bf
from bayesfair._arrays import on_device
from bayesfair.gibbs import Settings, as_pytree, replicas
from bayesfair.gibbs.replicas import Tempered, with_replicas
from bayesfair.gibbs.run import WINDOW, KeepFairlets, Run, chain_keys, draw, tuning, warm_up
from bayesfair.gibbs.targets.starts import stacked_states

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


@pytest.mark.parametrize(
    ("loss", "kind", "agrees"),
    [
        pytest.param("kmeans", Tempered, True, marks=pytest.mark.slow),
        ("manhattan", Repelled, False),
        ("manhattan", Tempered, True),
    ],
)
def test_replicas_at_fixed_temperatures_keep_the_law(loss, kind, agrees):
    t = tiny("1:1", loss, dtype=np.float32)
    target = kind(t.target, on_device(BETAS, np.float32))
    states = target.replicate(stacked_states(t.target, t.members[0], t.clusters[[0] * CHAINS], TEMPERATURES))
    total = 40_000 if agrees else 10_000
    run = Run(chain_keys(0, CHAINS), 0, states, target.moves(settings(t)), KeepFairlets())
    draws = many_draws(run, target, total=total)
    off = distance_to(label_law(t, joint(t, loss)), draws)
    assert off < NOISE if agrees else off > 3 * NOISE
    assert 0 < draws.scalars["exchange_rate"].mean() < 1
    assert np.diff(draws.scalars["round_trips"]).min() >= 0
    together, matched = (part[..., None] == part[..., None, :] for part in (draws.labels, draws.fairlets.fairlet))
    assert together[matched].all()  # both are the coldest replica's


@pytest.mark.parametrize(
    ("name", "kind", "agrees"),
    [
        ("optimal", Tempered, True),
        pytest.param("joint", Tempered, True, marks=pytest.mark.slow),
        pytest.param("labels", Tempered, True, marks=pytest.mark.slow),
        ("optimal", AsCold, False),
    ],
)
def test_replicas_with_a_sampled_temperature_keep_the_law(name, kind, agrees):
    """(b + L)^(-beta D) each: from the worst state of all, with two far modes."""
    f = far(name, prior=SAMPLED, dtype=np.float32)
    target = kind(f.target, on_device(BETAS, np.float32))
    states = target.replicate(f.at([int(f.law.argmin())] * CHAINS, np.full(CHAINS, float(f.modes.dispersion[0]))))
    run = Run(chain_keys(0, CHAINS), 0, states, target.moves(Settings(2, f.target.loss)))
    law = Counter()
    for row, probability in zip(f.labels.tolist(), f.law):
        law[tuple(row)] += probability
    total = 100_000 if name == "labels" else 40_000  # modes are crossed less often
    assert (distance_to(law, many_draws(run, target, total=total)) < NOISE) == agrees


def test_runs_with_replicas_agree_from_any_start_and_runs_without_are_caught():
    f = far("optimal", prior=SAMPLED, dtype=np.float32, apart=2.0)
    left = (f.labels[:, 6:8] == f.labels[:, :1]).all(-1)
    truth, choices = f.law[left].sum(), Settings(2, f.target.loss, reallocation="blocked")
    for here in (left, ~left):
        states = f.at([int(np.argmax(np.where(here, f.law, 0)))] * 4, np.full(4, float(f.modes.dispersion[0])))
        target = with_replicas(f.target, np.geomspace(0.05, 1, 8))
        run = Run(chain_keys(0, 4), 0, target.replicate(states), target.moves(choices))
        assert abs(share_left(draw(run, target, 2_000)[1]) - truth) < 0.05
        alone = Run(chain_keys(0, 4), 0, states, f.target.moves(choices))
        assert abs(share_left(draw(alone, f.target, 50)[1]) - truth) > 0.1


def share_left(draws):
    return (draws.labels[..., 6:8] == draws.labels[..., :1]).all(-1).mean()


def test_the_ladder_is_spaced_by_rejections():
    betas = replicas.spaced(np.array([0.01, 0.1, 1.0]), np.array([0.9, 0.1]))
    np.testing.assert_allclose(betas, [0.01, 0.01 * 10 ** (0.5 / 0.9), 1.0])
    assert (np.diff(replicas.spaced(np.geomspace(0.01, 1, 5), np.array([0, 0, 1.0, 0]))) > 0).all()


def corners(n_obs=32):
    """Four clumps at the corners of a square: two ways to make two clusters, which weigh about as much."""
    rng = np.random.default_rng(0)
    corner = np.array([[0, 0], [6, 0], [0, 6], [6, 6.05]])[np.arange(n_obs) % 4]
    return corner + 0.6 * rng.normal(size=(n_obs, 2)), rng.integers(2, size=n_obs)


SMALL = {"num_warmup": 300, "num_draws": 300, "random_state": 0, "progress_bar": False}


@pytest.fixture(scope="module")
def fitted():
    X, sensitive = corners()
    est = bf.GibbsFairClustering(2, loss="manhattan", target="labels", **SMALL)
    return est.fit(X, sensitive_features=sensitive)


@pytest.mark.slow
def test_a_loss_without_centres_crosses_its_modes_and_tells_their_masses(fitted):
    tree, modes = fitted.posterior_, bf.posterior.modes(fitted.posterior_)
    assert tree["sample_stats"]["round_trips"][:, -1].min() >= 4
    assert modes.attrs["masses"] == "shares of draws"
    assert len(modes) == 2
    assert modes["chains"].tolist() == [4, 4]
    assert bf.posterior.summary(tree)["r_hat"].max() < 1.1
    X, sensitive = corners()
    apart = bf.GibbsFairClustering(2, loss="manhattan", target="labels", tempering=False, **SMALL)
    with pytest.warns(ConvergenceWarning, match="not known"):
        apart.fit(X, sensitive_features=sensitive)
    assert bf.posterior.summary(apart.posterior_)["r_hat"].max() > 1.5


@pytest.mark.slow
def test_a_run_in_replicas_is_saved_and_goes_on(fitted, tmp_path):
    fitted.save(tmp_path / "run.nc")
    again = bf.GibbsFairClustering.load(tmp_path / "run.nc").resume(num_draws=20)
    X, sensitive = corners()
    longer = bf.GibbsFairClustering(2, loss="manhattan", target="labels", **SMALL | {"num_draws": 320})
    longer.fit(X, sensitive_features=sensitive)
    for group in ("posterior", "sample_stats", "sampler_state"):
        for name, values in longer.posterior_[group].data_vars.items():
            np.testing.assert_array_equal(values, again.posterior_[group][name], err_msg=f"{group}/{name}")


@pytest.mark.slow
def test_replicas_of_a_loss_with_centres_are_made_where_they_are_asked_for(tmp_path):
    X, sensitive = corners()
    est = bf.GibbsFairClustering(2, target="optimal", tempering=True, **SMALL)
    est.fit(X, sensitive_features=sensitive, store=tmp_path / "run.zarr")
    tree = est.posterior_
    assert bf.posterior.read_tree(tmp_path / "run.zarr").identical(tree)
    assert "round_trips" in tree["sample_stats"]
    assert "modes" not in tree.children
    plain = bf.GibbsFairClustering(2, target="optimal", **SMALL).fit(X, sensitive_features=sensitive)
    means = [one.posterior_["sample_stats"]["clustering_loss"].values.mean() for one in (est, plain)]
    assert abs(means[0] / means[1] - 1) < 0.02


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # twenty draws
def test_where_nothing_makes_round_trips_it_is_said():
    X = np.random.default_rng(0).normal(size=(400, 6))
    est = bf.GibbsFairClustering(4, target="optimal", tempering=True, **SMALL | {"num_warmup": 64, "num_draws": 20})
    with pytest.warns(RuntimeWarning, match="too few round trips"):
        est.fit(X, sensitive_features=np.arange(400) % 2)
    assert "round_trips" not in est.posterior_["sample_stats"]


@pytest.mark.slow
def test_replicas_are_offered_where_nobody_tried_them():
    X, sensitive = corners(104)
    est = bf.GibbsFairClustering(2, loss="manhattan", target="optimal", **SMALL)
    with pytest.warns(ConvergenceWarning, match=r"tempering=True \(--tempering\) may cross modes"):
        est.fit(X, sensitive_features=sensitive)


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


def test_blocks_are_adapted_within_replicas_too():
    t = tiny("1:1, four fairlets", dtype=np.float32)
    target = Tempered(t.target, on_device(BETAS, np.float32))
    states = target.replicate(stacked_states(t.target, t.members[0], t.clusters[[0, 0]], TEMPERATURES))
    run = Run(chain_keys(0, 2), 0, states, target.moves(settings(t, reallocation="blocked")))
    run, _ = warm_up(run, target, WINDOW)
    assert 1 <= tuning(run.moves)["n_blocks"] <= t.target.n_fairlets

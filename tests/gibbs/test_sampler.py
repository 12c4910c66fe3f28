"""The whole sampler against enumeration, and what a run promises: repeatable, resumable, every cluster used."""

import warnings
from functools import partial

import numpy as np
import pytest
from exact import (
    CHAINS,
    NOISE,
    TEMPERATURES,
    distance_to,
    joint,
    label_law,
    many_draws,
    naive_losses,
    normalise,
    start,
    tiny,
)

import bayesfair as bf
import bayesfair.gibbs.run as module
from bayesfair._draws import concatenate
from bayesfair.fairlets import decompose
from bayesfair.fairlets.decomposition import describe_gap
from bayesfair.gibbs import Dispersion
from bayesfair.gibbs.run import KeepFairlets, draw
from bayesfair.gibbs.states import InverseTemperatures
from bayesfair.gibbs.targets import over_fairlets
from bayesfair.gibbs.targets.fairlets import Losses
from bayesfair.posterior.verdict import judge


def marginal_over_dispersion(t, loss):
    """p(B, C) with lambda integrated out of lambda^(Nd/h - 1) exp(-lambda total loss): total^(-Nd/h)."""
    return normalise(-t.target.degrees * np.log(t.target.total_loss(Losses(*naive_losses(t, loss)))))


def states_of(t, draws):
    """Numbers of the states, all draws in a row; those of other compositions have none."""
    fairlet, labels = (part.reshape(-1, len(t.X)) for part in (draws.fairlets.fairlet, draws.labels))
    cluster = np.zeros((len(labels), t.target.n_fairlets), int)
    np.put_along_axis(cluster, fairlet, labels, 1)
    return np.array([t.index[tuple(row)] for row in np.hstack([fairlet, cluster]).tolist()])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "loss", "choices"),
    [
        ("floor/ceil", "kl", {"reallocation": "blocked"}),
        ("floor/ceil", "manhattan", {"fairlet_move": "rectangular-loop"}),
        ("unequal hubs, one lacks a group", "manhattan", {}),
    ],
)
def test_draws_agree_with_enumeration(case, loss, choices):
    """Labels; how often two rows are matched, which the fairlet loss alone would make another; what is told of losses."""
    t = tiny(case, loss, dtype=np.float32)
    run = start(t, CHAINS, **choices)._replace(fairlets=KeepFairlets())
    draws, (fairlet, clustering) = many_draws(run, t.target), naive_losses(t, loss)
    assert distance_to(label_law(t, joint(t, loss)), draws) < NOISE

    states, matched = states_of(t, draws), t.fairlets[:, :, None] == t.fairlets[:, None]
    shares = np.bincount(states, minlength=len(matched)) / len(states)
    off = [np.abs(np.tensordot(shares - pi, matched, 1)).max() for pi in (joint(t, loss), cut(fairlet))]
    assert off[0] < NOISE / 2 < off[1]

    told = [draws.scalars[name].ravel() for name in ("fairlet_loss", "clustering_loss", "lp")]
    lp = -TEMPERATURES.fairlet * fairlet - TEMPERATURES.clustering * clustering
    np.testing.assert_allclose(told, np.array([fairlet, clustering, lp])[:, states], rtol=1e-4)

    if not choices:
        wrong = InverseTemperatures(run.states.lambdas.clustering, run.states.lambdas.fairlet)
        draws = many_draws(run._replace(states=run.states._replace(lambdas=wrong)), t.target)
        assert distance_to(label_law(t, joint(t, loss)), draws) > 3 * NOISE


def cut(fairlet_losses):
    return normalise(-TEMPERATURES.fairlet * fairlet_losses)


def test_sampled_dispersion_agrees_with_enumeration():
    t = tiny("1:1", dtype=np.float32, prior=Dispersion())
    draws = many_draws(start(t, CHAINS), t.target, 20_000)
    law = label_law(t, marginal_over_dispersion(t, "kmeans"))
    assert distance_to(law, draws) < NOISE
    assert distance_to(label_law(t, joint(t, "kmeans")), draws) > 2 * NOISE  # the fixed pair is another law
    loss = t.target.total_loss(Losses(draws.scalars["fairlet_loss"], draws.scalars["clustering_loss"]))
    inverse_dispersion = draws.scalars["lambda_c"] / t.target.mean_size
    np.testing.assert_allclose((inverse_dispersion * loss).mean(), t.target.degrees, rtol=0.02)


def test_the_cut_is_another_target_and_is_approached_by_inner_steps():
    """No density is told: of the joint target it would name another most probable clustering."""
    t = tiny("1:1", name="cut", dtype=np.float32)
    fairlet, clustering = naive_losses(t, "kmeans")
    given_B = np.exp(-TEMPERATURES.clustering * clustering)
    same_B = (t.fairlets[:, None] == t.fairlets).all(-1)
    law = cut(fairlet) * given_B * same_B.sum(1) / (same_B @ given_B)
    draws = many_draws(start(t, CHAINS, inner_steps=10), t.target, 20_000)
    assert distance_to(label_law(t, law), draws) < NOISE
    assert distance_to(label_law(t, joint(t, "kmeans")), draws) > NOISE
    assert "fairlet_loss" in draws.scalars
    assert "lp" not in draws.scalars
    assert t.target.log_density(None, None) is None


def test_optimal_keeps_the_decomposition():
    t = tiny("floor/ceil", name="optimal", dtype=np.float32)
    draws = many_draws(start(t, CHAINS), t.target, 20_000)
    np.testing.assert_array_equal(t.target.write(start(t).states)["members"], np.stack([t.members[0]] * 2))
    here, (_, clustering) = (t.fairlets == t.fairlets[0]).all(1), naive_losses(t, "kmeans")
    pi = normalise(-TEMPERATURES.clustering * clustering)
    assert distance_to(label_law(t, np.where(here, pi, 0) / pi[here].sum()), draws) < NOISE
    states = [t.index[(*t.fairlets[0], *labels[t.members[0][:, 0]])] for labels in draws.labels[0]]
    np.testing.assert_allclose(draws.scalars["clustering_loss"][0], clustering[states], rtol=1e-4)


def test_two_short_runs_are_one_long_run_and_another_seed_another():
    t = tiny("1:1", dtype=np.float32, prior=Dispersion())
    _, whole = draw(start(t), t.target, 150, thinning=2)
    run, first = draw(start(t), t.target, 63, thinning=2)
    _, second = draw(run, t.target, 87, thinning=2)
    both = concatenate([first, second])
    np.testing.assert_array_equal(both.labels, whole.labels)
    assert (draw(start(t, seed=1), t.target, 150, thinning=2)[1].labels != whole.labels).any()
    assert list(both.scalars) == list(whole.scalars) == list(whole.statistics)
    for name, values in whole.scalars.items():
        np.testing.assert_array_equal(both.scalars[name], values, err_msg=name)


def test_an_interrupt_keeps_what_was_drawn_and_is_passed_on_before_the_first_draw(monkeypatch):
    t = tiny("1:1", dtype=np.float32, prior=Dispersion())
    chunks, real = [], module.run_chunk

    def interrupted(*arguments, **settings):
        chunks.append(arguments)
        if len(chunks) in (4, 5):
            raise KeyboardInterrupt
        return real(*arguments, **settings)

    _, whole = draw(start(t), t.target, 100)
    monkeypatch.setattr(module, "run_chunk", interrupted)
    with pytest.warns(RuntimeWarning, match=r"kept the \d+ of 100 draws"):
        run, kept = draw(start(t), t.target, 100)
    with pytest.raises(KeyboardInterrupt):
        draw(start(t), t.target, 100)
    monkeypatch.undo()
    n_kept = kept.labels.shape[1]
    assert 0 < n_kept < 100
    _, rest = draw(run, t.target, 100 - n_kept)
    np.testing.assert_array_equal(np.concatenate([kept.labels, rest.labels], 1), whole.labels)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few draws
def test_fairlets_that_are_kept_without_a_proof_are_told(monkeypatch):
    """Tables of more than 50,000 rows; here decompose is asked for the same of few."""
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(200, 3)), np.array(["a", "b"])[np.arange(200) % 2]
    monkeypatch.setattr(over_fairlets, "decompose", partial(decompose, exact_up_to=0))
    settings = {"num_chains": 1, "num_warmup": 2, "num_draws": 2, "num_starts": 0, "random_state": 0}
    settings |= {"progress_bar": False}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fits = [
            bf.GibbsFairClustering(2, target=target, **settings).fit(X, sensitive_features=groups)
            for target in ("optimal", "joint")
        ]
    about = [str(one.message) for one in told if "not proved optimal" in str(one.message)]
    assert len(about) == 1
    found = decompose(X, groups, exact_up_to=0, random_state=fits[0]._seed)
    less = describe_gap(found.gap)
    assert repr(found) in about[0]
    assert less in about[0]
    kept, moved = (bf.posterior.summary(fit.posterior_) for fit in fits)
    assert f"not proved optimal: {less}." in kept.attrs["fairlets"]
    assert kept.attrs["fairlets"] in judge(fits[0].posterior_).evidence
    assert moved.attrs["fairlets"] == ""
    monkeypatch.undo()
    assert bf.posterior.summary(fits[0].resume(2).posterior_).attrs["fairlets"] == kept.attrs["fairlets"]
    proved = bf.GibbsFairClustering(2, target="optimal", **settings).fit(X, sensitive_features=groups)
    assert bf.posterior.summary(proved.posterior_).attrs["fairlets"] == ""

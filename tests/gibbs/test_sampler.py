"""The whole sampler against enumeration, and what a run promises: repeatable, resumable, every cluster used."""

import warnings
from functools import partial

import numpy as np
import pytest
from exact import (
    CASES,
    CHAINS,
    NOISE,
    TEMPERATURES,
    distance_to,
    joint,
    label_law,
    many_draws,
    naive_losses,
    normalise,
    settings,
    tiny,
)
from tiers import tiers

import bayesfair as bf
from bayesfair._draws import concatenate
from bayesfair.fairlets import decompose
from bayesfair.fairlets.decomposition import describe_gap
from bayesfair.gibbs import Dispersion
from bayesfair.gibbs.moves.collapsed import CollapsedReallocation
from bayesfair.gibbs.moves.swaps_in_turn import SwapsInTurn
from bayesfair.gibbs.run import KeepFairlets, Run, chain_keys, draw
from bayesfair.gibbs.states import InverseTemperatures
from bayesfair.gibbs.sweep import Repeat
from bayesfair.gibbs.targets import over_fairlets
from bayesfair.gibbs.targets.fairlets import Losses
from bayesfair.gibbs.targets.starts import stacked_states
from bayesfair.posterior.partners import fairlet_probability
from bayesfair.posterior.tree import build_tree
from bayesfair.posterior.verdict import judge

IN_TURN = SwapsInTurn(), Repeat((CollapsedReallocation(),))


def start(t, num_chains=2, seed=0, moves=None, **choices):
    members = () if t.target.keeps_fairlets else t.members[0]
    states = stacked_states(t.target, members, t.clusters[[0] * num_chains], TEMPERATURES)
    return Run(chain_keys(seed, num_chains), 0, states, moves or t.target.moves(settings(t, **choices)))


def marginal_over_dispersion(t, loss):
    """p(B, C) with lambda integrated out of lambda^(Nd/h - 1) exp(-lambda total loss): total^(-Nd/h)."""
    return normalise(-t.target.degrees * np.log(t.target.total_loss(Losses(*naive_losses(t, loss)))))


@pytest.mark.parametrize(
    ("case", "loss", "choices"),
    [
        pytest.param("1:1", "kmeans", {}, marks=pytest.mark.slow),
        ("floor/ceil", "kl", {"reallocation": "blocked"}),
        pytest.param("two-member hubs", "kmeans", {}, marks=pytest.mark.slow),
        pytest.param("floor/ceil", "manhattan", {"reallocation": "blocked"}, marks=pytest.mark.slow),
        ("1:1", "kmeans", {"moves": IN_TURN}),
        ("floor/ceil", "manhattan", {"fairlet_move": "rectangular-loop"}),
        pytest.param("1:1", "kmeans", {"fairlet_move": "rectangular-loop"}, marks=pytest.mark.slow),
        pytest.param("unequal", "kmeans", {}, marks=pytest.mark.slow),
        ("unequal, one alone", "kmeans", {"reallocation": "blocked"}),
        pytest.param("unequal hubs, one lacks a group", "manhattan", {}, marks=pytest.mark.slow),
    ],
)
def test_draws_agree_with_enumeration(case, loss, choices):
    t = tiny(case, loss, dtype=np.float32)
    draws = many_draws(start(t, CHAINS, **choices), t.target)
    assert distance_to(label_law(t, joint(t, loss)), draws) < NOISE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "loss"),
    [
        ("unequal", "kmeans"),
        ("unequal, one alone", "manhattan"),
        ("unequal hubs", "kmeans"),
        ("unequal hubs, one lacks a group", "manhattan"),
    ],
)
def test_every_draw_has_the_composition_it_was_given(case, loss):
    t = tiny(case, loss, dtype=np.float32)
    run, seen = start(t), set()
    for _ in range(100):
        run, _ = draw(run, t.target, 1, thinning=3)
        for members in np.asarray(run.states.members):
            held = [[(t.code[row[row < len(t.X)]] == g).sum() for g in range(2)] for row in members]
            np.testing.assert_array_equal(held, CASES[case][1])
            assert len(set(members[members < len(t.X)].tolist())) == len(t.X)
            seen.add(members.tobytes())
    assert len(seen) > 2


def test_sampled_dispersion_agrees_with_enumeration():
    t = tiny("floor/ceil", dtype=np.float32, prior=Dispersion())
    draws = many_draws(start(t, CHAINS), t.target)
    law = label_law(t, marginal_over_dispersion(t, "kmeans"))
    assert distance_to(law, draws) < NOISE
    assert distance_to(label_law(t, joint(t, "kmeans")), draws) > 2 * NOISE  # the fixed pair is another law
    loss = t.target.total_loss(Losses(draws.scalars["fairlet_loss"], draws.scalars["clustering_loss"]))
    inverse_dispersion = draws.scalars["lambda_c"] / t.target.mean_size
    np.testing.assert_allclose((inverse_dispersion * loss).mean(), t.target.degrees, rtol=0.02)


@pytest.mark.parametrize("fairlet_move", tiers(["swaps", "rectangular-loop"], ["swaps"]))
def test_the_cut_is_another_target_and_is_approached_by_inner_steps(fairlet_move):
    t = tiny("1:1", name="cut", dtype=np.float32)
    fairlet, clustering = naive_losses(t, "kmeans")
    of_B = normalise(-TEMPERATURES.fairlet * fairlet)
    given_B = np.exp(-TEMPERATURES.clustering * clustering)
    same_B = (t.fairlets[:, None] == t.fairlets).all(-1)
    cut = of_B * given_B * same_B.sum(1) / (same_B @ given_B)
    draws = many_draws(start(t, CHAINS, inner_steps=10, fairlet_move=fairlet_move), t.target)
    assert distance_to(label_law(t, cut), draws) < NOISE
    assert distance_to(label_law(t, joint(t, "kmeans")), draws) > NOISE


def test_fairlets_of_draws_agree_with_enumeration():
    """The share of draws in which two rows are matched, which the fairlet loss alone would make another."""
    t = tiny("1:1, four fairlets", dtype=np.float32)
    draws = many_draws(start(t, CHAINS)._replace(fairlets=KeepFairlets()), t.target, total=20_000)
    tree = build_tree(draws, t.X, t.code, settings={}, n_clusters=2, point=None)
    matched = fairlet_probability(tree).toarray()
    same = (t.fairlets[:, :, None] == t.fairlets[:, None]) & ~np.eye(len(t.X), dtype=bool)
    law, cut = (
        np.tensordot(pi, same, 1)
        for pi in (joint(t, "kmeans"), normalise(-TEMPERATURES.fairlet * naive_losses(t, "kmeans")[0]))
    )
    assert np.abs(matched - law).max() < NOISE
    assert np.abs(matched - cut).max() > 2 * NOISE


def test_optimal_keeps_the_decomposition():
    t = tiny("1:2", name="optimal", dtype=np.float32)
    draws = many_draws(start(t, CHAINS), t.target)
    np.testing.assert_array_equal(t.target.write(start(t).states)["members"], np.stack([t.members[0]] * 2))
    here = (t.fairlets == t.fairlets[0]).all(1)
    pi = normalise(-TEMPERATURES.clustering * naive_losses(t, "kmeans")[1])
    assert distance_to(label_law(t, np.where(here, pi, 0) / pi[here].sum()), draws) < NOISE


def test_a_wrong_temperature_is_caught():
    t = tiny("1:1", dtype=np.float32)
    run = start(t, CHAINS)
    wrong = InverseTemperatures(run.states.lambdas.clustering, run.states.lambdas.fairlet)
    draws = many_draws(run._replace(states=run.states._replace(lambdas=wrong)), t.target, total=10_000)
    assert distance_to(label_law(t, joint(t, "kmeans")), draws) > 3 * NOISE


def test_two_short_runs_are_one_long_run():
    t = tiny("floor/ceil", dtype=np.float32, prior=Dispersion())
    _, whole = draw(start(t), t.target, 150, thinning=2)
    run, first = draw(start(t), t.target, 63, thinning=2)
    _, second = draw(run, t.target, 87, thinning=2)
    both = concatenate([first, second])
    np.testing.assert_array_equal(both.labels, whole.labels)
    assert list(both.scalars) == list(whole.scalars) == list(whole.statistics)
    for name, values in whole.scalars.items():
        np.testing.assert_array_equal(both.scalars[name], values, err_msg=name)


def test_seeds_make_runs():
    t = tiny("1:1", dtype=np.float32)
    labels = [draw(start(t, seed=seed), t.target, 50)[1].labels for seed in (0, 0, 1)]
    np.testing.assert_array_equal(labels[0], labels[1])
    assert (labels[0] != labels[2]).any()


@pytest.mark.parametrize(("case", "name"), [("two-member hubs", "joint"), ("1:2", "optimal")])
def test_reported_losses_are_those_of_the_state(case, name):
    t = tiny(case, name=name, dtype=np.float32)
    run, draws = draw(start(t), t.target, 1, thinning=3)
    told = {name: values[0, 0] for name, values in draws.scalars.items()}
    s = t.state_of(t.target.write(run.states)["members"][0], run.states.cluster[0])
    fairlet, clustering = naive_losses(t, "kmeans")
    np.testing.assert_allclose([told["fairlet_loss"], told["clustering_loss"]], [fairlet[s], clustering[s]], rtol=1e-5)
    lp = -TEMPERATURES.fairlet * fairlet[s] - TEMPERATURES.clustering * clustering[s]
    np.testing.assert_allclose(told["lp"], lp, rtol=1e-5)


@pytest.mark.parametrize(("case", "prior"), [("1:1", None), ("1:2", Dispersion())])
def test_no_density_is_reported_under_the_cut(case, prior):
    """lp of the joint target would name another most probable clustering: p(B) is not divided by what depends on it."""
    t = tiny(case, name="cut", dtype=np.float32, prior=prior)
    run, first = draw(start(t), t.target, 40)
    _, second = draw(run, t.target, 23)
    whole = concatenate([first, second])
    assert "lp" not in whole.scalars
    assert t.target.log_density(None, None) is None
    assert whole.scalars["fairlet_loss"].shape == whole.scalars["swap_rate"].shape == (2, 63)
    given_B = np.exp(-TEMPERATURES.clustering * naive_losses(t, "kmeans")[1])
    normaliser = (t.fairlets[:, None] == t.fairlets).all(-1) @ given_B
    assert np.ptp(normaliser) > 0.1 * normaliser.max()  # so the joint density would rank decompositions wrongly


def test_an_interrupt_keeps_what_was_drawn(monkeypatch):
    import bayesfair.gibbs.run as module

    t = tiny("1:1", dtype=np.float32)
    chunks, real = [], module.run_chunk

    def interrupted(*arguments, **settings):
        chunks.append(arguments)
        if len(chunks) == 4:
            raise KeyboardInterrupt
        return real(*arguments, **settings)

    _, whole = draw(start(t), t.target, 100)
    monkeypatch.setattr(module, "run_chunk", interrupted)
    with pytest.warns(RuntimeWarning, match=r"kept the \d+ of 100 draws"):
        run, kept = draw(start(t), t.target, 100)
    monkeypatch.undo()
    n_kept = kept.labels.shape[1]
    assert 0 < n_kept < 100
    _, rest = draw(run, t.target, 100 - n_kept)
    np.testing.assert_array_equal(np.concatenate([kept.labels, rest.labels], 1), whole.labels)


def test_an_interrupt_before_the_first_draw_is_passed_on(monkeypatch):
    import bayesfair.gibbs.run as module

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    t = tiny("1:1", dtype=np.float32)
    monkeypatch.setattr(module, "run_chunk", interrupted)
    with pytest.raises(KeyboardInterrupt):
        draw(start(t), t.target, 100)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few draws
def test_fairlets_that_are_kept_without_a_proof_are_told(monkeypatch):
    """Tables of more than 50,000 rows; here decompose is asked for the same of few."""
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(200, 3)), np.array(["a", "b"])[np.arange(200) % 2]
    monkeypatch.setattr(over_fairlets, "decompose", partial(decompose, exact_up_to=0))
    settings = {
        "num_chains": 1,
        "num_warmup": 2,
        "num_draws": 2,
        "num_starts": 0,
        "random_state": 0,
        "progress_bar": False,
    }
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

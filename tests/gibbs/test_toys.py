"""Whoever adds a target, a move or a wrapper writes one small file: through sampler, tree, diagnostics, file and resume."""

from dataclasses import dataclass
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import (
    TEMPERATURES,
    all_states,
    invariance_error,
    joint,
    normalise,
    tiny,
    with_rest,
)
from toys.move import ExchangeClusters, JointWithExchange
from toys.target import FreeLabels, Labelling, MoveOne

import bayesfair as bf
from bayesfair.gibbs import Settings, Table
from bayesfair.gibbs.losses import resolve_loss
from bayesfair.gibbs.moves.collapsed import CollapsedReallocation
from bayesfair.gibbs.run import Run, chain_keys, draw
from bayesfair.gibbs.sweep import Repeat
from bayesfair.gibbs.targets.starts import stacked_states

FEW_DRAWS = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # thirty are for the plumbing
SMALL = {"num_chains": 2, "num_warmup": 5, "random_state": 0, "progress_bar": False}


@pytest.fixture(scope="module")
def free():
    """The toy target on five rows, with all of its states and their probabilities by the double loop."""
    X = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    target = FreeLabels.make(Table(X, None), Settings(2, resolve_loss("kmeans")))
    states = np.array([z for z in product(range(2), repeat=5) if len(set(z)) == 2], np.int32)
    loss = [sum(((X[z == k] - X[z == k].mean(0)) ** 2).sum() for k in range(2)) for z in states]
    return target, states, normalise(-0.7 * np.array(loss))


def test_the_toy_move_of_labels_is_exact(free):
    target, states, pi = free
    index = {tuple(z): s for s, z in enumerate(states.tolist())}

    def law(z):
        every = np.array(list(product(range(5), range(2))))
        return jax.vmap(lambda pair: MoveOne().law(target, Labelling(z, 0.7), *pair))(every)

    P = np.zeros((len(states),) * 2)
    for s, ratios in enumerate(np.asarray(jax.jit(jax.vmap(law))(states))):
        for (i, k), ratio in zip(product(range(5), range(2)), ratios):
            after = states[s].copy()
            after[i] = k
            if np.isfinite(ratio):
                P[s, index[tuple(after.tolist())]] += np.exp(min(ratio, 0)) / 10
    assert invariance_error(pi, with_rest(P)) < 1e-6


def fitted(target, num_draws=30, **choices):
    data = bf.datasets.make_well_specified()
    est = bf.GibbsFairClustering(2, target=target, num_draws=num_draws, **SMALL, **choices)
    return est.fit(data.features, sensitive_features=data.sensitive)


@FEW_DRAWS
@pytest.mark.parametrize(
    ("target", "choices", "quantity", "figure"),
    [
        (FreeLabels, {"inverse_temperature": (1.0, 0.4)}, "loss_of_labels", "single_rate"),
        pytest.param(JointWithExchange, {}, "clustering_loss", "exchange_rate", marks=pytest.mark.slow),
    ],
)
def test_toys_go_through_tree_diagnostics_file_and_resume(target, choices, quantity, figure, tmp_path):
    whole, est = fitted(target, 30, **choices), fitted(target, 13, **choices)
    stats = est.posterior_["sample_stats"]
    assert stats[figure].shape == stats[quantity].shape == (2, 13)
    summary = bf.posterior.summary(est.posterior_)
    assert quantity in summary.index
    assert figure not in summary.index
    est.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match=r"`target` must be given"):
        bf.GibbsFairClustering.load(tmp_path / "run.nc")
    again = bf.GibbsFairClustering.load(tmp_path / "run.nc", target=target).resume(num_draws=17)
    for group in ("posterior", "sample_stats", "sampler_state"):
        for name, values in whole.posterior_[group].data_vars.items():
            np.testing.assert_array_equal(values, again.posterior_[group][name], err_msg=f"{group}/{name}")
    assert set(whole.posterior_["sample_stats"].data_vars) == set(again.posterior_["sample_stats"].data_vars)
    assert bf.report(again.posterior_, tmp_path / "page.html").exists()
    bf.plots.trace(again.posterior_)
    if target is FreeLabels:
        is_told_in_the_units_of_the_table(again.posterior_)


def is_told_in_the_units_of_the_table(tree):
    """Statistics are named in the file of the toy move and nowhere else."""
    assert tree["posterior"]["lambda_of_labels"].attrs["kind"] == "parameter"
    np.testing.assert_allclose(tree["posterior"]["lambda_of_labels"], 0.4, rtol=1e-6)
    X, labels = tree["observed_data"]["X"].values, tree["posterior"]["labels"].values
    loss = sum(((X[z == k] - X[z == k].mean(0)) ** 2).sum() for z in labels[0, :1] for k in range(2))
    np.testing.assert_allclose(tree["sample_stats"]["loss_of_labels"][0, 0], loss, rtol=1e-5)


@dataclass(frozen=True)
class Mumbles:
    """A move that reports what it has not declared."""

    def __call__(self, key, target, state):
        return state, {"something": jnp.zeros(())}


def test_a_statistic_that_nobody_declared_is_refused():
    t = tiny("1:1", dtype=np.float32)
    states = stacked_states(t.target, t.members[0], t.clusters[[0, 0]], TEMPERATURES)
    with pytest.raises(ValueError, match=r"`statistics` must declare every scalar.*something"):
        draw(Run(chain_keys(0, 2), 0, states, (Mumbles(),)), t.target, 1)


def exchange_matrix(t, move):
    """A uniform pair of fairlets, from the law that the move publishes."""
    m = t.target.n_fairlets
    pairs = np.array(list(product(range(m), repeat=2)))

    def law(state):
        return jax.vmap(lambda pair: move.law(t.target, t.opened(state), *pair))(pairs)

    ratios, clusters = all_states(t, law)
    P = np.zeros((len(t.fairlets),) * 2)
    for s in range(len(P)):
        for ratio, cluster in zip(ratios[s], clusters[s]):
            P[s, t.state_of(t.members[s], cluster)] += np.exp(min(ratio, 0.0)) / len(pairs)
    return with_rest(P)


@pytest.mark.usefixtures("x64")
def test_the_toy_move_of_fairlets_is_exact():
    t, loss = tiny("floor/ceil"), "kmeans"
    assert invariance_error(joint(t, loss), exchange_matrix(t, ExchangeClusters())) < 1e-10
    assert invariance_error(joint(t, loss), exchange_matrix(t, ExchangeClusters(forgets_lambda=True))) > 1e-4


def test_moves_of_different_classes_are_never_taken_for_one_another():
    """Compiled sweeps are found by equality: as tuples, all moves without settings would be one."""
    assert Repeat((CollapsedReallocation(),)) != Repeat((MoveOne(),))
    assert ExchangeClusters() != MoveOne()
    assert ExchangeClusters() == ExchangeClusters()

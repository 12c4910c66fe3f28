"""Whole weights are repeated rows: every engine's iteration, from the same state, by the table that has the rows again."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engines.rows_of import fair, links_of_neighbours, mixture_at, random_components, targeted
from sklearn.cluster import KMeans

import bayesfair as bf
from bayesfair._tables import Columns, fit_encoder
from bayesfair.engines import big_learn, variational, vfc
from bayesfair.engines.families import Family
from bayesfair.engines.fmc import Ascent, Rule
from bayesfair.engines.gaussians import Gaussians, in_blocks
from bayesfair.fairness import encode_groups
from bayesfair.fairness.groups import target_proportions
from bayesfair.fairness.metrics import group_masses, rows_off

N, K = 30, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2)) + 3 * RNG.normal(size=(K, 2))[np.arange(N) % K]
TOWN = np.resize(["York", "Hull", "Leeds", "Hull"], N).astype(object)[:, None]
GROUP = np.resize(["a", "b", "b", "a", "b"], N)
WEIGHT = np.resize([1, 3, 2, 1, 1, 2, 4], N)
ROWS = np.repeat(np.arange(N), WEIGHT)
LABELS = np.resize([0, 1, 2, 0], N)
CENTERS = (X[[0, 4, 9]] + 0.3).astype(np.float32)  # where no row is


def both(make):
    """What is made of the weighted rows, and of the repeated ones."""
    return make(np.arange(N), WEIGHT.astype(float)), make(ROWS, np.ones(len(ROWS)))


def same(ours, theirs, rtol=2e-5, atol=2e-5):
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)


@pytest.mark.slow
def test_fair_mixture():
    def step(rows, weight):
        encoder = fit_encoder(Columns(X[rows], TOWN[rows]), False, weight=weight)
        problem = fair(encoder.scaled(X[rows]), encoder.codes(TOWN[rows]), GROUP[rows], weight)
        family, parameters = Family("diag", (3,)), random_components("diag", K, 2, 3, 1)
        start = mixture_at(family, problem, parameters, RULE)
        state, loss = jax.jit(Ascent(family))(problem, start)
        return encoder.middle, encoder.scale, state.parameters, loss

    same(*both(step), rtol=2e-3, atol=2e-3)


RULE = Rule(*map(np.float32, (30.0, 0.02, 0.05, 0.3)))


@pytest.mark.parametrize("objective", ["kmeans", pytest.param("kmedians", marks=pytest.mark.slow)])
def test_variational(objective):
    def steps(rows, weight):
        code, target = encode_groups(GROUP[rows]).code, np.array([0.4, 0.6])
        problem = targeted(X[rows], code, target, objective, weight / weight.mean())
        descent = variational.Descent(objective)
        state = jax.jit(vfc.start_state, static_argnums=0)(descent, problem, CENTERS, 5.0, variational.START)
        step = jax.jit(descent)
        for _ in range(5):
            state, loss, _ = step(problem, state)
        masses = np.asarray(state.masses)
        return (state.centers, masses / masses.sum(), loss, state.lipschitz, np.asarray(state.log_s[0]).T[first(rows)])

    same(*both(steps), rtol=1e-3, atol=1e-3)


def first(rows):
    """Where every row of the table stands first."""
    return np.unique(rows, return_index=True)[1]


def test_the_normalized_cut_is_that_of_copies_linked_as_their_rows_are():
    s = np.random.default_rng(1).dirichlet(np.ones(K), N).T.astype(np.float32)
    weight = WEIGHT / WEIGHT.mean()
    problem = targeted(X, encode_groups(GROUP).code, np.array([0.4, 0.6]), "ncut", weight)
    graph = np.zeros((N, N))
    plain = links_of_neighbours(X, np.ones(N))
    np.add.at(graph, (np.asarray(plain.row), np.asarray(plain.column)), np.asarray(plain.value))
    copies = np.float32(graph[np.ix_(ROWS, ROWS)])

    def cut(s):
        within, volume = jnp.einsum("ki,ij,kj->k", s, copies, s), s @ copies.sum(1)
        return K - (within / volume).sum()

    finished = jax.jit(lambda log_s: variational.NormalizedCut.finished(problem, log_s, None, (), ()))
    cost, _, potential = finished(np.log(s)[None])
    value, gradient = jax.jit(jax.value_and_grad(cut))(s[:, ROWS])
    np.testing.assert_allclose(cost, value, rtol=1e-5)
    gradient = len(ROWS) * np.asarray(gradient)[:, first(ROWS)]
    np.testing.assert_allclose(np.asarray(potential)[0], gradient, rtol=1e-3, atol=1e-4)


joint_step = jax.jit(big_learn.joint_step)


@pytest.mark.slow
def test_big_learning_with_missing_values():
    def step(rows, weight):
        table = np.where(np.arange(2 * N).reshape(N, 2) % 7 == 3, np.nan, X)[rows]
        middle = big_learn.mean_of_seen(table, weight.__getitem__, lambda value: [value])
        blocks, _ = in_blocks(table, middle, weight)
        numbers = np.float32(0.3), np.float32(1e-3), np.float32([1.0, 0.0, 0.0])
        problem = big_learn.SeenRows(blocks, *numbers)
        start = Gaussians(
            np.full(K, np.float32(1 / K)), np.float32(CENTERS - middle), np.tile(np.eye(2, dtype=np.float32), (K, 1, 1))
        )
        state = jax.jit(big_learn.joint_of)(problem, start)[0]
        for _ in range(3):
            state, loss = joint_step(problem, state)
        return state.parameters, loss

    same(*both(step), rtol=1e-3, atol=1e-3)


def labellings(n, k):
    return np.array(list(itertools.product(range(k), repeat=n)))


@pytest.mark.slow
def test_balanced_k_means_is_the_cheapest_by_weighted_loss_among_labellings_that_count_people():
    rng = np.random.default_rng(3)
    people, group, weight = rng.random((8, 2)) + 0.1, np.resize(["a", "b"], 8), np.array([5.0, 1, 1, 2, 1, 7, 1, 3])
    est = bf.BalancedKMeans(2, loss="kl", random_state=0).fit(people, sensitive_features=group, sample_weight=weight)
    costs = {}
    for labels in labellings(8, 2):
        counts = group_masses(labels, group)
        if len(counts) == 2 and (rows_off(counts) < 1).all():
            costs[tuple(labels)] = weighted_cost(people, labels, weight)
    np.testing.assert_allclose(est.inertia_, min(costs.values()), rtol=1e-6)
    np.testing.assert_allclose(weighted_cost(people, est.labels_, weight), est.inertia_, rtol=1e-6)
    assert est.counts_.sum() == 8
    unweighted = bf.BalancedKMeans(2, loss="kl", random_state=0).fit(people, sensitive_features=group)
    assert costs[tuple(est.labels_)] <= costs[tuple(unweighted.labels_)]


def weighted_cost(people, labels, weight):
    """By repeating rows, naively."""
    total = 0.0
    for k in (0, 1):
        held = np.repeat(people[labels == k], weight[labels == k].astype(int), axis=0)
        total += (held * np.log(held / held.mean(0)) - held + held.mean(0)).sum()
    return total


def test_fairlets_pay_by_weight_and_count_people():
    group = np.resize(["a", "b"], 8)
    people, weight = X[:8], np.array([5.0, 1, 1, 2, 1, 7, 1, 3])
    found = bf.fairlets.decompose(people, group, sample_weight=weight)
    ours, theirs = np.flatnonzero(group == "a"), np.flatnonzero(group == "b")

    def cost(order):
        pairs = [np.array([i, j]) for i, j in zip(ours, theirs[list(order)])]
        return 2 * sum(weighted_cost_of_pair(people[pair], weight[pair]) for pair in pairs)

    best = min(map(cost, itertools.permutations(range(4))))
    np.testing.assert_allclose(found.cost, best, rtol=1e-6)
    assert found.optimal
    assert bf.fairness.balance(found.fairlet, group) == 1


def weighted_cost_of_pair(rows, weight):
    return weight @ ((rows - np.average(rows, 0, weight)) ** 2).sum(1)


def test_weighted_hubs_are_a_weighted_sum_of_squares():
    group = np.resize(["a", "b"], 16)
    people, weight = X[:16], np.resize([1.0, 2.0, 4.0], 16)
    found = bf.fairlets.decompose(people, group, [2, 2], sample_weight=weight)
    held = [found.fairlet == i for i in range(4)]
    cost = sum(weighted_cost_of_pair(people[own], weight[own]) for own in held)
    np.testing.assert_allclose(found.cost, cost, rtol=1e-9)


def test_fairlet_k_means_clusters_weighted_fairlets():
    est = bf.FairletKMeans(2, random_state=0).fit(X, sensitive_features=GROUP, sample_weight=WEIGHT)
    own = [est.labels_ == k for k in (0, 1)]
    np.testing.assert_allclose(est.cluster_centers_, [np.average(X[rows], 0, WEIGHT[rows]) for rows in own])
    single = bf.FairletKMeans(3, composition="singletons", random_state=0).fit(
        X, sensitive_features=GROUP, sample_weight=WEIGHT
    )
    plain = KMeans(3, n_init=10, random_state=0).fit(X, sample_weight=WEIGHT)
    np.testing.assert_allclose(single.inertia_, plain.inertia_, rtol=1e-6)


def test_measures_of_fairness_count_weights_as_repeated_people():
    for measure in (bf.fairness.balance, bf.fairness.gap, bf.fairness.additive_gap, bf.fairness.kl_error):
        repeated = measure(LABELS[ROWS], GROUP[ROWS])
        np.testing.assert_allclose(measure(LABELS, GROUP, sample_weight=WEIGHT), repeated)
    soft = np.random.default_rng(0).dirichlet(np.ones(3), N)
    np.testing.assert_allclose(
        bf.fairness.gap(soft, GROUP, sample_weight=WEIGHT), bf.fairness.gap(soft[ROWS], GROUP[ROWS])
    )
    shares = target_proportions(GROUP, sample_weight=WEIGHT)
    np.testing.assert_allclose(shares, target_proportions(GROUP[ROWS]))


@pytest.mark.slow
def test_a_group_of_weight_zero_is_no_group():
    data = bf.datasets.make_vfc_synthetic()
    group = np.where(np.arange(400) < 10, "rare", data.sensitive)
    weight = (group != "rare").astype(float)
    est = bf.FairMixture(2, max_gap=0.1, n_init=1, random_state=0)
    est.fit(data.features, sensitive_features=group, sample_weight=weight)
    assert est.labels_.shape == (400,)
    assert est.hard_gap_ == bf.fairness.gap(est.labels_[10:], group[10:])
    with pytest.raises(ValueError, match="have at least two groups, got 'rare'"):
        est.fit(data.features, sensitive_features=group, sample_weight=1 - weight)

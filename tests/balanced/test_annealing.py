"""Moments of soft labels against their definition, Newton's step against the dense solve; and rows that are sorted in parts."""

import tracemalloc

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from bayesfair.balanced import annealing, newton, recombination, soft_labels
from bayesfair.balanced.annealing import Multipliers
from bayesfair.balanced.centroids import CENTROIDS
from bayesfair.balanced.problem import BalancedProblem
from bayesfair.datasets import load_adult_sample
from bayesfair.fairness import encode_groups
from bayesfair.fairness.balanced import balance_constraint
from bayesfair.fairness.bounded_sizes import bounded

K = 3


def problem_of(X, code, min_balance="exact", n_clusters=K, weight=None):
    constraint = balance_constraint(encode_groups(code), min_balance, n_clusters)
    weight = np.ones(len(X)) if weight is None else weight
    return BalancedProblem(X, code, weight, constraint, CENTROIDS["kmeans"], n_clusters)


def by_definition(loss, X, code, weight, stand_for, centers, alpha, temperature):
    """Counts, their slope, masses, sums, loss and dual of one start."""
    if loss == "manhattan":
        apart = np.abs(X[:, None] - centers)
        d, pull = apart.sum(2), 1 / np.maximum(apart, soft_labels.NEAR)
    else:
        a, b = CENTROIDS[loss].affine(centers)
        d, pull = a + X @ b.T, np.ones((len(X), *centers.shape))
    d, times = d * weight[:, None], stand_for[code][:, None]
    logits = alpha[code] - d / temperature
    soft, member = softmax(logits, 1), code[:, None] == np.arange(len(alpha))
    counts = np.einsum("nk,ng->gk", times * soft, member)
    slope = np.einsum("gk,kl->gkl", counts, np.eye(len(centers))) - np.einsum(
        "nk,nl,ng->gkl", times * soft, soft, member, optimize=True
    )
    pulled = (times * soft * weight[:, None])[..., None] * pull
    return (
        counts,
        slope,
        pulled.sum(0),
        (pulled * X[:, None]).sum(0),
        (times * soft * d).sum(),
        times[:, 0] @ logsumexp(logits, 1),
    )


@pytest.mark.parametrize("loss", ["kmeans", "kl", "manhattan"])
def test_moments_of_soft_labels_are_those_of_their_definition(loss):
    """Of groups larger and smaller than a tile, rows that stand for others, weights, hard labels; unwanted starts stay 0."""
    rng = np.random.default_rng(0)
    X, code, weight = rng.gamma(2.0, size=(900, 3)), (rng.random(900) < 0.1).astype(int), rng.uniform(0.5, 1.5, 900)
    rows = annealing.AnnealedRows(X, code, 2, weight, 3 * np.bincount(code))
    centers, alpha = 0.5 + rng.gamma(2.0, size=(3, 4, 3)), rng.normal(size=(3, 2, 4))
    for temperature in (2.0, 0.01):
        found = annealing.moments_of(CENTROIDS[loss], rows, centers, alpha, temperature, np.array([True, False, True]))
        for start in (0, 2):
            expected = by_definition(loss, X, code, weight, rows.stand_for, centers[start], alpha[start], temperature)
            for name, part, wanted in zip(found._fields, found, expected):
                scale = np.abs(expected[0] if name == "slope" else wanted).max()  # a slope is a difference of counts
                np.testing.assert_allclose(part[start], wanted, rtol=1e-3, atol=1e-5 * scale, err_msg=name)
        assert all((part[1] == 0).all() for part in found)


def test_moments_and_steps_are_compiled_once_whatever_the_order_of_their_arrays():
    rng = np.random.default_rng(0)
    rows = annealing.AnnealedRows(rng.normal(size=(20, 3)), np.arange(20) % 2, 2, np.ones(20))
    multipliers = Multipliers.of(balance_constraint(encode_groups(np.arange(20) % 2), n_clusters=4))
    for order in "CF":
        centers, alpha = (np.asarray(rng.normal(size=shape), order=order) for shape in ((2, 4, 3), (2, 2, 4)))
        found = annealing.moments_of(CENTROIDS["kmeans"], rows, centers, alpha, 1.0, np.ones(2, bool))
        multipliers.newton(alpha, *(np.asarray(part, order=order) for part in found[:2]), np.ones(2))
    assert len(soft_labels.add_moments.signatures) == len(newton.held_steps.signatures) == 1


def dense_steps(multipliers, mu, excess, slope, ridge):
    """All duals that are held in one system, start by start."""
    step = np.zeros(mu.shape)
    for start in range(len(mu)):
        j, k = np.nonzero(multipliers.equal | (mu[start] > 0) | (excess[start] > 0))
        curvature = np.einsum("ag,bg,gab->ab", multipliers.A[j], multipliers.A[j], slope[start][:, k[:, None], k])
        curvature[np.diag_indices(len(j))] += ridge[start]
        step[start, j, k] = np.linalg.solve(curvature, excess[start, j, k])
    return step


@pytest.mark.parametrize(("n_groups", "n_clusters"), [(1, 3), (2, 2), (7, 4), (40, 3)])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.filterwarnings("ignore:Groups with fewer members")
def test_the_steps_are_those_of_the_dense_solve(n_groups, n_clusters, hard, monkeypatch):
    """By groups, and by Cholesky's factors for the duals that are held."""
    rng = np.random.default_rng(0)
    code = np.concatenate([np.arange(n_groups), rng.integers(n_groups, size=300)])
    constraint = balance_constraint(encode_groups(code), n_clusters=n_clusters)
    multipliers = Multipliers.of(constraint)
    soft = rng.dirichlet(np.full(n_clusters, 0.01 if hard else 1.0), (2, len(code)))
    member = code[:, None] == np.arange(n_groups)
    counts = np.einsum("tik,ig->tgk", soft, member)
    slope = np.einsum("tgk,kl->tgkl", counts, np.eye(n_clusters)) - np.einsum("tik,til,ig->tgkl", soft, soft, member)

    def both(multipliers, mu):
        ridge, excess = np.full(2, 1e-4), multipliers.excess(counts)
        dense = dense_steps(multipliers, mu, excess, slope, ridge)
        held = multipliers._held_step(mu, excess, slope, ridge)
        np.testing.assert_allclose(multipliers.alpha(held), multipliers.alpha(dense), rtol=1e-6, atol=1e-6)
        return multipliers.newton(mu, counts, slope, ridge), dense

    monkeypatch.setattr(annealing, "FEW_DUALS", 0)
    mu = rng.normal(size=(2, n_groups, n_clusters))
    found, dense = both(multipliers, mu)
    np.testing.assert_allclose(multipliers.alpha(found), multipliers.alpha(dense), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found, -multipliers.alpha(found), rtol=1e-6, atol=1e-6)
    most = np.arange(n_clusters) + len(code) // n_clusters
    multipliers = Multipliers.of(bounded(constraint, n_clusters, len(code), most // 2, most))
    found, dense = both(multipliers, np.concatenate([mu, rng.normal(size=(2, 2, n_clusters))], 1))
    np.testing.assert_allclose(multipliers.alpha(found), multipliers.alpha(dense), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[:, -2:], dense[:, -2:], rtol=1e-5, atol=1e-5)


def test_duals_are_found_though_few_rows_are_far_away(monkeypatch):
    """Those of the cluster of large capital gains go many steps."""
    data = load_adult_sample()
    X = ((data.features - data.features.mean()) / data.features.std()).to_numpy()
    problem = problem_of(X, encode_groups(data.sensitive).code, n_clusters=10)
    left, solve = [], annealing.balanced_moments

    def solved(loss, rows, multipliers, *rest):
        mu, found = solve(loss, rows, multipliers, *rest)
        left.append(multipliers.unfair(mu, found.counts) / (len(X) / 10))
        return mu, found

    monkeypatch.setattr(annealing, "balanced_moments", solved)
    annealing.Annealer.of(problem, np.random.default_rng(0)).from_one_cluster(8, 10)
    assert np.max(left) <= annealing.ON_THE_WAY  # of the people of an average cluster
    assert np.max(left[-1]) <= max(annealing.UNFAIR, 1.01 * 10 / len(X))  # or one row of an average cluster


def test_starts_cool_that_begin_colder_than_one_cluster_would_end(monkeypatch):
    """Children of clusters that lie far apart once took one step and were taken for cold."""
    rng, steps = np.random.default_rng(0), []
    X = rng.normal(size=(300, 2)) + 1000 * np.eye(K, 2)[np.arange(300) % K]
    annealer = annealing.Annealer.of(problem_of(X, np.arange(300) % 2), rng)
    solve = annealing.balanced_moments
    monkeypatch.setattr(annealing, "balanced_moments", lambda *args: steps.append(1) or solve(*args))
    annealer.cool(X[None, :K], annealer.coldest(annealer.per_row) / 2)
    assert len(steps) > 5


def test_rows_that_are_sorted_part_by_part_cool_as_all_at_once(monkeypatch):
    rng = np.random.default_rng(0)
    X, code = rng.normal(size=(1800, 2)) + 4 * np.eye(K, 2)[rng.integers(K, size=1800)], rng.integers(3, size=1800)
    problem = problem_of(X, code, weight=rng.uniform(0.5, 1.5, 1800))
    starts, parts = rng.normal(size=(2, K, 2)), []

    def cooled(part):
        monkeypatch.setattr(annealing, "PART", part)
        annealer = annealing.Annealer.of(problem, np.random.default_rng(0))
        parts.append(len(annealer.rows.parts))
        return annealer.cool(starts, 8.0)

    one, other = cooled(512), cooled(2**20)
    for name in ("centers", "counts", "loss"):  # of duals there are several
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-3, atol=1e-3)
    assert parts[0] > 3 > parts[1] == 1


def test_sorted_rows_are_no_second_table():
    n_obs = 5 * annealing.PART
    X, code = np.ones((n_obs, 20), np.float32), np.arange(n_obs) % 2
    weight = np.ones(n_obs)
    tracemalloc.start()
    rows = annealing.AnnealedRows(X, code, 2, weight)
    there = sum(float(rows.of(part).weight.sum()) for part in rows.parts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert there == n_obs
    assert peak < 0.8 * X.nbytes


def test_the_dual_of_bounds_is_least_where_rows_are_clumps():
    """Newton's undamped steps went to and fro for ever: 7 of 8 starts on Bank-additional cooled without duals."""
    rng = np.random.default_rng(0)
    clump = rng.integers(6, size=2000)
    X = (5 * rng.normal(size=(6, 3)))[clump] + 0.01 * rng.normal(size=(2000, 3))
    code = (rng.random(2000) < np.linspace(0.1, 0.9, 6)[clump]).astype(int)
    problem = problem_of(X, code, 0.8 * np.bincount(code).min() / np.bincount(code).max(), 4)
    annealer = annealing.Annealer.of(problem, rng)
    rows, multipliers, centers = annealer.rows, annealer.multipliers, X[:4][None]
    mu = np.zeros((1, 2, 4))
    for _ in range(10):
        mu, found = annealing.balanced_moments(CENTROIDS["kmeans"], rows, multipliers, centers, mu, 1.0, 1e-4)
    excess = multipliers.excess(found.counts)
    assert (excess < 0.05).all()
    assert (mu >= 0).all()
    assert np.abs(mu * excess).max() < 0.05 * mu.max()  # nobody pays for a bound that is not reached


def test_a_sample_stands_for_the_whole_table():
    """Counts and losses are those of all rows where the sample holds each as often."""
    rng = np.random.default_rng(0)
    X, code = rng.normal(size=(400, 2)), (np.arange(400) % 5 == 0).astype(int)
    few = problem_of(X, code)
    many = few._replace(X=np.tile(X, (3, 1)), code=np.tile(code, 3), weight=np.ones(1200))
    centers, mu = rng.normal(size=(1, K, 2)), rng.normal(size=(1, 2, K))
    found = []
    for annealer in (annealing.Annealer.of(few, rng, 3 * np.bincount(code)), annealing.Annealer.of(many, rng)):
        alpha = annealer.multipliers.alpha(mu)
        part = annealing.moments_of(annealer.loss, annealer.rows, centers, alpha, 0.5, np.ones(1, bool))
        found.append((*part, annealer.own, annealer.per_row, annealer.spread))
    for one, other in zip(*found):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)


def test_the_duals_of_bounds_are_nearest_to_those_of_equations():
    rng = np.random.default_rng(0)
    groups = encode_groups(rng.random(300) < 0.3)
    equations, bounds = (Multipliers.of(balance_constraint(groups, least, K)) for least in ("exact", 0.3))
    alpha = equations.alpha(rng.normal(size=(2, 2, K)))
    mu = bounds.nearest(alpha)
    assert (mu >= 0).all()
    rise = bounds.excess(alpha - bounds.alpha(mu))  # of the squared distance, by mu: least squares under mu >= 0
    assert (rise > -1e-9).all()
    assert np.abs(rise[mu > 0]).max() < 1e-9


@pytest.mark.slow
def test_starts_none_of_which_is_balanced_still_end_somewhere(monkeypatch):
    """Their losses are infinite, and so was the temperature at which all rows cooled them."""
    monkeypatch.setattr(annealing, "ON_THE_WAY", -1.0)
    monkeypatch.setattr(recombination, "SAMPLE", 100)
    rng = np.random.default_rng(0)
    problem = problem_of(rng.normal(size=(300, 2)), np.resize([0, 1, 1], 300))
    found = recombination.search(problem, 4, 2, np.random.default_rng(0))
    assert np.isfinite(found.mu).all()
    assert np.isfinite(found.centers).all()

"""BigLearn-EM against plain EM of scikit-learn, scipy's densities and a slow loop over rows with missing values."""

from itertools import combinations

import jax
import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from bayesfair import BigLearnMixture
from bayesfair._compilations import compilations
from bayesfair._rows import each
from bayesfair.engines import big_learn, gaussians
from bayesfair.engines.big_learn import Matching, SeenRows, draw_matching
from bayesfair.engines.gaussians import Gaussians

D, K, N = 4, 3, 300
EYE = np.eye(D, dtype=np.float32)
WHOLE = Matching(EYE, np.ones(D, bool))


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    z = rng.integers(K, size=N)
    return rng.normal(size=(N, D)) @ np.triu(rng.normal(size=(D, D))) * 0.3 + 1.5 * rng.normal(size=(K, D))[z]


@pytest.fixture(scope="module")
def parameters():
    rng = np.random.default_rng(1)
    a = rng.normal(size=(K, D, D))
    parts = rng.dirichlet(np.ones(K)), rng.normal(size=(K, D)), a @ a.swapaxes(1, 2) + 0.3 * np.eye(D)
    return Gaussians(*(part.astype(np.float32) for part in parts))


def problem_of(X, seen=None, prior=0.0, floor=1e-6):
    numbers = np.float32(prior), np.float32(floor), np.float32([1.0, 0.0, 0.0])
    return SeenRows(gaussians.in_blocks(X if seen is None else np.where(seen, X, np.nan), np.zeros(D))[0], *numbers)


@jax.jit
def steps_of(problem, parameters, matching, n_steps):
    return big_learn.em_steps(problem, parameters, matching, n_steps)


def em_steps(problem, parameters, matching, n_steps=1):
    """One program for all numbers, matchings and numbers of steps."""
    return steps_of(problem, parameters, matching, n_steps)


def log_joint(parameters, X, seen):
    """Of the coordinates `seen`, as if rows lacked the others and as a matching has them."""
    rows, places = gaussians.in_blocks(X, np.zeros(D))
    return gaussians.in_order(joint_of_blocks(parameters, rows, seen), places).T


@jax.jit
def joint_of_blocks(parameters, rows, seen):
    parts = gaussians.whitened(parameters, seen)
    return [each(lambda block: gaussians.completed(parts, block, seen)[0], part) for part in rows]


def joint_density(parameters, x, subset):
    rows = []
    for weight, mean, covariance in zip(*(np.asarray(part, float) for part in parameters)):
        block = multivariate_normal(mean[subset], covariance[np.ix_(subset, subset)])
        rows.append(np.log(weight) + block.logpdf(x[..., subset]))
    return np.stack(rows)


def test_masked_densities_are_the_marginals_of_scipy(X, parameters):
    subset = [0, 2, 3]
    seen = np.isin(np.arange(D), subset)
    oracle = joint_density(parameters, X, subset)
    np.testing.assert_allclose(log_joint(parameters, X, seen), oracle, rtol=1e-3, atol=1e-3)
    lacking = log_joint(parameters, np.where(seen, X, np.nan), np.ones(D, bool))
    np.testing.assert_allclose(lacking, oracle, rtol=1e-3, atol=1e-3)
    partly = np.where((np.arange(N) % 2 == 0)[:, None] | seen, X, np.nan)  # what is missing is not asked for either
    np.testing.assert_allclose(log_joint(parameters, partly, seen), oracle, rtol=1e-3, atol=1e-3)
    wrong = joint_density(parameters, X, [(j + 1) % D for j in subset])
    assert not np.allclose(wrong, oracle, rtol=1e-2)


@jax.jit
def matching_of(key, probabilities):
    return draw_matching(key, D, probabilities)


def test_rotations_turn_the_mixture_with_the_data(X, parameters):
    rotation = matching_of(jax.random.PRNGKey(3), np.float32([0.0, 0.0, 1.0])).rotation
    rotation = np.asarray(rotation)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(D), atol=1e-5)
    turned = log_joint(
        jax.jit(gaussians.rotate)(parameters, rotation), X @ np.asarray(rotation, float).T, np.ones(D, bool)
    )
    np.testing.assert_allclose(turned, log_joint(parameters, X, np.ones(D, bool)), rtol=1e-3, atol=2e-3)


def test_matchings_have_the_laws_asked_for():
    keys = jax.random.split(jax.random.PRNGKey(0), 2000)
    drawn = jax.tree.map(np.asarray, jax.jit(jax.vmap(matching_of, (0, None)))(keys, np.float32([0.4, 0.1, 0.5])))
    joint = drawn.seen.all(1)
    turned = np.abs(drawn.rotation - np.eye(D)).max((1, 2)) > 1e-6
    assert abs(turned.mean() - 0.5) < 0.05  # failure rate below 1e-4
    assert abs(joint.mean() - 0.4) < 0.05
    assert drawn.seen.any(1).all()
    assert np.abs(drawn.rotation[turned].mean(0)).max() < 0.06


def test_one_joint_step_is_a_step_of_scikit_learn(X, parameters):
    weight, mean, covariance = map(np.asarray, parameters)
    other = GaussianMixture(K, weights_init=weight / weight.sum(), means_init=mean, reg_covar=0.0, max_iter=1, tol=0.0)
    other.precisions_init = np.linalg.inv(covariance)
    with pytest.warns(match="converge"):
        other.fit(X)
    ours = em_steps(problem_of(X), parameters, WHOLE)
    np.testing.assert_allclose(ours.mixing, other.weights_, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(ours.mean, other.means_, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(ours.covariance, other.covariances_, rtol=5e-3, atol=3e-3)


def test_weights_follow_equation_11(X, parameters):
    plain = np.asarray(em_steps(problem_of(X), parameters, WHOLE).mixing)
    smooth = em_steps(problem_of(X, prior=0.25), parameters, WHOLE).mixing
    np.testing.assert_allclose(smooth, (plain + 0.25) / (1 + K * 0.25), rtol=1e-4)


def slow_missing_step(parameters, X, seen):
    """EM with missing values, row by row, in float64."""
    weight, mean, covariance = (np.asarray(part, float) for part in parameters)
    dim = X.shape[1]
    mass, first, second = np.zeros(K), np.zeros((K, dim)), np.zeros((K, dim, dim))
    for x, has in zip(X, seen):
        there = np.flatnonzero(has)
        log = joint_density(parameters, x, there) if len(there) else np.log(weight)
        r = np.exp(log - log.max())
        r /= r.sum()
        for k in range(K):
            slope = covariance[k][:, there] @ np.linalg.inv(covariance[k][np.ix_(there, there)])
            full = mean[k] + slope @ (x - mean[k])[there]
            rest = covariance[k] - slope @ covariance[k][there]
            mass[k] += r[k]
            first[k] += r[k] * full
            second[k] += r[k] * (np.outer(full, full) + rest)
    mean = first / mass[:, None]
    return mass / len(X), mean, second / mass[:, None, None] - mean[:, :, None] * mean[:, None, :]


def holes(kind, shape):
    """Every row lacks what chance takes; or one row lacks all."""
    if kind == "one row":
        return np.broadcast_to((np.arange(shape[0]) != 7)[:, None], shape)
    return np.random.default_rng(2).random(shape) < 0.7


@pytest.mark.parametrize(("kind", "block"), [("random", 64), ("one row", 512)])
def test_missing_values_take_part_as_in_the_slow_loop(X, parameters, kind, block, monkeypatch):
    monkeypatch.setattr(gaussians, "BLOCK", block)
    seen = holes(kind, X.shape)
    ours = em_steps(problem_of(X, seen), parameters, WHOLE)
    for part, oracle in zip(ours, slow_missing_step(parameters, X, seen)):
        np.testing.assert_allclose(part, oracle, rtol=5e-3, atol=3e-3)


def test_a_marginal_step_with_missing_values_is_that_of_the_table_of_its_columns(X, parameters, monkeypatch):
    monkeypatch.setattr(gaussians, "BLOCK", 64)  # whose program is compiled
    subset, seen = np.array([0, 2, 3]), holes("random", X.shape)
    matching = Matching(EYE, np.isin(np.arange(D), subset))
    ours = em_steps(problem_of(X, seen), parameters, matching)
    alone = Gaussians(parameters.mixing, parameters.mean[:, subset], parameters.covariance[:, subset][:, :, subset])
    weight, mean, _ = slow_missing_step(alone, X[:, subset], seen[:, subset])
    np.testing.assert_allclose(ours.mixing, weight, rtol=5e-3, atol=3e-3)
    np.testing.assert_allclose(ours.mean[:, subset], mean, rtol=5e-3, atol=3e-3)
    np.testing.assert_allclose(ours.mean[:, 1], parameters.mean[:, 1])
    values = np.linalg.eigvalsh(np.asarray(ours.covariance, float))
    rounding = np.finfo("float32").eps * values[:, -1] / 2
    assert (values[:, 0] > 1e-6 - rounding).all()  # the floor


def test_blocks_hold_every_row_once_by_what_it_lacks(X):
    table = np.where(holes("random", X.shape), X, np.nan)
    rows, places = gaussians.in_blocks(table, np.zeros(D))
    assert sorted(np.concatenate([part for (part,) in places])) == list(range(N))
    rows = [part.parts for part in rows]
    first = [np.asarray(part.x[:, 0]) for part in rows]  # (blocks, rows), as labels are
    np.testing.assert_allclose(gaussians.in_order(first, places), np.nan_to_num(table[:, 0]), rtol=1e-6)
    patterns = [np.broadcast_to(part.pattern, part.weight.shape) for part in rows]
    n_lacking = [
        np.stack([(lack[:, at] < D).sum(0) for lack, at in zip(np.asarray(part.lacks), pattern)])
        for part, pattern in zip(rows, patterns)
    ]
    np.testing.assert_array_equal(gaussians.in_order(n_lacking, places), np.isnan(table).sum(1))


def test_rows_find_what_they_lack_where_one_block_has_as_many_patterns_as_rows(monkeypatch):
    """And all others share theirs, so that patterns are looked up."""
    monkeypatch.setattr(gaussians, "BLOCK", 16)
    patterns = np.array(list(combinations(range(6), 3)))[:16]
    lacking = np.vstack([patterns, np.repeat(patterns[-1:], 16 * 25, 0)])
    table = np.zeros((len(lacking), 6))
    np.put_along_axis(table, lacking, np.nan, 1)
    (rows,), ((order,),) = gaussians.in_blocks(table, np.zeros(6))
    part = rows.parts
    blocks = [jax.tree.map(lambda whole: whole[at], part) for at in range(len(part.x))]  # noqa: B023
    found = np.concatenate([np.asarray(block.each(block.lacks)).T for block in blocks])
    assert part.lacks.shape[-1] == 16
    np.testing.assert_array_equal(np.sort(found, 1)[: len(table)], lacking[order])


@pytest.mark.slow
def test_fits_and_predicts_rows_with_missing_values_and_a_second_fit_compiles_nothing(X):
    lacking = np.arange(N * D).reshape(N, D) % 7 == 3
    holes = np.where(lacking, np.nan, X)
    est = BigLearnMixture(K, max_iter=30, random_state=0).fit(holes)
    assert (np.diff(est.objective_trace_) >= -2e-5).all()
    np.testing.assert_allclose(est.predict_proba(np.full((1, D), np.nan))[0], est.weights_, rtol=1e-4)
    assert np.isfinite(est.score_samples(holes)).all()
    assert (est.predict(X) == est.predict(holes)).mean() > 0.8
    with compilations() as compiled:
        BigLearnMixture(K, max_iter=30, random_state=0).fit(np.where(lacking[::-1], np.nan, 1.1 * X))
    assert compiled == []


def test_a_column_without_a_value_is_refused(X):
    with pytest.raises(ValueError, match="`X` must have a value in every column"):
        BigLearnMixture(K).fit(np.column_stack([X, np.full(N, np.nan)]))


def test_a_round_is_its_steps_one_by_one(X, parameters):
    """The rotation is applied once a round."""
    matching = matching_of(jax.random.PRNGKey(3), np.float32([0.0, 0.0, 1.0]))
    problem, stepwise = problem_of(X, floor=1e-3), parameters
    for _ in range(3):
        stepwise = em_steps(problem, stepwise, matching)
    whole = em_steps(problem, parameters, matching, n_steps=3)
    for part, other in zip(whole, stepwise):
        np.testing.assert_allclose(part, other, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda X: 1e-300 * X, "variance is above min_eigenvalue, 0.001, got at most 0, in column"),
        (lambda X: 1e20 * X, r"near \[0, 1\], like the random starts, got .* Scale the columns .*MinMaxScaler"),
        (lambda X: X + 1e8, r"near \[0, 1\], like the random starts, got a mean of 1e\+08"),
        (lambda X: np.where(np.arange(N)[:, None] == 3, 1e10, X), "differences that float32 can resolve"),
    ],
)
def test_columns_that_the_start_cannot_tell_apart_are_refused(X, change, match):
    with pytest.raises(ValueError, match=match):
        BigLearnMixture(K).fit(change(X))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_columns_that_follow_from_others_in_large_units_keep_covariances_above_zero():
    """The floor, 1e-3, is far below what float32 rounds in variances near 1e5."""
    a, b = np.random.default_rng(0).normal(size=(2, 300))
    a += 6 * (np.arange(300) % 2)
    X = 100 * np.stack([a, 2 * a, b, a + b], 1)
    est = BigLearnMixture(2, random_state=0, max_iter=60)
    with pytest.warns(UserWarning, match="all starts are practically the same"):
        est.fit(X, sensitive_features=np.arange(300) // 2 % 2)
    assert np.isfinite(est.objective_trace_).all()
    assert np.linalg.eigvalsh(est.covariances_).min() > 0
    assert np.unique(np.arange(300)[est.labels_ == est.labels_[0]] % 2).size == 1


class Rounds(Exception):
    """In place of the rounds: what they would read."""


class Stopped(BigLearnMixture):
    def solve(self, problem, data):
        raise Rounds(problem)


@pytest.mark.parametrize(("given", "eta"), [(None, 0.2), (0.04, 0.04)])
def test_the_weight_prior_of_the_rounds_is_that_of_the_authors_unless_given(given, eta):
    with pytest.raises(Rounds) as stopped:
        Stopped(25, weight_prior=given).fit(np.random.default_rng(0).random((50, 2)))
    (problem,) = stopped.value.args
    assert problem.prior == np.float32(eta)


@pytest.mark.slow
def test_default_weights_are_those_of_the_data():
    rng = np.random.default_rng(0)
    small = rng.random(1000) < 0.1
    X = np.where(small[:, None], 0.8, 0.2) + 0.03 * rng.normal(size=(1000, 2))
    est = BigLearnMixture(2, min_eigenvalue=1e-4, n_init=4, max_iter=100, random_state=0).fit(X)
    np.testing.assert_allclose(np.sort(est.weights_), np.sort([small.mean(), 1 - small.mean()]), atol=1e-3)


def test_a_component_may_die_where_no_prior_keeps_it_alive():
    """0 log 0 is 0: the run goes on without it."""
    rng = np.random.default_rng(0)
    rows = 0.1 * rng.normal(size=(300, 16)) + rng.integers(2, size=(300, 1))
    est = BigLearnMixture(12, matching_probabilities=(1, 0, 0), weight_prior=0, n_local_steps=1, random_state=2)
    with pytest.warns(ConvergenceWarning, match="no row has its largest"):
        est.fit(rows)
    assert est.weights_.min() == 0
    assert est.converged_
    assert (np.diff(est.objective_trace_) >= -1e-5).all()

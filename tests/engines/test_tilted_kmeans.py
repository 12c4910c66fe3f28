"""TKM against Lloyd, scipy's minimiser, smallest enclosing balls, and its own definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engines.rows_of import tilted
from scipy.optimize import minimize as scipy_minimize
from scipy.special import logsumexp
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from bayesfair.engines import tkm
from bayesfair.engines.data import RowSplit
from bayesfair.engines.tilted_kmeans import TiltedKMeans
from bayesfair.fairness import distance_report

# One row of X is far from all others.
pytestmark = pytest.mark.filterwarnings("ignore:TiltedKMeans. cluster . has 1 of 201 rows")


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(size=(150, 2)), rng.normal([5, 0], [2, 1], size=(50, 2)), [[9.0, 4.0]]])


def definition(X, centers, labels, tilt):
    """The objective as printed, naively, in float64."""
    d = ((X - centers[labels]) ** 2).sum(1)
    return sum(np.log(np.exp(tilt * d * (labels == k)).sum() / len(X)) / tilt for k in range(len(centers)))


losses, pooled, refine, nearest = map(jax.jit, (tkm.cluster_losses, tkm.pooled_loss, tkm.refine, tkm.nearest))
newton, newton_step, partition_at = map(jax.jit, (tkm.newton, tkm.newton_step, tkm.partition_at))


def loss_of(problem, centers, labels):
    return np.asarray(losses(problem, centers, labels)).sum()


def problem_of(X, tilt):
    Z = X - X.mean(0)
    return tilted(Z, tilt)


def start_at(problem, centers):
    centers = np.asarray(centers, np.float32)
    return partition_at(problem, centers, jax.random.PRNGKey(0))


@pytest.mark.parametrize("tilt", [1e-4, 1.0])
def test_objective_is_the_definition(X, tilt):
    est = TiltedKMeans(3, tilt=tilt, random_state=0).fit(X)
    np.testing.assert_allclose(est.tilted_sse_, definition(X, est.cluster_centers_, est.labels_, tilt), rtol=2e-4)
    np.testing.assert_allclose(est.tilted_sse_, est.objective_trace_[-1])


def never_increases(trace):
    assert (np.diff(trace) <= 1e-6 * trace[0]).all()


def test_large_tilts_do_not_overflow_and_impossible_ones_are_refused(X):
    """Exponents overflow naively."""
    est = TiltedKMeans(3, tilt=300.0, random_state=0, max_iter=2000).fit(X)
    assert est.tilted_sse_ >= 0.9 * (est.max_distance_**2).sum()
    with pytest.raises(ValueError, match="`tilt` must keep tilt times squared distances within"):
        TiltedKMeans(2, tilt=1e30).fit(X)


def test_no_tilt_is_k_means(X):
    est = TiltedKMeans(3, tilt=0.0, random_state=0, tol=1e-8).fit(X)
    never_increases(est.objective_trace_)
    best = KMeans(3, n_init=10, random_state=0).fit(X)
    np.testing.assert_allclose(est.inertia_, best.inertia_, rtol=1e-5)
    np.testing.assert_allclose(est.tilted_sse_, best.inertia_ / len(X), rtol=1e-5)
    order, other = np.lexsort(est.cluster_centers_.T), np.lexsort(best.cluster_centers_.T)
    np.testing.assert_allclose(est.cluster_centers_[order], best.cluster_centers_[other], atol=1e-3)
    table = distance_report(X, est.labels_, est.cluster_centers_)
    np.testing.assert_allclose(est.within_cluster_variance_, table["distance_variance"], rtol=1e-3)
    np.testing.assert_allclose(est.max_distance_, table["max_distance"], rtol=1e-4)


@pytest.mark.slow
def test_large_tilt_approaches_the_smallest_enclosing_ball(X):
    def radius(center):
        return np.linalg.norm(X - center, axis=1).max()

    ball = scipy_minimize(radius, X.mean(0), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-8})
    fits = [TiltedKMeans(1, tilt=t, random_state=0, max_iter=5000).fit(X) for t in (0.0, 0.1, 30.0)]
    radii = [one.max_distance_[0] for one in fits]
    assert (np.diff(radii) < 0).all()
    assert fits[0].within_cluster_variance_ > fits[1].within_cluster_variance_
    np.testing.assert_allclose(radii[-1], ball.fun, rtol=1e-2)


def test_newton_step_solves_with_the_derivatives_of_the_objective(X):
    """A wrong factor in gradient or Hessian would fail."""
    problem = problem_of(X, 0.2)
    centers = jnp.asarray([[-1.0, 0.5], [3.0, 0.0]])
    labels = nearest(problem, centers)

    @jax.jit
    def derivatives(k):
        def loss(center):
            return tkm.cluster_losses(problem, centers.at[k].set(center), labels)[k]

        return jax.grad(loss)(centers[k]), jax.hessian(loss)(centers[k])

    step = np.asarray(newton_step(problem, centers, labels))
    for k in range(2):
        gradient, hessian = derivatives(k)
        np.testing.assert_allclose(step[k], -np.linalg.solve(hessian, gradient), rtol=2e-3)


def test_refinement_never_raises_the_objective_and_the_nearest_centre_can():
    """J_k is concave: two rows far from a lonely centre's cluster. Neither step raises the pooled loss."""
    rng = np.random.default_rng(1)
    raised = 0
    for _ in range(300):
        problem = problem_of(3 * rng.normal(size=(12, 1)), 0.5)
        centers, labels = np.float32(3 * rng.normal(size=(3, 1))), np.int32(rng.integers(3, size=(1, 12)))
        before, closest = loss_of(problem, centers, labels), nearest(problem, centers)
        raised += bool(loss_of(problem, centers, closest) > before * (1 + 1e-5))
        refined = refine(problem, centers, labels, losses(problem, centers, labels))
        assert loss_of(problem, refined, labels) <= before * (1 + 1e-6)
        most = pooled(problem, centers, labels) * (1 + 1e-6)
        assert max(pooled(problem, centers, closest), pooled(problem, refined, labels)) <= most
    assert raised > 0


@pytest.mark.parametrize("tilt", [0.0, 1e-4, 0.5, 300.0])
def test_pooled_loss_is_the_definition(X, tilt):
    problem, centers = problem_of(X, tilt), np.float32([[-1.0, 0.0], [4.0, 1.0]])
    d = np.square((X - X.mean(0))[:, None] - centers).sum(-1).min(1)
    expected = (logsumexp(tilt * d) - np.log(len(X))) / tilt if tilt else d.mean()
    np.testing.assert_allclose(pooled(problem, centers, nearest(problem, centers)), expected, rtol=1e-5)


def three_clusters(n_informative):
    """600 rows of 20 standardised columns."""
    rng = np.random.default_rng(0)
    X, truth = rng.normal(size=(600, 20)), np.repeat([0, 1, 2], 200)
    X[:, :n_informative] += 4 * np.tile([[0, 0], [1, 0], [0, 1]], n_informative // 2)[truth]
    return (X - X.mean(0)) / X.std(0), truth


@pytest.mark.parametrize(("n_informative", "worst"), [(2, 100), (6, 200)])
def test_defaults_do_not_collapse(n_informative, worst):
    """598, 1 and 1 rows, or 595, 3 and 2, where labels refused the nearest centre whenever it raised the objective.

    With six columns k-means finds the truth. The objective chose 391, 134 and 75 rows of 16 runs, most of which had found it.
    """
    X, truth = three_clusters(n_informative)
    est = TiltedKMeans(3, random_state=0).fit(X)
    assert est.converged_
    assert np.bincount(est.labels_, minlength=3).min() >= worst
    assert worst < 200 or adjusted_rand_score(truth, est.labels_) == 1
    np.testing.assert_array_equal(est.predict(X), est.labels_)


def test_clusters_of_a_few_rows_are_told():
    X = np.concatenate([np.random.default_rng(0).normal(size=(200, 2)), [[60.0, 0.0], [0.0, 60.0], [0.0, 61.0]]])
    told = r"clusters \d, \d have [12], [12] of 203 rows\. Remedy: lower `tilt` or `n_clusters`, or look at those rows"
    with pytest.warns(ConvergenceWarning, match=told):
        TiltedKMeans(3, random_state=0, n_init=4).fit(X)
    with pytest.warns(ConvergenceWarning, match=r"cluster \d has [23] of 203 rows\. Remedy: lower `n_clusters`"):
        TiltedKMeans(2, tilt=0.0, random_state=0, n_init=4).fit(X)


@pytest.mark.parametrize("tilt", [0.0, 0.5])
@pytest.mark.parametrize("n_blocks", [1, 3])
def test_a_step_of_sgd_is_the_papers(X, tilt, n_blocks):
    """phi and N are of all rows under the labels of the iteration; a row of the batch pulls the centre that is nearest now.

    Weights of the batch alone, or pulls by the labels of the iteration, fail.
    """
    rng = np.random.default_rng(3)
    Z, weight = (X - X.mean(0)) / X.std(0), rng.uniform(0.5, 1.5, len(X))
    problem = tilted(Z, tilt, 0.05, weight, n_blocks)
    centers, labels, rows = rng.normal(size=(3, 2)), rng.integers(3, size=len(X)), rng.integers(len(X), size=40)
    given = RowSplit(None, (len(X),)).in_blocks(lambda some: labels[some].astype(np.int32), n_blocks).parts
    moved = jax.jit(tkm.pulled)(problem, np.float32(centers), given, rows)
    grown = np.exp(tilt * np.square(Z - centers[labels]).sum(1))
    of_cluster = [(weight * np.where(labels == k, grown, 1)).sum() for k in range(3)]  # N exp(t phi_k)
    share = weight * grown / np.take(of_cluster, labels)
    expected = centers.copy()
    for i in rows:
        k = np.square(Z[i] - centers).sum(1).argmin()
        expected[k] += 0.05 * share[i] * 2 * (Z[i] - centers[k])
    np.testing.assert_allclose(moved, expected, rtol=1e-5, atol=1e-6)


def test_an_iteration_of_sgd_is_so_many_steps():
    """From 0 towards 30 rows that are all at 1, ten at a time: what is left is multiplied by 1 - 2 learning_rate 10 / 30."""
    problem = tilted(np.ones((30, 1)), 0.0, learning_rate=0.15)
    for n_epochs in (1, 4):
        moved, *_ = jax.jit(tkm.GradientDescent(10, n_epochs))(problem, start_at(problem, [[0.0]]))
        np.testing.assert_allclose(1 - moved.centers, 0.9**n_epochs, rtol=1e-5)


def test_steps_too_short_to_move_are_no_convergence(X):
    with pytest.warns(ConvergenceWarning, match="steps were refused or cut short"):
        est = TiltedKMeans(3, solver="sgd", learning_rate=1e-7, n_init=1, random_state=0).fit(X)
    assert not est.converged_


@pytest.mark.slow
def test_stochastic_gradients_come_near(X):
    with pytest.warns(ConvergenceWarning, match="not converged"):
        sgd = TiltedKMeans(3, tilt=0.1, solver="sgd", learning_rate=0.05, batch_size=50, random_state=0).fit(X)
    newton = TiltedKMeans(3, tilt=0.1, random_state=0).fit(X)
    assert sgd.tilted_sse_ <= 1.1 * newton.tilted_sse_
    assert newton.tilted_sse_ <= 1.02 * sgd.tilted_sse_


@pytest.mark.slow
def test_empty_clusters_come_back():
    X = np.concatenate([np.zeros((5, 1)), np.full((5, 1), 10.0), [[20.0]]]) + 0.01 * np.arange(11)[:, None]
    problem = problem_of(X, 0.0)
    state = start_at(problem, np.array([[-6.0], [5.0], [500.0]]))
    for _ in range(10):
        state, loss = newton(problem, state)
    assert len(np.unique(state.labels)) == 3
    assert loss < 1e-3


@pytest.mark.slow
def test_many_columns_are_fitted_in_the_span_of_the_rows(monkeypatch):
    """The work is that of 30 columns, the answer that of the rows turned by hand into all columns in which they vary."""
    dims, solve = [], TiltedKMeans.solve
    told = lambda self, problem, data: dims.append(problem.rows.parts.x.shape[1]) or solve(self, problem, data)  # noqa: E731
    monkeypatch.setattr(TiltedKMeans, "solve", told)
    rng = np.random.default_rng(0)
    X = 0.1 * rng.normal(size=(30, 500)) + np.repeat(rng.normal(size=(3, 500)), 10, 0)
    settings = {"tilt": 0.01, "n_init": 2, "random_state": 0}
    turned, axes = TiltedKMeans(3, **settings).fit(X), np.linalg.svd(X - X.mean(0))[2][:29]
    plain = TiltedKMeans(3, **settings).fit(X @ axes.T)
    assert dims == [30, 29]
    np.testing.assert_array_equal(turned.labels_, plain.labels_)
    off = turned.cluster_centers_ - X.mean(0)
    np.testing.assert_allclose(off, (plain.cluster_centers_ - X.mean(0) @ axes.T) @ axes, atol=1e-3)
    np.testing.assert_allclose(turned.tilted_sse_, plain.tilted_sse_, rtol=1e-5)
    np.testing.assert_array_equal(turned.predict(X), turned.labels_)


@pytest.mark.slow
def test_conjugate_gradients_take_newtons_step(monkeypatch):
    rng = np.random.default_rng(0)
    problem = problem_of(rng.normal(size=(300, 20)) * np.linspace(1.5, 0.1, 20), 0.2)
    centers = problem.rows.parts.x[0, :, :3].T
    labels = nearest(problem, centers)
    direct = np.asarray(newton_step(problem, centers, labels))
    monkeypatch.setattr(tkm, "DIRECT", 0)
    ours = jax.jit(lambda *given: tkm.newton_step(*given))(problem, centers, labels)
    np.testing.assert_allclose(ours, direct, atol=2e-3 * abs(direct).max())


def test_no_matrix_of_the_columns_is_made_where_there_are_many():
    for dim in (20, 200):
        problem = problem_of(np.random.default_rng(0).normal(size=(300, dim)), 0.1)
        given = problem, problem.rows.parts.x[0, :, :4].T, jnp.zeros((1, 300), int)
        assert (f"{dim},{dim}" in str(jax.make_jaxpr(tkm.newton_step)(*given))) == (dim == 20)


@pytest.mark.slow
def test_powers_of_two_change_units_alone(X):
    """The tilt is per squared unit."""
    power = -200
    plain = TiltedKMeans(3, tilt=0.1, random_state=0).fit(X)
    other = TiltedKMeans(3, tilt=float(np.ldexp(0.1, -2 * power)), random_state=0).fit(2.0**power * X)
    np.testing.assert_array_equal(other.labels_, plain.labels_)
    np.testing.assert_array_equal(other.cluster_centers_, 2.0**power * plain.cluster_centers_)
    degrees = {"tilted_sse_": 2, "inertia_": 2, "max_distance_": 1, "within_cluster_variance_": 4}
    for name, degree in degrees.items():
        np.testing.assert_array_equal(getattr(other, name), np.ldexp(getattr(plain, name), degree * power))

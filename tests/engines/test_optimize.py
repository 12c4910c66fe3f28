"""The shared loop on problems whose answers are known."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from bayesfair._compilations import compilations
from bayesfair.engines.base import kmeans_centers
from bayesfair.engines.optimize import CHUNK, Outcome, converged_or_warn, first_accepted, minimize
from bayesfair.engines.variational import relocate_empty


class Problem(NamedTuple):
    goal: object


def halve(problem, x):
    x = x + (problem.goal - x) / 2
    return x, jnp.square(x - problem.goal).sum() + 1.0


def explode(problem, x):
    x = x * problem.goal
    return x, jnp.where(x > 100, jnp.inf, x)


def test_runs_reach_their_minimum_and_stop():
    starts = jnp.array([[4.0], [1e4]])
    outcome = minimize(halve, Problem(jnp.array([1.0])), starts, max_iter=100, tol=1e-6)
    np.testing.assert_allclose(outcome.state, 1.0, atol=1e-3)
    assert outcome.n_iter[0] < outcome.n_iter[1] < 100
    assert (outcome.status == 1).all()
    np.testing.assert_allclose(outcome.loss, 1.0, atol=1e-5)


def test_traces_hold_every_iteration_of_each_run():
    outcome = minimize(halve, Problem(jnp.array([0.0])), jnp.array([[2.0], [64.0]]), max_iter=3 * CHUNK, tol=1e-6)
    first = outcome.run(0)
    np.testing.assert_allclose(first.trace[:3], [2.0, 1.25, 1.0625])
    assert len(first.trace) == first.n_iter
    assert np.isnan(outcome.trace[0, first.n_iter :]).all()
    assert (np.diff(first.trace) <= 0).all()


def test_max_iter_is_kept_across_chunks():
    outcome = minimize(halve, Problem(jnp.array([0.0])), jnp.full((1, 1), 1e15), max_iter=CHUNK + 2, tol=0.0)
    assert outcome.n_iter[0] == CHUNK + 2
    assert outcome.trace.shape == (1, CHUNK + 2)
    assert outcome.status[0] == 0


def creep(problem, x):
    return x, jnp.square(x).sum()


def test_all_chunks_of_a_run_are_one_program():
    with compilations() as compiled:
        minimize(creep, None, np.ones((1, 3), np.float32), max_iter=2 * CHUNK, tol=0.0, patience=2 * CHUNK)
    assert len([name for name in compiled if "chunk" in name]) == 1, compiled


def test_a_loss_that_is_not_finite_keeps_the_last_finite_state():
    outcome = minimize(explode, Problem(jnp.float32(3.0)), jnp.array([1.0]), max_iter=50, tol=1e-9)
    assert outcome.state[0] == 81.0
    assert outcome.loss[0] == 81.0
    assert outcome.status[0] == 2
    with pytest.warns(ConvergenceWarning, match="stopped being finite after 4 iterations"):
        assert not converged_or_warn(outcome.best, object(), "rescale.")


def stuck(problem, x):
    """Every step is refused, however much there is to gain; where the goal is reached nothing is."""
    return x, jnp.square(x - problem.goal).sum() + 1.0, x[0] != problem.goal[0]


def halting(problem, x):
    """Refused on the way from 8 to 1, then free again."""
    x, loss = halve(problem, x)
    return x, loss, jnp.bool_(True)


def test_standing_still_because_steps_are_refused_is_not_rest():
    starts = jnp.array([[4.0], [1.0]])
    outcome = minimize(stuck, Problem(jnp.array([1.0])), starts, max_iter=9, tol=1e-6, patience=3)
    np.testing.assert_array_equal(outcome.status, [Outcome.REFUSED, Outcome.CONVERGED])
    np.testing.assert_array_equal(outcome.n_iter, [9, 4])
    with pytest.warns(ConvergenceWarning, match="stood still .* because steps were refused or cut short.*Remedy: less"):
        assert not converged_or_warn(outcome.run(0), object(), "less")


def test_a_run_that_still_moves_is_not_called_refused():
    outcome = minimize(halting, Problem(jnp.array([1.0])), jnp.array([[1e4]]), max_iter=5, tol=1e-6, patience=3)
    assert outcome.status[0] == Outcome.RUNNING


def test_outcomes_are_told_in_words():
    blank = np.array([])
    with pytest.warns(ConvergenceWarning, match="not converged after 7 iterations. Remedy: more"):
        converged_or_warn(Outcome(None, 1.0, blank, 7, 0), object(), "more")
    with pytest.raises(FloatingPointError, match="not finite at the start"):
        converged_or_warn(Outcome(None, np.inf, blank, 0, 2), object(), "more")
    assert converged_or_warn(Outcome(None, 1.0, blank, 7, 1), object(), "more")


def test_the_best_run_is_the_one_of_least_finite_loss():
    outcome = minimize(explode, Problem(jnp.float32(1.0)), jnp.array([3.0, 200.0, 2.0]), max_iter=3, tol=0.1)
    assert outcome.best.loss == 2.0
    np.testing.assert_array_equal(outcome.order, [2, 0, 1])


def test_empty_clusters_take_the_rows_that_suit_their_own_least():
    cost = np.array([[0.0, 5, 5], [0.0, 5, 5], [3.0, 5, 5], [9.0, 1, 9]])
    labels = relocate_empty(np.array([0, 0, 0, 1]), cost, [2])
    np.testing.assert_array_equal(labels, [0, 0, 2, 1])


def test_the_first_accepted_outcome_ends_a_search_and_else_the_one_that_misses_least_is_best():
    def outcomes(*losses):
        return (Outcome(i, loss, None, 1, Outcome.CONVERGED) for i, loss in enumerate(losses))

    runs = outcomes(3.0, 2.0, 1.0)
    assert first_accepted(runs, lambda one: [1, 0, 0][one.state])[0].state == 1
    assert next(runs).state == 2  # was not made
    for losses, missing, best in (((3.0, 2.0), (1, 1), 1), ((3.0, 2.0), (1, 2), 0), ((np.nan, 2.0, 2.0), (1, 1, 1), 1)):
        outcome, missed = first_accepted(outcomes(*losses), lambda one, missing=missing: missing[one.state])
        assert (outcome.state, missed) == (best, missing[best])


def test_more_clusters_than_distinct_rows_are_refused():
    with pytest.raises(ValueError, match="at most the number of distinct rows, 2"):
        kmeans_centers(np.repeat([[0.0], [1.0]], 5, 0), 3, None)


def vanish(problem, x):
    x = x / 2
    return x, jnp.square(x).sum()


@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_a_loss_that_falls_to_zero_ends_by_the_unit_of_its_data(unit):
    """A tolerance relative to the loss alone is never met: every step takes three quarters of what is left."""
    outcome = minimize(vanish, None, np.full((1, 1), np.sqrt(unit), np.float32), max_iter=100, tol=1e-4, unit=unit)
    assert outcome.status[0] == Outcome.CONVERGED
    assert 1e-8 <= outcome.loss[0] / unit <= 1e-7

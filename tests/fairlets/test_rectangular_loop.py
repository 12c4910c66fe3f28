"""The loop's transition matrix on small U(r, c), from its published moves: exact, with structural zeros or without."""

from functools import cache
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesfair.fairlets import rectangular_loop
from bayesfair.fairlets.fixed_margins import _run, cycle, log_acceptance, pick, rectangle

DERANGEMENTS = 1 - np.eye(3)
CASES = {  # a starting matrix and weights
    "U((3,1,2),(2,2,1,1))": ([[1, 1, 1, 0], [1, 0, 0, 0], [0, 1, 0, 1]], None),
    "derangements of three": (np.roll(np.eye(3), 1, 1), DERANGEMENTS),
    "derangements of four": (np.roll(np.eye(4), 1, 1), 1 - np.eye(4)),
    "not square, a hole": ([[1, 1, 0, 0], [0, 1, 1, 0]], [[1, 1, 1, 0], [1, 1, 1, 1]]),
}
GRID = (np.arange(6) + 0.5) / 6  # hits every one of 1, 2 or 3 choices with its exact probability


def setting(name):
    H, support = (None if part is None else np.asarray(part, float) for part in CASES[name])
    weights = np.random.default_rng(0).uniform(0.3, 3, H.shape)
    weights = weights if support is None else weights * support
    r, c = H.sum(1), H.sum(0)
    cells = [np.array(bits).reshape(H.shape) for bits in product((0, 1), repeat=H.size)]
    states = [M for M in cells if (M.sum(1) == r).all() and (M.sum(0) == c).all() and not (M * (weights == 0)).any()]
    pi = np.array([weights[M == 1].prod() for M in states])
    return np.array(states, np.int8), pi / pi.sum(), weights


@cache
def proposals_of(name, move=rectangle):
    """(states, their law, log weights, proposals): rectangles, and cycles where there are structural zeros, as in the loop."""
    states, pi, weights = setting(name)
    proposals = [_rectangles(states, move)]
    if (weights == 0).any():
        proposals.append(_cycles(states, weights > 0))
    with np.errstate(divide="ignore"):
        return states, pi, np.log(weights), proposals


def transition_matrix(name, acceptance, move=rectangle):
    """Half of each kind."""
    states, _, log_weights, proposals = proposals_of(name, move)
    return np.mean([_mixture(states, log_weights, acceptance, each) for each in proposals], axis=0)


def _rectangles(states, move):
    cells = np.array(list(product(range(states.shape[1]), range(states.shape[2]))))
    pairs = np.array(list(product(GRID, GRID)))
    return _everywhere(move)(states, cells, pairs)


@cache
def _everywhere(move):
    over_pairs = jax.vmap(move, (None, None, 0))
    return jax.jit(jax.vmap(jax.vmap(over_pairs, (None, 0, None)), (0, None, None)))


def _cycles(states, allowed):
    length = min(states.shape[1:])
    ones, zeros = states[0].sum(1).max(), (allowed.sum(0) - states[0].sum(0)).max()
    grids = [(np.arange(n) + 0.5) / n for n in (_lcm(ones), _lcm(zeros))]
    walks = np.array(list(product(product(*grids), repeat=length)))
    return _cycles_everywhere(states, allowed, np.arange(states.shape[1]), walks)


@jax.jit
def _cycles_everywhere(states, allowed, rows, walks):
    over_walks = jax.vmap(cycle, (None, None, None, 0))
    over_rows = jax.vmap(over_walks, (None, None, 0, None))
    return jax.vmap(over_rows, (0, None, None, None))(states, allowed, rows, walks)


def _lcm(n):
    return int(np.lcm.reduce(range(1, int(n) + 1)))


log_chance = jax.jit(log_acceptance, static_argnums=3)


def _mixture(states, log_weights, acceptance, proposals):
    index = {M.tobytes(): s for s, M in enumerate(states)}
    proposals = np.asarray(proposals).reshape(len(states), -1, *states.shape[1:])
    P = np.zeros((len(states),) * 2)
    for s, rows in enumerate(proposals):
        distinct, counts = np.unique(rows, axis=0, return_counts=True)
        for new, count in zip(distinct, counts):
            if new.tobytes() in index and index[new.tobytes()] != s:
                chance = np.exp(log_chance(states[s], new, log_weights, acceptance))
                P[s, index[new.tobytes()]] += count / len(rows) * chance
    P[np.diag_indices(len(P))] += 1 - P.sum(1)
    return P


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", CASES)
def test_the_loop_is_exact_and_reaches_every_matrix(name):
    pi = proposals_of(name)[1]
    for acceptance in ("heat-bath", "metropolis"):
        P = transition_matrix(name, acceptance)
        np.testing.assert_allclose(pi @ P, pi, atol=1e-12)
        np.testing.assert_allclose(pi[:, None] * P, (pi[:, None] * P).T, atol=1e-12)  # reversible
        assert (np.linalg.matrix_power(P, 60) > 0).all()
    assert len(pi) > 1


def test_derangements_of_three_need_the_cycles():
    states, _, log_weights, (rectangles, _) = proposals_of("derangements of three")
    np.testing.assert_array_equal(_mixture(states, log_weights, "metropolis", rectangles), np.eye(2))


def wrong_order(H, cell, uniforms):
    """The second branch with j2 among the ones of row i1 first: not symmetric."""
    i1, j1 = cell
    j2, has_one = pick(H[i1] == 1, uniforms[0])
    i2, has_zero = pick(H[:, j2] == 0, uniforms[1])
    board = (H[i1, j1] == 0) & (H[i2, j1] == 1) & has_one & has_zero
    rows, columns = jnp.stack([i1, i2, i1, i2]), jnp.stack([j1, j2, j2, j1])
    return jnp.where(
        H[i1, j1] == 1, rectangle(H, cell, uniforms), jnp.where(board, H.at[rows, columns].set(1 - H[rows, columns]), H)
    )


def test_the_other_branch_order_is_caught():
    name = "U((3,1,2),(2,2,1,1))"
    pi, P = proposals_of(name)[1], transition_matrix(name, "metropolis", wrong_order)
    assert np.abs(pi @ P - pi).max() > 1e-4


def test_long_runs_follow_the_law():
    """3,000 independent runs of 60 steps: the total variation is below 0.06 but for one run in 10,000."""
    states, pi, log_weights, _ = proposals_of("derangements of four")
    many = jax.random.split(jax.random.PRNGKey(0), 3_000)
    run = jax.vmap(lambda key: _run(key, states[0], log_weights, 60, "metropolis", True)[0])
    index = {M.tobytes(): s for s, M in enumerate(states)}
    counts = np.bincount([index[M.tobytes()] for M in np.asarray(run(many))], minlength=len(states))
    assert 0.5 * np.abs(counts / counts.sum() - pi).sum() < 0.06


def test_margins_stay_and_rates_are_shares():
    """Extreme weights do not underflow."""
    H = (np.random.default_rng(0).random((12, 30)) < 0.3).astype(int)
    new, info = rectangular_loop(jax.random.PRNGKey(1), H, np.full(H.shape, 1e-200), 2_000, acceptance="metropolis")
    np.testing.assert_array_equal(np.asarray(new).sum(0), H.sum(0))
    np.testing.assert_array_equal(np.asarray(new).sum(1), H.sum(1))
    assert 0 < info.acceptance_rate == info.proposal_rate < 1
    assert (np.asarray(new) != H).any()


@pytest.mark.parametrize(
    ("H", "weights", "settings", "text"),
    [
        ([[2, 0], [0, 1]], np.ones((2, 2)), {}, "`H` must be a matrix of zeros and ones"),
        (np.eye(2), np.ones((2, 3)), {}, "`weights` must have the shape of H"),
        (np.eye(2), -np.ones((2, 2)), {}, "`weights` must be finite and at least 0"),
        (np.eye(2), 1 - np.eye(2), {}, "`H` must be 0 wherever the weight is 0"),
        (np.eye(2), np.ones((2, 2)), {"acceptance": "greedy"}, "`acceptance` must be"),
        (np.eye(2), np.ones((2, 2)), {"num_steps": -1}, "`num_steps` must be an integer"),
    ],
)
def test_bad_input_is_told(H, weights, settings, text):
    with pytest.raises(ValueError, match=text):
        rectangular_loop(jax.random.PRNGKey(0), H, weights, **{"num_steps": 10, **settings})

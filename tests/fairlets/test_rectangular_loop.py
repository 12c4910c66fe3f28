"""The loop's transition matrix on small U(r, c), from the kernel as it runs: exact, with structural zeros or without."""

import subprocess
import sys
from functools import cache
from itertools import product

import numpy as np
import pytest
from scripted import plain, transition_matrix

from bayesfair import _chance
from bayesfair.fairlets import loop_kernels, rectangular_loop

CASES = {  # a starting matrix, and where it may have ones
    "U((3,1,2),(2,2,1,1))": ([[1, 1, 1, 0], [1, 0, 0, 0], [0, 1, 0, 1]], None),
    "permutations of three": (np.eye(3), None),
    "derangements of three": (np.roll(np.eye(3), 1, 1), 1 - np.eye(3)),
    "derangements of four": (np.roll(np.eye(4), 1, 1), 1 - np.eye(4)),
    "not square, a hole": ([[1, 1, 0, 0], [0, 1, 1, 0]], [[1, 1, 1, 0], [1, 1, 1, 1]]),
    "two ones in a row, two holes": ([[1, 1, 0], [1, 0, 1], [0, 0, 1]], [[1, 1, 1], [1, 0, 1], [0, 1, 1]]),
}
LAWS = "uniform", "weighted"


@cache
def setting(name, law):
    """(states, their law, log weights, states with closed cells marked)."""
    H, support = (None if part is None else np.asarray(part, float) for part in CASES[name])
    weights = np.ones(H.shape) if law == "uniform" else np.random.default_rng(0).uniform(0.3, 3, H.shape)
    weights = weights if support is None else weights * support
    cells = (np.array(bits).reshape(H.shape) for bits in product((0, 1), repeat=H.size))
    states = [M for M in cells if (M.sum(1) == H.sum(1)).all() and (M.sum(0) == H.sum(0)).all()]
    states = np.array([M for M in states if not (M * (weights == 0)).any()], np.int8)
    pi = np.array([weights[M == 1].prod() for M in states])
    with np.errstate(divide="ignore"):
        return (
            states,
            pi / pi.sum(),
            np.log(weights),
            np.where(weights == 0, loop_kernels.CLOSED, states).astype(np.int8),
        )


def matrix_of(name, law, metropolis=True, with_cycles=None, **planted):
    """P of one step of the compiled loop's own Python, every branch taken with its probability."""
    _, _, log_weights, marked = setting(name, law)
    run = plain(loop_kernels, **planted)["run"]
    with_cycles = bool(np.isneginf(log_weights).any()) if with_cycles is None else with_cycles

    def step(script, H):
        run(script, H, log_weights, 1, metropolis, with_cycles)
        return H.tobytes()

    return transition_matrix(step, marked)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", CASES)
def test_the_loop_is_exact_and_reaches_every_matrix(name, law):
    pi = setting(name, law)[1]
    assert len(pi) > 1
    for metropolis in (False, True):
        P = matrix_of(name, law, metropolis)
        np.testing.assert_allclose(P.sum(1), 1, atol=1e-12)
        np.testing.assert_allclose(pi @ P, pi, atol=1e-12)
        np.testing.assert_allclose(pi[:, None] * P, (pi[:, None] * P).T, atol=1e-12)  # reversible
        assert (np.linalg.matrix_power(P, 200) > 0).all()


def test_derangements_of_three_need_the_cycles():
    np.testing.assert_allclose(matrix_of("derangements of three", "weighted", with_cycles=False), np.eye(2), atol=1e-12)


@pytest.mark.parametrize("law", LAWS)
def test_cycles_are_exact_where_nothing_is_closed(law):
    """They are a move of their own: no rectangle helps."""
    pi = setting("U((3,1,2),(2,2,1,1))", law)[1]
    P = matrix_of("U((3,1,2),(2,2,1,1))", law, with_cycles=True, rectangle=lambda *_: 0)
    np.testing.assert_allclose(pi @ P, pi, atol=1e-12)
    assert (np.linalg.matrix_power(P, 200) > 0).all()


def wrong_order(s, H, rows, columns):
    """The second branch with j2 among the ones of row i1 first: not symmetric."""
    names = plain(loop_kernels)
    row, column = names["integer"](s, H.shape[0]), names["integer"](s, H.shape[1])
    if H[row, column] == 1:
        other_column = names["pick"](s, H[row], 0)
        other_row = names["pick"](s, H[:, other_column], 1) if other_column >= 0 else -1
        if other_row < 0 or H[other_row, column] != 0:
            return 0
        columns[:2] = column, other_column
    else:
        other_column = names["pick"](s, H[row], 1)
        other_row = names["pick"](s, H[:, other_column], 0) if other_column >= 0 else -1
        if other_row < 0 or H[other_row, column] != 1:
            return 0
        columns[:2] = other_column, column
    rows[:2] = row, other_row
    return 2


def short_walks(s, H, rows, columns, row_met, column_met):
    """Every walk comes back by force, wherever it is: a proposal without its reverse."""
    length = plain(loop_kernels)["cycle"](s, H, rows, columns, row_met, column_met)
    return length if length != 3 or rows[0] < rows[1] else 0


def backwards(log_weights, rows, columns, length, metropolis):
    return 1.0 - plain(loop_kernels)["chance"](log_weights, rows, columns, length, False)


PLANTED = {
    "the other branch order": ("U((3,1,2),(2,2,1,1))", {"rectangle": wrong_order}),
    "w / (w + w')": ("permutations of three", {"chance": backwards}),
    "walks of one direction": ("derangements of four", {"cycle": short_walks}),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_caught(bug):
    name, planted = PLANTED[bug]
    pi, P = setting(name, "weighted")[1], matrix_of(name, "weighted", **planted)
    assert np.abs(pi @ P - pi).max() > 1e-4


def test_the_compiled_loop_is_its_python_step_by_step():
    """The same words of the generator, the same matrices: what the matrices above hold, the compiled loop does."""
    _, _, log_weights, marked = setting("derangements of four", "weighted")
    compiled = {name: getattr(_chance, name) for name in ("integer", "bernoulli", "category")}
    run = plain(loop_kernels, compiled)["run"]
    ours, theirs, words, same_words = marked[0].copy(), marked[0].copy(), _chance.seeded(0), _chance.seeded(0)
    for _ in range(50):
        told = run(words, ours, log_weights, 4, False, True)
        assert told == loop_kernels.run(same_words, theirs, log_weights, 4, False, True)
        np.testing.assert_array_equal(ours, theirs)
    assert (ours != marked[0]).any()


def test_long_runs_follow_the_law():
    """3,000 independent runs of 60 steps: the total variation is below 0.06 but for one run in 10,000."""
    states, pi, log_weights, _ = setting("derangements of four", "weighted")
    index = {M.tobytes(): at for at, M in enumerate(states)}
    ends = (
        rectangular_loop(states[0], np.exp(log_weights), 60, seed, acceptance="metropolis") for seed in range(3_000)
    )
    counts = np.bincount([index[H.tobytes()] for H, _ in ends], minlength=len(states))
    assert 0.5 * np.abs(counts / counts.sum() - pi).sum() < 0.06


def test_margins_stay_and_rates_are_shares():
    """Extreme weights do not underflow."""
    H = (np.random.default_rng(0).random((12, 30)) < 0.3).astype(int)
    before = H.copy()
    new, info = rectangular_loop(np.asfortranarray(H), np.full(H.shape, 1e-200), 2_000, 1, acceptance="metropolis")
    np.testing.assert_array_equal(new.sum(0), H.sum(0))
    np.testing.assert_array_equal(new.sum(1), H.sum(1))
    assert 0 < info.acceptance_rate == info.proposal_rate < 1
    assert (new != H).any()
    np.testing.assert_array_equal(H, before)
    assert new.dtype == np.int8


def test_a_seed_repeats_a_run_and_none_does_not(monkeypatch):
    H = (np.random.default_rng(0).random((12, 30)) < 0.3).astype(int)
    first, again, other = (rectangular_loop(H, np.ones(H.shape), 500, seed)[0] for seed in (7, 7, 8))
    fresh = [rectangular_loop(H, np.ones(H.shape), 500, None)[0] for _ in range(2)]
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert (fresh[0] != fresh[1]).any()
    monkeypatch.setattr("bayesfair.fairlets.fixed_margins.CELLS", 42 * 7)  # looks for Ctrl-C change nothing
    np.testing.assert_array_equal(rectangular_loop(H, np.ones(H.shape), 500, 7)[0], first)
    unchanged, info = rectangular_loop(H, np.ones(H.shape), 0)
    np.testing.assert_array_equal(unchanged, H)
    assert info == (0, 0)


@pytest.mark.slow
def test_a_second_process_compiles_nothing():
    code = "import numpy as np; from bayesfair.fairlets import loop_kernels, rectangular_loop as loop;"
    code += "loop(np.eye(4), np.ones((4, 4)), 9); told = loop_kernels.run.stats;"
    code += "print(sum(told.cache_hits.values()), sum(told.cache_misses.values()))"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    assert runs[1].stdout.split() == ["1", "0"]


@pytest.mark.parametrize(
    ("H", "weights", "settings", "error", "text"),
    [
        ([[2, 0], [0, 1]], np.ones((2, 2)), {}, ValueError, "`H` must be a matrix of zeros and ones"),
        (np.eye(2), np.ones((2, 3)), {}, ValueError, "`weights` must have the shape of H"),
        (np.eye(2), -np.ones((2, 2)), {}, ValueError, "`weights` must be finite and at least 0"),
        (np.eye(2), 1 - np.eye(2), {}, ValueError, "`H` must be 0 wherever the weight is 0"),
        (np.eye(2), np.ones((2, 2)), {"acceptance": "greedy"}, ValueError, "`acceptance` must be"),
        (np.eye(2), np.ones((2, 2)), {"num_steps": -1}, ValueError, "`num_steps` must be an integer"),
        (np.eye(2), np.ones((2, 2)), {"random_state": -1}, ValueError, "`random_state` must be an integer"),
        (np.eye(2), np.ones((2, 2)), {"random_state": np.uint32([0, 1])}, TypeError, "Keys of JAX are not read"),
    ],
)
def test_bad_input_is_told(H, weights, settings, error, text):
    with pytest.raises(error, match=text):
        rectangular_loop(H, weights, **{"num_steps": 10, **settings})

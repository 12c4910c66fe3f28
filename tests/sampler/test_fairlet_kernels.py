"""Every kernel over fairlets leaves its enumerated posterior as it is, exactly; planted bugs do not."""

from functools import cache

import numpy as np
import pytest
from exact_fairlets import CASES, LOSSES, Tiny
from scripted_sampler import invariance_error, transition_matrix

from bayesfair.sampler import fairlet_moves as moves
from bayesfair.sampler import fairlets
from bayesfair.sampler.fairlet_moves import Plan
from bayesfair.sampler.fairlets import NOBODY

EXACT, CAUGHT = 1e-12, 1e-5
JOINT = Plan(joint=True, near=1, random=1, extra=1, steps=1, visits=1, shape=0.0, rate=0.0, factor=0.5)
CUT = JOINT._replace(joint=False)
OF_FAIRLETS = "near_rows", "random_rows", "extra_member", "loop_step"
EXCHANGES = [(case, "kmeans") for case in CASES] + [("floor/ceil", loss) for loss in LOSSES]
EXCHANGES += [("floor/ceil hubs", "kl"), ("two-member hubs, weighted", "manhattan"), ("1:1, weighted", "own pair")]


tiny = cache(Tiny)


def matrix(t, kernel, plan=JOINT, visit=0):
    """P of the kernel of this name in `fairlet_moves`."""

    made = cache(t.state)

    def step(script, at):
        state = fairlets.State(*(part.copy() for part in made(at)))
        scratch = fairlets.make_scratch(2, t.n_clusters)
        if kernel == "reallocate":
            moves.reallocate(script, t.loss_code, state, scratch, visit)
            return t.key(state)
        a, b, h = getattr(moves, kernel)(script, t.data, state)
        if a != NOBODY:
            moves.attempt(script, t.data, t.loss_code, plan, state, scratch, a, b, h, kernel == "loop_step")
        return t.key(state)

    return transition_matrix(t.states, step)


@pytest.mark.parametrize("kernel", OF_FAIRLETS)
@pytest.mark.parametrize(("case", "loss"), dict.fromkeys(EXCHANGES))
def test_moves_of_fairlets_leave_eq_9_as_it_is(case, loss, kernel):
    t = tiny(case, loss)
    assert invariance_error(t.joint(), matrix(t, kernel)) < EXACT


@pytest.mark.parametrize("kernel", OF_FAIRLETS)
@pytest.mark.parametrize(("case", "loss"), [("floor/ceil", "kmeans"), ("floor/ceil, weighted", "manhattan")])
def test_the_cut_moves_fairlets_by_their_own_loss(case, loss, kernel):
    t = tiny(case, loss)
    assert invariance_error(t.fairlets_alone(), matrix(t, kernel, CUT)) < EXACT


@pytest.mark.parametrize(("case", "loss"), dict.fromkeys(EXCHANGES))
def test_reallocation_leaves_eq_9_as_it_is(case, loss):
    t = tiny(case, loss)
    for f in range(t.m):
        assert invariance_error(t.joint(), matrix(t, "reallocate", visit=f)) < EXACT


def test_moves_reach_every_state():
    t = tiny("floor/ceil", "kmeans")
    P = sum(matrix(t, kernel) for kernel in OF_FAIRLETS[:3]) + sum(matrix(t, "reallocate", visit=f) for f in range(t.m))
    assert (np.linalg.matrix_power(P / P.sum(1, keepdims=True), 32) > 0).all()


def wrong_temperature(plan, state, scratch):
    return -state.value[0] * scratch.change[0] - 1.1 * state.value[1] * scratch.change[1]


def member_of_any_fairlet(s, data, state):
    """A member of a random fairlet, which is not a random row."""
    f = moves.integer(s, len(state.cluster))
    a, h = state.members[f, moves.integer(s, state.size[f])], moves.integer(s, len(state.cluster))
    return (a if data.group[a] != data.anchor and moves.may_go(data, state, a, h) else NOBODY), NOBODY, h


@pytest.mark.parametrize(
    ("kernel", "name", "planted"),
    [
        ("random_rows", "log_ratio", wrong_temperature),
        ("extra_member", "extra_member", member_of_any_fairlet),
        ("loop_step", "heat_bath", lambda log: min(1.0, np.exp(0.5 * log))),
    ],
)
def test_planted_bugs_are_caught(monkeypatch, kernel, name, planted):
    t = tiny("floor/ceil", "kmeans")
    real = matrix(t, kernel)
    monkeypatch.setattr(moves, name, planted)
    wrong = matrix(t, kernel)
    assert invariance_error(t.joint(), real) < EXACT
    assert invariance_error(t.joint(), wrong) > CAUGHT


def test_without_the_clustering_loss_the_joint_target_is_missed():
    t = tiny("floor/ceil", "kmeans")
    assert invariance_error(t.joint(), matrix(t, "random_rows", CUT)) > CAUGHT

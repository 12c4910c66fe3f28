"""Every kernel over fairlets leaves its enumerated posterior as it is, exactly; planted bugs do not."""

from functools import cache

import numpy as np
import pytest
from exact_fairlets import CASES, LOSSES, Tiny
from scripted_sampler import imbalance, invariance_error, transition_matrix

from bayesfair.gibbs import fairlet_moves as moves
from bayesfair.gibbs import fairlets
from bayesfair.gibbs.fairlet_moves import SweepPlan
from bayesfair.gibbs.fairlets import NOBODY

EXACT, BALANCED, CAUGHT = 1e-12, 1e-8, 1e-3
NOTHING = SweepPlan(joint=True, near=0, random=0, extra=0, steps=0, visits=1, shape=0.0, rate=0.0, factor=0.5)
OF_FAIRLETS = "near", "random", "extra", "steps"
EXCHANGES = [(case, "kmeans") for case in CASES] + [("floor/ceil", loss) for loss in LOSSES]
EXCHANGES += [("floor/ceil hubs", "kl"), ("two-member hubs, weighted", "manhattan"), ("1:1, weighted", "own pair")]
FORMS = "floor/ceil", "floor/ceil hubs", "floor/ceil, weighted", "two hubs, weighted"
N_STARTS = 3

tiny = cache(Tiny)


def stepping(t, kernel, joint=True):
    """A step of a kernel on enumerated states: one move of B of this kind, or a visit of the fairlet of this number."""
    plan = NOTHING._replace(joint=joint, **{kernel: 1} if kernel in OF_FAIRLETS else {})
    made = cache(t.state)

    def step(script, at):
        state = fairlets.State(*(part.copy() for part in made(at)))
        scratch = fairlets.make_scratch(2, t.n_clusters)
        if kernel in OF_FAIRLETS:
            moves.exchanges(script, t.data, t.loss_code, plan, state, scratch, 0, 1)
        else:
            moves.reallocations(script, t.loss_code, state, scratch, kernel, kernel + 1)
        return t.key(state)

    return step


def matrix(t, kernel, joint=True):
    return transition_matrix(t.states, stepping(t, kernel, joint))


def off_balance(t, kernel, joint=True):
    """How far a kernel is from detailed balance around a few states."""
    p = t.joint() if joint else t.fairlets_alone()
    starts = t.states[:: -(-len(t.states) // N_STARTS)]
    return imbalance(dict(zip(t.states, p)), stepping(t, kernel, joint), starts)


@pytest.mark.parametrize("kernel", OF_FAIRLETS)
@pytest.mark.parametrize("case", FORMS)
@pytest.mark.parametrize("loss", ["kmeans", "kl", "manhattan", "own pair"])
def test_moves_of_fairlets_are_in_balance(case, loss, kernel):
    assert off_balance(tiny(case, loss), kernel) < BALANCED


@pytest.mark.parametrize("case", ["floor/ceil", "unequal hubs, one lacks a group", "floor/ceil, weighted"])
@pytest.mark.parametrize("loss", ["kmeans", "kl", "manhattan", "own pair"])
def test_reallocation_is_in_balance(case, loss):
    assert off_balance(tiny(case, loss), 1) < BALANCED


@pytest.mark.parametrize("kernel", OF_FAIRLETS)
@pytest.mark.parametrize(("case", "loss"), [("floor/ceil", "kmeans"), ("floor/ceil, weighted", "manhattan")])
def test_the_cut_moves_fairlets_by_their_own_loss(case, loss, kernel):
    assert off_balance(tiny(case, loss), kernel, joint=False) < BALANCED


@pytest.mark.slow
@pytest.mark.parametrize("kernel", OF_FAIRLETS)
@pytest.mark.parametrize(("case", "loss"), dict.fromkeys(EXCHANGES))
def test_moves_of_fairlets_leave_eq_9_as_it_is(case, loss, kernel):
    t = tiny(case, loss)
    assert invariance_error(t.joint(), matrix(t, kernel)) < EXACT


@pytest.mark.slow
@pytest.mark.parametrize(("case", "loss"), dict.fromkeys(EXCHANGES))
def test_reallocation_leaves_eq_9_as_it_is(case, loss):
    t = tiny(case, loss)
    for f in range(t.m):
        assert invariance_error(t.joint(), matrix(t, f)) < EXACT


@pytest.mark.slow
def test_moves_reach_every_state():
    t = tiny("floor/ceil", "kmeans")
    P = sum(matrix(t, kernel) for kernel in (*OF_FAIRLETS[:3], *range(t.m)))
    assert (np.linalg.matrix_power(P / P.sum(1, keepdims=True), 32) > 0).all()


def wrong_temperature(lam_f, lam, fairlets, clusters):
    return -lam_f * fairlets - 1.1 * lam * clusters


def low_fairlets_more_often(s, movers, n_fairlets):
    """An extra member, and a fairlet that is not any fairlet."""
    h = min(moves.integer(s, n_fairlets), moves.integer(s, n_fairlets))
    return movers[moves.integer(s, len(movers))], NOBODY, h


@pytest.mark.parametrize(
    ("kernel", "name", "planted"),
    [
        ("random", "log_ratio", wrong_temperature),
        ("extra", "extra_member", low_fairlets_more_often),
        ("steps", "heat_bath", lambda log: min(1.0, np.exp(0.5 * log))),
        ("random", "squares_change", lambda *_: 0.0),
        ("near", "anchors_change", lambda *_: 0.0),
        (0, "exp", lambda x: np.exp(1.1 * x)),
    ],
)
def test_planted_bugs_are_caught(monkeypatch, kernel, name, planted):
    t = tiny("floor/ceil", "kmeans")
    assert off_balance(t, kernel) < BALANCED
    monkeypatch.setattr(moves, name, planted)
    if name.endswith("_change"):  # the state's own losses are wrong too, and that is told first
        monkeypatch.setattr(t, "key", lambda state, key=t.key: key(fresh(t, state)))
    assert off_balance(t, kernel) > CAUGHT


def fresh(t, state):
    """The state with every sum from scratch."""
    fairlets.sum_up(t.data, t.loss_code, state)
    return state


def test_without_the_clustering_loss_the_joint_target_is_missed():
    t = tiny("floor/ceil", "kmeans")
    p = dict(zip(t.states, t.joint()))
    assert imbalance(p, stepping(t, "random", joint=False), t.states[:1]) > CAUGHT

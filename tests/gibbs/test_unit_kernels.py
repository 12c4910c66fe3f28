"""Every kernel over units leaves the enumerated relaxed law as it is, exactly; planted bugs do not."""

from functools import cache

import numpy as np
import pytest
from exact_fairlets import LOSSES
from exact_units import COLUMNS, FORMS, LAMBDA, TinyUnits
from scripted_sampler import as_python, invariance_error, transition_matrix
from tiers import tiers

from bayesfair.gibbs import pair_draws, units, walk

EXACT, CAUGHT = 1e-12, 1e-5
FIXED = walk.Schedule(pairs=0, swaps=0, shape=0.0, rate=0.0)
SETS = [(columns, form, "kmeans", False) for columns in COLUMNS if len(COLUMNS[columns][0]) == 6 for form in FORMS]
OF_LOSS = [("4:2", "exact", loss, weighted) for loss in LOSSES for weighted in (False, True)]
CASES = list(dict.fromkeys(SETS + OF_LOSS))
PAIRS = [("2:2", form, "kmeans", False) for form in FORMS if form != "alone"] + [("1:1:2", "exact", "kmeans", False)]
CONJUGATE = ("kmeans", "kl", "itakura-saito", "binary")
WITH_CENTERS = PAIRS + [("2:2", "exact", loss, True) for loss in CONJUGATE]

FAST = [
    ("two attributes", "exact", "kmeans", False),
    ("4:2", "least", "kmeans", False),
    ("3:3", "sizes", "kmeans", False),
]
FAST += [("4:2", "exact", loss, True) for loss in ("kmeans", "kl", "manhattan", "own pair")]
NAMED = {", ".join(map(str, case)): case for case in CASES + WITH_CENTERS}
NAME = {case: name for name, case in NAMED.items()}

tiny = cache(TinyUnits)


def of(case, n_clusters=2):
    columns, form, loss, weighted = NAMED.get(case, case)
    return tiny(columns, form, loss, n_clusters, weighted)


@cache
def made(t):
    with as_python():
        return {z: t.state(z) for z in t.states}


def matrix(t, kernel):
    """P of a kernel, a function of (script, state, scratch); every sum is compared with that from scratch."""
    states = made(t)

    def step(script, z):
        state = units.UnitState(*(part.copy() for part in states[z]))
        scratch = units.make_scratch(t.balance, state)
        kernel(script, state, scratch)
        fresh = states[tuple(state.label.tolist())]
        np.testing.assert_allclose(state.number, fresh.number, atol=1e-12)
        np.testing.assert_allclose(state.total, fresh.total, atol=1e-12)
        np.testing.assert_array_equal(state.count, fresh.count)
        assert state.step[units.OUTSIDE] == fresh.step[units.OUTSIDE]
        return tuple(state.label.tolist())

    return transition_matrix(t.states, step)


def visiting(t, row):
    def kernel(script, state, scratch):
        state.step[units.ROW] = row - 1
        nothing = np.empty((0, 0)), np.empty((1, t.n_obs)), np.empty((1, 2))
        walk.walk(script, t.units, t.loss_code, t.balance, FIXED, state, scratch, -1, 1, 1, *nothing, 0)

    return kernel


def swapping(t, row):
    return lambda script, state, scratch: units.swaps(
        script, t.units, t.loss_code, t.balance, state, scratch, row, row + 1
    )


def drawing(t, centers, steps):
    def kernel(script, state, scratch):
        tables = pair_draws.make_tables(t.units, state)
        tables.center[:] = centers
        pair_draws.pair_draw(script, t.units, t.loss_code, t.balance, state, scratch, tables, 1, 0, steps)

    return kernel


@pytest.mark.parametrize("row", [0, 5])
@pytest.mark.parametrize("case", tiers(map(NAME.get, CASES), map(NAME.get, FAST)))
def test_visits_leave_the_relaxed_law_as_it_is(case, row):
    t = of(case)
    assert invariance_error(t.law, matrix(t, visiting(t, row))) < EXACT


@pytest.mark.parametrize("case", tiers(map(NAME.get, CASES), map(NAME.get, FAST)))
def test_swaps_leave_the_relaxed_law_as_it_is(case):
    t = of(case)
    assert invariance_error(t.law, matrix(t, swapping(t, 1))) < EXACT


@pytest.mark.parametrize("case", tiers(map(NAME.get, WITH_CENTERS), map(NAME.get, [PAIRS[0], WITH_CENTERS[-1]])))
def test_pair_draws_given_centers_leave_the_relaxed_law_as_it_is(case):
    t = of(case)
    centers = t.X[[0, 3]] * 0.9 + 0.05
    assert invariance_error(t.law_given(centers), matrix(t, drawing(t, centers, 1))) < EXACT


def test_the_law_on_balanced_labellings_is_the_relaxed_one_where_nothing_is_paid():
    for case in SETS:
        t = of(case)
        inside = np.array([t.in_balance(z) for z in t.states])
        paid = np.array([t.penalty(z) for z in t.states])
        assert (paid[inside] == 0).all()
        assert (paid[~inside] > 0).all()
        with as_python():
            assert [made(t)[z].step[units.OUTSIDE] == 0 for z in t.states] == inside.tolist()


@pytest.mark.parametrize("bug", ["temperature", "penalty", "proposal"])
def test_a_planted_bug_is_caught(bug, monkeypatch):
    t = of(("4:2", "exact", "kmeans", False))

    def visit(script, state, scratch):
        if bug == "temperature":
            state.number[units.LAMBDA] = 1.1 * LAMBDA
        if bug == "penalty":
            state.strength[:] *= 1.1
        visiting(t, 2)(script, state, scratch)
        state.number[units.LAMBDA] = LAMBDA

    if bug == "proposal":  # the own cluster is half as likely as it should be
        monkeypatch.setattr(walk, "exp", lambda x: np.exp(x) * (2.0 if x < 0 else 1.0))
    assert invariance_error(t.law, matrix(t, visit)) > CAUGHT


def test_steps_of_counts_that_go_one_way_more_often_are_caught(monkeypatch):
    """Every other step out of the first cluster is left out."""
    t, propose = of(("2:2", "exact", "kmeans", False)), pair_draws.propose.py_func

    def one_way(script, tables):
        rows = propose(script, tables)
        if rows < 0 and pair_draws.bernoulli(script, 0.5):
            tables.up[:] = 0
        return int(tables.up.sum())

    monkeypatch.setattr(pair_draws, "propose", one_way)
    centers = t.X[[0, 3]]
    assert invariance_error(t.law_given(centers), matrix(t, drawing(t, centers, 1))) > CAUGHT


@pytest.mark.parametrize("bug", ["proposal", "law"])
def test_pair_draws_without_the_normalisers_are_caught(bug, monkeypatch):
    """The counts' law may forget them, as the last step mends that; the last step may not."""
    t = of(("2:2", "exact", "kmeans", False))
    centers = t.X[[0, 3]]
    monkeypatch.setattr(pair_draws, "about_g", lambda *_: 0.0)
    if bug == "law":
        monkeypatch.setattr(pair_draws, "log_g", lambda *_: 0.0)
    error = invariance_error(t.law_given(centers), matrix(t, drawing(t, centers, 1)))
    assert error < EXACT if bug == "proposal" else error > CAUGHT

"""Whole runs over fairlets, compiled: their law, their sums, and that any cut into calls gives the same draws."""

from collections import Counter

import numpy as np
import pytest
from exact_fairlets import Tiny

import bayesfair as bf
from bayesfair.fairness.groups import encode_groups
from bayesfair.gibbs.chance import seeded
from bayesfair.gibbs.fairlet_chain import go_on
from bayesfair.gibbs.fairlet_moves import SweepPlan
from bayesfair.gibbs.fairlets import LOSS_C, LOSS_F, new_state
from bayesfair.gibbs.joint import Joint
from bayesfair.gibbs.loss import resolve_loss
from bayesfair.gibbs.target import Dispersion, Room, Table

PLAN = SweepPlan(joint=True, near=4, random=4, extra=4, steps=8, visits=1, shape=0.0, rate=0.0, factor=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "loss"), [("floor/ceil", "kmeans"), ("1:1, weighted", "manhattan"), ("1:1", "kl")])
def test_a_million_draws_follow_the_enumerated_posterior(case, loss):
    t, n_draws = Tiny(case, loss), 1_000_000
    state = t.state(t.states[0], seeded(0, 0))
    labels, kept = np.empty((n_draws, len(t.X)), np.int8), np.empty((n_draws, len(t.X)), np.int32)
    go_on(t.data, t.loss_code, PLAN, state, 1, 10**12, labels, kept, np.empty((n_draws, 6)), 0)
    law = Counter()
    for (fairlet, cluster), p in zip(t.states, t.joint()):
        law[(*fairlet, *np.take(cluster, fairlet))] += p
    drawn = Counter(map(tuple, np.concatenate([kept, labels], 1).tolist()))
    assert 0.5 * sum(abs(drawn[key] / n_draws - law[key]) for key in {*law, *drawn}) < 0.01


def patients(loss="kmeans"):
    data, loss = bf.datasets.load_diabetes(), resolve_loss(loss)
    X = ((data.features - data.features.mean()) / data.features.std(ddof=0)).to_numpy()
    groups = encode_groups(data.sensitive.to_numpy())
    return Table(X, groups, np.ones(len(X)), 3, loss, Dispersion(), X.size / loss.degree, 0)


def room(law, n_draws):
    n_obs = len(law.data.group)
    return Room(
        np.empty((n_draws, n_obs), np.int8), np.empty((0, n_obs), np.int32), np.empty((n_draws, len(law.statistics)))
    )


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["kmeans", "manhattan"])
def test_sums_kept_up_to_date_are_those_from_scratch(loss):
    law = Joint().prepare(patients(loss))
    (state,) = law.starts(1)
    law.advance(state, 60, 10**12, room(law, 1), 0)
    again = new_state(state.words, law.data, law.code, state.fairlet, state.cluster, 3, *state.value[:2])
    for name in ("mass", "total", "number", "weight", "sums", "reach", "pairs", "count", "size"):
        np.testing.assert_allclose(getattr(state, name), getattr(again, name), rtol=1e-9, atol=1e-8, err_msg=name)
    np.testing.assert_allclose(state.value[[LOSS_F, LOSS_C]], again.value[[LOSS_F, LOSS_C]], rtol=1e-10)


@pytest.mark.slow
def test_any_cut_into_calls_gives_the_same_draws():
    law = Joint().prepare(patients())
    (one,), (other,) = law.starts(1), law.starts(1)
    whole, cut = room(law, 6), room(law, 6)
    law.advance(one, 2, 10**12, whole, 0)
    first = 0
    while first < 6:
        first = law.advance(other, 2, 1000, cut, first)
    np.testing.assert_array_equal(whole.labels, cut.labels)
    np.testing.assert_array_equal(whole.scalars, cut.scalars)

"""A jump between modes is in detailed balance, exactly: theta is given, and every branch of the path is taken once."""

from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest
from exact_fairlets import Tiny, divergence
from exact_units import LAMBDA, TinyUnits
from scripted import every_run
from scripted_sampler import as_python

from bayesfair.gibbs import fairlet_moves, units
from bayesfair.gibbs.fairlet_moves import SweepPlan
from bayesfair.gibbs.losses import log_g_at
from bayesfair.gibbs.modes import fairlet_paths, unit_paths
from bayesfair.gibbs.modes import places as of_places
from bayesfair.gibbs.modes.places import Places
from bayesfair.gibbs.walk import Schedule

BALANCED, CAUGHT = 1e-9, 1e-3
SHAPE, RATE = 3.0, 0.4
AT = 0.3  # where theta is, in spreads from the first mode


def coordinates(loss, m):
    if loss == "kmeans":
        return m
    return np.log(m / (1 - m)) if loss == "binary" else np.log(m)


def centers_at(loss, y):
    if loss == "kmeans":
        return y
    return 1 / (1 + np.exp(-y)) if loss == "binary" else np.exp(y)


def log_measure(loss, m):
    """d mu / d coordinates, from the measures that `kmeans_log_g` and the others name and the derivative of the coordinates."""
    if loss == "kl":
        return np.log(m**-0.5 * m).sum()
    return np.log((m * (1 - m)) ** -0.5 * m * (1 - m)).sum() if loss == "binary" else 0.0


class Jump:
    """Two modes of a tiny posterior, a place in the first and the same place of the second."""

    def __init__(self, t, is_sampled, X):
        self.t, self.loss, self.is_sampled = t, t.loss, is_sampled
        center = coordinates(self.loss, np.stack([X[[0, -1]], X[[1, 2]] * 0.9]))
        spread = np.stack([np.full((2, 2), 0.2), np.array([[0.25, 0.2], [0.22, 0.3]])])
        self.places = Places(center, spread, np.array([1.0, 1.25]))
        self.y = [center[0] + AT * spread[0], center[1] + AT * spread[1]]
        self.lam = [LAMBDA, LAMBDA * (1.25 if is_sampled else 1.0)]
        self.volume = [spread[0].prod(), spread[1].prod() * (1.25 if is_sampled else 1.0)]

    def log_law(self, z, side):
        """log pi(z, theta), from its definition: `spent` and `paid` are of the state's own kind."""
        m, lam = centers_at(self.loss, self.y[side]), self.lam[side]
        value = -lam * self.paid(z, m) - self.log_g(z, lam) - self.penalty(z) + log_measure(self.loss, m)
        return value + ((SHAPE - 1) * np.log(lam) - lam * RATE if self.is_sampled else 0.0)

    def flow(self, z, side, length):
        """{z': how much goes there from z}, with theta in one of the modes."""
        law, found = np.exp(self.log_law(z, side)) * self.volume[side], {}
        for p, (end, log_ratio) in every_run(lambda script: self.run(script, z, side, length)):
            if log_ratio > -np.inf:
                found[end] = found.get(end, 0.0) + law * p * min(1.0, np.exp(log_ratio))
        return found

    def imbalance(self, starts, length=2):
        """Largest |log flow(z, z') - log flow(z', z)|."""
        with self.given_places():
            back = cache(lambda z: self.flow(z, 1, length))
            pairs = [(one, back(end).get(z, 0.0)) for z in starts for end, one in self.flow(z, 0, length).items()]
        assert len(pairs) > len(starts)
        with np.errstate(divide="ignore"):
            return max(abs(np.log(there) - np.log(back)) for there, back in pairs)

    @contextmanager
    def given_places(self):
        with as_python(), pytest.MonkeyPatch.context() as patches:
            for name, planted in self.planted.items():
                for module in (of_places, unit_paths, fairlet_paths, fairlet_moves):
                    if hasattr(module, name):
                        patches.setattr(module, name, planted)
            patches.setattr(of_places, "draw_coordinates", lambda *args: np.copyto(args[-1], self.y[self.side]))
            yield

    planted = {}  # noqa: RUF012


class UnitJump(Jump):
    def __init__(self, columns, form, loss, is_sampled=False, weighted=False):
        t = TinyUnits(columns, form, loss, weighted=weighted)
        super().__init__(t, is_sampled, t.X)
        self.schedule = Schedule(0, 0, SHAPE if is_sampled else 0.0, RATE)
        self.states = [z for z in t.states if t.in_balance(z)]

    def paid(self, z, m):
        t = self.t
        return sum(t.weight[i] * divergence(t.loss, t.X[i], m[z[i]]) for i in range(t.n_obs))

    def log_g(self, z, lam):
        s = self.t.state(z)
        return sum(log_g_at(self.t.loss_code.log_g, lam * s.mass[k], s.mass[k], s.total[k]) for k in (0, 1))

    def penalty(self, z):
        return self.t.penalty(z)

    def run(self, script, z, side, length):
        t, self.side = self.t, side
        state = t.state(z)
        state.number[units.LAMBDA] = self.lam[side]
        state = state._replace(words=script)
        _, log_ratio = unit_paths.unit_path(t.units, t.loss_code, t.balance, self.schedule, self.places, state, length)
        assert log_ratio == -np.inf or np.isclose(state.number[units.LAMBDA], self.lam[1 - side])
        return tuple(state.label.tolist()), log_ratio


class FairletJump(Jump):
    def __init__(self, case, loss, exchanges, is_sampled=False):
        t = Tiny(case, loss)
        super().__init__(t, is_sampled, t.X)
        self.lambda_f = 0.5 if t.anchor is not None else 1.0
        self.plan = SweepPlan(
            joint=True, near=0, random=exchanges, extra=0, steps=0, visits=1,
            shape=SHAPE if is_sampled else 0.0, rate=RATE, factor=self.lambda_f,
        )  # fmt: skip
        self.states = t.states

    def paid(self, at, m):
        """L_f in units of lambda, and what fairlets' centres pay for the centres m."""
        t, (fairlet, cluster) = self.t, at
        fairlet = np.array(fairlet)
        mass = np.bincount(fairlet, t.weight)
        own = sum(mass[f] * divergence(t.loss, t.mean(np.flatnonzero(fairlet == f)), m[cluster[f]]) for f in range(t.m))
        return own + self.lambda_f * t.fairlet_loss(fairlet)

    def log_g(self, at, lam):
        s = self.t.state(at)
        return sum(log_g_at(self.t.loss_code.log_g, lam * s.weight[k], s.weight[k], s.sums[k]) for k in (0, 1))

    def penalty(self, at):
        return 0.0

    def run(self, script, at, side, length):
        t, self.side = self.t, side
        state = t.state(at)
        state.value[:2] = self.lambda_f * self.lam[side], self.lam[side]
        state = state._replace(words=script)
        _, log_ratio = fairlet_paths.fairlet_path(t.data, t.loss_code, self.plan, self.places, state, length)
        t.key(state)  # its losses are right
        # Fairlets as they are numbered in the state, which is the order of their turns: anchors may have changed places.
        return (tuple(state.fairlet.tolist()), tuple(state.cluster.tolist())), log_ratio


@pytest.mark.parametrize("is_sampled", [False, True])
@pytest.mark.parametrize(
    ("columns", "form", "loss", "weighted"),
    [("2:2", "exact", "kmeans", False), ("2:2", "least", "kl", True), ("2:2", "none", "itakura-saito", True),
     ("1:1:2", "none", "binary", False)],
)  # fmt: skip
def test_jumps_of_units_are_in_balance(columns, form, loss, weighted, is_sampled):
    jump = UnitJump(columns, form, loss, is_sampled, weighted)
    assert jump.imbalance(jump.states) < BALANCED


@pytest.mark.slow
def test_longer_jumps_of_units_are_in_balance():
    jump = UnitJump("2:2", "exact", "kmeans", True)
    assert jump.imbalance(jump.states[:1], length=3) < BALANCED


@pytest.mark.parametrize("is_sampled", [False, True])
@pytest.mark.parametrize("loss", ["kmeans", "kl"])
def test_jumps_of_clusters_of_fairlets_are_in_balance(loss, is_sampled):
    jump = FairletJump("1:1, weighted", loss, 0, is_sampled)
    assert jump.imbalance(jump.states[:6]) < BALANCED


@pytest.mark.slow
@pytest.mark.parametrize(("case", "loss"), [("1:1", "kmeans"), ("1:1, weighted", "kl")])
def test_jumps_of_fairlets_are_in_balance(case, loss):
    jump = FairletJump(case, loss, 1, True)
    assert jump.imbalance(jump.states[:1]) < BALANCED


def no_jacobian(right=of_places.move_place.py_func):
    return lambda *args: (right(*args)[0], 0.0)


def always_forwards(s, p):
    return False


def wrong_temperature(right=unit_paths.visits_given.py_func):
    def planted(s, t, loss, kept, state, *rest):
        lam = state.number[units.LAMBDA]
        state.number[units.LAMBDA] = 1.3 * lam
        paid = right(s, t, loss, kept, state, *rest)
        state.number[units.LAMBDA] = lam
        return paid

    return planted


BUGS = {
    "no Jacobian": {"move_place": no_jacobian()},
    "no normalisers in the work": {"log_g_at": lambda *args: 0.0},
    "no normalisers in visits": {"log_gain": lambda *args: 0.0},
    "not reversible": {"bernoulli": always_forwards},
    "wrong temperature": {"visits_given": wrong_temperature()},
    "no measure": {"log_measure": lambda *args: 0.0},
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_caught(bug):
    jump = UnitJump("1:1:2", "none", "binary", True, weighted=True)
    jump.planted = BUGS[bug]
    assert jump.imbalance(jump.states) > CAUGHT


def test_exchanges_of_rows_on_a_path_without_their_pull_are_caught():
    jump = FairletJump("1:1", "kmeans", 1)
    jump.planted = {"pulled": lambda *args: 0.0}
    assert jump.imbalance(jump.states[:1]) > CAUGHT


def test_the_map_has_the_jacobian_that_it_says_and_leads_back():
    rng = np.random.default_rng(0)
    places = Places(rng.normal(size=(2, 3, 2)), rng.uniform(0.5, 2, (2, 3, 2)), np.array([1.0, 3.0]))
    way = of_places.make_way(3, 2)
    way.number[:] = [2, 0, 1]
    start = np.append(rng.normal(size=6), 0.7)

    def moved(values, origin):
        way.here[:] = values[:6].reshape(3, 2)
        lam, log_jacobian = of_places.move_place.py_func(places, way, values[6], True, origin, 1 - origin)
        return np.append(way.there, lam), log_jacobian

    end, log_jacobian = moved(start, 0)
    np.testing.assert_allclose(moved(end, 1)[0], start)
    matrix = np.stack([(moved(start + 1e-6 * one, 0)[0] - end) / 1e-6 for one in np.eye(7)])
    np.testing.assert_allclose(np.linalg.slogdet(matrix)[1], log_jacobian, atol=1e-5)

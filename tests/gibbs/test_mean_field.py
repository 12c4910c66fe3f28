"""What modes weigh about: against enumeration, and what is done with it."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from exact_modes import LAMBDA, far

from bayesfair.gibbs import masses, mean_field
from bayesfair.gibbs.bennett import ITSELF, UNKNOWN, LogRatio
from bayesfair.gibbs.modes import Mode
from bayesfair.gibbs.run import Chains


@pytest.mark.parametrize("loss", LAMBDA)
def test_masses_are_about_those_of_the_enumeration(loss, x64):
    """Ten people, whose labels depend on each other far more than those of many do."""
    f = far("labels", loss)
    found, exact = zip(*(one_mode(f, here) for here in in_modes(f)))
    assert abs(np.diff(mean_field.log_masses(found, f.target)) - np.diff(exact)) < 2.5


@pytest.mark.parametrize("loss", LAMBDA)
def test_the_entropy_at_a_high_temperature_is_that_of_the_counts(loss, x64):
    f = far("labels", loss)
    warm = jax.tree.map(lambda part: part[0], f.at([f.law.argmax()], [1e-9]))
    counts = np.asarray(f.target.counts(warm.label)).T
    share = counts / counts.sum(1, keepdims=True)
    expected = -(counts * np.log(share, where=share > 0, out=np.zeros_like(share))).sum()
    np.testing.assert_allclose(mean_field.label_entropy(f.target, warm), expected, rtol=1e-4)


def in_modes(f):
    """Which of the states have the two people in between with one of the places, or the other."""
    left, right = ((f.labels[:, 6:8] == f.labels[:, at : at + 1]).all(1) for at in (0, 8))
    return left & ~right, right & ~left


def one_mode(f, here):
    """(the mode as a search finds it; the log of its mass)."""
    dispersion, law = float(f.modes.dispersion[0]), np.where(here, f.law, 0)
    state = jax.tree.map(lambda part: part[0], f.at([law.argmax()], [dispersion]))
    lp = np.array([(law * -dispersion * f.loss).sum() / law.sum()])
    return Mode([SimpleNamespace(state=state, lp=lp)]), np.log(law.sum())


def test_a_mode_far_below_is_not_weighed_and_its_bound_has_a_margin(monkeypatch):
    target, weighed = far("labels").target, []

    def measured(here, there, length):
        weighed.append((here.mode, there.mode))
        return LogRatio(1.0, 0.1, 0.8, 1.2), True, length

    def nobody(mode, number, chains):
        return SimpleNamespace(mode=mode, target=target, run=SimpleNamespace(keys=np.zeros(4), states=()))

    monkeypatch.setattr(masses, "Pool", nobody)
    monkeypatch.setattr(masses, "_measured", measured)
    monkeypatch.setattr(mean_field, "log_masses", lambda modes, target: np.array([-5.0, 0.0, -200.0, -105.0]))
    found = masses.weigh(["first", "heaviest", "far", "not far enough"], Chains(target, None, 0, 4), 100)
    assert weighed[0][0] == "heaviest"
    assert "far" not in {one for pair in weighed for one in pair}
    assert "not far enough" in {there for _, there in weighed}
    assert found.ratio[2].lower == -np.inf
    assert not masses.is_alive(found.ratio[2])


def test_an_estimate_that_is_no_number_bounds_nothing(monkeypatch):
    monkeypatch.setattr(mean_field, "log_masses", lambda modes, target: np.array([0.0, np.nan]))
    assert masses._without_jumps(["one", "other"], far("labels").target) == (0, [UNKNOWN, UNKNOWN])
    monkeypatch.setattr(mean_field, "log_masses", lambda modes, target: np.array([0.0, -300.0]))
    best, bounds = masses._without_jumps(["one", "other"], far("labels").target)
    assert (best, bounds[0]) == (0, ITSELF)
    assert bounds[1].upper == pytest.approx(-300.0 + masses.MARGIN, abs=1.0)

"""What modes weigh about: against enumeration, and what is done with it."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from exact_modes import far, jumps_measured_by, sides

from bayesfair.gibbs import masses, mean_field, search
from bayesfair.gibbs.bennett import ITSELF, UNKNOWN, LogRatio
from bayesfair.gibbs.modes import Mode
from bayesfair.gibbs.run import Chains


def test_masses_are_about_those_of_the_enumeration(x64):
    """Ten people, whose labels depend on each other far more than those of many do."""
    f = far("labels")
    left, right = sides(f.labels)
    found, exact = zip(*(one_mode(f, here) for here in (left & ~right, right & ~left)))
    about = mean_field.log_masses(found, f.target)
    assert abs(np.diff(about.value) - np.diff(exact)) < 2.5
    assert (about.se == np.inf).all()  # of a state each
    several = [Mode(3 * mode.members) for mode in found]
    for member, lp in zip(several[0].members, (-1.0, 0.0, 1.0)):
        several[0].members[several[0].members.index(member)] = SimpleNamespace(state=member.state, lp=member.lp + lp)
    again = mean_field.log_masses(several, f.target)
    np.testing.assert_allclose(again.value, about.value)
    np.testing.assert_allclose(again.se, np.sqrt(1 / 2 / 3), rtol=1e-6)  # the mean of variances 1 and 0


def test_the_entropy_at_a_high_temperature_is_that_of_the_counts(x64):
    f = far("labels")
    warm = jax.tree.map(lambda part: part[0], f.at([f.law.argmax()], [1e-9]))
    counts = np.asarray(f.target.counts(warm.label)).T
    share = counts / counts.sum(1, keepdims=True)
    expected = -(counts * np.log(share, where=share > 0, out=np.zeros_like(share))).sum()
    np.testing.assert_allclose(mean_field.label_entropy(f.target, warm), expected, rtol=1e-4)


def one_mode(f, here):
    """(the mode as a search finds it; the log of its mass)."""
    dispersion, law = float(f.modes.dispersion[0]), np.where(here, f.law, 0)
    state = jax.tree.map(lambda part: part[0], f.at([law.argmax()], [dispersion]))
    lp = np.array([(law * -dispersion * f.loss).sum() / law.sum()])
    return Mode([SimpleNamespace(state=state, lp=lp)]), np.log(law.sum())


def test_a_mode_far_below_is_not_weighed_and_its_bound_has_a_margin(monkeypatch):
    target, weighed = far("labels").target, []

    def measured(here, there, length):
        weighed.append((here.mode.name, there.mode.name))
        return LogRatio(1.0, 0.1, 0.8, 1.2), [True, True], length

    jumps_measured_by(measured, monkeypatch)
    estimates = lambda modes, target: mean_field.Estimates(np.array([-5.0, 0.0, -200.0, -15.0]), np.ones(4))  # noqa: E731
    monkeypatch.setattr(mean_field, "log_masses", estimates)
    modes = [SimpleNamespace(name=name, starts=8) for name in ("first", "heaviest", "far", "not far enough")]
    found = masses.weigh(modes, Chains(target, None, 0, 4), 100)
    assert weighed[0][0] == "heaviest"
    assert "far" not in {one for pair in weighed for one in pair}
    assert "not far enough" in {there for _, there in weighed}
    assert found.ratio[2].lower < -200.0 < found.ratio[2].upper < masses.NEGLIGIBLE
    assert not masses.is_alive(found.ratio[2])


@pytest.mark.parametrize(
    ("starts", "losses", "value", "longest", "weighed"),
    [
        ((27, 3, 2), (500.0, 521.0, 519.0), (0.0, -3.0, -4.0), None, {2}),  # lambda is 0.5
        ((27, 3, 2), (500.0, 521.0, 519.0), (0.0, -3.0, -4.0), 17, {1, 2}),  # asked for, whatever it costs
        ((16, 14, 2), (500.0, 521.0, 521.0), (0.0, -3.0, -4.0), None, {1, 2}),  # as many starts ended elsewhere
        ((27, 3, 2), (500.0, 521.0, 521.0), (0.0, 1.0, -3.0), None, {0, 2}),  # the second may hold more: entropy counts
        ((27, 3, 2), (500.0, 521.0, 521.0), (0.0, np.nan, 0.0), None, {1, 2}),  # nothing is known of entropies
    ],
)
def test_modes_that_few_starts_found_and_whose_losses_are_far_higher_get_neither_jumps_nor_chains(
    starts, losses, value, longest, weighed, monkeypatch
):
    """Of 1,971 people with mixed columns a chain left such a mode only after the warm-up: R-hat was 1.35."""
    target, seen = far("labels").target, set()

    def measured(here, there, length):
        seen.add(there.mode.number)
        return LogRatio(np.nan, np.nan, -400.0, 400.0), [True, True], length

    jumps_measured_by(measured, monkeypatch)
    estimates = mean_field.Estimates(np.array(value), np.ones(3))
    monkeypatch.setattr(mean_field, "log_masses", lambda modes, target: estimates)
    modes = [
        SimpleNamespace(number=number, starts=own, dispersion=0.5, best=SimpleNamespace(loss=np.array([loss, loss])))
        for number, (own, loss) in enumerate(zip(starts, losses))
    ]
    found = masses.weigh(modes, Chains(target, None, 0, 4), 100, longest)
    assert seen - {found.best} == weighed
    _, alive = search._order(modes, found)
    assert sorted(alive) == sorted({found.best} | weighed)


def test_an_estimate_that_is_no_number_bounds_nothing(monkeypatch):
    target = far("labels").target
    for value, se in (([0.0, np.nan], [1.0, 1.0]), ([0.0, -300.0], [3.0, 4.0]), ([0.0, -300.0], [3.0, np.inf])):
        estimates = mean_field.Estimates(np.array(value), np.array(se))
        monkeypatch.setattr(mean_field, "log_masses", lambda modes, target, estimates=estimates: estimates)
        best, bounds = masses.without_jumps(masses.estimates(["one", "other"], target), target, set())
        if np.isnan(value[1]):
            assert (best, bounds) == (0, [ITSELF, UNKNOWN])
            continue
        assert (best, bounds[0]) == (0, ITSELF)
        margin = masses.MARGIN * target.n_clusters * target.x.shape[1] + 3 * np.hypot(*se)
        assert (bounds[1].lower, bounds[1].upper) == (-300 - margin, -300 + margin)


@pytest.mark.parametrize(
    ("width", "gap", "lengths"),
    [
        (np.inf, 1000.0, [17, 33, 65, 129]),
        (300.0, 1000.0, [17, 33, 65, 129]),
        (100.0, 1000.0, [17]),
        (np.inf, np.inf, [17, 33, 65, 129]),
        (300.0, np.inf, [17]),
    ],
)
def test_jumps_that_will_tell_less_than_the_estimate_are_not_made(width, gap, lengths, monkeypatch):
    """Bounds that are 1,000 apart at 17 steps would be 206 apart at the 109 that the budget leaves."""
    target, walked = far("labels").target, []

    def bounds(gap):
        return LogRatio(np.nan, np.nan, -gap / 2, gap / 2)

    def measured(here, there, length):
        walked.append(length)
        return bounds(gap * 17 / length), [True, True], length

    jumps_measured_by(measured, monkeypatch)
    monkeypatch.setattr(masses, "estimates", lambda *_: None)
    monkeypatch.setattr(masses, "without_jumps", lambda *_: (0, [ITSELF, bounds(width)]))
    found = masses.weigh(2 * [SimpleNamespace(starts=16)], Chains(target, None, 0, 4), 472 // masses.BUDGET)
    assert walked == lengths
    assert found.ratio[1].upper == min(width, gap * 17 / lengths[-1]) / 2

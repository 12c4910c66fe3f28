"""The search for modes, what decides who gets chains, and where chains start."""

from types import SimpleNamespace

import numpy as np
import pytest
from exact_modes import TwoModes

import bayesfair as bf
from bayesfair._progress import progress
from bayesfair.fairness.groups import encode_groups
from bayesfair.gibbs.cut import Cut
from bayesfair.gibbs.loss import resolve_loss
from bayesfair.gibbs.modes import weigh as weighing
from bayesfair.gibbs.modes.bennett import ITSELF, UNKNOWN, LogRatio, bennett, both, log_mass_ratio, relative
from bayesfair.gibbs.modes.find import Search, find_modes
from bayesfair.gibbs.modes.jump import JumpingLaw, paths_of
from bayesfair.gibbs.modes.search import ModeSearch, starts_of
from bayesfair.gibbs.modes.weigh import is_alive, weigh
from bayesfair.gibbs.optimal import Optimal
from bayesfair.gibbs.run import tasks
from bayesfair.gibbs.target import Dispersion, Table


class TestBennett:
    def test_log_ratio_and_its_standard_error_are_right(self):
        """Gaussian work: forward N(r - s^2/2, s), backward N(-r - s^2/2, s) are the two directions of one process."""
        rng = np.random.default_rng(0)
        for r, s in ((1.0, 1.0), (5.0, 2.0), (-15.0, 1.5)):
            scores = []
            for _ in range(200):
                found, se = bennett(rng.normal(r - s**2 / 2, s, 60), rng.normal(-r - s**2 / 2, s, 40))
                scores.append((found - r) / se)
            assert abs(np.mean(scores)) < 0.35
            assert 0.8 < np.std(scores) < 1.25
            assert np.mean(np.abs(scores) < 2) > 0.9

    def test_directions_exchanged_are_caught(self):
        rng = np.random.default_rng(0)
        forward, backward = rng.normal(2.5, 1, 100), rng.normal(-3.5, 1, 100)
        assert abs(bennett(forward, backward)[0] - 3) < 0.5
        assert abs(bennett(backward, forward)[0] - 3) > 3


class TestLogRatio:
    def test_works_that_do_not_overlap_give_bounds_alone(self):
        rng = np.random.default_rng(0)
        ratio = log_mass_ratio(rng.normal(-80, 3, 8), rng.normal(20, 3, 8))
        assert not ratio.known
        assert -84 < ratio.lower < -78
        assert -22 < ratio.upper < -14

    def test_shares_refused_are_accounted_for(self):
        """Half of the second mode is connected: what jumps connect weighs half of it."""
        rng = np.random.default_rng(0)
        forward, backward = rng.normal(-0.5, 1, 400), rng.normal(-0.5, 1, 400)
        backward[::2] = -np.inf
        assert abs(log_mass_ratio(forward, backward).estimate - np.log(2)) < 0.3

    def test_too_few_works_tell_nothing(self):
        assert log_mass_ratio([-1.0], [-1.0, -2.0]) == UNKNOWN

    def test_through_a_third_mode_and_two_accounts(self):
        bounds = relative(LogRatio(np.nan, np.nan, -50, -20), LogRatio(np.nan, np.nan, 3, 7))
        assert (bounds.lower, bounds.upper) == (-57, -23)
        assert both(bounds, LogRatio(np.nan, np.nan, -90, -30))[2:] == (-57, -30)
        known = LogRatio(1.0, 0.1, 0.8, 1.2)
        assert both(known, bounds) == known
        assert both(LogRatio(np.nan, np.nan, 5, 6), LogRatio(np.nan, np.nan, 1, 2)) == UNKNOWN
        assert relative(known, known).estimate == 0

    def test_who_gets_chains(self):
        nan = np.nan
        for dead in ((-30.0, 0.5, -31, -29), (nan, nan, -500, -11), (nan, nan, -60, 30), (nan, nan, -17, 1)):
            assert not is_alive(LogRatio(*dead)), dead
        for alive in ((-9.0, 0.5, -10, -8), (nan, nan, -30, 30)):
            assert is_alive(LogRatio(*alive)), alive


def scripted(monkeypatch, measured):
    """`weigh` of modes whose works are `measured(a, b, length)`: (log ratio, did chains stay in a, in b)."""
    lengths = []

    def measure(search, places, pools, pair, length, each, most):
        lengths.append(length)
        search.spent += 2 * 4 * each * (length + weighing.APART)
        ratio, *stayed = measured(*pair, length)
        return ratio, stayed

    monkeypatch.setattr(weighing, "ready", lambda search, modes, size: (None, [[] for _ in modes]))
    monkeypatch.setattr(weighing, "measure", measure)
    return lengths


def estimate(value, se=0.1):
    return LogRatio(value, se, value - 2 * se, value + 2 * se)


class TestWeighing:
    def test_masses_are_over_the_heaviest(self, monkeypatch):
        scripted(monkeypatch, lambda a, b, length: (estimate(float(b - a)), True, True))
        found = weigh(SimpleNamespace(spent=0), [None] * 4, 4, 1000)
        assert found.best == 3
        assert found.ratio[3] == ITSELF
        np.testing.assert_allclose([one.estimate for one in found.ratio], [-3, -2, -1, 0])

    def test_a_mode_that_its_chains_leave_is_none_even_if_it_is_the_first(self, monkeypatch):
        scripted(monkeypatch, lambda a, b, length: (estimate(1.0), a != 1, b != 1))
        assert weigh(SimpleNamespace(spent=0), [None] * 3, 4, 2000).gone == {1}
        scripted(monkeypatch, lambda a, b, length: (estimate(-1.0 * b), a != 0, b != 0))
        found = weigh(SimpleNamespace(spent=0), [None] * 3, 4, 10_000)
        assert (found.best, found.gone) == (1, {0})
        assert found.ratio[2].estimate == -2.0

    @pytest.mark.parametrize(
        ("longest", "walked"), [(1, [1]), (3, [3]), (17, [16, 17]), (64, [16, 32, 64]), (None, [16, 32, 64])]
    )
    def test_paths_double_until_the_budget_or_the_length_is_reached(self, monkeypatch, longest, walked):
        lengths = scripted(monkeypatch, lambda a, b, length: (UNKNOWN, True, True))
        found = weigh(SimpleNamespace(spent=0), [None] * 2, 4, 2500, longest)
        assert lengths == walked
        assert found.length == walked[0]  # longer ones told nothing either

    def test_longer_paths_are_for_the_mode_that_seems_to_hold_most(self, monkeypatch):
        asked = []

        def measured(a, b, length):
            asked.append((b, length))
            return LogRatio(np.nan, np.nan, -100.0 * b - 2000 / length, 2000 / length - 10.0 * b), True, True

        scripted(monkeypatch, measured)
        found = weigh(SimpleNamespace(spent=0), [None] * 4, 4, 3000)
        assert asked[:3] == [(1, 16), (2, 16), (3, 16)]
        assert asked[3:] == [(1, 32), (1, 64)]
        assert found.tried == {1, 2, 3}

    def test_many_modes_have_fewer_jumps_each(self, monkeypatch):
        scripted(monkeypatch, lambda a, b, length: (UNKNOWN, True, True))
        search = SimpleNamespace(spent=0)
        weigh(search, [None] * 21, 4, 4000)
        assert search.spent <= 4000


def corners(height, size=20, noise=0.5):
    """Four heaps at the corners of a rectangle, ten wide: two clusters are left and right, or above and below."""
    rng = np.random.default_rng(0)
    places = np.array([[5.0, height / 2], [-5.0, height / 2], [5.0, -height / 2], [-5.0, -height / 2]])
    X = np.concatenate([rng.normal(place, noise, (size, 2)) for place in places])
    return X, np.tile([0, 1], len(X) // 2)


def law_of(target, loss="kmeans", temperature=None, **of_corners):
    X, groups = corners(**of_corners)
    loss = resolve_loss(loss)
    given = Dispersion() if temperature is None else temperature
    table = Table(X, encode_groups(groups), np.ones(len(X)), 2, loss, given, X.size / loss.degree, 0)
    return target.prepare(table)


def test_the_modes_of_a_rectangle_are_found_and_weighed():
    law, states, found = starts_of(law_of(Optimal(), height=8.0), ModeSearch(12), 2, 200)
    assert len(found.log_mass) == 2
    assert found.starts.sum() == found.num_starts == 8  # of 48 sweeps and more
    assert found.chains.tolist() == [2, 0]
    # The energies are nearly all that differs: lambda integrated out, a power of the loss.
    assert found.lower[1] - 3 < np.diff(found.lp).item() < found.upper[1] + 3
    assert found.weighed
    assert len(states) == 2
    assert not isinstance(law, JumpingLaw)


@pytest.mark.parametrize(("height", "made"), [(2.0, 16), (9.8, 32)])
def test_half_of_the_starts_are_left_out_if_the_others_agree(height, made):
    found = starts_of(law_of(Optimal(), "manhattan", height=height, size=8), ModeSearch(32), 2, 768)[2]
    assert len(found.log_mass) == made // 16
    assert found.num_starts == found.starts.sum() == made


def test_a_bar_changes_nothing(capsys):
    one, other = (starts_of(law_of(Optimal(), height=9.0), ModeSearch(8), 2, 100, progress_bar=bar) for bar in (0, 1))
    for a, b in zip(one[1], other[1]):
        for part, same in zip(a, b):
            np.testing.assert_array_equal(part, same)


def test_without_a_search_chains_begin_at_the_targets_own_starts():
    law = law_of(Optimal(), height=8.0)
    for search, num_warmup in ((None, 200), (ModeSearch(), 0), (ModeSearch(1), 200), (ModeSearch(), 47)):
        same, states, found = starts_of(law, search, 2, num_warmup)
        assert found is None
        assert same is law
        for state, own in zip(states, law.starts(2)):
            np.testing.assert_array_equal(state.cluster, own.cluster)


def test_losses_without_centres_and_the_cut_have_modes_whose_masses_are_not_known():
    law = law_of(Optimal(), "manhattan", height=9.8, size=8)
    _, _, found = starts_of(law, ModeSearch(8), 2, 200)
    assert len(found.log_mass) == 2
    assert found.chains.tolist() == [1, 1]
    assert np.isnan(found.log_mass[1])
    assert not found.weighed
    assert paths_of(law_of(Cut(), height=8.0)) is None


def test_the_search_takes_at_most_twice_the_sweeps_of_the_warm_up():
    for num_warmup in (48, 100, 400):
        law = law_of(Optimal(), height=9.5, size=6)
        n_starts = min(32, 2 * num_warmup // 48)
        with progress(0, "", False) as bar:
            search = Search(law, tasks(1), bar)
            modes, _ = find_modes(search, n_starts, 2 * num_warmup // n_starts, 2)
            assert search.spent <= 3 * num_warmup
            if len(modes) > 1:
                weigh(search, modes, 2, 4 * num_warmup)
            assert search.spent <= 4 * num_warmup


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of so few draws
def test_a_run_with_jumps_goes_on_bit_for_bit(tmp_path):
    t = TwoModes("optimal")
    settings = {"num_chains": 2, "num_warmup": 3000, "progress_bar": False, "random_state": 1, "thinning": 2}
    settings |= {"target": "optimal", "inverse_temperature": t.law.table.temperature}
    whole = bf.GibbsFairClustering(2, num_draws=60, **settings).fit(t.X, sensitive_features=t.group)
    assert (whole.posterior_["modes"]["chains"] > 0).sum() > 1, "both modes hold mass"
    assert np.isfinite(whole.posterior_["sample_stats"]["jump_acceptance"].values).any()
    part = bf.GibbsFairClustering(2, num_draws=40, **settings).fit(t.X, sensitive_features=t.group)
    part.save(tmp_path / "run.nc")
    part = bf.GibbsFairClustering.load(tmp_path / "run.nc").resume(num_draws=20)
    np.testing.assert_array_equal(whole.posterior_["posterior"]["labels"], part.posterior_["posterior"]["labels"])
    assert bf.posterior.modes(part.posterior_).equals(bf.posterior.modes(whole.posterior_))

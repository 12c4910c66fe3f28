"""The search for modes, their masses against truth, where chains start, and what the tree tells of it."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from exact_modes import far, jumps_measured_by, middle_goes_left
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

import bayesfair as bf
from bayesfair.gibbs import KMeansLoss, Settings, Table, masses
from bayesfair.gibbs.bennett import ITSELF, UNKNOWN, LogRatio, both, log_mass_ratio, relative
from bayesfair.gibbs.masses import ENOUGH_SE, FIRST_LENGTH, is_alive, weigh
from bayesfair.gibbs.modes import Found, Mode, n_search_starts
from bayesfair.gibbs.problem import make_problem
from bayesfair.gibbs.relocations import annealed_centers, relocated_centers
from bayesfair.gibbs.run import Chains
from bayesfair.gibbs.search import start_in_modes

WORKS = 16


def test_weighing_tells_the_mass_of_the_enumeration(x64):
    """All of it: pools, rounds, longer and longer paths, and the lighter mode first. Scores of 100 seeds had mean 0.1 and
    spread 1: of five other seeds one would be beyond 3 once in 80 times, their mean beyond 1.5 once in 1,500."""
    f = far("joint", middle=-0.0306, apart=3.0)
    left = middle_goes_left(f.labels)
    truth = np.log(f.law[~left].sum() / f.law[left].sum())
    moves = f.target.moves(Settings(2, f.target.loss, (1.0, 1.0), reallocation="blocked"))  # which cross by no chance
    scores = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        modes = [mode_of(f, number, here, rng) for number, here in ((1, ~left), (0, left))]
        found = weigh(modes, Chains(f.target, moves, seed, WORKS), 1000)
        ratio = found.ratio[0]
        assert (found.best, found.left, found.ratio[1]) == (1, set(), ITSELF)
        assert ratio.se < ENOUGH_SE
        assert found.length > 2 * FIRST_LENGTH  # shorter ones do not tell
        scores.append((ratio.estimate - truth) / ratio.se)
    assert np.abs(scores).max() < 3
    assert abs(np.mean(scores)) < 1.5


def mode_of(f, number, here, rng):
    """One of the modes that are known, with exact draws for its members."""
    which = rng.choice(len(f.law), WORKS, p=np.where(here, f.law, 0) / f.law[here].sum())
    states = f.at(which, np.full(WORKS, float(f.modes.dispersion[0])))
    members = [
        Found(jax.tree.map(lambda part: part[at], states), f.labels[which[at]], None, np.zeros(1), np.zeros(1), None)  # noqa: B023
        for at in range(WORKS)
    ]
    center, spread, dispersion = (np.asarray(part[number]) for part in f.modes[:3])
    return Mode(members, WORKS, center, spread, float(dispersion))


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


def corners(height, size=20, noise=0.5):
    """Four heaps at the corners of a rectangle, ten wide: two clusters are left and right, or above and below."""
    rng = np.random.default_rng(0)
    places = np.array([[5.0, height / 2], [-5.0, height / 2], [5.0, -height / 2], [-5.0, -height / 2]])
    X = np.concatenate([rng.normal(place, noise, (size, 2)) for place in places])
    return X, np.tile([0, 1], len(X) // 2)


@pytest.mark.slow
def test_the_modes_of_a_rectangle_are_found_and_weighed():
    X, groups = corners(8.0)
    settings = {"num_chains": 2, "num_warmup": 200, "num_draws": 60, "num_starts": 8, "progress_bar": False}
    est = bf.GibbsFairClustering(2, target="optimal", random_state=0, **settings).fit(X, sensitive_features=groups)
    tree, table = est.posterior_, bf.posterior.modes(est.posterior_)
    assert len(table) == 2
    assert table["starts"].sum() == 8
    assert table["log_mass"].iloc[0] == 0
    # The energies are nearly all that differs: lambda integrated out, a power of the loss.
    guess = np.diff(table["lp"]).item()
    assert table["lower"].iloc[1] - 3 < guess < table["upper"].iloc[1] + 3
    assert (table["chains"] > 0).sum() == (table["upper"] > -10).sum()
    assert tree["modes"].attrs["masses"] == "measured"
    np.testing.assert_array_equal(np.sort(tree["modes"]["labels"].values[0]), np.sort(est.labels_))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of so few draws
def test_a_run_with_jumps_goes_on_bit_for_bit(tmp_path):
    X, groups = corners(10.0, size=4, noise=0.05)
    settings = {"num_chains": 2, "num_warmup": 200, "num_starts": 8, "progress_bar": False, "random_state": 1}
    settings |= {"target": "optimal", "composition": "singletons", "inverse_temperature": (0.2, 0.2)}
    whole = bf.GibbsFairClustering(2, num_draws=60, **settings).fit(X, sensitive_features=groups)
    assert (whole.posterior_["modes"]["chains"] > 0).sum() > 1, "both modes hold mass"
    assert "jump_acceptance" in whole.posterior_["sample_stats"]
    part = bf.GibbsFairClustering(2, num_draws=40, **settings).fit(X, sensitive_features=groups)
    part.save(tmp_path / "run.nc")
    part = bf.GibbsFairClustering.load(tmp_path / "run.nc").resume(num_draws=20)
    np.testing.assert_array_equal(whole.posterior_["posterior"]["labels"], part.posterior_["posterior"]["labels"])
    assert bf.posterior.modes(part.posterior_).equals(bf.posterior.modes(whole.posterior_))


@pytest.mark.slow
def test_losses_without_centres_have_modes_whose_masses_are_not_known_and_tempering_is_offered():
    X, groups = corners(8.0, size=26)  # of so many rows it is not tried
    settings = {"num_chains": 2, "num_warmup": 200, "num_draws": 20, "num_starts": 8, "progress_bar": False}
    est = bf.GibbsFairClustering(2, loss="manhattan", target="optimal", random_state=0, **settings)
    with pytest.warns(ConvergenceWarning, match=r"(?s)different modes.*tempering=True may cross modes"):
        est.fit(X, sensitive_features=groups)
    table = bf.posterior.modes(est.posterior_)
    assert len(table) == 2
    assert (table["chains"] == 1).all()
    assert np.isnan(table["log_mass"].iloc[1])
    assert "not known" in bf.posterior.modes_sentence(est.posterior_)


def test_without_a_search_chains_begin_at_the_targets_own_starts():
    X, groups = corners(8.0)
    problem = make_problem(Table(X, bf.fairness.encode_groups(groups)), Settings(2, KMeansLoss()))
    for choice in ({"num_warmup": 0}, {"num_warmup": 200, "num_starts": 0}):
        _, run, found = start_in_modes(problem, 2, **{"num_starts": 8, **choice})
        assert found is None
        starts = problem.target.starts(problem.table, problem.settings, 2)
        jax.tree.map(np.testing.assert_array_equal, run.states, starts)
    with pytest.warns(RuntimeWarning, match="num_warmup of at least 64 sweeps"):
        start_in_modes(problem, 2, num_warmup=63, num_starts=0, tempering=True)


@pytest.mark.parametrize(
    ("asked", "chains", "warmup", "made"),
    [
        (32, 4, 1000, 32),
        (30, 4, 1000, 32),
        (32, 4, 100, 8),
        (32, 4, 50, 0),
        (0, 4, 1000, 0),
        (4, 4, 96, 8),
        (1, 1, 1000, 2),
    ],
)
def test_there_are_as_many_starts_as_the_warm_up_has_sweeps_for(asked, chains, warmup, made):
    assert n_search_starts(asked, chains, warmup) == made


@pytest.mark.parametrize(
    "bad", [{"num_starts": -1}, {"num_starts": 2.5}, {"mode_jumps": "yes"}, {"mode_jumps": True}, {"mode_jumps": 0}]
)
def test_bad_settings_are_told(bad):
    X, groups = corners(8.0)
    with pytest.raises((ValueError, TypeError), match=next(iter(bad))):
        bf.GibbsFairClustering(2, progress_bar=False, **bad).fit(X, sensitive_features=groups)


def test_a_relocated_centre_leaves_a_bad_optimum():
    """Four heaps, two centres in one of them: one relocation mends it."""
    rng = np.random.default_rng(0)
    heaps = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [30.0, 30.0]])
    X = np.concatenate([rng.normal(heap, 0.5, (30, 2)) for heap in heaps])
    bad = KMeans(4, init=np.array([[0.0, 5.0], [10.0, 0.0], [29.8, 30.0], [30.2, 30.0]]), n_init=1).fit(X)
    best = KMeans(4, n_init=20, random_state=0).fit(X).inertia_
    assert bad.inertia_ > 10 * best
    moved = relocated_centers(X, np.ones(len(X)), bad.labels_, 4, 3, rng)
    assert moved.shape == (3, 4, 2)
    assert np.isclose(KMeans(4, init=moved[0], n_init=1).fit(X).inertia_, best)
    cooled = annealed_centers(X, np.ones(len(X)), 4, rng)
    assert np.isclose(KMeans(4, init=cooled, n_init=1).fit(X).inertia_, best)


FEW_PEOPLE = SimpleNamespace(n_obs=100, n_clusters=2, x=np.zeros((100, 1)), clusters_are_independent=True)
STAYED = [True, True]


def test_masses_are_over_the_heaviest_though_every_reference_turned_out_lighter(monkeypatch):
    def measured(here, there, length):
        return (LogRatio(1.0, 0.1, 0.8, 1.2) if there.mode == here.mode + 1 else UNKNOWN), STAYED, length

    jumps_measured_by(measured, monkeypatch)
    found = weigh(list(range(6)), Chains(FEW_PEOPLE, None, 0, 4), 100)
    assert found.best == masses.REFERENCES
    assert found.ratio[found.best] == ITSELF
    assert found.ratio[found.best - 1].estimate == -1.0


def test_a_mode_that_its_chains_leave_is_no_reference(monkeypatch):
    """Of two works that were measured before its chains left it may seem the heaviest."""

    def measured(here, there, length):
        mass = known[there.mode]
        return LogRatio(mass, 0.1, mass - 0.2, mass + 0.2), [one.mode != "left" for one in (here, there)], length

    known = {"left": 5.0, "stays": -1.0}
    jumps_measured_by(measured, monkeypatch)
    found = weigh(["best", "left", "stays"], Chains(FEW_PEOPLE, None, 0, 4), 100)
    assert (found.best, found.left) == (0, {1})
    assert found.ratio[2].estimate == -1.0
    known["best"] = 0.0  # on 2,000 people "left" was the first reference, and nothing told that it is none
    found = weigh(["left", "best", "stays"], Chains(FEW_PEOPLE, None, 0, 4), 100)
    assert (found.best, found.left) == (1, {0})
    assert [found.ratio[1], found.ratio[2].estimate] == [ITSELF, -1.0]


@pytest.mark.parametrize(
    ("longest", "walked"), [(1, [1]), (2, [1]), (3, [3]), (8, [7]), (17, [17]), (32, [17]), (40, [17, 33])]
)
def test_no_path_is_longer_than_was_asked_for(monkeypatch, longest, walked):
    """The first one had 17 steps whatever was asked for."""
    lengths = []

    def measured(here, there, length):
        lengths.append(length)
        return UNKNOWN, STAYED, length

    by_paths = SimpleNamespace(**vars(FEW_PEOPLE) | {"clusters_are_independent": False})
    jumps_measured_by(measured, monkeypatch)
    found = weigh(["one", "other"], Chains(by_paths, None, 0, 4), 100, longest)
    assert lengths == walked
    assert found.length == walked[-1]

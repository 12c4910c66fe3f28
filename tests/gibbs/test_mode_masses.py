"""Modes of enumerated posteriors: found, weighed as they are, and crossed by chains whose draws follow the posterior."""

from collections import Counter

import numpy as np
import pytest
from exact_modes import SAMPLED, TwoModes

from bayesfair._progress import progress
from bayesfair.gibbs.modes.find import Search, grouped, places_of
from bayesfair.gibbs.modes.jump import JumpingLaw
from bayesfair.gibbs.modes.weigh import ENOUGH_SE, weigh
from bayesfair.gibbs.run import tasks
from bayesfair.gibbs.target import Room

NAMES = "labels", "optimal", "joint"


def search_of(t):
    with progress(0, "", False) as bar:
        return Search(t.law, tasks(1), bar)


def found(t, search):
    """Both modes, from a state in each."""
    modes = grouped(search.settle([t.state(mode, chain) for mode in (0, 1) for chain in range(4)], 200))
    assert len(modes) == 2
    return modes


@pytest.mark.slow
@pytest.mark.parametrize("prior", [None, SAMPLED])
@pytest.mark.parametrize("name", NAMES)
def test_masses_are_those_of_the_enumeration(name, prior):
    """Of five seeds one is beyond 3.5 standard errors once in 400 times."""
    scores = []
    for seed in range(5):
        t = TwoModes(name, prior, seed)
        search = search_of(t)
        modes = found(t, search)
        masses = weigh(search, modes, 4, 100_000)
        of_first = 0 if agrees(modes[masses.best].best.labels, t.sides[0]) else 1
        heavy, light = t.masses[of_first], t.masses[1 - of_first]
        assert 0.0001 < light / heavy < 10000
        (ratio,) = [one for j, one in enumerate(masses.ratio) if j != masses.best]
        assert ratio.se <= ENOUGH_SE
        scores.append((ratio.estimate - np.log(light / heavy)) / ratio.se)
    assert np.abs(scores).max() < 3.5, scores
    assert abs(np.mean(scores)) < 1.6, scores


def agrees(labels, side):
    same = (labels == side).mean()
    return max(same, 1 - same) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("prior", [None, SAMPLED])
@pytest.mark.parametrize("name", NAMES)
def test_draws_with_jumps_follow_the_enumerated_posterior_from_either_mode(name, prior):
    t, n_draws = TwoModes(name, prior), 100_000
    places, _ = places_of(found(t, search_of(t)))
    law, shares = JumpingLaw(t.law, places, 64 if name == "joint" else 16), Counter()
    for mode in (0, 1):
        room = Room(
            np.empty((n_draws, len(t.X)), np.int8),
            np.empty((0, len(t.X)), np.int32),
            np.empty((n_draws, len(law.statistics))),
        )
        assert law.advance(t.state(mode, mode), 1, 10**12, room, 0) == n_draws
        assert np.nanmean(room.scalars[:, -1]) > 0.01
        drawn = Counter(map(tuple, (room.labels ^ room.labels[:, :1]).tolist()))
        own = {z: n / n_draws for z, n in drawn.items()}
        np.testing.assert_allclose(t.masses_of(own), t.masses, atol=0.08)  # without jumps 0 and 1
        shares.update({z: p / 2 for z, p in own.items()})
    assert set(shares) <= set(t.enumerated)
    assert 0.5 * sum(abs(shares[z] - p) for z, p in t.enumerated.items()) < 0.08


def test_any_cut_into_calls_gives_the_same_draws_with_jumps():
    t = TwoModes("optimal")
    places, _ = places_of(found(t, search_of(t)))
    law = JumpingLaw(t.law, places, 8)
    whole, cut = (
        Room(np.empty((60, 16), np.int8), np.empty((0, 16), np.int32), np.empty((60, len(law.statistics))))
        for _ in range(2)
    )
    law.advance(t.state(0), 2, 10**12, whole, 0)
    state, first = t.state(0), 0
    while first < 60:
        first = law.advance(state, 2, 50, cut, first)
    np.testing.assert_array_equal(whole.labels, cut.labels)
    np.testing.assert_array_equal(whole.scalars, cut.scalars)
    assert np.isfinite(whole.scalars[:, -1]).sum() == 15

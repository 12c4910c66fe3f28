"""The generator of compiled loops: its published words, the ends of its numbers, and the laws of its functions."""

import numpy as np
import pytest

from bayesfair._chance import bernoulli, category, integer, seeded, uniform

# The first outputs of xoshiro256++ from the words 1, 2, 3, 4, as the reference C code prints them.
OUTPUTS = 41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205, 9973669472204895162
LARGEST = np.array([2**64 - 1, 5, 7, 1], np.uint64)  # the next output has all bits set
SMALLEST = np.array([0, 5, 7, 0], np.uint64)  # and here none


def test_the_words_are_those_of_the_reference():
    s = np.array([1, 2, 3, 4], np.uint64)
    assert [uniform(s) for _ in OUTPUTS] == [((word >> 12) + 0.5) / 2**52 for word in OUTPUTS]


def test_numbers_never_reach_an_end():
    assert 0 < uniform(SMALLEST.copy()) < 1e-15
    assert 1 - 1e-15 < uniform(LARGEST.copy()) < 1
    for n in (1, 2, 3, 5, 1_000, 2**31 + 1, 2**40 - 1):
        assert integer(LARGEST.copy(), n) == n - 1
        assert integer(SMALLEST.copy(), n) == 0
    for s in (SMALLEST, LARGEST):
        assert bernoulli(s.copy(), 1.0)
        assert not bernoulli(s.copy(), 0.0)
        assert category(s.copy(), np.array([0.0, 0.0, 1.0, 0.0]), 4) == 2


def test_draws_follow_their_law():
    """40,000 draws each: within four standard errors but for one run in 2,000."""
    s, n = seeded(0), 40_000
    weight = np.array([1.0, 0.0, 3.0, 4.0, 9.0])
    shares = np.bincount([category(s, weight, 4) for _ in range(n)], minlength=4) / n
    np.testing.assert_allclose(shares, weight[:4] / 8, atol=4 * 0.5 / np.sqrt(n))
    assert shares[1] == 0
    np.testing.assert_allclose(np.bincount([integer(s, 3) for _ in range(n)]) / n, 1 / 3, atol=4 * 0.5 / np.sqrt(n))
    assert np.mean([bernoulli(s, 0.3) for _ in range(n)]) == pytest.approx(0.3, abs=4 * 0.46 / np.sqrt(n))


def test_seeds_and_streams_differ():
    streams = [seeded(*key) for key in ((0,), (1,), (0, 0), (0, 1), (0, 0, 1), (None,), (None,))]
    assert len({words.tobytes() for words in streams}) == 7
    np.testing.assert_array_equal(seeded(3, 1, 4), seeded(3, 1, 4))

"""What the display says of chains while they make draws."""

import numpy as np
from arviz_stats.base import array_stats

from bayesfair._draws import Draws, Statistic
from bayesfair.gibbs import convergence
from bayesfair.gibbs.convergence import Convergence

KINDS = {"lp": Statistic("quantity"), "rate": Statistic("figure")}


def chunks(lengths):
    """Draws of two chains, in which `lp` walks and no cluster's size changes."""
    walk = np.cumsum(np.random.default_rng(0).normal(size=(2, sum(lengths))), axis=1)
    labels = np.tile([0, 0, 1], (2, sum(lengths), 1))
    for begin, end in zip(np.cumsum([0, *lengths]), np.cumsum(lengths)):
        scalars = {"lp": walk[:, begin:end], "rate": np.full((2, end - begin), np.nan)}
        yield Draws(labels[:, begin:end], scalars, KINDS)


def test_the_slowest_scalar_is_told_with_arvizs_figures():
    parts, watch = list(chunks([10, 30])), Convergence(2)
    assert watch.told(parts[0])[0] == ""  # too few
    slowest, density = watch.told(parts[1])
    walk = np.concatenate([part.scalars["lp"] for part in parts], axis=1)
    figures = array_stats.rhat(walk), array_stats.ess(walk, method="bulk")
    assert slowest == "slowest: lp, R-hat {:.3f}, {:,.0f} effective draws".format(*figures)
    assert density == "lp {:.3g}, {:.3g}".format(*walk[:, -1])


def test_long_runs_are_looked_at_in_part(monkeypatch):
    monkeypatch.setattr(convergence, "MOST", 40)
    parts, watch = list(chunks([25, 25, 25, 25, 7])), Convergence(2)
    for part in parts:
        told, _ = watch.told(part)
    walk = np.concatenate([part.scalars["lp"] for part in parts], axis=1)
    assert np.array_equal(watch._scalars["lp"], walk[:, ::4])
    assert "slowest: lp" in told

"""Visits to the border leave the posterior given the centres invariant: transition matrices over all choices."""

from functools import cache
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import (
    CAUGHT,
    TEMPERATURES,
    TOLERANCE,
    all_states,
    invariance_error,
    matrix_of,
    naive_augmented,
    some_centers,
    tiny,
)
from tiers import tiers

from bayesfair._arrays import on_device
from bayesfair.gibbs.moves import border

pytestmark = pytest.mark.usefixtures("x64")

FLOOR_CEIL, HUBS = ("floor/ceil, weighted", "kl"), ("unequal hubs, one lacks a group", "itakura-saito")


def law_of_people(t, seed=0):
    """Any guide will do, so long as it does not look at the state: laws of the people of every group, one for each cluster."""
    p = np.random.default_rng(seed).uniform(0.5, 2, (t.target.n_clusters, len(t.X)))
    for group in range(t.code.max() + 1):
        p[:, t.code == group] /= p[:, t.code == group].sum(1, keepdims=True)
    return p


def guide(p):
    return border.Guide(None, None, None, on_device(np.pad(np.log(p), ((0, 0), (0, 1)))))


@cache
def visits(kind, case, loss):
    """(members, clusters, log ratio, what of it are the laws of the choice, and the normalisers), (states, choices, ...)."""
    t = tiny(case, loss)
    target, centers, known, (choices, _) = t.target, some_centers(t), guide(law_of_people(t)), CHOICES[kind](t)

    def of_state(state):
        now = t.opened(state, centers)
        seats = border.seats_of(target, now)

        def one(*choice):
            candidate = getattr(border, kind)(target, seats, known, choice)
            ratio, means = border.log_ratio(target, now, seats, candidate)
            g = [
                target.loss.augmentation.log_normalizer(TEMPERATURES.clustering, each) for each in (seats.means, means)
            ]
            where = jnp.where(candidate.first, candidate.fairlets, len(seats.members))
            members = seats.members.at[where].set(candidate.members, mode="drop")
            cluster = seats.cluster.at[where].set(candidate.cluster, mode="drop")
            return members, cluster, ratio, candidate.log_proposal, jnp.where(ratio > -jnp.inf, (g[0] - g[1]).sum(), 0)

        return jax.vmap(one)(*choices)

    return all_states(t, of_state)


def matrix(kind, case, loss, right=lambda ratio, proposal, normaliser: ratio):
    """The mixture over choices of their weights (choices,), or (states, choices) where the law of a choice sees the state."""
    t = tiny(case, loss)
    (members, clusters, *told), (_, weights) = visits(kind, case, loss), CHOICES[kind](t)
    chances = np.where(told[0] > -np.inf, np.exp(np.minimum(right(*told), 0)), 0) * weights
    return matrix_of(t, members, clusters, chances)


def people_of(t, group):
    return np.flatnonzero(t.code == group)


def all_trades(t):
    pairs = [pair for g in range(t.code.max() + 1) for pair in product(people_of(t, g), repeat=2) if pair[0] != pair[1]]
    return tuple(np.array(column) for column in zip(*pairs)), np.full(len(pairs), 1 / len(pairs))


def all_extras(t):
    pairs = list(product(range(len(t.X)), range(t.target.n_fairlets)))
    return tuple(np.array(column) for column in zip(*pairs)), np.full(len(pairs), 1 / len(pairs))


def all_flips(t):
    """Every (a, b, c, slot) between two clusters; the law of c is that of the cluster where the fairlet goes."""
    target, n_groups, law = t.target, t.code.max() + 1, law_of_people(t)
    keepers = people_of(t, 0 if target.anchor is None else target.anchor)
    rows, law_of = [], []
    whichs = (np.arange(6) + 0.5) / 6  # one to three slots to choose from
    for a, which in product(keepers, whichs):
        for g in range(n_groups):
            for b, c in product(people_of(t, g), repeat=2):
                rows.append((a, np.full(n_groups, b), np.full((2, n_groups), c), (0, 1), which, g))
                law_of.append((a, c))
    a, b, c, ends, which, group = (np.array(column) for column in zip(*rows))
    ends = ends.astype(np.int32)
    weights = np.zeros((len(t.fairlets), len(rows)))
    for s, (fairlet, cluster) in enumerate(zip(t.fairlets, t.clusters)):
        weights[s] = law[1 - cluster[fairlet[a]], c[:, 0, 0]] / (len(keepers) * 6)
        weights[s] /= np.array([len(people_of(t, g)) for g in group])
    return (a, b, c, ends, which), weights


CHOICES = {"trade": all_trades, "extra": all_extras, "flip": all_flips}
VISITS = [
    ("trade", *FLOOR_CEIL),
    ("trade", *HUBS),
    ("flip", *FLOOR_CEIL),
    ("flip", "three groups", "kmeans"),
    ("flip", "unequal, a group of one, weighted", "binary"),
    ("extra", "floor/ceil", "kl"),
]


@pytest.mark.parametrize(("kind", "case", "loss"), tiers(VISITS, VISITS[:3] + VISITS[5:]))
def test_visits_are_exact_given_the_centers(kind, case, loss):
    P, t = matrix(kind, case, loss), tiny(case, loss)
    assert invariance_error(naive_augmented(t, loss, some_centers(t)), P) < TOLERANCE
    assert np.count_nonzero(P) > len(P)


BUGS = [  # what is forgotten
    ("the laws of v and c", VISITS[2], lambda ratio, proposal, normaliser: ratio - proposal),
    ("the normaliser of a flip", VISITS[2], lambda ratio, proposal, normaliser: ratio - normaliser),
    ("the normaliser of an extra", VISITS[-1], lambda ratio, proposal, normaliser: ratio - normaliser),
]


@pytest.mark.parametrize(("bug", "visit", "wrong"), BUGS)
def test_planted_bugs_are_caught(bug, visit, wrong):
    t = tiny(*visit[1:])
    assert invariance_error(naive_augmented(t, visit[2], some_centers(t)), matrix(*visit, wrong)) > CAUGHT

"""Visits to the border leave the posterior given the centres invariant: transition matrices over all choices."""

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
    naive_augmented,
    some_centers,
    tiny,
    with_rest,
)

from bayesfair._arrays import on_device
from bayesfair.gibbs.moves import border

pytestmark = pytest.mark.usefixtures("x64")

PAIRS = [("floor/ceil, weighted", "kl"), ("three groups", "kmeans"), ("unequal, a group of one, weighted", "binary")]
PAIRS += [("unequal hubs, one lacks a group", "itakura-saito")]


def law_of_people(t, seed=0):
    """Any guide will do, so long as it does not look at the state: laws of the people of every group, one for each cluster."""
    p = np.random.default_rng(seed).uniform(0.5, 2, (t.target.n_clusters, len(t.X)))
    for group in range(t.code.max() + 1):
        p[:, t.code == group] /= p[:, t.code == group].sum(1, keepdims=True)
    return p


def guide(p):
    return border.Guide(None, None, None, on_device(np.pad(np.log(p), ((0, 0), (0, 1)))))


def matrix(t, centers, kind, choices, weights, law=None, log_ratio=border.log_ratio):
    """The mixture over choices of these weights (choices,), or (states, choices) where the law of a choice sees the state."""
    target, known = t.target, guide(law_of_people(t) if law is None else law)

    def of_state(state):
        now = t.opened(state, centers)
        seats = border.seats_of(target, now)

        def one(*choice):
            candidate = kind(target, seats, known, choice)
            ratio = log_ratio(target, now, seats, candidate)[0]
            where = jnp.where(candidate.first, candidate.fairlets, len(seats.members))
            members = seats.members.at[where].set(candidate.members, mode="drop")
            cluster = seats.cluster.at[where].set(candidate.cluster, mode="drop")
            return members, cluster, jnp.exp(jnp.minimum(ratio, 0.0))

        return jax.vmap(one)(*choices)

    members, clusters, chances = all_states(t, of_state)
    P = np.zeros((len(t.fairlets),) * 2)
    for s, choice in zip(*np.nonzero(chances)):
        weight = weights[choice] if np.ndim(weights) == 1 else weights[s, choice]
        P[s, t.state_of(members[s, choice], clusters[s, choice])] += weight * chances[s, choice]
    return with_rest(P)


def people_of(t, group):
    return np.flatnonzero(t.code == group)


def all_trades(t):
    pairs = [pair for g in range(t.code.max() + 1) for pair in product(people_of(t, g), repeat=2) if pair[0] != pair[1]]
    return tuple(np.array(column) for column in zip(*pairs)), np.full(len(pairs), 1 / len(pairs))


def all_extras(t):
    pairs = list(product(range(len(t.X)), range(t.target.n_fairlets)))
    return tuple(np.array(column) for column in zip(*pairs)), np.full(len(pairs), 1 / len(pairs))


def all_flips(t, law):
    """Every (a, b, c, slot) between two clusters; the law of c is that of the cluster where the fairlet goes."""
    target, n_groups = t.target, t.code.max() + 1
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


VISITS = [
    *(("trade", *pair) for pair in PAIRS),
    *(("flip", *pair) for pair in PAIRS),
    ("extra", "floor/ceil", "kl"),
    ("extra", "floor/ceil hubs", "kmeans"),
]


@pytest.mark.parametrize(("kind", "case", "loss"), VISITS)
def test_visits_are_exact_given_the_centers(kind, case, loss):
    t = tiny(case, loss)
    centers, law = some_centers(t), law_of_people(t)
    choices = all_flips(t, law) if kind == "flip" else {"trade": all_trades, "extra": all_extras}[kind](t)
    P = matrix(t, centers, getattr(border, kind), *choices, law)
    assert invariance_error(naive_augmented(t, loss, centers), P) < TOLERANCE
    assert np.count_nonzero(P) > len(P)


def test_planted_bugs_are_caught():
    t = tiny("floor/ceil")
    centers, law = some_centers(t), law_of_people(t)
    pi = naive_augmented(t, "kmeans", centers)

    def ways_alike(target, seats, known, choice):  # the laws of v and c forgotten
        return border.flip(target, seats, known, choice)._replace(log_proposal=jnp.zeros(()))

    assert invariance_error(pi, matrix(t, centers, ways_alike, *all_flips(t, law), law)) > CAUGHT

    def without_normaliser(target, now, seats, candidate):
        ratio, means = border.log_ratio(target, now, seats, candidate)
        g, lambda_c = target.loss.augmentation.log_normalizer, TEMPERATURES.clustering
        change = (g(lambda_c, seats.means) - g(lambda_c, means)).sum()
        return jnp.where(ratio > -jnp.inf, ratio - change, -jnp.inf), means

    for kind, choices in ((border.flip, all_flips(t, law)), (border.extra, all_extras(t))):
        assert invariance_error(pi, matrix(t, centers, kind, *choices, law, without_normaliser)) > CAUGHT

"""The moves of `target="labels"` leave it invariant: transition matrices on enumerated balanced labellings.

Each family of tests comes with planted bugs that the same check must catch.
"""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import TOLERANCE, invariance_error, normalise
from exact_labels import EVERY, LAMBDA, all_states, law, tiny

from bayesfair.gibbs.labellings import CountedLabelling
from bayesfair.gibbs.moves import balanced_in_turn as in_turn

pytestmark = pytest.mark.usefixtures("x64")

BUNDLES = {"three groups, weighted": (1, 1, 1), "attributes": (0, 1, 1, 0)}  # members of each group


def counted(target, state):
    stats = target.loss.start(target.units_of(state), target.n_clusters)
    return CountedLabelling(state.label, state.lambdas, stats, target.counts(state.label))


def put(t, P, s, label, probability):
    """`probability` of going from state s to a labelling; what is not balanced must have none."""
    to = t.index.get(tuple(np.asarray(label).tolist()))
    if to is None:
        assert probability < 1e-12
    else:
        P[s, to] += probability


@cache
def told_of(case, loss):
    """(log densities, laws of singles, log ratios of swaps) of every labelling."""
    t = tiny(case, loss)

    def of_state(state):
        return t.target.log_density(state, LAMBDA), single_laws(t)(state), swap_ratios(t)(state)

    return all_states(t, of_state)


def single_laws(t, law=in_turn.single_law):
    def of_state(state):
        now = counted(t.target, state)
        return jax.vmap(lambda i: jax.nn.softmax(law(t.target, now, i)[0]))(jnp.arange(t.target.n_obs))

    return of_state


def swap_ratios(t, log_ratio=in_turn.log_people_ratio):
    def of_state(state):
        now = counted(t.target, state)
        return jax.vmap(lambda pair: log_ratio(t.target, now, pair)[0])(jnp.asarray(pairs_of(t)))

    return of_state


def pairs_of(t):
    return np.array([(i, j) for i in range(t.target.n_obs) for j in range(i)], np.int32)


def singles_matrix(t, laws):
    """Product over the people of their transition matrices."""
    P = np.eye(len(t.labels))
    for i in range(t.target.n_obs):
        one = np.zeros_like(P)
        for s, label in enumerate(t.labels):
            for k, probability in enumerate(laws[s, i]):
                put(t, one, s, [*label[:i], k, *label[i + 1 :]], probability)
        P = P @ one
    return P


def swap_matrices(t, ratios):
    """The transition matrix of every pair of people."""
    chances = np.exp(np.minimum(ratios, 0))
    for at, (i, j) in enumerate(pairs_of(t)):
        P = np.zeros((len(t.labels),) * 2)
        for s, label in enumerate(t.labels):
            swapped = label.copy()
            swapped[[i, j]] = label[[j, i]]
            put(t, P, s, swapped, chances[s, at])
            P[s, s] += 1 - chances[s, at]
        yield P


@pytest.mark.parametrize(("case", "loss"), EVERY)
def test_the_density_is_that_of_the_observations_and_singles_and_swaps_are_exact(case, loss):
    t, pi, (density, singles, swaps) = tiny(case, loss), law(tiny(case, loss), loss), told_of(case, loss)
    np.testing.assert_allclose(normalise(density), pi, atol=1e-12)
    assert 3 < len(t.labels) < t.target.n_clusters ** len(t.X)
    assert invariance_error(pi, singles_matrix(t, singles)) < TOLERANCE
    assert max(invariance_error(pi, P) for P in swap_matrices(t, swaps)) < TOLERANCE


def test_a_single_that_ignores_the_other_groups_leaves_the_space():
    t = tiny("three groups")

    class OwnGroupAlone:
        def satisfied(self, counts):
            own = t.target.constraint
            others = jnp.round(own.sizes / own.n_obs * counts.sum(-1, keepdims=True)).astype(counts.dtype)
            return own.satisfied(others.at[..., 0].set(counts[..., 0])) | own.satisfied(counts)

    def ignorant(target, state, i):
        return in_turn.single_law(replace(target, constraint=OwnGroupAlone()), state, i)

    with pytest.raises(AssertionError):
        singles_matrix(t, all_states(t, single_laws(t, ignorant)))


def test_a_single_that_ignores_sizes_leaves_the_space():
    t = tiny("sizes that do not divide, of 3 or 4")

    def ignorant(target, state, i):
        return in_turn.single_law(replace(target, constraint=target.constraint.balance), state, i)

    with pytest.raises(AssertionError):
        singles_matrix(t, all_states(t, single_laws(t, ignorant)))


def test_a_swap_between_groups_leaves_the_space():
    t = tiny("2:3")

    def of_any_group(target, state, people):
        rest = in_turn.take_out(target, in_turn.take_out(target, state, people[0]), people[1])
        now = state.label[people]
        change = in_turn.gain_of(target, rest, people, now[::-1]) - in_turn.gain_of(target, rest, people, now)
        return jnp.where(now[0] != now[1], -state.lambdas * change, -jnp.inf), rest, now

    with pytest.raises(AssertionError):
        list(swap_matrices(t, all_states(t, swap_ratios(t, of_any_group))))


def test_pairs_are_of_one_group_and_uniform():
    t, two_of_a_group = tiny("three groups"), jax.jit(in_turn.two_of_a_group)
    uniforms = jax.random.uniform(jax.random.PRNGKey(0), (2, 60_000))
    pairs = np.asarray(two_of_a_group(t.target, *uniforms))
    group = np.asarray(t.target.group)
    assert (group[pairs[:, 0]] == group[pairs[:, 1]]).all()
    counts = np.zeros((7, 7))
    np.add.at(counts, tuple(pairs.T), 1 / len(pairs))
    np.testing.assert_allclose(counts, counts.T, atol=0.006)  # 0.07 at most, over 60,000: four standard errors
    assert (counts > 0).sum() == 2 + 2 + 6
    alone = np.asarray(two_of_a_group(tiny("a group of one").target, *uniforms))
    assert (alone[:, 0] != alone[:, 1]).all()


@pytest.mark.parametrize("case", BUNDLES)
def test_bundles_in_turn_are_exact(case):
    loss = "minkowski" if case == "attributes" else "manhattan"
    t = tiny(case, loss)
    rows = [np.flatnonzero(np.asarray(t.target.group) == g)[:n] for g, n in enumerate(BUNDLES[case])]
    pool = jnp.asarray(np.concatenate(rows))[None]

    def laws(state):
        def one(people):
            logits, shared, _ = in_turn.bundle_law(t.target, counted(t.target, state), people)
            return jax.nn.softmax(logits), shared

        return jax.vmap(one)(pool)

    told, shared = all_states(t, laws)
    assert shared.any()
    for b, people in enumerate(np.asarray(pool)):
        P = np.zeros((len(t.labels),) * 2)
        for s, label in enumerate(t.labels):
            for k, probability in enumerate(told[s, b]):
                after = label.copy()
                after[people] = k if shared[s, b] else label[people]
                put(t, P, s, after, probability)
        assert invariance_error(law(t, loss), P) < TOLERANCE


@pytest.mark.parametrize(("case", "loss"), EVERY[-2:])
def test_excursions_are_accepted_by_the_ratio_of_their_ends(case, loss):
    t = tiny(case, loss)
    keys = jax.random.split(jax.random.PRNGKey(0), 40)

    def ratios(state):
        def one(key):
            log_ratio, end, _ = in_turn.log_excursion_ratio(key, t.target, counted(t.target, state))
            return log_ratio, end.label

        return jax.vmap(one)(keys)

    told, ends = all_states(t, ratios)
    pi = np.log(law(t, loss))
    expected = np.full(told.shape, -np.inf)
    for s, of_state in enumerate(ends):
        for at, label in enumerate(of_state.tolist()):
            if tuple(label) in t.index:
                expected[s, at] = pi[t.index[tuple(label)]] - pi[s]
    np.testing.assert_allclose(told, expected, atol=1e-9)
    assert (expected > -np.inf).any()
    assert (expected == -np.inf).any()

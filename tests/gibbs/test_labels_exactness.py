"""The moves of `target="labels"` leave it invariant: transition matrices on enumerated balanced labellings.

Each family of tests comes with planted bugs that the same check must catch.
"""

from dataclasses import replace
from functools import cache
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import divergence, invariance_error, is_norm, normalise
from exact_labels import CASES, EVERY, FAST, LAMBDA, all_states, law, tiny
from tiers import tiers

from bayesfair.gibbs.labellings import CenteredLabelling, CountedLabelling
from bayesfair.gibbs.losses import cluster_means
from bayesfair.gibbs.moves import balanced_in_turn as in_turn
from bayesfair.gibbs.moves import pairs_of_clusters as paired

pytestmark = pytest.mark.usefixtures("x64")

TOLERANCE = 1e-10
CAUGHT = 1e-4
PAIRS = tiers(EVERY, FAST)
GIVEN_CENTERS = tiers(*([pair for pair in pairs if not is_norm(pair[1])] for pairs in (EVERY, FAST)))
BUNDLES = {  # members of each group
    "1:1": (1, 1),
    "1:1, three clusters": (1, 1),
    "sizes that do not divide": (1, 2),
    "three groups": (1, 1, 1),
    "three groups, weighted": (1, 1, 1),
    "at least a third": (1, 1),
    "equal shares": (1, 1),
    "attributes": (0, 1, 1, 0),
    "one group": (2,),
}
FAST_BUNDLES = "sizes that do not divide", "three groups, weighted", "equal shares", "attributes"


def counted(target, state):
    stats = target.loss.start(target.units_of(state), target.n_clusters)
    return CountedLabelling(*state, stats, target.counts(state.label))


def put(t, P, s, label, probability):
    """`probability` of going from state s to a labelling; what is not balanced must have none."""
    to = t.index.get(tuple(np.asarray(label).tolist()))
    if to is None:
        assert probability < 1e-12
    else:
        P[s, to] += probability


# The target


@pytest.mark.parametrize(("case", "loss"), PAIRS)
def test_the_loss_is_that_of_the_observations(case, loss):
    t = tiny(case, loss)
    told = all_states(t, lambda state: t.target.log_density(state, LAMBDA))
    np.testing.assert_allclose(normalise(told), law(t, loss), atol=1e-12)
    assert 3 < len(t.labels) < t.target.n_clusters ** len(t.X)


# In turn


def singles_matrix(t, single_law=in_turn.single_law):
    """Product over the people of their transition matrices."""
    n_obs = t.target.n_obs

    def laws(state):
        return jax.vmap(lambda i: jax.nn.softmax(single_law(t.target, counted(t.target, state), i)[0]))(
            jnp.arange(n_obs)
        )

    P, told = np.eye(len(t.labels)), all_states(t, laws)
    for i in range(n_obs):
        one = np.zeros_like(P)
        for s, label in enumerate(t.labels):
            for k, probability in enumerate(told[s, i]):
                put(t, one, s, [*label[:i], k, *label[i + 1 :]], probability)
        P = P @ one
    return P


@pytest.mark.parametrize(("case", "loss"), PAIRS)
def test_singles_are_exact(case, loss):
    t = tiny(case, loss)
    assert invariance_error(law(t, loss), singles_matrix(t)) < TOLERANCE


def test_a_single_that_ignores_the_other_groups_leaves_the_space():
    t = tiny("three groups")

    class OwnGroupAlone:
        def satisfied(self, counts):
            own = t.target.constraint
            others = jnp.round(own.sizes / own.n_obs * counts.sum(-1, keepdims=True)).astype(counts.dtype)
            return own.satisfied(others.at[..., 0].set(counts[..., 0])) | own.satisfied(counts)

    def ignorant(target, state, i):
        return in_turn.single_law(_with_constraint(target, OwnGroupAlone()), state, i)

    with pytest.raises(AssertionError):
        singles_matrix(t, ignorant)


def _with_constraint(target, constraint):
    class Other:
        def __getattr__(self, name):
            return constraint if name == "constraint" else getattr(target, name)

    return Other()


def swap_matrices(t, log_people_ratio=in_turn.log_people_ratio):
    """The transition matrix of every pair of people."""
    pairs = np.array([(i, j) for i in range(t.target.n_obs) for j in range(i)], np.int32)

    def ratios(state):
        return jax.vmap(lambda pair: log_people_ratio(t.target, counted(t.target, state), pair)[0])(jnp.asarray(pairs))

    told = np.exp(np.minimum(all_states(t, ratios), 0))
    for at, (i, j) in enumerate(pairs):
        P = np.zeros((len(t.labels),) * 2)
        for s, label in enumerate(t.labels):
            swapped = label.copy()
            swapped[[i, j]] = label[[j, i]]
            put(t, P, s, swapped, told[s, at])
            P[s, s] += 1 - told[s, at]
        yield P


@pytest.mark.parametrize(("case", "loss"), PAIRS)
def test_swaps_are_exact(case, loss):
    t = tiny(case, loss)
    assert max(invariance_error(law(t, loss), P) for P in swap_matrices(t)) < TOLERANCE


def test_a_swap_between_groups_leaves_the_space():
    t = tiny("2:3")

    def of_any_group(target, state, people):
        rest = in_turn.take_out(target, in_turn.take_out(target, state, people[0]), people[1])
        now = state.label[people]
        change = in_turn.gain_of(target, rest, people, now[::-1]) - in_turn.gain_of(target, rest, people, now)
        return jnp.where(now[0] != now[1], -state.lambdas * change, -jnp.inf), rest, now

    with pytest.raises(AssertionError):
        list(swap_matrices(t, of_any_group))


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


@pytest.mark.parametrize("case", tiers(BUNDLES, FAST_BUNDLES))
def test_bundles_in_turn_are_exact(case):
    loss = "minkowski" if case == "three groups" else "manhattan"
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


@pytest.mark.parametrize(("case", "loss"), PAIRS)
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


@pytest.mark.parametrize("case", CASES)
def test_excursions_link_every_labelling(case):
    """Of any length, by definition; here those of two people at a time already do, or of as many as a bundle has."""
    t = tiny(case)
    length = 4 if case == "2:3" else 2
    n_obs, n_clusters = t.target.n_obs, t.target.n_clusters
    reached, fresh = {0}, [0]
    while fresh:
        label = t.labels[fresh.pop()]
        for people in product(range(n_obs), repeat=length):
            for clusters in product(range(n_clusters), repeat=length):
                after = label.copy()
                after[list(people)] = clusters
                to = t.index.get(tuple(after.tolist()))
                if to is not None and to not in reached:
                    reached.add(to)
                    fresh.append(to)
        if len(reached) == len(t.labels):
            return
    assert len(reached) == len(t.labels)


# In pairs, given centres


def given_centers(t, loss, centers):
    """p(z | m), from the formula, for k-means; the normalisers of other losses are the package's, tested elsewhere."""
    X = t.X - t.X.mean(0) if t.target.loss.translation_invariant else t.X
    paid = np.array([[w * divergence(loss, x, center) for center in centers] for x, w in zip(X, t.weight)])
    log = np.array([-LAMBDA * paid[np.arange(len(X)), label].sum() for label in t.labels])
    if loss == "kmeans":
        sizes = np.array([np.bincount(label, t.weight, t.target.n_clusters) for label in t.labels])
        return normalise(log + 0.5 * X.shape[1] * np.log(sizes).sum(1))

    return normalise(log - log_normalizers(t))


@cache
def log_normalizers(t):
    """The package's log g of every labelling."""

    def of_state(state):
        means = cluster_means(t.target.units_of(state), t.target.n_clusters)
        return t.target.loss.log_normalizer(LAMBDA, means).sum()

    return all_states(t, of_state)


def some_centers(t):
    rng = np.random.default_rng(1)
    X = t.X - t.X.mean(0) if t.target.loss.translation_invariant else t.X
    return X[rng.choice(len(X), t.target.n_clusters, replace=False)] * 0.8 + 0.04


def in_order(t, centers, state, clusters=None, order=paired.in_order):
    clusters = jnp.arange(t.target.n_clusters)[::-1] if clusters is None else clusters
    uniforms = jnp.full((t.target.n_clusters + 1) // 2 * t.target.n_groups, 0.4)
    return order(t.target, CenteredLabelling(*state, jnp.asarray(centers)), clusters, uniforms)


def flipped(t, order, pairs, segment, side):
    """Labels of a layout with these sides."""
    a, b = pairs[segment // t.target.n_groups].T
    label = np.empty(len(order), int)
    label[order] = np.where(side, b, a)
    return label


@pytest.mark.parametrize("case", ["1:1, three clusters", "three groups", "attributes"])
def test_the_order_is_the_same_for_all_who_differ_within_pairs(case):
    t = tiny(case)
    centers = some_centers(t)

    def laid_out(state):
        now = in_order(t, centers, state)
        return now, (paired.bundles_of(t.target, now), *paired.border(t.target, now))

    layout, read = all_states(t, laid_out)
    seen = {}
    for s, label in enumerate(t.labels):
        pair = layout.segment[s] // t.target.n_groups
        who = np.empty(len(label), int)
        who[layout.order[s]] = pair
        fixed = [part[s].tolist() for part in (layout.order, layout.segment, layout.margin, *read)]
        assert seen.setdefault(tuple(who), fixed) == fixed
        assert (np.diff(layout.segment[s]) >= 0).all()
        assert (flipped(t, layout.order[s], layout.pairs[s], layout.segment[s], layout.side[s]) == label).all()
    assert len(seen) < len(t.labels)


STEPS = ((1, 0), (1, 1), (2, 1))  # of swaps by margin: how far apart partners are, and the shift


def margin_swap_matrices(t, centers, steps=STEPS, neighbours=paired.neighbours, order=paired.in_order):
    """The transition matrix of a round of each of the steps."""

    def proposals(state):
        now = in_order(t, centers, state, order=order)
        place = jnp.arange(t.target.n_obs)

        def of_step(step):
            partner = neighbours(now, place, *step)
            return partner, paired.swap_log_ratio(now, place, partner)

        return now, *jax.vmap(of_step)(jnp.asarray(steps))

    now, partners, log_ratios = all_states(t, proposals)
    log_g = log_normalizers(t) if paired.reads_who_moves(t.target) else np.zeros(len(t.labels))
    for at in range(len(steps)):
        P = np.zeros((len(t.labels),) * 2)
        for s in range(len(t.labels)):
            partner, log_ratio = partners[s, at], log_ratios[s, at]
            firsts = [p for p, q in enumerate(partner) if p < q and log_ratio[p] > -np.inf]
            for pattern in product([False, True], repeat=len(firsts)):
                side, probability = now.side[s].copy(), 1.0
                for p, swap in zip(firsts, pattern):
                    accepted = min(1.0, np.exp(log_ratio[p]))
                    probability *= accepted if swap else 1 - accepted
                    side[[p, partner[p]]] ^= swap
                label = flipped(t, now.order[s], now.pairs[s], now.segment[s], side)
                to = t.index.get(tuple(label.tolist()), s)
                kept = min(1.0, np.exp(log_g[s] - log_g[to]))
                put(t, P, s, label, probability * kept)
                P[s, s] += probability * (1 - kept)
        yield P


@pytest.mark.parametrize(("case", "loss"), GIVEN_CENTERS)
def test_swaps_by_margin_are_exact(case, loss):
    t = tiny(case, loss)
    centers = some_centers(t)
    pi = given_centers(t, loss, centers)
    for P in margin_swap_matrices(t, centers):
        assert invariance_error(pi, P) < TOLERANCE
        np.testing.assert_allclose(pi[:, None] * P, (pi[:, None] * P).T, atol=TOLERANCE)


def test_a_round_of_swaps_is_weighed_where_means_enter():
    t = tiny("1:1", "kl")
    centers, label = some_centers(t), t.labels[5]
    other = t.labels[7] if (np.bincount(t.labels[7]) == np.bincount(label)).all() else t.labels[6]

    def ratio(state):
        side = in_order(t, centers, t.state(jnp.asarray(other))).side
        return paired.log_round_ratio(t.target, in_order(t, centers, state), side).sum()

    told = all_states(t, ratio)[5]
    log_g = log_normalizers(t)
    change = log_g[t.index[tuple(label.tolist())]] - log_g[t.index[tuple(other.tolist())]]
    np.testing.assert_allclose(told, change, atol=1e-9)


def test_swaps_of_unequal_weights_that_forget_the_masses_are_caught(monkeypatch):
    t = tiny("2:3, weighted")
    centers = some_centers(t)
    pi = given_centers(t, "kmeans", centers)
    monkeypatch.setattr(paired, "reads_who_moves", lambda target: False)
    assert max(invariance_error(pi, P) for P in margin_swap_matrices(t, centers, STEPS[:2])) > CAUGHT


def test_margin_swaps_check_catches_planted_bugs():
    t = tiny("three groups")
    centers = some_centers(t)
    pi = given_centers(t, "kmeans", centers)

    def across_groups(state, place, apart, shift):
        return paired.neighbours(state._replace(segment=state.segment // t.target.n_groups), place, apart, shift)

    with pytest.raises(AssertionError):
        list(margin_swap_matrices(t, centers, [(1, 1)], neighbours=across_groups))

    def sorted_by_side(target, state, *drawn):  # looks at the labels
        now = paired.in_order(target, state, *drawn)
        order = jnp.lexsort((now.margin + 1.5 * now.side, now.segment))
        return now._replace(side=now.side[order], order=now.order[order], margin=now.margin[order])

    t = tiny("1:1")
    pi = given_centers(t, "kmeans", some_centers(t))
    matrices = margin_swap_matrices(t, some_centers(t), STEPS[:2], order=sorted_by_side)
    assert max(invariance_error(pi, P) for P in matrices) > CAUGHT


def flip_matrices(t, centers, flip_logit=paired.flip_logit):
    """The transition matrix of the person at every place; the other pairs stay."""

    def laws(state):
        now = in_order(t, centers, state)
        known = now.counts, paired.means_of(t.target, now)

        def of_place(place):
            first = now.first[:: t.target.n_groups][:-1]
            places = first.at[now.segment[place] // t.target.n_groups].set(place)
            return flip_logit(t.target, now, now.side, *known, places)[0][now.segment[place] // t.target.n_groups]

        return now, jax.vmap(of_place)(jnp.arange(t.target.n_obs, dtype=jnp.int32))

    now, logits = all_states(t, laws)
    for place in range(t.target.n_obs):
        P = np.zeros((len(t.labels),) * 2)
        for s in range(len(t.labels)):
            side = now.side[s].copy()
            side[place] ^= True
            probability = 1 / (1 + np.exp(-logits[s, place]))
            put(t, P, s, flipped(t, now.order[s], now.pairs[s], now.segment[s], side), probability)
            P[s, s] += 1 - probability
        yield P


@pytest.mark.parametrize(("case", "loss"), GIVEN_CENTERS)
def test_paired_singles_are_exact(case, loss):
    t = tiny(case, loss)
    centers = some_centers(t)
    pi = given_centers(t, loss, centers)
    matrices = list(flip_matrices(t, centers))
    assert max(invariance_error(pi, P) for P in matrices) < TOLERANCE
    moved = max((1 - np.diag(P)).max() for P in matrices)
    assert (moved > 0) == (case != "equal shares")


def test_a_paired_single_without_the_normaliser_is_caught():
    t = tiny("2:3")
    centers = some_centers(t)

    def forgetful(target, state, side, counts, means, place):
        logit, after = paired.flip_logit(target, state, side, counts, means, place)
        return logit - paired.change_of_normalizers(target, state, means, after[1]).sum(1), after

    pi = given_centers(t, "kmeans", centers)
    assert max(invariance_error(pi, P) for P in flip_matrices(t, centers, forgetful)) > CAUGHT


def bundle_matrix(t, centers, case, order=paired.in_order):
    """One round of bundles: each flips by its own law, then they are accepted one after the other."""
    target = replace(t.target, composition=BUNDLES[case])
    t, joined = replace(t, target=target), jnp.asarray(BUNDLES[case], jnp.int32)

    def proposals(state):
        now = in_order(t, centers, state, order=order)
        start = now.counts, paired.means_of(t.target, now)
        return now, start, paired.bundles_of(t.target, now), *paired.bundle_changes(t.target, now)

    def outcome(now, counts, means, pair, sign, who):
        moved = jnp.zeros((len(now.pairs), t.target.n_groups), jnp.int32).at[pair].set(sign * joined)
        gone = sign * (who[:, None] * paired.mass_and_sum(t.target, now.order)).sum(0)
        total = jnp.zeros((len(now.pairs), 3)).at[pair].set(gone)
        return paired.block_outcome(t.target, now, counts, means, moved, total)

    now, start, bundle, change, shared, in_b = all_states(t, proposals)
    compiled = jax.jit(outcome)
    P, proposed = np.zeros((len(t.labels),) * 2), 0
    for s in range(len(t.labels)):
        mine, known = jax.tree.map(lambda part: part[s], (now, start))  # noqa: B023
        branches = [(1.0, now.side[s], known)]
        for b in np.flatnonzero(shared[s]):
            proposed += 1
            who = bundle[s] == b
            pair = now.segment[s][who][0] // t.target.n_groups
            flip = 1 / (1 + np.exp(change[s, b]))
            later = []
            for probability, side, known in branches:
                log_ratio, after = compiled(mine, *known, pair, -1 if in_b[s, b] else 1, who)
                accepted = flip * min(1.0, float(np.exp(log_ratio[pair])))
                later.append((probability * (1 - accepted), side, known))
                later.append((probability * accepted, side ^ who, after))
            branches = later
        for probability, side, _ in branches:
            put(t, P, s, flipped(t, now.order[s], now.pairs[s], now.segment[s], side), probability)
    return P, proposed


BUNDLE_PAIRS = ([*((case, "kmeans") for case in cases), ("1:1", "itakura-saito")] for cases in (BUNDLES, FAST_BUNDLES))


@pytest.mark.parametrize(("case", "loss"), tiers(*BUNDLE_PAIRS))
def test_bundles_are_exact(case, loss):
    t = tiny(case, loss)
    centers = some_centers(t)
    P, proposed = bundle_matrix(t, centers, case)
    assert proposed > 0
    assert invariance_error(given_centers(t, loss, centers), P) < TOLERANCE


def test_bundles_that_look_at_labels_are_caught():
    t = tiny("equal shares")

    def sorted_by_side(target, state, *drawn):
        now = paired.in_order(target, state, *drawn)
        order = jnp.lexsort((now.margin + 1.5 * now.side, now.segment))
        return now._replace(side=now.side[order], order=now.order[order], margin=now.margin[order])

    centers = some_centers(t)
    P, _ = bundle_matrix(t, centers, "equal shares", order=sorted_by_side)
    assert invariance_error(given_centers(t, "kmeans", centers), P) > CAUGHT


def test_the_move_carries_out_what_the_laws_say():
    """`Bundles` and `PairedSingles` keep counts that are those of the labels, and stay balanced."""
    t = tiny("1:1, three clusters", "kl")
    centers = some_centers(t)

    def run(state):
        def one(key):
            now = in_order(t, centers, state)
            for place, move in enumerate((paired.MarginSwaps((0, 1)), paired.Bundles(), paired.PairedSingles(3))):
                now, _ = move(jax.random.fold_in(key, place), t.target, now)
            return paired.labels_of(now), now.counts

        return jax.vmap(one)(jax.random.split(jax.random.PRNGKey(3), 30))

    labels, counts = all_states(t, run)
    of_labels = jax.jit(jax.vmap(t.target.counts))(labels.reshape(-1, len(t.X)))
    np.testing.assert_array_equal(of_labels, counts.reshape(-1, *counts.shape[2:]))
    assert all(tuple(label) in t.index for label in labels.reshape(-1, len(t.X)).tolist())

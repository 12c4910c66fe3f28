"""Every kernel leaves its target invariant: transition matrices on enumerated posteriors, no Monte Carlo.

Each family of tests comes with planted bugs that the same check must catch.
"""

from functools import cache, partial
from itertools import combinations, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import (
    CAUGHT,
    QUICKLY,
    TEMPERATURES,
    TOLERANCE,
    all_states,
    divergence,
    invariance_error,
    joint,
    matrix_of,
    naive_augmented,
    naive_losses,
    normalise,
    some_centers,
    tiny,
    with_rest,
)

from bayesfair.gibbs.loss import Units, cluster_means, taken_out
from bayesfair.gibbs.moves import blocked, collapsed, independent_blocks, loop_steps, swaps, swaps_in_turn
from bayesfair.gibbs.moves.matchings import Pairing, draw_slots, near_pairing, phantom_slots, reflection
from bayesfair.gibbs.states import InverseTemperatures

pytestmark = pytest.mark.usefixtures("x64")

BREGMAN = ("kmeans", "kl", "itakura-saito", "binary")
EXCHANGED = InverseTemperatures(TEMPERATURES.clustering, TEMPERATURES.fairlet)
LAMBDA_C = TEMPERATURES.clustering
# A case and a loss are a program for each kernel: every kind of composition and of loss, and not their product.
THREE_GROUPS, ONE_OF_ONE = ("three groups", "kmeans"), ("unequal, a group of one, weighted", "kmeans")
NO_CENTERS, FLOOR_CEIL = ("unequal hubs, one lacks a group", "manhattan"), ("floor/ceil, weighted", "kl")
STEPPED = "floor/ceil", "minkowski"
HUBS = "two-member hubs, weighted", "itakura-saito"


def of_pairs(*pairs):
    return pytest.mark.parametrize(("case", "loss"), pairs)


# The target itself


@of_pairs(THREE_GROUPS, NO_CENTERS, HUBS, ("1:1, weighted", "minkowski"))
def test_losses_agree_with_the_double_loop_and_labels_are_the_clusters_of_the_fairlets(case, loss):
    t = tiny(case, loss)
    (fairlet, clustering), labels = all_states(
        t, lambda state: (t.target.losses(t.target.open(state)), t.target.labels(state))
    )
    expected = naive_losses(t, loss)
    # Centring changes no loss: the oracle sees the data as they came.
    np.testing.assert_allclose(fairlet, expected[0], atol=1e-10)
    np.testing.assert_allclose(clustering, expected[1], atol=1e-10)
    np.testing.assert_array_equal(labels, np.take_along_axis(t.clusters, t.fairlets, 1))


# Collapsed reallocation


def collapsed_matrix(t, unit_law=collapsed.unit_law):
    """Product over the units of their one-unit transition matrices."""
    target, n_states = t.target, len(t.fairlets)

    def law(state):
        units = target.units_of(target.open(state))
        count = jnp.zeros(target.n_clusters, int).at[units.cluster].add(1)

        def of_unit(i):
            unit = i, units.center[i], units.weight[i]
            stats = target.loss.remove(target.loss.start(units, target.n_clusters), *unit, units.cluster[i])
            return jax.nn.softmax(unit_law(target, stats, count, unit, units.cluster[i], LAMBDA_C))

        return jax.vmap(of_unit)(jnp.arange(target.n_fairlets))

    P, laws = np.eye(n_states), all_states(t, law)
    for i in range(target.n_fairlets):
        one = np.zeros((n_states, n_states))
        for s, k in zip(*np.nonzero(laws[:, i])):
            cluster = t.clusters[s].copy()
            cluster[i] = k
            one[s, t.state_of(t.members[s], cluster)] += laws[s, i, k]
        P = P @ one
    return P


@cache
def collapsed_kernel(case, loss):
    return collapsed_matrix(tiny(case, loss))


@of_pairs(ONE_OF_ONE, NO_CENTERS, FLOOR_CEIL)
def test_collapsed_reallocation_is_exact(case, loss):
    assert invariance_error(joint(tiny(case, loss), loss), collapsed_kernel(case, loss)) < TOLERANCE


def test_collapsed_check_catches_planted_bugs():
    t, (case, loss) = tiny(*ONE_OF_ONE), ONE_OF_ONE
    assert invariance_error(joint(t, loss, EXCHANGED), collapsed_kernel(case, loss)) > CAUGHT

    def without_weights(target, stats, count, unit, old, temperature):
        return collapsed.unit_law(target, stats, count, (*unit[:2], jnp.ones_like(unit[2])), old, temperature)

    assert invariance_error(joint(t, loss), collapsed_matrix(t, without_weights)) > CAUGHT


# The augmentation: conjugate centres


@partial(jax.jit, static_argnums=0)
def told_of(kind, units, temperature, coordinates):
    """Losses and log g of one cluster; centres at their coordinates, and the log density of mu there."""
    g = kind.log_normalizer(temperature, cluster_means(units, 1))
    return kind.cluster_losses(units, 1), g, kind.centers_at(coordinates), jax.vmap(kind.log_measure)(coordinates)


@pytest.mark.parametrize("loss", BREGMAN)
def test_normaliser_is_the_integral_it_claims_to_be(loss):
    """integral of exp(-lambda sum_i w_i d(u_i, m)) mu(dm) = g exp(-lambda L), in the coordinates that jumps move in: one
    dimension, by the trapezoidal rule, which is exact for smooth functions that vanish."""
    rng = np.random.default_rng(3)
    kind = tiny("1:1", loss).target.loss
    u, w, temperature = rng.uniform(0.2, 0.8, (5, 1)), rng.uniform(0.5, 2, 5), 1.3
    grid = np.linspace(-15, 15, 2_001)
    told = told_of(kind, Units(u, w, np.zeros(5, int)), temperature, grid[:, None])
    (value,), (log_g,), centers, log_measure = map(np.asarray, told)
    energy = np.array([sum(wi * divergence(loss, ui, m) for ui, wi in zip(u, w)) for m in centers])
    integral = np.exp(log_measure - temperature * energy).sum() * (grid[1] - grid[0])
    np.testing.assert_allclose(np.exp(log_g - temperature * value), integral, rtol=1e-8)


@partial(jax.jit, static_argnums=0, compiler_options=QUICKLY)
def drawn_centers(kind, keys, unit):
    means = cluster_means(unit, 1)
    return jax.vmap(lambda key: kind.draw_centers(key, 1.3, means))(keys)


@pytest.mark.parametrize("loss", BREGMAN)
def test_centers_are_drawn_from_the_law_of_the_augmentation(loss):
    """Kolmogorov-Smirnov against the quadrature of exp(-lambda W d(ubar, m)) mu(m); fails once in 10,000 by chance."""
    from scipy.stats import kstest

    kind = tiny("1:1", loss).target.loss
    unit = Units(np.full((1, 1), 0.4), np.full(1, 2.5), np.zeros(1, int))
    drawn = np.asarray(drawn_centers(kind, jax.random.split(jax.random.PRNGKey(1), 4000), unit))[:, 0, 0]
    power = {"kmeans": 0.0, "kl": -0.5, "itakura-saito": -1.0, "binary": -0.5}[loss]
    grid = np.linspace(
        *((-4, 5) if loss == "kmeans" else (1e-6, 1 - 1e-6) if loss == "binary" else (1e-6, 60)), 400_001
    )
    log = -1.3 * 2.5 * kind.divergence(np.full((1, 1), 0.4), grid[:, None])
    if loss != "kmeans":
        log += power * np.log(grid)
    if loss == "binary":
        log += power * np.log1p(-grid)
    cdf = np.cumsum(np.exp(log))
    assert kstest(drawn, lambda m: np.interp(m, grid, cdf / cdf[-1])).pvalue > 1e-4


# Blocked reallocation


@cache
def block_laws(case, loss):
    """(log probability that a choice is proposed, log ratio that accepts it), (states, blocks, choices), given the centres, for
    each of two blocks: all fairlets, and every other one."""
    t = tiny(case, loss)
    target, m, centers = t.target, t.target.n_fairlets, some_centers(t)
    blocks = jnp.array([np.ones(m, bool), np.arange(m) % 2 == 0])

    def law(state):
        units = target.units_of(target.open(state))
        log_proposal = jax.nn.log_softmax(blocked.proposal_logits(target, units, centers, LAMBDA_C))

        def one(block, choice):  # which all others keep to, or it is none
            proposed = jnp.where(block, log_proposal[jnp.arange(m), choice], 0.0).sum()
            kept = (block | (choice == units.cluster)).all()
            ratio = blocked.log_block_ratio(target, units, units._replace(cluster=choice), LAMBDA_C)
            return jnp.where(kept, proposed, -jnp.inf), ratio

        every = jnp.array(choices_of(t, m), dtype=units.cluster.dtype)
        return jax.vmap(lambda block: jax.vmap(partial(one, block))(every))(blocks)

    return all_states(t, law)


def choices_of(t, size):
    return list(product(range(t.target.n_clusters), repeat=size))


def blocked_matrices(case, loss, right=lambda ratio: ratio):
    t = tiny(case, loss)
    proposed, ratio = block_laws(case, loss)
    laws, every = np.exp(proposed + np.minimum(right(ratio), 0)), range(t.target.n_fairlets)
    return [_moves_of_block(t, every, laws[:, i]) for i in range(2)]


def _moves_of_block(t, block, probabilities):
    P, choices = np.zeros((len(t.fairlets),) * 2), choices_of(t, len(block))
    for s, row in enumerate(probabilities):
        for choice, probability in zip(choices, row):
            cluster = t.clusters[s].copy()
            cluster[list(block)] = choice
            if len(set(cluster.tolist())) == t.target.n_clusters:
                P[s, t.state_of(t.members[s], cluster)] += probability
            else:
                assert probability == 0
    return with_rest(P)


@of_pairs(ONE_OF_ONE, FLOOR_CEIL)
def test_blocked_reallocation_is_exact_given_the_centers_and_a_missing_normaliser_is_caught(case, loss):
    t = tiny(case, loss)
    pi, wrong = (naive_augmented(t, loss, some_centers(t), at) for at in (TEMPERATURES, EXCHANGED))
    kernels = blocked_matrices(case, loss)
    assert max(invariance_error(pi, P) for P in kernels) < TOLERANCE
    assert invariance_error(wrong, kernels[0]) > CAUGHT
    bug = blocked_matrices(case, loss, lambda ratio: np.where(ratio > -np.inf, 0, ratio))  # (W' / W)^{d/2} forgotten
    assert invariance_error(pi, bug[0]) > CAUGHT


def test_blocks_decide_in_turn_each_by_what_those_before_have_changed():
    """What `blocked_matrices` shows of one block holds of all: the ratio of each is that from scratch."""
    t = tiny("floor/ceil")
    target, centers, n_blocks = t.target, some_centers(t), 3
    units = jax.tree.map(lambda part: part[0], all_states(t, lambda state: target.units_of(target.open(state))))
    block, ratio = np.arange(target.n_fairlets) % n_blocks, jax.jit(partial(blocked.log_block_ratio, target))

    @partial(jax.jit, static_argnums=1)
    def together(key, backwards):
        move = blocked.BlockedReallocation(n_blocks, backwards)
        return blocked.decide_blocks(key, target, units, centers, LAMBDA_C, move)

    @jax.jit
    def drawn(key):
        key_proposal, key_accept = jax.random.split(key)
        logits = blocked.proposal_logits(target, units, centers, LAMBDA_C)
        uniforms = jax.random.uniform(key_proposal, (target.n_fairlets,), units.center.dtype)
        proposed = blocked.draw_cluster(uniforms, logits).astype(units.cluster.dtype)
        return proposed, jnp.log(jax.random.uniform(key_accept, (n_blocks,), units.center.dtype))

    for backwards in (False, True):
        n_taken = 0
        for seed in range(30):
            key = jax.random.PRNGKey(seed)
            (proposed, log_uniforms), now, taken = map(np.asarray, drawn(key)), units, 0
            for b in range(n_blocks)[:: -1 if backwards else 1]:
                new = now._replace(cluster=np.where(block == b, proposed, now.cluster))
                if log_uniforms[b] < ratio(now, new, LAMBDA_C):
                    now, taken = new, taken + 1
            cluster, accepted = together(key, backwards)
            np.testing.assert_array_equal(cluster, now.cluster)
            assert accepted == pytest.approx(taken / n_blocks)
            n_taken += taken
        assert 0 < n_taken < 30 * n_blocks  # both happen


def independent_laws(t, blocks):
    """(log proposals, log ratios, what of these the proposals are), (states, blocks, choices), of blocks of one length."""
    target, place = t.target, jnp.arange(len(blocks[0]))

    def law(state):
        units = target.units_of(target.open(state))

        def of_block(block):
            own, stats = independent_blocks.of_block(units, block), target.loss.start(units, target.n_clusters)
            rest = taken_out(target.loss, stats, block, own)
            logits = independent_blocks.independent_logits(target, rest, units, block, LAMBDA_C)

            def one(choice):
                rule = target, rest, units, block, choice, logits, LAMBDA_C
                now, proposed = (logits[place, cluster].sum() for cluster in (units.cluster[block], choice))
                return proposed, independent_blocks.log_independence_ratio(*rule), now - proposed

            return jax.vmap(one)(jnp.array(choices_of(t, len(blocks[0])), dtype=units.cluster.dtype))

        return jax.vmap(of_block)(jnp.array(blocks))

    return all_states(t, law)


def test_independent_blocks_are_exact_without_centres_and_a_missing_proposal_ratio_is_caught():
    t, pi = tiny(*NO_CENTERS), joint(tiny(*NO_CENTERS), "manhattan")
    blocks = [(0, 1), (t.target.n_fairlets - 1, 0)]
    proposed, ratio, proposals = independent_laws(t, blocks)
    for i, block in enumerate(blocks):
        right, wrong = (np.exp(proposed + np.minimum(part, 0))[:, i] for part in (ratio, ratio - proposals))
        assert invariance_error(pi, _moves_of_block(t, block, right)) < TOLERANCE
        assert invariance_error(pi, _moves_of_block(t, block, wrong)) > CAUGHT


# Swaps


def swap_laws(t, centers, pairings):
    """(tables, probabilities, log ratios of the round), (states, pairings, outcomes, ...); `pairings(fairlets)` gives arrays
    (pairings, fairlets) of partners and slots."""
    target, own = t.target, np.arange(t.target.n_fairlets)

    def law(state):
        now = t.opened(state, centers)

        def one(pairing):
            proposal = swaps.propose(target, now, pairing, target.swap_energies)

            def outcome(accepts):  # a bit for every fairlet; the pair listens to its first one
                accepted = proposal.moves & accepts[jnp.minimum(own, pairing.partner)]
                after = now._replace(fairlets=swaps.keep(accepted, proposal.fairlets, now.fairlets))
                chance = jnp.exp(jnp.minimum(proposal.log_ratio, 0.0))
                each = jnp.where(accepts, chance, 1 - chance)
                first = proposal.moves & (own < pairing.partner)
                probability = jnp.where(first, each, 1.0).prod()
                heard = (first | ~accepts).all()  # bits that nobody listens to are False: every outcome counts once
                return after.fairlets.members, jnp.where(heard, probability, 0.0), target.log_round_ratio(now, after)

            return jax.vmap(outcome)(jnp.array(list(product([False, True], repeat=len(own)))))

        return jax.vmap(one)(pairings(now.fairlets))

    return all_states(t, law)


def swap_matrix(t, laws, which=slice(None), right=lambda ratio: ratio):
    """The mixture over some of the pairings, equally likely."""
    members, probabilities, ratio = (part[:, which] for part in laws)
    probabilities = probabilities * np.exp(np.minimum(right(ratio), 0)) / probabilities.shape[1]
    return matrix_of(t, members, t.clusters[:, None, None], probabilities)


def uniform_slots(t, partners, exchange=False, capacity=None):
    """All choices of a slot per fairlet within each group that swaps, for each of the partners; which partners each choice has.

    `capacity` (fairlets, groups): how many slots a fairlet chooses from, by default those of `draw_slots`.
    """
    target, group_of = t.target, np.array(t.target.slot_group)
    capacity = np.asarray(target.upper) if capacity is None else capacity
    choices = [
        (number, slots, group)
        for group in sorted({int(group_of[slot]) for slot in target.swap_slots})  # any fixed law of the group will do
        for number in range(len(partners))
        for slots in product(*(np.flatnonzero(group_of == group)[: max(n, 1)] for n in capacity[:, group]))
    ]
    number, slot, group_index = (np.array(column) for column in zip(*choices))

    def pairings(fairlets):
        if not exchange:
            return Pairing(np.array(partners)[number], slot)
        offered = jax.vmap(lambda g, s: phantom_slots(target, g, fairlets, s))(group_index, slot)
        return Pairing(np.array(partners)[number], offered)

    return pairings, number


@pytest.mark.parametrize("case", ["floor/ceil hubs", "unequal hubs, one lacks a group"])
def test_slots_are_offered_uniformly_up_to_the_capacity_of_each_fairlet(case):
    """Against the choices that `uniform_slots` enumerates, 2,000 draws: chi-squared, fails once in 10,000 by chance."""
    from scipy.stats import chisquare

    t = tiny(case)
    group = t.target.slot_group[t.target.swap_slots[-1]]
    slots = np.flatnonzero(np.array(t.target.slot_group) == group)
    uniforms = jax.random.uniform(jax.random.PRNGKey(0), (2000, t.target.n_fairlets))
    drawn = np.asarray(jax.jit(jax.vmap(lambda one: draw_slots(one, t.target, group)))(uniforms))
    for offered, capacity in zip(drawn.T, t.capacities.upper[:, group]):
        count = (offered[:, None] == slots).sum(0)
        expected = np.zeros(len(slots))
        expected[: max(capacity, 1)] = len(drawn) / max(capacity, 1)
        np.testing.assert_array_equal(count[expected == 0], 0)
        if capacity > 1:
            assert chisquare(count[expected > 0], expected[expected > 0]).pvalue > 1e-5


def reflections(t):
    m = t.target.n_fairlets
    return [np.asarray(reflection(m, shift)) for shift in range(m)]


@of_pairs(THREE_GROUPS, ONE_OF_ONE, FLOOR_CEIL)
def test_parallel_swaps_are_exact_given_the_centers(case, loss):
    """With partners drawn at random, and with those near to each other where fairlets have anchors."""
    t = tiny(case, loss)
    near = [] if t.target.anchor is None else [np.asarray(t.target.matchings[0])]
    pairings, number = uniform_slots(t, reflections(t) + near)
    laws = swap_laws(t, some_centers(t), pairings)
    pi, wrong = (naive_augmented(t, loss, some_centers(t), at) for at in (TEMPERATURES, EXCHANGED))
    P = swap_matrix(t, laws, number < t.target.n_fairlets)
    assert invariance_error(pi, P) < TOLERANCE
    assert invariance_error(wrong, P) > CAUGHT
    assert np.count_nonzero(P) > len(P)  # and it does move
    if near:
        assert invariance_error(pi, swap_matrix(t, laws, number == t.target.n_fairlets)) < TOLERANCE
    if (t.weight != 1).any():  # clusters change their weight: the factor of the normaliser counts
        assert invariance_error(pi, swap_matrix(t, laws, right=np.zeros_like)) > CAUGHT


@pytest.mark.parametrize("case", ["floor/ceil", "floor/ceil hubs"])
def test_exchange_of_extras_is_exact_given_the_centers(case):
    t = tiny(case)
    laws = swap_laws(t, some_centers(t), uniform_slots(t, reflections(t), exchange=True)[0])
    assert invariance_error(naive_augmented(t, "kmeans", some_centers(t)), swap_matrix(t, laws)) < TOLERANCE


@pytest.mark.parametrize("case", ["floor/ceil hubs", "unequal hubs, one lacks a group"])
def test_near_swaps_of_observations_are_exact(case):
    """Each draw of the priorities is a kernel of its own that leaves the target invariant."""
    t = tiny(case)
    pi = naive_augmented(t, "kmeans", some_centers(t))
    priorities = np.random.default_rng(0).random((6, len(t.X)))

    def pairings(fairlets):
        return jax.vmap(lambda one: near_pairing(one, t.target, fairlets, t.target.matchings[0]))(priorities)

    laws = swap_laws(t, some_centers(t), pairings)
    kernels = [swap_matrix(t, laws, [i]) for i in range(6)]
    assert max(invariance_error(pi, P) for P in kernels) < TOLERANCE
    assert sum(np.count_nonzero(P) - len(P) for P in kernels) > 0


def test_swaps_under_the_cut_see_the_fairlet_loss_alone():
    t = tiny("floor/ceil hubs", "kl", name="cut")
    P = swap_matrix(t, swap_laws(t, None, uniform_slots(t, reflections(t))[0]))
    assert invariance_error(cut(t, "kl"), P) < TOLERANCE
    assert invariance_error(joint(t, "kl"), P) > CAUGHT


def cut(t, loss):
    return normalise(-TEMPERATURES.fairlet * naive_losses(t, loss)[0])


def test_swaps_that_break_a_fixed_composition_are_caught(monkeypatch):
    """The guarantee rests on `fits`: with slots that only another fairlet may fill and no check, fairlets change size."""
    t = tiny("unequal, one alone")
    width = np.broadcast_to(t.capacities.upper.max(0), t.capacities.upper.shape)
    wide, _ = uniform_slots(t, reflections(t), capacity=width)
    P = swap_matrix(t, swap_laws(t, some_centers(t), wide))
    assert invariance_error(naive_augmented(t, "kmeans", some_centers(t)), P) < TOLERANCE
    monkeypatch.setattr(swaps, "fits", lambda target, fairlets: jnp.ones(len(fairlets.members), bool))
    with pytest.raises(KeyError):  # a state outside the support
        swap_matrix(t, swap_laws(t, some_centers(t), wide))


def swapped_pairs(t, pairs):
    """(tables, log ratios) of all swaps in all states; those that would leave a fairlet empty, which has NaN, stay."""
    target = t.target

    def law(state):
        now = t.opened(state)
        stats = target.loss.start(target.units(now.fairlets, now.cluster), target.n_clusters)

        def one(pair):
            two = jax.tree.map(lambda part: part[pair.fairlets], now.fairlets)
            two = now._replace(fairlets=two, cluster=now.cluster[pair.fairlets])
            rest = taken_out(target.loss, stats, pair.fairlets, target.units(two.fairlets, two.cluster))
            log_ratio, swapped = swaps_in_turn.log_swap_ratio(target, rest, two, pair)
            after = jax.tree.map(lambda all_, part: all_.at[pair.fairlets].set(part), now.fairlets, swapped)
            return after.members, jnp.where(jnp.isnan(log_ratio), -jnp.inf, log_ratio)

        return jax.vmap(one)(pairs)

    return all_states(t, law)


def loop_matrix(t):
    """The sequential kernel: a random pair of fairlets, random slots of a random group."""
    group_of = np.array(t.target.slot_group)
    choices = [
        (pair, (p, q))
        for pair in combinations(range(t.target.n_fairlets), 2)
        for p, q in product(t.target.swap_slots, repeat=2)
        if group_of[p] == group_of[q]
    ]
    members, log_ratio = swapped_pairs(t, swaps_in_turn.Pair(*map(np.array, zip(*choices))))
    return matrix_of(t, members, t.clusters[:, None], np.exp(np.minimum(log_ratio, 0.0)) / len(choices))


@cache
def loop_kernel(case, loss):
    return loop_matrix(tiny(case, loss))


@of_pairs(ONE_OF_ONE, NO_CENTERS, FLOOR_CEIL)
def test_one_swap_at_a_time_is_exact_for_every_loss(case, loss):
    t = tiny(case, loss)
    assert invariance_error(joint(t, loss), loop_kernel(case, loss)) < TOLERANCE
    assert invariance_error(joint(t, loss, EXCHANGED), loop_kernel(case, loss)) > CAUGHT


def test_loop_check_catches_the_weights_that_are_printed():
    """exp(-lambda_f l_ij) alone: the clustering loss is left out of the ratio."""
    t = tiny("floor/ceil", "manhattan", name="cut")
    P = loop_matrix(t)
    assert invariance_error(cut(t, "manhattan"), P) < TOLERANCE
    assert invariance_error(joint(t, "manhattan"), P) > CAUGHT


# The rectangular loop, step by step


@cache
def steps_of(t):
    """(tables after each choice of `LoopSteps`, log ratios, the choices' probabilities), (states, choices, ...)."""
    target, groups = t.target, np.array(t.target.slot_group)
    m, n_slots = target.n_fairlets, len(target.swap_slots)
    counts = [(m, m, m - 1, n_slots, (groups == groups[slot]).sum()) for slot in target.swap_slots]
    choices = np.array(
        [
            [*(np.array([i1, one, other, place, there]) + 0.5) / count, 1 / np.prod(count)]
            for place, count in enumerate(counts)
            for i1, one, other, there in product(*map(range, (*count[:3], count[4])))
        ]
    )
    board, pairs = jax.jit(loop_steps.rectangles)(target, choices[:, :-1])
    which = np.flatnonzero(board)
    pairs = jax.tree.map(lambda part: np.asarray(part)[which], pairs)
    return *swapped_pairs(t, pairs), choices[which, -1]


def step_matrix(t, chance=loop_steps.log_chance):
    """One step, by all of its choices."""
    members, log_ratio, probability = steps_of(t)
    return matrix_of(t, members, t.clusters[:, None], np.exp(np.asarray(chance(log_ratio))) * probability)


def published_step(t, pi, second=lambda H, i1, j1: [(i2, j2) for i2 in ones(H[:, j1]) for j2 in ones(~H[i2])]):
    """Algorithm 1 by hand, cell by cell on the matrices of the groups; empty slots are columns too."""
    target, P = t.target, np.zeros((len(t.fairlets),) * 2)
    for s, table in enumerate(t.members):
        for group in {target.slot_group[slot] for slot in target.swap_slots}:
            slots = [slot for slot in target.swap_slots if target.slot_group[slot] == group]
            places = list(product(range(len(table)), slots))
            H = np.array([[i == place[0] for place in places] for i in range(len(table))])
            for i1, j1 in np.ndindex(H.shape):
                first = [(i2, j2) for j2 in ones(~H[i1]) for i2 in ones(H[:, j2])]
                ends = first if H[i1, j1] else second(H, i1, j1)
                for i2, j2 in ends:
                    after = table.copy()
                    a, b = places[j1], places[j2]
                    after[a], after[b] = table[b], table[a]
                    board = H[i1, j1] == H[i2, j2] != H[i1, j2] == H[i2, j1]
                    s2 = t.index.get(t.key(after, t.clusters[s])) if board else None
                    if s2 not in (None, s):
                        chance = len(slots) / len(target.swap_slots) / H.size / len(ends)
                        P[s, s2] += chance * pi[s2] / (pi[s] + pi[s2])
    return with_rest(P)


def ones(line):
    return np.flatnonzero(line).tolist()


@of_pairs(THREE_GROUPS, STEPPED)
def test_steps_of_the_loop_are_those_published_and_exact_for_the_joint_target(case, loss):
    t = tiny(case, loss)
    pi, P = joint(t, loss), step_matrix(t)
    assert invariance_error(pi, P) < TOLERANCE
    assert invariance_error(joint(t, loss, EXCHANGED), P) > CAUGHT
    np.testing.assert_allclose(P, published_step(t, pi), atol=TOLERANCE)
    assert np.count_nonzero(P) > len(P)


def test_step_check_catches_planted_bugs():
    t = tiny(*STEPPED)
    pi, P = joint(t, "minkowski"), step_matrix(t)
    assert invariance_error(pi, step_matrix(t, chance=lambda log_ratio: jnp.minimum(log_ratio / 2, 0.0))) > CAUGHT
    metropolis = step_matrix(t, chance=lambda log_ratio: jnp.minimum(log_ratio, 0.0))
    assert invariance_error(pi, metropolis) < TOLERANCE
    assert np.abs(P - metropolis).max() > CAUGHT  # of the same law, and not what was published

    def always_a_board(H, i1, j1):
        return [(i2, j2) for j2 in ones(H[i1]) for i2 in ones(H[:, j1])]

    assert np.abs(P - published_step(t, pi, always_a_board)).max() > CAUGHT


@of_pairs(ONE_OF_ONE, NO_CENTERS, FLOOR_CEIL)
def test_swaps_and_reallocation_together_reach_every_state(case, loss):
    P = (loop_kernel(case, loss) + collapsed_kernel(case, loss)) / 2
    assert (np.linalg.matrix_power(P, 64) > 0).all()

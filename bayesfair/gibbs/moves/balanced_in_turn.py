"""Moves of balanced labellings one after the other, each by its exact ratio: for any loss.

They take rows out, ask the loss for the cost of other clusters, and put the rows back. Rows are drawn without looking
at the labelling.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from bayesfair._draws import Statistic
from bayesfair.gibbs.capabilities import HasLabels
from bayesfair.gibbs.labellings import CountedLabelling, Labelling
from bayesfair.gibbs.loss import Units, put_back
from bayesfair.gibbs.moves.collapsed import conditional, draw_cluster
from bayesfair.gibbs.sweep import in_turn


@dataclass(frozen=True)
class Counted:
    """Runs moves with the loss's statistics and the counts at hand."""

    moves: tuple

    def __call__(self, key, target: HasLabels, state: Labelling):
        stats = target.loss.start(target.units_of(state), target.n_clusters)
        counted = CountedLabelling(state.label, state.lambdas, stats, target.counts(state.label))
        inside, stats = in_turn(key, target, counted, self.moves)
        return Labelling(inside.label, inside.lambdas), stats


def take_out(target: HasLabels, state: CountedLabelling, i):
    """The state without row i, whose entry in `label` stays."""
    cluster, unit = state.label[i], target.unit(i)
    stats = target.loss.remove(state.stats, *unit, cluster)
    return state._replace(stats=stats, counts=state.counts.at[cluster, target.group[i]].add(-1))


def put_in(target: HasLabels, state: CountedLabelling, i, cluster):
    """The state with row i, which was taken out, put into a cluster."""
    stats = target.loss.insert(state.stats, *target.unit(i), cluster)
    counts = state.counts.at[cluster, target.group[i]].add(1)
    return state._replace(label=state.label.at[i].set(cluster), stats=stats, counts=counts)


def gain_of(target: HasLabels, state: CountedLabelling, people, clusters):
    """The increase of the loss when rows (`people`) that were taken out join the clusters."""
    numbers, *own = jax.vmap(target.unit)(people)
    return put_back(target.loss, state.stats, numbers, Units(*own, clusters), target.n_clusters, unroll=True)[1]


@dataclass(frozen=True)
class Singles:
    """`times` consecutive rows from a random one on, each drawn from its law given all others."""

    times: int

    statistics = {"reallocation_rate": Statistic("figure")}  # noqa: RUF012

    def __call__(self, key, target: HasLabels, state: CountedLabelling):
        uniforms = jax.random.uniform(key, (self.times + 1,), target.x.dtype)
        first = (uniforms[-1] * target.n_obs).astype(jnp.int32)
        people = (first + jnp.arange(self.times)) % target.n_obs

        def step(state, inputs):
            i, uniform = inputs
            old = state.label[i]
            logits, rest = single_law(target, state, i)
            new = draw_cluster(uniform, logits).astype(old.dtype)
            return put_in(target, rest, i, new), new != old

        state, moved = jax.lax.scan(step, state, (people, uniforms[:-1]))
        return state, {"reallocation_rate": moved.mean(dtype=target.x.dtype)}


def single_law(target: HasLabels, state: CountedLabelling, i):
    """(log of the law of row i given the others, unnormalised; the state without it)."""
    old, group, n_clusters = state.label[i], target.group[i], target.n_clusters
    rest = take_out(target, state, i)
    balanced = target.constraint.satisfied
    may_leave = balanced(rest.counts)[old]
    may_join = balanced(rest.counts.at[:, group].add(1))
    logits = conditional(target, rest.stats, target.unit(i), state.lambdas)
    stays = jnp.arange(n_clusters) == old
    return jnp.where(stays | (may_leave & may_join), logits, -jnp.inf), rest


@dataclass(frozen=True)
class SwapsOfPeople:
    """`times` random pairs of rows of one group exchange clusters."""

    times: int

    statistics = {"swap_rate": Statistic("figure")}  # noqa: RUF012

    def __call__(self, key, target: HasLabels, state: CountedLabelling):
        *drawn, uniforms = jax.random.uniform(key, (3, self.times), target.x.dtype)
        people = two_of_a_group(target, *drawn)

        def step(state, inputs):
            people, uniform = inputs
            log_ratio, rest, now = log_people_ratio(target, state, people)
            accepted = jnp.log(uniform) < log_ratio
            clusters = jnp.where(accepted, now[::-1], now)
            for at in (0, 1):
                rest = put_in(target, rest, people[at], clusters[at])
            return rest, (accepted, log_ratio > -jnp.inf)

        state, (accepted, possible) = jax.lax.scan(step, state, (people, uniforms))
        return state, {"swap_rate": accepted.sum(dtype=target.x.dtype) / jnp.maximum(possible.sum(), 1)}


def two_of_a_group(target: HasLabels, one, other):
    """Pairs of rows (pairs, 2) from two uniform numbers: any row and another of its group, or any row if it has no other."""
    place = (one * target.n_obs).astype(jnp.int32)
    group = target.group[target.by_group[place]]
    first, size = target.first_of_group[group], jnp.diff(target.first_of_group)[group]
    steps = 1 + jnp.clip((other * (size - 1)).astype(jnp.int32), 0, jnp.maximum(size - 2, 0))
    mate = jnp.where(size == 1, (place + 1) % target.n_obs, first + (place - first + steps) % size)
    return target.by_group[jnp.stack([place, mate], 1)]


def log_people_ratio(target: HasLabels, state: CountedLabelling, people):
    """(log ratio of two rows exchanging clusters, the state without them, their clusters)."""
    now = state.label[people]
    rest = take_out(target, take_out(target, state, people[0]), people[1])
    change = gain_of(target, rest, people, now[::-1]) - gain_of(target, rest, people, now)
    able = (now[0] != now[1]) & (target.group[people[0]] == target.group[people[1]])
    return jnp.where(able, -state.lambdas * change, -jnp.inf), rest, now


@dataclass(frozen=True)
class BundlesOfPeople:
    """The bundles of one pool of the target's in turn: rows of every group, if they share a cluster, move together."""

    statistics = {"bundle_rate": Statistic("figure")}  # noqa: RUF012

    def __call__(self, key, target: HasLabels, state: CountedLabelling):
        n_pools, n_bundles, _ = target.bundles.shape
        uniforms = jax.random.uniform(key, (n_bundles + 1,), target.x.dtype)
        pool = target.bundles[(uniforms[-1] * n_pools).astype(jnp.int32)]

        def step(state, inputs):
            people, uniform = inputs
            now = state.label[people]
            logits, shared, state = bundle_law(target, state, people)
            new = draw_cluster(uniform, logits).astype(now.dtype)
            for j in range(people.shape[0]):
                state = put_in(target, state, people[j], jnp.where(shared, new, now[j]))
            return state, (shared & (new != now[0]), shared)

        state, (moved, shared) = jax.lax.scan(step, state, (pool, uniforms[:-1]))
        return state, {"bundle_rate": moved.sum(dtype=target.x.dtype) / jnp.maximum(shared.sum(), 1)}


def bundle_law(target: HasLabels, state: CountedLabelling, people):
    """(unnormalised log law of a bundle's cluster given all other rows, is it shared?, the state without the bundle)."""
    old = state.label[people[0]]
    shared = (state.label[people] == old).all()
    rest = state
    for j in range(people.shape[0]):
        rest = take_out(target, rest, people[j])
    clusters = jnp.arange(target.n_clusters, dtype=state.label.dtype)
    gains = jax.vmap(lambda k: gain_of(target, rest, people, jnp.broadcast_to(k, people.shape)))(clusters)
    members = jnp.zeros(target.n_groups, jnp.int32).at[target.group[people]].add(1)
    balanced = target.constraint.satisfied
    allowed = balanced(rest.counts)[old] & balanced(rest.counts + members)
    return jnp.where((clusters == old) | allowed, -state.lambdas * gains, -jnp.inf), shared, rest


@dataclass(frozen=True)
class Excursions:
    """`times` excursions: rows in turn are sent anywhere, and the end is accepted or refused.

    The number of rows is geometric: any balanced labelling can be reached in one move, whatever the constraint.
    """

    times: int

    def __call__(self, key, target: HasLabels, state: CountedLabelling):
        def one(i, state):
            log_ratio, end, uniform = log_excursion_ratio(jax.random.fold_in(key, i), target, state)
            return jax.tree.map(lambda new, old: jnp.where(jnp.log(uniform) < log_ratio, new, old), end, state)

        return jax.lax.fori_loop(0, self.times, one, state), {}


def log_excursion_ratio(key, target: HasLabels, state: CountedLabelling):
    """(log ratio, end of an excursion of two rows or more, a uniform number to decide by).

    The way back sends the same rows in reverse order to where they were, which is as likely.
    """

    def send(carry):
        state, gained, t, _, _ = carry
        person, cluster, coin, other = jax.random.uniform(jax.random.fold_in(key, t), (4,), target.x.dtype)
        i = (person * target.n_obs).astype(jnp.int32)
        cluster = (cluster * target.n_clusters).astype(state.label.dtype)
        rest = take_out(target, state, i)
        cost = target.loss.insertion(rest.stats, *target.unit(i), target.n_clusters)
        gained += cost[cluster] - cost[state.label[i]]
        return put_in(target, rest, i, cluster), gained, t + 1, (t == 0) | (coin < 0.5), other

    zero = jnp.zeros((), target.x.dtype)
    start = state, zero, 0, jnp.array(True), zero
    end, gained, _, _, uniform = jax.lax.while_loop(lambda carry: carry[3], send, start)
    balanced = target.constraint.satisfied(end.counts).all()
    return jnp.where(balanced, -state.lambdas * gained, -jnp.inf), end, uniform

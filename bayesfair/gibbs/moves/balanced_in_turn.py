"""Moves of balanced labellings one after the other, each by its exact ratio: for any loss.

`Counted` computes the loss's statistics and the counts once; the moves inside take observations out, ask the loss what
putting them elsewhere would cost, and put them back. Who moves is drawn without looking at the labelling.

* `Singles`: everybody (or some, in a row) drawn from the law given all the others, among the clusters in which the
  labelling stays balanced.
* `SwapsOfPeople`: two of one group exchange clusters.
* `BundlesOfPeople`: some of every group, who happen to share a cluster, move to another one.
* `Excursions`: a few people in a row are sent anywhere, and the end of it is accepted or not. How many is geometric, so
  that every balanced labelling can be reached from every other in one move: whatever the constraint, nothing is cut off.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from bayesfair._draws import Statistic
from bayesfair.gibbs.labellings import CountedLabelling, Labelling
from bayesfair.gibbs.moves.collapsed import conditional, draw_cluster
from bayesfair.gibbs.sweep import in_turn
from bayesfair.gibbs.target import Target

__all__ = [
    "BundlesOfPeople",
    "Counted",
    "Excursions",
    "Singles",
    "SwapsOfPeople",
    "bundle_law",
    "log_excursion_ratio",
    "log_people_ratio",
    "single_law",
]


@dataclass(frozen=True)
class Counted:
    """Runs moves with the loss's statistics at hand."""

    moves: tuple

    def __call__(self, key, target: Target, state: Labelling):
        stats = target.loss.start(target.units(state.label), target.n_clusters)
        counted = CountedLabelling(*state, stats, target.counts(state.label))
        inside, reports = in_turn(key, target, counted, self.moves)
        return Labelling(inside.label, inside.temperatures), reports


def take_out(target: Target, state: CountedLabelling, i):
    """The state without observation i, whose entry in `label` stays."""
    cluster, unit = state.label[i], target.unit(i)
    stats = target.loss.remove(state.stats, *unit, cluster)
    return state._replace(stats=stats, counts=state.counts.at[cluster, target.group[i]].add(-1))


def put_in(target: Target, state: CountedLabelling, i, cluster):
    """The state with observation i, which is nowhere, in a cluster."""
    stats = target.loss.insert(state.stats, *target.unit(i), cluster)
    counts = state.counts.at[cluster, target.group[i]].add(1)
    return state._replace(label=state.label.at[i].set(cluster), stats=stats, counts=counts)


def gain_of(target: Target, state: CountedLabelling, people, clusters):
    """What the loss gains where the people, who are nowhere, join the clusters."""
    total = jnp.zeros((), target.x.dtype)
    for j in range(people.shape[0]):
        total += target.loss.insertion(state.stats, *target.unit(people[j]), target.n_clusters)[clusters[j]]
        state = put_in(target, state, people[j], clusters[j])
    return total


@dataclass(frozen=True)
class Singles:
    """`times` people who follow each other in the table, from one drawn at random."""

    times: int

    statistics = {"reallocation_rate": Statistic("figure")}  # noqa: RUF012

    def __call__(self, key, target: Target, state: CountedLabelling):
        key_first, key_draw = jax.random.split(key)
        first = jax.random.randint(key_first, (), 0, target.n_obs)
        people = (first + jnp.arange(self.times)) % target.n_obs
        uniforms = jax.random.uniform(key_draw, (self.times,), target.x.dtype)

        def step(state, inputs):
            i, uniform = inputs
            old = state.label[i]
            logits, rest = single_law(target, state, i)
            new = draw_cluster(uniform, logits).astype(old.dtype)
            return put_in(target, rest, i, new), new != old

        state, moved = jax.lax.scan(step, state, (people, uniforms))
        return state, {"reallocation_rate": moved.mean(dtype=target.x.dtype)}


def single_law(target: Target, state: CountedLabelling, i):
    """(log of the law of observation i given the others, unnormalised, and the state without it)."""
    old, group, n_clusters = state.label[i], target.group[i], target.n_clusters
    rest = take_out(target, state, i)
    balanced = target.constraint.satisfied
    may_leave = balanced(rest.counts)[old]
    may_join = balanced(rest.counts.at[:, group].add(1))
    logits = conditional(target, rest.stats, *target.unit(i), state.temperatures)
    stays = jnp.arange(n_clusters) == old
    return jnp.where(stays | (may_leave & may_join), logits, -jnp.inf), rest


@dataclass(frozen=True)
class SwapsOfPeople:
    """`times` pairs of people of one group, drawn at random."""

    times: int

    statistics = {"swap_rate": Statistic("figure")}  # noqa: RUF012

    def __call__(self, key, target: Target, state: CountedLabelling):
        keys = jax.random.split(key, 3)
        people = two_of_a_group(keys[0], keys[1], target, self.times)
        uniforms = jax.random.uniform(keys[2], (self.times,), target.x.dtype)

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


def two_of_a_group(key_one, key_other, target: Target, times):
    """People (times, 2): one drawn at random, and another of the same group; of any group where there is no other."""
    place = jax.random.randint(key_one, (times,), 0, target.n_obs)
    group = target.group[target.by_group[place]]
    first, size = target.first_of_group[group], jnp.diff(target.first_of_group)[group]
    steps = 1 + jnp.minimum((jax.random.uniform(key_other, (times,)) * (size - 1)).astype(jnp.int32), size - 2)
    other = first + (place - first + jnp.maximum(steps, 0)) % size
    other = jnp.where(size == 1, (place + 1) % target.n_obs, other)
    return target.by_group[jnp.stack([place, other], 1)]


def log_people_ratio(target: Target, state: CountedLabelling, people):
    """(log ratio of two people exchanging clusters, the state without them, the clusters they are in)."""
    now = state.label[people]
    rest = take_out(target, take_out(target, state, people[0]), people[1])
    change = gain_of(target, rest, people, now[::-1]) - gain_of(target, rest, people, now)
    able = (now[0] != now[1]) & (target.group[people[0]] == target.group[people[1]])
    return jnp.where(able, -state.temperatures * change, -jnp.inf), rest, now


@dataclass(frozen=True)
class BundlesOfPeople:
    """The bundles of one of the target's pools (pools, bundles, members) in turn."""

    statistics = {"bundle_rate": Statistic("figure")}  # noqa: RUF012

    def __call__(self, key, target: Target, state: CountedLabelling):
        key_pool, key_draw = jax.random.split(key)
        pool = target.bundles[jax.random.randint(key_pool, (), 0, target.bundles.shape[0])]
        uniforms = jax.random.uniform(key_draw, (pool.shape[0],), target.x.dtype)

        def step(state, inputs):
            people, uniform = inputs
            now = state.label[people]
            logits, shared, state = bundle_law(target, state, people)
            new = draw_cluster(uniform, logits).astype(now.dtype)
            for j in range(people.shape[0]):
                state = put_in(target, state, people[j], jnp.where(shared, new, now[j]))
            return state, (shared & (new != now[0]), shared)

        state, (moved, shared) = jax.lax.scan(step, state, (pool, uniforms))
        return state, {"bundle_rate": moved.sum(dtype=target.x.dtype) / jnp.maximum(shared.sum(), 1)}


def bundle_law(target: Target, state: CountedLabelling, people):
    """(log of the law of the one cluster of a bundle given all others, unnormalised; whether its members share one; the
    state without them)."""
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
    return jnp.where((clusters == old) | allowed, -state.temperatures * gains, -jnp.inf), shared, rest


@dataclass(frozen=True)
class Excursions:
    """`times` excursions, of 2 people or more, their number geometric."""

    times: int

    def __call__(self, key, target: Target, state: CountedLabelling):
        def one(i, state):
            keys = jax.random.split(jax.random.fold_in(key, i), 3)
            length = 1 + jax.random.geometric(keys[0], 0.5, dtype=jnp.int32)
            log_ratio, end = log_excursion_ratio(keys[1], target, state, length)
            accepted = jnp.log(jax.random.uniform(keys[2], dtype=target.x.dtype)) < log_ratio
            return jax.tree.map(lambda new, old: jnp.where(accepted, new, old), end, state)

        return jax.lax.fori_loop(0, self.times, one, state), {}


def log_excursion_ratio(key, target: Target, state: CountedLabelling, length):
    """(log ratio, end) of sending `length` people, one after the other, to clusters drawn at random.

    The way back sends the same people in reverse to where they were, which is as likely.
    """

    def send(t, carry):
        state, gained = carry
        key_person, key_cluster = jax.random.split(jax.random.fold_in(key, t))
        i = jax.random.randint(key_person, (), 0, target.n_obs)
        cluster = jax.random.randint(key_cluster, (), 0, target.n_clusters, state.label.dtype)
        rest = take_out(target, state, i)
        cost = target.loss.insertion(rest.stats, *target.unit(i), target.n_clusters)
        return put_in(target, rest, i, cluster), gained + cost[cluster] - cost[state.label[i]]

    end, gained = jax.lax.fori_loop(0, length, send, (state, jnp.zeros((), target.x.dtype)))
    balanced = target.constraint.satisfied(end.counts).all()
    return jnp.where(balanced, -state.temperatures * gained, -jnp.inf), end

"""The sampler whose rows are in several processes: its problem, its starts, and the target that the run sees there.

What is in the shards, and why the law is that of all rows, is in `shards.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayesfair._check import check_integer, message
from bayesfair._partitions import parts_of
from bayesfair._progress import one_step
from bayesfair._units import here_alone
from bayesfair.distributed import agreed, everybody
from bayesfair.fairlets import capacities, decompose, fairlet_centers, member_table, singleton_capacities
from bayesfair.fairness import Groups, balance_constraint, nearest_counts
from bayesfair.gibbs.centroids import Centroids, resolve_centroids
from bayesfair.gibbs.labellings import Labelling
from bayesfair.gibbs.losses import Units
from bayesfair.gibbs.problem import Problem, own_units
from bayesfair.gibbs.recombination import search
from bayesfair.gibbs.shards import AXIS
from bayesfair.gibbs.states import FairletState
from bayesfair.gibbs.target import Settings, Table, Target
from bayesfair.gibbs.targets.in_shards import LabelsShard, OptimalOfAll, OptimalShard, Whole
from bayesfair.gibbs.targets.optimal import Optimal
from bayesfair.gibbs.targets.starts import start_dispersion
from bayesfair.gibbs.temperature import refuse_without_degree
from bayesfair.gibbs.transport_to_clusters import assign

__all__ = ["InShards", "make_problem_of_all", "make_shared_problem"]

SAMPLE = 100_000  # rows of all processes in which starts are looked for
BY_ROWS = ("optimal", "labels")


@dataclass(frozen=True, eq=False)
class InShards(Target):
    """A target whose rows are in the processes of a mesh, as the run of one of them sees it.

    shards: that of every process, stacked, each on its own device. own: this process's, on the host. start: gives the chains'
    states. n_own: rows of this process. members: of its fairlets (fairlets, slots), None where there are none.
    """

    shards: Target
    own: Target
    members: np.ndarray | None
    start: Callable
    n_own: int
    mesh: jax.sharding.Mesh

    @property
    def n_clusters(self):
        return self.own.n_clusters

    @property
    def n_obs(self):
        """Rows of the largest shard: what decides how long a chunk is must be the same in all processes."""
        return self.own.whole.most_obs

    @property
    def n_fairlets(self):
        return self.own.n_fairlets

    @property
    def looks_per_row(self):
        return self.own.looks_per_row

    @property
    def loss(self):
        return self.own.loss

    @property
    def clusters_are_independent(self):
        return self.own.clusters_are_independent

    def path_moves(self):
        return self.own.path_moves()

    @property
    def statistics(self):
        return self.own.statistics

    @property
    def state_dims(self):
        return self.own.state_dims

    def moves(self, settings):
        return self.own.moves(settings)

    def starts(self, table, settings, num_chains):
        return self.start(self, table, settings, num_chains)

    def write(self, states):
        """Without fillers, which the numbers of rows and fairlets tell."""
        arrays = self.own.write(states)
        if self.members is None:
            return {**arrays, "label": arrays["label"][:, : self.n_own]}
        cluster = arrays["cluster"][:, : len(self.members)]
        return {**arrays, "cluster": cluster, "members": np.stack([self.members] * len(cluster))}

    def read(self, arrays):
        name, most = ("label", self.n_obs) if self.members is None else ("cluster", self.own.whole.most_units)
        filled = np.pad(np.asarray(arrays[name]), ((0, 0), (0, most - arrays[name].shape[1])))
        return self.own.read({**arrays, name: filled})

    def run(self, program, *arrays, **static):
        placed = jax.tree.map(lambda part: _placed(part, self.mesh), arrays)
        names = tuple(sorted(static.items()))
        found = _in_every_shard(program, names, self.mesh)(self.shards, placed)
        return jax.tree.map(lambda part: part.addressable_data(0)[0], found)

    def own_rows(self, labels):
        return labels[..., : self.n_own]


def _placed(part, mesh):
    """What this process has as its part of an array with the shards for its first axis."""
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(AXIS))
    return jax.make_array_from_process_local_data(sharding, np.asarray(part)[None])


@lru_cache(maxsize=64)
def _in_every_shard(program, static, mesh):
    """`program(target, *arrays)` of every shard at the same time, compiled: all of its arrays have the shards in front."""

    def own(target, arrays):
        target, arrays = jax.tree.map(lambda part: part[0], (target, arrays))
        return jax.tree.map(lambda part: jnp.asarray(part)[None], program(target, *arrays, **dict(static)))

    spec = jax.sharding.PartitionSpec(AXIS)
    return jax.jit(jax.shard_map(own, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))


def make_shared_problem(
    X,
    groups: Groups,
    *,
    everyone: Groups,
    mesh,
    n_clusters,
    loss,
    target,
    inverse_temperature,
    names=None,
    weight=None,
    dim=None,
    state=None,
    progress_bar=False,
    **choices,
) -> Problem:
    """The target of all rows, of which this process has X (N, d) and `groups`; `everyone`: the groups of all, in the order of
    the processes. Other arguments as of `make_problem`.

    Fairlets are made in every process of its own rows: they never cross shards. `state`: the arrays from which a run goes on;
    its fairlets are those that it has.

    Raises
    ------
    ValueError: a target, loss or setting that has no form by rows, or what `make_problem` refuses; fairlets that are anchored
    in one process and not in another.
    """
    has_categories = dim not in (None, X.shape[1])
    _refuse_what_is_not_shared(target, loss, inverse_temperature, weight is not None, has_categories, choices)
    loss.dissimilarity.check(X)
    X, units, own = own_units(X, loss, names, inverse_temperature, everybody)
    table, settings = Table(X, units, groups), Settings(n_clusters, loss, own, **choices)
    if settings.loss.degree is None and not settings.has_fixed_pair:
        refuse_without_degree(settings.inverse_temperature)
    if target == "optimal":
        with one_step(Optimal.preparing, progress_bar and state is None):
            kept = _decomposed(table, settings) if state is None else _kept(state)
        shard, members, start = _optimal(table, settings, kept, everybody), kept.members, _clustering_starts
    else:
        shard, members, start = _labels(table, settings, everyone), None, _labelling_starts
    shards = jax.tree.map(lambda part: _placed(part, mesh), shard)
    shard = jax.tree.map(np.asarray, shard)
    return Problem(table, settings, InShards(shards, shard, members, start, len(X), mesh))


def make_problem_of_all(
    X, groups: Groups, *, state, n_clusters, loss, inverse_temperature, names=None, target, weight, dim, **choices
) -> Problem:
    """The target "optimal" of all rows in one process, its fairlets those that several have made, as the `state` of their run
    has them. Other arguments as of `make_shared_problem`, which has refused some of them."""
    X, units, own = own_units(X, loss, names, inverse_temperature)
    table, settings, kept = Table(X, units, groups), Settings(n_clusters, loss, own, **choices), _kept(state)
    target = _optimal(table, settings, kept, here_alone, OptimalOfAll, members=kept.members)
    return Problem(table, settings, jax.tree.map(jnp.asarray, target))


def _refuse_what_is_not_shared(target, loss, inverse_temperature, has_weights, has_categories, choices):
    remedy = "Give the processes chains instead: bf.distributed.mesh(chains=...)."
    rule = "{} where mesh gives processes rows"
    if target not in BY_ROWS:
        got = repr(target) if isinstance(target, str) else "a Target class"
        raise ValueError(message("target", rule.format(f"be one of {BY_ROWS}"), got, remedy))
    for name, asked_for in (("sample_weight", has_weights), ("categorical_features", has_categories)):
        if asked_for:
            raise ValueError(message(name, rule.format("be left out"), "some", remedy))
    if loss.augmentation is None:
        raise ValueError(message("loss", rule.format("have conjugate centres"), repr(loss), remedy))
    if inverse_temperature == "holmes-walker":
        remedy = "Fit some of the rows in one process, and pass the pair that it found."
        rule = rule.format("be 'dispersion' or a pair")
        raise ValueError(message("inverse_temperature", rule, "'holmes-walker'", remedy))
    if choices.get("reallocation") == "collapsed":
        raise ValueError(message("reallocation", rule.format("be 'auto' or 'blocked'"), "'collapsed'", remedy))


def _whole(n_obs, n_units, everybody=everybody) -> Whole:
    sizes = np.array(everybody((n_obs, n_units)))
    return Whole(*sizes.sum(0).tolist(), *sizes.max(0).tolist())


# Fairlets that stay


class _Kept(NamedTuple):
    """`members` (fairlets, slots) of this process's fairlets, the loss of those of all, and lambda_f / lambda."""

    members: np.ndarray
    loss: float
    factor: float


def _kept(state) -> _Kept:
    """Those of a run's state, in every chain alike.

    Raises
    ------
    ValueError: that of an older version, which made fairlets anew.
    """
    if "fairlet_loss" not in state:
        rule, remedy = "say what the fairlets cost, for rows in several processes", "Fit anew with this version."
        raise ValueError(message("run", rule, "a file of an older version", remedy))
    return _Kept(np.asarray(state["members"])[0], float(state["fairlet_loss"]), float(state["fairlet_factor"]))


def _decomposed(table: Table, settings: Settings) -> _Kept:
    """Those of this process's rows, made anew."""
    held, fairlet, code = _fairlets(table, settings)
    members = member_table(fairlet, code, held.upper)
    alone = Optimal.of(table.X, held, settings.loss, 1, np.zeros((1, 1), int))
    anchors = everybody(alone.anchor is not None)
    if len(set(anchors)) > 1:
        rule, remedy = "give fairlets with anchors in all processes or in none", "Pass counts, as of the whole table."
        raise ValueError(message("composition", rule, anchors, remedy))
    losses = jax.jit(alone.fairlet_losses)(jax.jit(alone.fairlets)(members))
    return _Kept(members, sum(everybody(float(losses.sum()))), alone.fairlet_factor)


def _fairlets(table: Table, settings: Settings):
    """(capacities, the fairlet of each row, its group there) of this process; of singletons all rows are one group."""
    groups = table.groups
    if isinstance(settings.composition, str) and settings.composition == "singletons":
        code = np.zeros(len(table.X), int)
        return singleton_capacities(code, 1), np.arange(len(table.X)), code
    held = capacities(groups.sizes, settings.composition, groups.names)
    found = decompose(
        table.X,
        groups,
        settings.composition,
        dissimilarity=settings.loss.dissimilarity,
        random_state=settings.seed,
    )
    return held, found.fairlet, groups.code


def _optimal(table: Table, settings: Settings, kept: _Kept, everybody, kind=OptimalShard, **more):
    """This process's shard."""
    fairlet = parts_of(kept.members, len(table.X))
    size = np.bincount(fairlet).astype(np.float32)
    center = fairlet_centers(np.asarray(table.X, float), fairlet).astype(np.float32)
    whole = _whole(len(fairlet), len(size), everybody)
    remedy = f"There are {whole.n_units} fairlets: ask for fewer clusters."
    check_integer("n_clusters", settings.n_clusters, maximum=whole.n_units, remedy=remedy)
    units = Units(center, size * np.float32(whole.n_units / whole.n_obs), None)
    known = {"fairlet_loss": np.asarray(kept.loss, center.dtype), "fairlet_factor": kept.factor, **more}
    return kind.of_units(units, fairlet, settings.loss, settings.n_clusters, whole, prior=settings.prior, **known)


def _clustering_starts(target: InShards, table: Table, settings: Settings, num_chains) -> FairletState:
    """Nearest centres of k-means++ restarts on some of all units."""
    shard, n_units = target.own, int(target.own.present.sum())
    units = Units(np.asarray(shard.x[:n_units], float), shard.unit_weight[:n_units].astype(float), None)
    centers = _restarts(units, settings, num_chains)
    clusters = np.zeros((num_chains, shard.whole.most_units), np.int32)
    for one, at in zip(clusters, centers):
        one[:n_units] = _every_cluster_used(_nearest(units.center, at), settings.n_clusters)
    ones = np.ones(num_chains, np.float32)
    states = FairletState((), clusters, shard.of_dispersion(ones))
    return states._replace(temperatures=_temperatures(target, table, settings, states, ones))


def _restarts(units: Units, settings: Settings, n_starts):
    """Centres (n_starts, clusters, dim) that process 0 finds among units of all."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    some = _sample_of_all(np.zeros(len(units.center), int), settings.seed)
    center, weight = (np.concatenate(everybody(part[some])) for part in units[:2])
    seeds = np.random.default_rng(settings.seed).integers(2**31 - 1, size=n_starts)
    n_found = min(settings.n_clusters, len(np.unique(center, axis=0)))

    def fitted(seed):
        return KMeans(n_found, n_init=1, random_state=int(seed)).fit(center, sample_weight=weight).cluster_centers_

    with threadpool_limits(1):
        return agreed(np.stack([fitted(seed) for seed in seeds]) if jax.process_index() == 0 else None)


def _sample_of_all(code, seed):
    """Rows of this process, at random within groups: together about SAMPLE, from every process in proportion."""
    n_all = sum(everybody(len(code)))
    rng = np.random.default_rng([seed, jax.process_index()])
    members = [np.flatnonzero(code == group) for group in np.unique(code)]
    some = [rng.permutation(rows)[: max(1, round(SAMPLE * len(rows) / n_all))] for rows in members]
    return np.sort(np.concatenate(some)) if n_all > SAMPLE else np.arange(len(code))


def _nearest(X, centers):
    from sklearn.metrics import pairwise_distances_argmin

    return pairwise_distances_argmin(X, centers).astype(np.int32)


def _every_cluster_used(labels, n_clusters):
    """`labels` of this process; a cluster that is empty in all takes a unit of the largest."""
    held = np.array(everybody(np.bincount(labels, minlength=n_clusters)))
    for empty in np.flatnonzero(held.sum(0) == 0):
        largest = held.sum(0).argmax()
        giver = held[:, largest].argmax()
        if giver == jax.process_index():
            labels[np.flatnonzero(labels == largest)[-1]] = empty
        held[giver, largest] -= 1
        held[giver, empty] += 1
    return labels


# Balanced labellings


def _labels(table: Table, settings: Settings, everyone: Groups):
    """This process's shard."""
    n_all, loss = len(everyone.code), settings.loss
    remedy = f"There are {n_all} rows: ask for fewer."
    check_integer("n_clusters", settings.n_clusters, maximum=n_all, remedy=remedy)
    if not (isinstance(settings.composition, str) and settings.composition == "auto"):
        remedy = "Leave it out: this target has no fairlets; min_balance says how balanced clusters are."
        raise ValueError(message("composition", "be 'auto' for target='labels'", repr(settings.composition), remedy))
    constraint = balance_constraint(everyone, settings.min_balance, settings.n_clusters)
    whole = _whole(len(table.X), len(table.X))
    x = np.asarray(table.X, np.float32)
    about = jax.tree.map(np.asarray, constraint), loss, settings.n_clusters, whole
    return LabelsShard.of_rows(x, table.groups.code, everyone.sizes, *about, prior=settings.prior)


def _labelling_starts(target: InShards, table: Table, settings: Settings, num_chains) -> Labelling:
    """Transport to centres that were cooled on some of all rows, with counts that are balanced in the whole."""
    n_groups = target.own.n_groups
    of_processes = np.array(everybody(np.bincount(table.groups.code, minlength=n_groups)))
    unit, cooled, counts = _cooled(target, table, settings, num_chains, of_processes.sum(0))
    X, loss = np.asarray(table.X, float) / unit, resolve_centroids(target.loss)
    labels = np.zeros((num_chains, target.own.whole.most_obs), np.int32)
    for at, one in enumerate(labels):
        one[: target.n_own] = _balanced(X, table.groups.code, loss, cooled.run(at), counts[at], of_processes)
    ones = np.ones(num_chains, np.float32)
    states = Labelling(labels, ones)
    return states._replace(temperatures=_temperatures(target, table, settings, states, ones))


def _cooled(target: InShards, table: Table, settings: Settings, n_starts, sizes):
    """(what to divide rows by to have them near 1, starts that process 0 cools on some of all rows in that unit, counts
    (n_starts, clusters, groups) of all rows that are balanced and near theirs); `sizes`: of all groups."""
    some = _sample_of_all(table.groups.code, settings.seed)
    X, code = (np.concatenate(everybody(part)) for part in (np.asarray(table.X[some], float), table.groups.code[some]))
    if jax.process_index() > 0:
        return agreed(None)
    rng, loss = np.random.default_rng(settings.seed), resolve_centroids(settings.loss)
    constraint, weight = target.own.constraint, np.ones(len(X))
    unit, _ = loss.units(X)
    cooled = search(X / unit, code, weight, constraint, loss, settings.n_clusters, n_starts, 0, rng)
    share = sizes / np.bincount(code, minlength=len(sizes))
    return agreed((unit, cooled, [nearest_counts(constraint, sizes, wanted) for wanted in cooled.counts * share]))


def _balanced(X, code, loss: Centroids, start, counts, of_processes):
    """Labels (obs,) of this process's rows X at the centres of one cooled start; all processes together have these `counts`."""
    cost = loss.distances(X, start.centers)
    labels, process = np.zeros(len(X), np.int32), jax.process_index()
    for group, sizes in enumerate(of_processes.T):
        rows = np.flatnonzero(code == group)
        if len(rows):
            labels[rows] = assign(cost[rows], _dealt(counts[:, group], sizes)[process], start.duals[group])[0]
    return labels


def _dealt(counts, sizes):
    """How many of each cluster (processes, clusters), `counts` (clusters,) in all, processes of these `sizes` get, as evenly as
    whole people can be."""
    place = np.concatenate([(np.arange(n) + 0.5) / n for n in counts if n])
    cluster = np.repeat(np.arange(len(counts)), counts)[np.argsort(place, kind="stable")]
    parts = np.split(cluster, np.cumsum(sizes)[:-1])
    return np.stack([np.bincount(part, minlength=len(counts)) for part in parts])


# Temperatures


def _temperatures(target: InShards, table: Table, settings: Settings, states, ones):
    """Those asked for, or of lambda at the mean of its law given the cheapest of the starts."""
    own = target.own
    if settings.has_fixed_pair:
        pair = [part * ones for part in settings.inverse_temperature]
        return type(states.temperatures)(*pair) if isinstance(states.temperatures, tuple) else pair[-1]
    best = float(np.min(target.run(_losses_of, states)))
    return own.of_dispersion(start_dispersion(own, table, settings.inverse_temperature, None, best) * ones)


def _losses_of(target, states):
    """The loss of the observations of every chain."""
    return jax.vmap(lambda state: target.total_loss(target.losses(target.open(state))))(states)

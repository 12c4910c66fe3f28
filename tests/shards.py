"""Tiny posteriors whose rows are in two shards, run on one device: the shards are an axis of `vmap`."""

from functools import partial

import exact
import exact_labels
import jax
import jax.numpy as jnp
import numpy as np

from bayesfair.gibbs.labellings import Labelling
from bayesfair.gibbs.losses import Units
from bayesfair.gibbs.shards import AXIS
from bayesfair.gibbs.states import FairletState
from bayesfair.gibbs.targets.in_shards import LabelsShard, OptimalShard, Whole


def in_each(function):
    """`function(shard, ...)`, of every one of stacked shards at the same time."""
    return jax.vmap(function, axis_name=AXIS)


def stacked(parts):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)


def filled(values, most):
    return np.pad(values, (0, most - len(values)))


def labels_in_shards(t, rows):
    """The shards of a tiny target of labels: `rows` says which rows each has."""
    target, most = t.target, max(map(len, rows))
    x, code, whole = np.asarray(target.x), np.asarray(target.group), Whole(len(t.X), len(t.X), most, most)
    about = target.constraint, target.loss, target.n_clusters, whole
    sizes = np.bincount(code, minlength=target.n_groups)
    return stacked(LabelsShard.of_rows(x[own], code[own], sizes, *about, prior=target.prior) for own in rows)


def labelling_in_shards(t, rows, label, temperature=exact_labels.LAMBDA):
    most = max(map(len, rows))
    parts = [Labelling(filled(label[own], most), np.asarray(temperature, t.target.x.dtype)) for own in rows]
    return stacked(parts)


def whole_label(label, rows):
    """Labels (shards, ..., obs) of shards as those of all rows (..., obs)."""
    parts = [np.asarray(part)[..., : len(own)] for part, own in zip(label, rows)]
    return np.concatenate(parts, -1)[..., np.argsort(np.concatenate(rows))]


def optimal_in_shards(t, fairlets):
    """The shards of a tiny target over fairlets, which stay as in its first state: `fairlets` says which each has."""
    target, (state,) = t.target, [t.state(0)]
    opened = target.open(state)
    units = jax.tree.map(np.asarray, target.units(opened.fairlets, state.cluster))
    loss = float(target.fairlet_losses(opened.fairlets).sum())
    most, labels = max(map(len, fairlets)), t.fairlets[0]
    members = [np.flatnonzero(np.isin(labels, own)) for own in fairlets]
    whole = Whole(len(t.X), len(units.weight), max(map(len, members)), most)
    parts = [
        OptimalShard.of_units(
            Units(*(part[own] for part in units)),
            np.searchsorted(own, labels[rows]),
            target.loss,
            target.n_clusters,
            whole,
            fairlet_loss=np.asarray(loss, units.center.dtype),
            fairlet_factor=target.fairlet_factor,
            prior=target.prior,
        )
        for own, rows in zip(fairlets, members)
    ]
    return stacked(parts), members


def clustering_in_shards(t, fairlets, cluster, temperatures=exact.TEMPERATURES):
    most = max(map(len, fairlets))
    kind = t.target.x.dtype
    temperatures = jax.tree.map(lambda one: np.asarray(one, kind), temperatures)
    return stacked([FairletState((), filled(cluster[own], most), temperatures) for own in fairlets])


@partial(jax.jit, static_argnames=("moves", "n_sweeps"))
def many_sweeps(keys, shards, states, moves, n_sweeps):
    """Labels (shards, chains, sweeps, obs) of `n_sweeps` sweeps of every chain; states: (shards, chains, ...)."""
    from bayesfair.gibbs.sweep import sweep

    def chain(key, shard, state):
        def one(state, number):
            state, report = sweep(jax.random.fold_in(key, number), shard, state, moves)
            return state, (shard.labels(state), report)

        return jax.lax.scan(one, state, jnp.arange(n_sweeps))[1]

    over_chains = jax.vmap(chain, (0, None, 0))
    return jax.vmap(over_chains, (None, 0, 0), axis_name=AXIS)(keys, shards, states)

"""Collapsed Gibbs reallocation, one unit at a time, for every loss (paper, eq. 12; Rigon, Herring and Dunson 2023)."""

from dataclasses import dataclass
from itertools import accumulate

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesfair._arrays import computed_once
from bayesfair._draws import Statistic
from bayesfair.gibbs.capabilities import HasUnits
from bayesfair.gibbs.loss import Units
from bayesfair.gibbs.states import OpenState


@dataclass(frozen=True)
class CollapsedReallocation:
    """One sweep over the units, each drawn from `unit_law` given all the others."""

    statistics = {"reallocation_rate": Statistic("figure")}  # noqa: RUF012

    def __call__(self, key, target: HasUnits, state: OpenState):
        units = computed_once(target.units_of(state))
        cluster = visit_units(key, target, units, state.lambda_c)
        return state._replace(cluster=cluster), share_moved(target, state.cluster, cluster)


def share_moved(target: HasUnits, before, after):
    """The share of units that changed cluster, as reported."""
    return {"reallocation_rate": (before != after).mean(dtype=target.x.dtype)}


def conditional(target: HasUnits, stats, unit, inverse_temperature) -> Float[Array, " clusters"]:
    """Log of the full conditional of a unit (i, centre, weight) that was taken out of `stats`, unnormalised."""
    return -inverse_temperature * target.loss.insertion(stats, *unit, target.n_clusters)


def unit_law(target: HasUnits, stats, count, unit, old, inverse_temperature) -> Float[Array, " clusters"]:
    """`conditional`, except that a lone unit may not leave its cluster."""
    logits = conditional(target, stats, unit, inverse_temperature)
    stay = jnp.where(jnp.arange(target.n_clusters) == old, 0.0, -jnp.inf).astype(logits.dtype)
    return jnp.where(count[old] == 1, stay, logits)


def draw_cluster(uniform, logits):
    """A category by inverse CDF (last axis) from one uniform number in [0, 1); never one of mass zero."""
    mass = jnp.exp(logits - logits.max(-1, keepdims=True))
    # This running sum fuses with the comparison; cumsum over a short axis takes six times as long.
    running = list(accumulate(mass[..., k] for k in range(mass.shape[-1])))
    # Above zero and at most the last sum: neither 0 nor rounding reaches a category without mass at either end.
    threshold = jnp.maximum(uniform * running[-1], jnp.finfo(mass.dtype).tiny)
    return sum((below < threshold for below in running[:-1]), jnp.zeros(uniform.shape, jnp.int32))


def visit_units(key, target: HasUnits, units: Units, inverse_temperature):
    """The clusters after one sweep over the units; a lone unit may not leave its cluster."""
    n_units = units.center.shape[0]
    uniforms = jax.random.uniform(key, (n_units,), units.center.dtype)
    stats = target.loss.start(units, target.n_clusters)
    count = jnp.zeros(target.n_clusters, jnp.int32).at[units.cluster].add(1)

    def step(carry, inputs):
        stats, count = carry
        unit, old, uniform = inputs
        stats = target.loss.remove(stats, *unit, old)
        logits = unit_law(target, stats, count, unit, old, inverse_temperature)
        new = draw_cluster(uniform, logits).astype(old.dtype)
        stats = target.loss.insert(stats, *unit, new)
        return (stats, count.at[old].add(-1).at[new].add(1)), new

    inputs = (jnp.arange(n_units), units.center, units.weight), units.cluster, uniforms
    return jax.lax.scan(step, (stats, count), inputs)[1]

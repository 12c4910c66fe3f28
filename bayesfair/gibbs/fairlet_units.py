"""Fairlets as units of the clustering, and their losses: functions of the features of their members."""

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from bayesfair._arrays import inner_sum
from bayesfair.fairlets.compositions import Capacities
from bayesfair.fairlets.dissimilarity import Dissimilarity, Weighted
from bayesfair.gibbs.loss import Units


def groups_of_slots(held: Capacities) -> tuple[int, ...]:
    """The group of each slot: as many slots of a group as the largest of its counts in a fairlet."""
    return tuple(group for group, width in enumerate(held.upper.max(0)) for _ in range(width))


def fairlet_units(
    x: Float[Array, "fairlets slots dim"],
    present: Bool[Array, "fairlets slots"],
    weight: Float[Array, "fairlets slots"] | None,
    mean_size: Float[ArrayLike, ""],
    cluster: Int[Array, " fairlets"] | None,
) -> Units:
    """Fairlet centres u_i (means of the members) with weights n_i / mean size, n_i the sum of the rows' weights.

    Features and weights are 0 in empty slots. The mean size counts rows.
    """
    if weight is None:
        mass, total = present.sum(1).astype(x.dtype), inner_sum(x, 1)
    else:
        mass, total = inner_sum(weight, 1), inner_sum(weight[:, :, None] * x, 1)
    return Units(total / mass[:, None], mass / mean_size, cluster)


def fairlet_losses(
    dissimilarity: Dissimilarity,
    anchor_slot: int | None,
    x: Float[Array, "fairlets slots dim"],
    present: Bool[Array, "fairlets slots"],
    weight: Float[Array, "fairlets slots"] | None,
) -> Float[Array, " fairlets"]:
    """Loss of each fairlet: D to its anchor summed over the others, or D to its centre without an anchor (hub)."""
    if weight is not None:
        dissimilarity, x = Weighted(dissimilarity), jnp.dstack([x, weight])
    if anchor_slot is None:
        return dissimilarity.hub(x, present)
    anchor, total = x[:, anchor_slot], jnp.zeros(x.shape[0], x.dtype)
    for slot in range(x.shape[1]):
        if slot != anchor_slot:
            there = present[:, slot]
            # Put empty slots at the anchor: their own zeros may lie outside the domain of D.
            member = jnp.where(there[:, None], x[:, slot], anchor)
            total += jnp.where(there, dissimilarity.between(member, anchor), 0.0)
    return total

"""The Gibbs posterior over fairlet decompositions and clusterings: data, state and log density.

Paper, eq. (9): log p(B, C) = -lambda_f L_f(B) - lambda_c L_c(C | u(B)) + const, every cluster used.

The state is O(N). Fairlets are rows of a table of members with one column per *slot*; every group owns as many columns
as its largest count in a fairlet. Where a fairlet holds fewer, a *phantom* (index N, weight nothing) fills the slot, so
that "swap two members" and "hand over the extra member" are one and the same move. The order of members within a row
means nothing, and every decomposition is written in equally many ways, so the law of the table is the law of B.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from bayesfair._arrays import inner_sum
from bayesfair.fairlets import Capacities, anchor_group
from bayesfair.gibbs.losses import Loss, Units

__all__ = ["Allocation", "InverseTemperatures", "Rows", "Target", "make_target", "settled"]


class Allocation(NamedTuple):
    """A fair clustering: each observation has a fairlet, each fairlet a cluster, so balance holds by construction."""

    members: Int[Array, "fairlets slots"]
    cluster: Int[Array, " fairlets"]


class InverseTemperatures(NamedTuple):
    """lambda_f of the fairlet loss and lambda_c of the clustering loss, both above zero."""

    fairlet: Float[Array, ""]
    clustering: Float[Array, ""]


class Rows(NamedTuple):
    """Some fairlets, opened: who is in which slot, their features (zeros where a slot is empty), what may be held."""

    members: Int[Array, "fairlets slots"]
    x: Float[Array, "fairlets slots dim"]
    present: Bool[Array, "fairlets slots"]
    lower: Int[Array, "fairlets groups"]
    upper: Int[Array, "fairlets groups"]

    @property
    def size(self):
        return self.present.sum(1)


STATIC = {"static": True}


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Target:
    """What the kernels read and never change. Static fields decide what is compiled, the others are data."""

    x: Float[Array, "obs_and_phantom dim"]  # the last row, all zeros, is the phantom's
    lower: Int[Array, "fairlets groups"]
    upper: Int[Array, "fairlets groups"]
    matchings: Int[Array, "pool points"]  # involutions that pair near neighbours, see `matchings.py`
    loss: Loss = field(metadata=STATIC)
    n_clusters: int = field(metadata=STATIC)
    slot_group: tuple[int, ...] = field(metadata=STATIC)
    anchor: int | None = field(metadata=STATIC)  # the group that supplies one anchor per fairlet; None in the hub form
    name: str = field(metadata=STATIC)  # "joint", "cut" or "optimal"
    free_sizes: bool = field(metadata=STATIC)  # may fairlets hand over an extra member?

    @property
    def n_obs(self):
        return self.x.shape[0] - 1

    @property
    def n_fairlets(self):
        return self.lower.shape[0]

    @property
    def mean_size(self):
        return self.n_obs / self.n_fairlets

    @property
    def swap_slots(self):
        """Slots whose members may change fairlet: all but the anchors'."""
        return tuple(slot for slot, group in enumerate(self.slot_group) if group != self.anchor)

    @property
    def clustering_moves_fairlets(self):
        """Does the clustering loss enter the law of B (the joint target), or not (cut, optimal)?"""
        return self.name == "joint"

    @property
    def has_density(self):
        """Is the density of a state known up to one constant? Under the cut, p(B) p(C | B), it is not: the normaliser of
        p(C | B) is a sum over all clusterings that depends on B."""
        return self.name != "cut"

    @property
    def has_phantoms(self):
        return self.n_fairlets * len(self.slot_group) != self.n_obs

    def rows(self, members) -> Rows:
        """The fairlets of a whole table of members, opened."""
        return self.opened(members, self.x[members])

    def opened(self, members, x) -> Rows:
        """`rows`, from features at hand."""
        return Rows(members, x, self._is_present(members), self.lower, self.upper)

    def _is_present(self, members):
        # A constant where no slot is ever empty: the compiler then drops every mask.
        return members < self.n_obs if self.has_phantoms else jnp.ones(members.shape, bool)

    def replace_slot(self, rows: Rows, slot, incoming) -> Rows:
        """The rows after member `incoming[i]` has taken place `slot[i]` of row i."""
        here = slot[:, None] == jnp.arange(len(self.slot_group))
        members = jnp.where(here, incoming[:, None], rows.members)
        x = jnp.where(here[:, :, None], self.x[incoming][:, None, :], rows.x)
        return rows._replace(members=members, x=settled(x), present=self._is_present(members))

    def units(self, rows: Rows, cluster) -> Units:
        """Fairlet centres u_i (means of the members) with weights n_i / mean size."""
        size = rows.size.astype(rows.x.dtype)
        return Units(inner_sum(rows.x, 1) / size[:, None], size / self.mean_size, cluster)

    def fairlet_losses(self, rows: Rows) -> Float[Array, " fairlets"]:
        """What each fairlet pays: D to its anchor summed over the others (anchored), or D to its own centre (hub)."""
        if self.anchor is None:
            return self.loss.dissimilarity.hub(rows.x, rows.present)
        anchor, total = rows.x[:, self.slot_group.index(self.anchor)], 0.0
        for slot in self.swap_slots:
            there = rows.present[:, slot]
            # An empty slot is measured at the anchor itself: its own zeros may lie outside the domain of D.
            member = jnp.where(there[:, None], rows.x[:, slot], anchor)
            total += jnp.where(there, self.loss.dissimilarity.between(member, anchor), 0.0)
        return total + jnp.zeros(rows.x.shape[0], rows.x.dtype)

    def losses(self, allocation: Allocation):
        """(L_f, L_c), each from scratch."""
        return self.losses_of(self.rows(allocation.members), allocation.cluster)

    def losses_of(self, rows: Rows, cluster):
        """(L_f, L_c) of opened fairlets."""
        clustering = self.loss.cluster_losses(self.units(rows, cluster), self.n_clusters)
        return self.fairlet_losses(rows).sum(), clustering.sum()

    def labels(self, allocation: Allocation) -> Int[Array, " obs"]:
        """cluster[fairlet] of every observation."""
        cluster = jnp.broadcast_to(allocation.cluster[:, None], allocation.members.shape)
        return jnp.zeros(self.x.shape[0], cluster.dtype).at[allocation.members].set(cluster)[:-1]


def settled(values):
    """`values`, computed once: left to itself, XLA computes them again inside every fused loop that reads them."""
    return jax.lax.optimization_barrier(values)


def make_target(
    X, capacities: Capacities, loss: Loss, n_clusters: int, matchings, *, name="joint", dtype=jnp.float32
) -> Target:
    """The target for data `X` (N, d), centred first where the loss allows, so that float32 loses nothing."""
    x = X - X.mean(0) if loss.translation_invariant else X
    width = capacities.upper.max(0)
    return Target(
        x=jnp.asarray(np.vstack([x, np.zeros((1, x.shape[1]))]), dtype),
        lower=jnp.asarray(capacities.lower, jnp.int32),
        upper=jnp.asarray(capacities.upper, jnp.int32),
        matchings=jnp.asarray(matchings, jnp.int32),
        loss=loss,
        n_clusters=n_clusters,
        slot_group=tuple(np.repeat(np.arange(len(width)), width).tolist()),
        anchor=anchor_group(capacities),
        name=name,
        free_sizes=bool((capacities.lower != capacities.upper).any()),
    )

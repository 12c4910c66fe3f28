"""B fixed at the optimal decomposition, C sampled: the paper's MC-EM; with singletons, vanilla Gibbs k-means."""

from dataclasses import field

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bayesfair._arrays import aligned_empty, on_device
from bayesfair._jit import jit
from bayesfair._partitions import parts_of
from bayesfair.fairlets.compositions import Capacities, anchor_group
from bayesfair.gibbs.fairlet_units import fairlet_losses, fairlet_units, groups_of_slots
from bayesfair.gibbs.loss import Loss, Units
from bayesfair.gibbs.moves.mode_jumps import Modes
from bayesfair.gibbs.moves.swaps import Swaps
from bayesfair.gibbs.states import FairletState, OpenState
from bayesfair.gibbs.sweep import Repeat
from bayesfair.gibbs.target import STATIC, Settings, Table, as_pytree
from bayesfair.gibbs.targets.over_fairlets import Losses, OverFairlets, what_to_balance
from bayesfair.gibbs.temperature import Dispersion

BLOCK = 2**14  # fairlets that are opened at a time


@as_pytree
class FixedUnits(OverFairlets):
    """C given the best decomposition: fairlets are units only, and no state has members."""

    x: Float[Array, "fairlets dim"]  # centres of the fairlets
    unit_weight: Float[Array, " fairlets"]
    fairlet: Int[Array, " obs"]  # of every row
    members: Int[Array, "fairlets slots"]
    fairlet_loss: Float[Array, ""]
    loss: Loss = field(metadata=STATIC)
    n_clusters: int = field(metadata=STATIC)
    anchor: int | None = field(metadata=STATIC)
    prior: Dispersion | None = field(metadata=STATIC)
    n_numbers: float = field(metadata=STATIC)
    modes: Modes | None = None

    clusters_are_independent = True
    keeps_fairlets = True

    @classmethod
    def make(cls, table: Table, settings: Settings):
        """The units of a prepared table."""
        return cls.of(table, what_to_balance(table, settings)[2], settings)

    @classmethod
    def of(cls, table: Table, held: Capacities, settings: Settings, dtype=jnp.float32):
        """The target of the table's fairlets with these capacities."""
        center, weight, paid = _units_and_loss(table, held, settings.loss, dtype)
        return cls(
            x=jax.device_put(center),
            unit_weight=jax.device_put(weight),
            fairlet=jax.device_put(parts_of(table.members, len(table.X))),
            members=jax.device_put(table.members),
            fairlet_loss=on_device(paid, dtype),
            loss=settings.loss,
            n_clusters=settings.n_clusters,
            anchor=anchor_group(held),
            prior=settings.prior,
            n_numbers=table.n_numbers,
        )

    @property
    def n_obs(self):
        return len(self.fairlet)

    @property
    def n_fairlets(self):
        return len(self.members)

    def moves(self, settings):
        return Swaps(0), Repeat((self.reallocation(settings), *self.temperature_moves()))

    def open(self, state: FairletState) -> OpenState:
        return OpenState((), state.cluster, state.lambdas)

    def close(self, opened: OpenState) -> FairletState:
        return FairletState((), opened.cluster, opened.lambdas)

    def units_of(self, state):
        return Units(self.x, self.unit_weight, state.cluster)

    def labels(self, state: FairletState):
        return state.cluster[self.fairlet]

    def losses(self, state: OpenState) -> Losses:
        return Losses(self.fairlet_loss, self.loss.cluster_losses(self.units_of(state), self.n_clusters).sum())

    def write(self, states):
        every = np.broadcast_to(np.asarray(self.members), (*states.lambdas.fairlet.shape, *self.members.shape))
        return super().write(states) | {"members": every}


def _units_and_loss(table: Table, held: Capacities, loss: Loss, dtype):
    """(centres, weights, sum of the losses) of the fairlets of a table, computed part by part."""
    X, members, dim = table.X, table.members, table.X.shape[1]
    n_fairlets, n_obs, anchor = len(members), len(X), anchor_group(held)
    anchor_slot = None if anchor is None else groups_of_slots(held).index(anchor)
    mean = X.mean(0) if loss.translation_invariant and isinstance(X, np.ndarray) else 0.0
    center, weight = aligned_empty((n_fairlets, dim), dtype), aligned_empty(n_fairlets, dtype)
    paid = np.empty(n_fairlets, dtype)
    size = min(BLOCK, n_fairlets)
    for first in range(0, n_fairlets, size):
        own = slice(min(first, n_fairlets - size), min(first + size, n_fairlets))  # equal lengths compile once
        present = members[own] < n_obs
        who = np.where(present, members[own], 0)
        rows = X[who.ravel()].reshape(*who.shape, dim) - mean
        x = np.where(present[:, :, None], rows, 0).astype(dtype)
        weights = None if table.weight is None else np.where(present, table.weight[who], 0).astype(dtype)
        opened = _opened(x, present, weights, n_obs / n_fairlets, loss=loss, anchor_slot=anchor_slot)
        center[own], weight[own], paid[own] = opened
    return center, weight, paid.sum(dtype=float)


@jit(static_argnames=("loss", "anchor_slot"))
def _opened(x, present, weight, mean_size, *, loss: Loss, anchor_slot):
    units = fairlet_units(x, present, weight, mean_size, None)
    return units.center, units.weight, fairlet_losses(loss.dissimilarity, anchor_slot, x, present, weight)

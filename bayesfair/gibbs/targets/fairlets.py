"""Fairlets that change: their data, slots and losses."""

from dataclasses import field

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bayesfair._arrays import computed_once, on_device
from bayesfair.fairlets.compositions import Capacities, anchor_group
from bayesfair.gibbs.capabilities import HasFairlets
from bayesfair.gibbs.fairlet_units import fairlet_losses, fairlet_units, groups_of_slots
from bayesfair.gibbs.loss import Loss, Units
from bayesfair.gibbs.moves.matchings import neighbour_matchings
from bayesfair.gibbs.moves.mode_jumps import Modes
from bayesfair.gibbs.parts_of_rows import map_rows
from bayesfair.gibbs.states import Fairlets, FairletState, OpenState
from bayesfair.gibbs.target import STATIC, Settings, Table, as_pytree, rows_of
from bayesfair.gibbs.targets.over_fairlets import Losses, OverFairlets, what_to_balance
from bayesfair.gibbs.temperature import Dispersion

SWAP_ROUND_FAIRLETS = 40_000  # rounds of swaps in a sweep try about this many fairlets, in at most MAX_ROUNDS
MAX_ROUNDS = 16  # rounds, and at most as many as there are fairlets


@as_pytree
class FairletTarget(HasFairlets, OverFairlets):
    """Data and losses of B and C; subclasses define how B and C depend on each other, and the moves."""

    x: Float[Array, "obs_and_phantom dim"]  # the last row is the phantom's, all zeros
    lower: Int[Array, "all_fairlets groups"]
    upper: Int[Array, "all_fairlets groups"]
    matchings: Int[Array, "pool points"]
    loss: Loss = field(metadata=STATIC)
    n_clusters: int = field(metadata=STATIC)
    slot_group: tuple[int, ...] = field(metadata=STATIC)
    anchor: int | None = field(metadata=STATIC)
    free_sizes: bool = field(metadata=STATIC)
    prior: Dispersion | None = field(metadata=STATIC)
    n_numbers: float = field(metadata=STATIC)
    weight: Float[Array, " obs_and_phantom"] | None = None  # of the rows; None if all are 1
    modes: Modes | None = None

    @classmethod
    def make(cls, table: Table, settings: Settings):
        """Fairlets of the composition asked for, or of one observation each where that is "singletons"."""
        groups, _, held = what_to_balance(table, settings)
        points, group, anchor = table.X, groups.code, anchor_group(held)
        if anchor is not None:
            points, group = points[group == anchor], np.zeros(groups.sizes[anchor], int)
        pool = neighbour_matchings(points, group, np.random.default_rng(settings.seed))
        return cls.of(table, held, settings, pool)

    @classmethod
    def of(cls, table: Table, held: Capacities, settings: Settings, matchings, dtype=jnp.float32):
        """The target of fairlets with these capacities."""
        weight = table.weight
        return cls(
            x=jax.device_put(rows_of(table.X, settings.loss, dtype, n_more=1)),
            lower=on_device(held.lower, jnp.int32),
            upper=on_device(held.upper, jnp.int32),
            matchings=on_device(matchings, jnp.int32),
            loss=settings.loss,
            n_clusters=settings.n_clusters,
            slot_group=groups_of_slots(held),
            anchor=anchor_group(held),
            free_sizes=bool((held.lower != held.upper).any()),
            prior=settings.prior,
            n_numbers=table.n_numbers,
            weight=None if weight is None else on_device(np.append(weight, 0.0), dtype),
        )

    @property
    def n_obs(self):
        return self.x.shape[0] - 1

    @property
    def n_fairlets(self):
        return self.lower.shape[0]

    @property
    def swap_slots(self):
        """Slots whose members may change fairlet: all except the anchors'."""
        return tuple(slot for slot, group in enumerate(self.slot_group) if group != self.anchor)

    @property
    def has_phantoms(self):
        return self.n_fairlets * len(self.slot_group) != self.n_obs

    def swap_rounds(self) -> int:
        """Rounds of parallel swaps in a sweep; 0 if no member can change fairlet."""
        if not self.swap_slots or self.n_fairlets == 1:
            return 0
        return min(max(SWAP_ROUND_FAIRLETS // self.n_fairlets, 1), MAX_ROUNDS, self.n_fairlets)

    # States

    def open(self, state: FairletState) -> OpenState:
        return OpenState(self.opened(state.members, self.x[state.members]), state.cluster, state.lambdas)

    def close(self, opened: OpenState) -> FairletState:
        return FairletState(opened.fairlets.members, opened.cluster, opened.lambdas)

    def opened(self, members, x):
        return Fairlets(members, x, self._is_present(members), self.lower, self.upper)

    def _is_present(self, members):
        # A constant if no slot is ever empty, so that the compiler drops every mask.
        return members < self.n_obs if self.has_phantoms else jnp.ones(members.shape, bool)

    def replace_slot(self, fairlets, slot, incoming):
        here = slot[:, None] == jnp.arange(len(self.slot_group))
        members = jnp.where(here, incoming[:, None], fairlets.members)
        x = jnp.where(here[:, :, None], self.x[incoming][:, None, :], fairlets.x)
        return fairlets._replace(members=members, x=computed_once(x), present=self._is_present(members))

    def units(self, fairlets: Fairlets, cluster) -> Units:
        return fairlet_units(fairlets.x, fairlets.present, self._weights(fairlets), self.mean_size, cluster)

    def units_of(self, state):
        return self.units(state.fairlets, state.cluster)

    def _weights(self, fairlets: Fairlets):
        return None if self.weight is None else self.weight[fairlets.members]

    def labels(self, state: FairletState) -> Int[Array, " obs"]:
        """cluster[fairlet] of every row."""
        return self._of_rows(state.cluster, state)

    def fairlet(self, state: FairletState) -> Int[Array, " obs"]:
        return self._of_rows(jnp.arange(self.n_fairlets, dtype=np.min_scalar_type(-self.n_fairlets)), state)

    def _of_rows(self, of_fairlets: Int[Array, " fairlets"], state: FairletState) -> Int[Array, " obs"]:
        here = jnp.broadcast_to(of_fairlets[:, None], state.members.shape)
        return jnp.zeros(self.x.shape[0], here.dtype).at[state.members].set(here)[:-1]

    # The law

    def fairlet_losses(self, fairlets: Fairlets) -> Float[Array, " fairlets"]:
        """Loss of each fairlet."""
        anchor = None if self.anchor is None else self.slot_group.index(self.anchor)

        def paid(part, _):
            return fairlet_losses(self.loss.dissimilarity, anchor, part.x, part.present, self._weights(part))

        return map_rows(paid, fairlets)

    def losses(self, state: OpenState) -> Losses:
        clustering = self.loss.cluster_losses(self.units_of(state), self.n_clusters)
        return Losses(self.fairlet_losses(state.fairlets).sum(), clustering.sum())

    def fairlet_energies(self, state):
        return state.lambdas.fairlet * self.fairlet_losses(state.fairlets)

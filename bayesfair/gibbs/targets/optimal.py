"""B fixed at the optimal decomposition, C sampled: the paper's MC-EM, and with singletons vanilla Gibbs k-means."""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bayesfair._arrays import aligned_empty
from bayesfair._partitions import parts_of
from bayesfair._units import RowsInUnits
from bayesfair.fairlets.members import member_table
from bayesfair.gibbs.losses import Units
from bayesfair.gibbs.moves.swaps import Swaps
from bayesfair.gibbs.parts_of_rows import map_rows
from bayesfair.gibbs.states import FairletState, InverseTemperatures, OpenState
from bayesfair.gibbs.sweep import Repeat
from bayesfair.gibbs.target import Settings, Table, as_pytree
from bayesfair.gibbs.targets.fairlets import FairletTarget, Losses, what_to_balance
from bayesfair.gibbs.targets.starts import best_fairlets, start_states

__all__ = ["Optimal", "OptimalByUnits"]

BLOCK = 2**14  # fairlets that are opened at a time


class Kept(NamedTuple):
    """Fairlets that stay as they are, opened: their units and what they pay, and not the features of who is in them."""

    members: Int[Array, "fairlets slots"]
    center: Float[Array, "fairlets dim"]
    weight: Float[Array, " fairlets"]
    loss: Float[Array, " fairlets"]


@as_pytree
class Optimal(FairletTarget):
    """C given the best decomposition."""

    clusters_are_independent = True
    keeps_fairlets = True

    @staticmethod
    def _matchings(X, code, held, rng):
        return np.zeros((1, 1), int)  # nobody swaps

    def moves(self, settings):
        return Swaps(0), Repeat((self.reallocation(settings), *self.temperature_moves()))

    def fairlets(self, members) -> Kept:
        """A part of them at a time: the features of all members are a table, and more where slots are empty."""
        return Kept(members, *map_rows(self._kept, members))

    def _kept(self, members):
        opened = super().fairlets(members)
        units = super().units(opened, None)
        return units.center, units.weight, self._fairlet_losses(opened)

    def units(self, fairlets: Kept, cluster) -> Units:
        return Units(fairlets.center, fairlets.weight, cluster)

    def fairlet_losses(self, fairlets: Kept) -> Float[Array, " fairlets"]:
        return fairlets.loss


@as_pytree
class OptimalByUnits(Optimal):
    """The same of fairlets that are known, so that a unit is all that is left of each; `x` has their centres. All chains read
    the same units, and no state has members."""

    unit_weight: Float[Array, " fairlets"] = None
    fairlet: Int[Array, " obs"] = None  # of every row
    members: Int[Array, "fairlets slots"] = None
    fairlet_loss: Float[Array, ""] = None

    preparing = ""

    @classmethod
    def prepared_from(cls, table: Table, settings: Settings, state=None):
        """(the table with its optimal, or best found, decomposition; the settings; the target). `state`: the arrays from which
        a run goes on, whose fairlets are those that it has.

        Raises
        ------
        ValueError: as `Optimal.make`.
        """
        groups, composition, held = what_to_balance(table, settings)
        if state is None:
            X = table.X.X if isinstance(table.X, RowsInUnits) else table.X  # which `decompose` scales by itself
            raw = table._replace(X=X, groups=groups)
            table = table._replace(fairlets=best_fairlets(raw, settings, held.lower, composition, stay=True))
            members = member_table(table.fairlets.fairlet, groups.code, held.upper)
        else:
            members = np.asarray(state["members"])
            members = members.reshape(-1, *members.shape[-2:])[0]
        return table, settings, cls._of_members(table, settings, held, members)

    @classmethod
    def _of_members(cls, table: Table, settings: Settings, held, members):
        nobody = jnp.zeros((0, 0), jnp.int32)
        weighing = {"weight": table.weight, "n_numbers": table.n_numbers, "prior": settings.prior}
        whole = cls.of(table.X[:1], held, settings.loss, settings.n_clusters, nobody, **weighing)
        fairlet = jax.device_put(parts_of(members, len(table.X)))
        whole = replace(whole, fairlet=fairlet, members=jax.device_put(members))
        center, weight, paid = _units_and_losses(whole, members, table.X)
        units = {"x": jax.device_put(center), "unit_weight": jax.device_put(weight), "fairlet_loss": jnp.float32(paid)}
        return replace(whole, lower=nobody, upper=nobody, weight=None, **units)

    @property
    def n_obs(self):
        return len(self.fairlet)

    @property
    def n_fairlets(self):
        return len(self.members)

    def prepared(self, table, settings):
        return table

    def starts(self, table, settings, num_chains):
        return start_states(self, table, settings, (), num_chains)

    def open(self, state: FairletState) -> OpenState:
        return OpenState((), state.cluster, state.temperatures)

    def close(self, opened: OpenState) -> FairletState:
        return FairletState((), opened.cluster, opened.temperatures)

    def units(self, fairlets, cluster) -> Units:
        return Units(self.x, self.unit_weight, cluster)

    def labels(self, state: FairletState):
        return state.cluster[self.fairlet]

    def losses(self, state: OpenState) -> Losses:
        units = self.units(state.fairlets, state.cluster)
        return Losses(self.fairlet_loss, self.loss.cluster_losses(units, self.n_clusters).sum())

    def write(self, states: FairletState):
        fairlet, clustering = map(np.asarray, states.temperatures)
        members = np.broadcast_to(np.asarray(self.members), (*fairlet.shape, *self.members.shape))
        return {"cluster": np.asarray(states.cluster), "lambda_f": fairlet, "lambda_c": clustering, "members": members}

    def read(self, arrays):
        temperatures = InverseTemperatures(arrays["lambda_f"], arrays["lambda_c"])
        return FairletState((), arrays["cluster"], temperatures)


def _units_and_losses(target: OptimalByUnits, members, X):
    """(centres, weights and the sum of the losses) of the fairlets `members` (fairlets, slots) of rows X (N, d), the target
    knowing no more of them; some at a time."""
    n_fairlets, n_obs, dim = len(members), len(X), X.shape[1]
    size = min(BLOCK, n_fairlets)
    mean = X.mean(0) if target.loss.translation_invariant and isinstance(X, np.ndarray) else 0.0
    center, weight, paid = aligned_empty((n_fairlets, dim)), aligned_empty(n_fairlets), np.empty(n_fairlets, np.float32)
    for first in range(0, n_fairlets, size):
        own = slice(min(first, n_fairlets - size), min(first + size, n_fairlets))  # all as long: compiled once
        who = members[own, :, None]
        rows = X[np.minimum(members[own], n_obs - 1).ravel()].reshape(*members[own].shape, dim) - mean
        opened = np.where(who < n_obs, rows, 0).astype(np.float32)
        center[own], weight[own], paid[own] = _opened(target, members[own], opened)
    return center, weight, paid.sum(dtype=float)


@jax.jit
def _opened(target: OptimalByUnits, members, x):
    opened = target.opened(members, x)
    units = FairletTarget.units(target, opened, None)
    return units.center, units.weight, target._fairlet_losses(opened)

"""The targets `"optimal"` and `"labels"` with a shard of the rows: what differs is who sums, and who fills a shorter shard up.

All shards of a table have equally many rows and units: fillers, at the end, have weight nothing and are in no group.
"""

from dataclasses import field, replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from bayesfair.fairness import BalanceConstraint
from bayesfair.gibbs.labellings import Labelling
from bayesfair.gibbs.losses import Loss, Units
from bayesfair.gibbs.moves.across_shards import SwapsAcrossShards
from bayesfair.gibbs.moves.blocked import BlockedReallocation, GivenCenters
from bayesfair.gibbs.shards import total
from bayesfair.gibbs.states import FairletState
from bayesfair.gibbs.sweep import Repeat
from bayesfair.gibbs.target import STATIC, as_pytree
from bayesfair.gibbs.targets.labels import LabelLosses, Labels, bundle_composition
from bayesfair.gibbs.targets.optimal import OptimalByUnits

__all__ = ["LabelsShard", "OptimalOfAll", "OptimalShard", "Whole"]


class Whole(NamedTuple):
    """How many rows and units there are in all shards, and in the largest."""

    n_obs: int
    n_units: int
    most_obs: int
    most_units: int


@as_pytree
class OptimalShard(OptimalByUnits):
    """C given fairlets that stay where they are, whose units the shards share out; `fairlet_loss` is of all of them."""

    fairlet_factor: float = field(default=1.0, metadata=STATIC)  # in all, whichever groups their anchors are of
    whole: Whole = field(default=None, metadata=STATIC)

    @classmethod
    def of_units(cls, units: Units, fairlet, loss: Loss, n_clusters, whole: Whole, **more):
        """The shard of some units, weights relative to the mean size, and of the rows, `fairlet` (obs,) says in which."""
        nobody = jnp.zeros((0, 0), jnp.int32)
        return cls(
            x=_filled(units.center, whole.most_units),
            lower=nobody,
            upper=nobody,
            matchings=nobody,
            loss=loss,
            n_clusters=n_clusters,
            slot_group=(),
            anchor=None,
            free_sizes=False,
            unit_weight=np.pad(units.weight, (0, whole.most_units - len(units.weight))),
            fairlet=np.pad(fairlet, (0, whole.most_obs - len(fairlet))).astype(np.int32),
            whole=whole,
            **more,
        )

    @property
    def present(self) -> Bool[Array, " units"]:
        return self.unit_weight > 0

    @property
    def n_obs(self):
        return self.whole.most_obs

    @property
    def n_fairlets(self):
        return self.whole.n_units

    @property
    def mean_size(self):
        return self.whole.n_obs / self.whole.n_units

    @property
    def degrees(self) -> float:
        return self.whole.n_obs * self.x.shape[1] / self.loss.degree

    def moves(self, settings):
        return (Repeat((GivenCenters((BlockedReallocation(),)), *self.temperature_moves())),)

    def write(self, states: FairletState):
        """With what is known of the fairlets of all shards, from which a run goes on wherever they are by then."""
        known = {"fairlet_loss": np.asarray(self.fairlet_loss), "fairlet_factor": np.float32(self.fairlet_factor)}
        return {**super().write(states), **known}


@as_pytree
class OptimalOfAll(OptimalShard):
    """The same where one process has all units by now, and knows whose they are."""

    def moves(self, settings):
        return (Repeat((self.reallocation(settings), *self.temperature_moves())),)


@as_pytree
class LabelsShard(Labels):
    """Balanced labellings of all rows, of which this shard has some."""

    there: Float[Array, " obs"] = None  # 1, and 0 of fillers
    n_people: Int[Array, ""] = None
    whole: Whole = field(default=None, metadata=STATIC)

    @classmethod
    def of_rows(
        cls, x, code, sizes, constraint: BalanceConstraint, loss: Loss, n_clusters, whole: Whole, *, prior=None
    ):
        """The shard of rows x (obs, dim) whose groups are `code` (obs,); `sizes`: of the groups of all shards."""
        nobody, n_groups = jnp.zeros((0, 0, 0), jnp.int32), len(sizes)
        fillers = 0, whole.most_obs - len(x)
        return cls(
            x=_filled(x, whole.most_obs),
            group=np.pad(code, fillers, constant_values=n_groups).astype(np.int32),
            by_group=nobody,  # which moves of losses without centres alone read
            first_of_group=nobody,
            bundles=nobody,
            constraint=constraint,
            loss=loss,
            n_clusters=n_clusters,
            n_groups=n_groups,
            composition=bundle_composition(sizes),
            prior=prior,
            there=np.pad(np.ones(len(x), x.dtype), fillers),
            n_people=np.asarray(len(x), np.int32),
            whole=whole,
        )

    @property
    def present(self) -> Bool[Array, " obs"]:
        return self.there > 0

    @property
    def degrees(self) -> float:
        return self.whole.n_obs * self.x.shape[1] / self.loss.degree

    def _pairings(self):
        return 1  # each waits for all processes several times

    def _in_pairs(self, times):
        inside = super()._in_pairs(times)
        first, *others = inside.moves
        return replace(inside, moves=(first, SwapsAcrossShards(), *others))

    def units(self, label) -> Units:
        return Units(self.x, self.there, label)

    def counts(self, label):
        return total(super().counts(label))

    def losses(self, state: Labelling) -> LabelLosses:
        return LabelLosses(total(super().losses(state).clustering))


def _filled(x, n_rows):
    """Rows, and copies of the first one behind them: a filler's features must lie in the domain of the loss."""
    return np.concatenate([x, np.broadcast_to(x[:1], (n_rows - len(x), x.shape[1]))])

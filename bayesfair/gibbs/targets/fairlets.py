"""What targets over fairlets share: their data, both losses, temperatures, and which moves suit which size."""

from dataclasses import field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bayesfair._arrays import inner_sum
from bayesfair._check import check_integer, message
from bayesfair._draws import Statistic
from bayesfair.fairlets.compositions import Capacities, anchor_group, capacities, rule_of_small_groups
from bayesfair.fairlets.dissimilarity import Weighted
from bayesfair.fairlets.members import member_table
from bayesfair.fairness.groups import Groups
from bayesfair.gibbs.losses import Loss, Units
from bayesfair.gibbs.moves.blocked import BlockedReallocation, GivenCenters
from bayesfair.gibbs.moves.collapsed import CollapsedReallocation
from bayesfair.gibbs.moves.independent_blocks import IndependentBlocks
from bayesfair.gibbs.moves.inverse_dispersion import DrawInverseDispersion
from bayesfair.gibbs.moves.matchings import neighbour_matchings
from bayesfair.gibbs.moves.mode_jumps import Modes
from bayesfair.gibbs.parts_of_rows import map_rows
from bayesfair.gibbs.states import Fairlets, FairletState, InverseTemperatures, OpenState, computed_once
from bayesfair.gibbs.target import STATIC, Settings, Table, Target, as_pytree, rows_of
from bayesfair.gibbs.targets.starts import best_fairlets, further_states, start_states
from bayesfair.gibbs.temperature import Dispersion, check_how_many, refuse_without_degree

__all__ = ["FairletTarget", "Losses", "what_to_balance"]

COLLAPSED_LIMIT = 2_000  # fairlets: above it a sequential sweep costs more than its better mixing is worth
SWAP_ROUND_FAIRLETS = 40_000  # rounds of swaps in a sweep: about this many fairlets are asked, at most MAX_ROUNDS
MAX_ROUNDS = 16  # times, and no more often than there are fairlets


class Losses(NamedTuple):
    """L_f(B) and L_c(C | u(B))."""

    fairlet: Float[Array, ""]
    clustering: Float[Array, ""]


@as_pytree
class FairletTarget(Target):
    """Data and losses of B and C; subclasses say how B and C depend on each other, and by which moves they change."""

    x: Float[Array, "obs_and_phantom dim"]  # the last row, all zeros, is the phantom's
    lower: Int[Array, "fairlets groups"]
    upper: Int[Array, "fairlets groups"]
    matchings: Int[Array, "pool points"]  # involutions that pair near neighbours, see `matchings.py`
    loss: Loss = field(metadata=STATIC)
    n_clusters: int = field(metadata=STATIC)
    slot_group: tuple[int, ...] = field(metadata=STATIC)
    anchor: int | None = field(metadata=STATIC)  # the group that supplies one anchor per fairlet; None in the hub form
    free_sizes: bool = field(metadata=STATIC)  # may fairlets hand over an extra member?
    prior: Dispersion | None = field(metadata=STATIC)  # of lambda; None where temperatures are fixed
    modes: Modes | None = None  # between which chains may jump
    weight: Float[Array, " obs_and_phantom"] | None = None  # of the observations; None where all are 1
    # See `Table.n_numbers`; None is that without weights.
    n_numbers: float | None = field(default=None, metadata=STATIC)

    promise = "fairlets"
    preparing = "fairlets"
    clustering_moves_fairlets = False  # does the clustering loss enter the law of B?
    state_dims = {"members": ("fairlet", "slot"), "cluster": ("fairlet",)}  # noqa: RUF012
    statistics = {  # noqa: RUF012
        "lp": Statistic("quantity"),
        "fairlet_loss": Statistic("quantity", power=1),
        "clustering_loss": Statistic("quantity", power=1),
        "lambda_f": Statistic("parameter", power=-1),
        "lambda_c": Statistic("parameter", power=-1),
    }

    @classmethod
    def make(cls, table: Table, settings: Settings):
        """Fairlets of the composition asked for, or of one observation each where that is "singletons".

        Raises
        ------
        ValueError: more clusters than fairlets; a sampled or derived inverse temperature for a loss without a degree.
        """
        groups, _, held = what_to_balance(table, settings)
        matchings = cls._matchings(table.X, groups.code, held, np.random.default_rng(settings.seed))
        weighing = {"weight": table.weight, "n_numbers": table.n_numbers, "prior": settings.prior}
        return cls.of(table.X, held, settings.loss, settings.n_clusters, matchings, **weighing)

    @classmethod
    def of(
        cls,
        X,
        held: Capacities,
        loss: Loss,
        n_clusters: int,
        matchings,
        *,
        prior=None,
        weight=None,
        n_numbers=None,
        dtype=jnp.float32,
    ):
        """The target for data `X` (N, d), centred first where the loss allows, so that float32 loses nothing."""
        width = held.upper.max(0)
        return cls(
            x=jax.device_put(rows_of(X, loss, dtype, n_more=1)),
            lower=jnp.asarray(held.lower, jnp.int32),
            upper=jnp.asarray(held.upper, jnp.int32),
            matchings=jnp.asarray(matchings, jnp.int32),
            loss=loss,
            n_clusters=n_clusters,
            slot_group=tuple(np.repeat(np.arange(len(width)), width).tolist()),
            anchor=anchor_group(held),
            free_sizes=bool((held.lower != held.upper).any()),
            prior=prior,
            weight=None if weight is None else jnp.asarray(np.append(weight, 0.0), dtype),
            n_numbers=n_numbers,
        )

    @staticmethod
    def _matchings(X, code, held: Capacities, rng):
        """A pool for the near swaps: of anchors, or of observations within their group where there are no anchors."""
        anchor = anchor_group(held)
        if anchor is None:
            return neighbour_matchings(X, code, rng)
        points = X[code == anchor]
        return neighbour_matchings(points, np.zeros(len(points), int), rng)

    def prepared(self, table, settings):
        """The table with its optimal (or best found) decomposition."""
        groups, composition = _groups_to_balance(table, settings)
        balanced, lower = table._replace(groups=groups), np.asarray(self.lower)
        return table._replace(fairlets=best_fairlets(balanced, settings, lower, composition, self.keeps_fairlets))

    def members_at_start(self, table, settings):
        """The fairlets of a prepared table, as states have them."""
        groups, _ = _groups_to_balance(table, settings)
        return jnp.asarray(member_table(table.fairlets.fairlet, groups.code, np.asarray(self.upper)))

    def starts(self, table, settings, num_chains):
        """The decomposition of the table in every chain, a k-means++ restart of the clustering each."""
        table = table if table.fairlets is not None else self.prepared(table, settings)
        return start_states(self, table, settings, self.members_at_start(table, settings), num_chains)

    def further_starts(self, table, settings, best, most, rng):
        """The best decomposition's fairlets around annealed centres, or around those of the best clustering, one relocated."""
        return further_states(self, best, most, rng)

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
    def has_phantoms(self):
        return self.n_fairlets * len(self.slot_group) != self.n_obs

    # States

    def open(self, state: FairletState) -> OpenState:
        return OpenState(self.fairlets(state.members), state.cluster, state.temperatures)

    def close(self, opened: OpenState) -> FairletState:
        return FairletState(opened.fairlets.members, opened.cluster, opened.temperatures)

    def write(self, states: FairletState):
        fairlet, clustering = map(np.asarray, states.temperatures)
        tables = {"members": np.asarray(states.members), "cluster": np.asarray(states.cluster)}
        return {**tables, "lambda_f": fairlet, "lambda_c": clustering}

    def read(self, arrays):
        temperatures = InverseTemperatures(arrays["lambda_f"], arrays["lambda_c"])
        return FairletState(arrays["members"], arrays["cluster"], temperatures)

    def fairlets(self, members) -> Fairlets:
        """The fairlets of a whole table of members, opened."""
        return self.opened(members, self.x[members])

    def opened(self, members, x) -> Fairlets:
        """`fairlets`, from features at hand."""
        return Fairlets(members, x, self._is_present(members), self.lower, self.upper)

    def _is_present(self, members):
        # A constant where no slot is ever empty: the compiler then drops every mask.
        return members < self.n_obs if self.has_phantoms else jnp.ones(members.shape, bool)

    def replace_slot(self, fairlets: Fairlets, slot, incoming) -> Fairlets:
        """The fairlets after member `incoming[i]` has taken place `slot[i]` of fairlet i."""
        here = slot[:, None] == jnp.arange(len(self.slot_group))
        members = jnp.where(here, incoming[:, None], fairlets.members)
        x = jnp.where(here[:, :, None], self.x[incoming][:, None, :], fairlets.x)
        return fairlets._replace(members=members, x=computed_once(x), present=self._is_present(members))

    def units(self, fairlets: Fairlets, cluster) -> Units:
        """Fairlet centres u_i (means of the members) with weights n_i / mean size.

        Where observations have weights, sums of them take the place of n_i. The mean size is of rows: with all weights 2 every
        unit weighs twice as much, as where every fairlet is there twice.
        """
        if self.weight is not None:
            weight = self.weight[fairlets.members]
            mass = inner_sum(weight, 1)
            return Units(inner_sum(weight[:, :, None] * fairlets.x, 1) / mass[:, None], mass / self.mean_size, cluster)
        size = fairlets.size.astype(fairlets.x.dtype)
        return Units(inner_sum(fairlets.x, 1) / size[:, None], size / self.mean_size, cluster)

    def units_of(self, state) -> Units:
        """The units of an opened state."""
        return self.units(state.fairlets, state.cluster)

    def labels(self, state: FairletState) -> Int[Array, " obs"]:
        """cluster[fairlet] of every observation."""
        cluster = jnp.broadcast_to(state.cluster[:, None], state.members.shape)
        return jnp.zeros(self.x.shape[0], cluster.dtype).at[state.members].set(cluster)[:-1]

    # The law

    def fairlet_losses(self, fairlets: Fairlets) -> Float[Array, " fairlets"]:
        """What each fairlet pays: D to its anchor summed over the others (anchored), or D to its own centre (hub)."""
        return map_rows(self._fairlet_losses, fairlets)

    def _fairlet_losses(self, fairlets):
        dissimilarity, x = self.loss.dissimilarity, fairlets.x
        if self.weight is not None:
            dissimilarity, x = Weighted(dissimilarity), jnp.dstack([x, self.weight[fairlets.members]])
        if self.anchor is None:
            return dissimilarity.hub(x, fairlets.present)
        anchor, total = x[:, self.slot_group.index(self.anchor)], 0.0
        for slot in self.swap_slots:
            there = fairlets.present[:, slot]
            # An empty slot is measured at the anchor itself: its own zeros may lie outside the domain of D.
            member = jnp.where(there[:, None], x[:, slot], anchor)
            total += jnp.where(there, dissimilarity.between(member, anchor), 0.0)
        return total + jnp.zeros(fairlets.x.shape[0], fairlets.x.dtype)

    def losses(self, state: OpenState) -> Losses:
        clustering = self.loss.cluster_losses(self.units(state.fairlets, state.cluster), self.n_clusters)
        return Losses(self.fairlet_losses(state.fairlets).sum(), clustering.sum())

    def log_density(self, state, temperatures):
        """log p(B, C), or log p(B, C, lambda) where lambda has a prior, up to a constant."""
        return self.log_density_at(self.losses(state), temperatures)

    def log_density_at(self, losses: Losses, temperatures):
        """`log_density` from losses at hand."""
        lp = -temperatures.fairlet * losses.fairlet - temperatures.clustering * losses.clustering
        if self.prior is None:
            return lp
        # Everything in p(B, C, lambda) but the losses: (a + N d / h - 1) log lambda - b lambda.
        inverse_dispersion = self.dispersion_of(temperatures)
        power = self.prior.shape + self.degrees - 1
        return lp + (power * jnp.log(inverse_dispersion) - self.prior.rate * inverse_dispersion)

    def report(self, state):
        losses, temperatures = self.losses(state), state.temperatures
        values = {
            "lp": self.log_density_at(losses, temperatures),
            "fairlet_loss": losses.fairlet,
            "clustering_loss": losses.clustering,
            "lambda_f": temperatures.fairlet,
            "lambda_c": temperatures.clustering,
        }
        return {name: values[name] for name in self.statistics}

    def fairlet_energies(self, state: OpenState) -> Float[Array, " fairlets"]:
        """-log p(B), a term for each fairlet, as far as the fairlet loss goes."""
        return state.temperatures.fairlet * self.fairlet_losses(state.fairlets)

    def swap_energies(self, state) -> Float[Array, " fairlets"]:
        """What parallel swaps weigh: -log of the law of B at this state, a term for each fairlet."""
        return self.fairlet_energies(state)

    def log_round_ratio(self, before, after) -> Float[Array, ""]:
        """What the fairlets' own terms leave out of the log ratio of a whole round of swaps."""
        return jnp.zeros((), self.x.dtype)

    # Temperatures: one lambda on the scale of the observations, and what it means for the two losses. The within-cluster
    # loss of the observations splits into a fairlet part and a clustering part, with hubs exactly: SSE = L_f + (mean
    # size) L_c. Anchored fairlets measure D to a member instead of to the mean, twice as far (exactly for 1:1, on average
    # for 1:t). Two lambdas, each with its own conjugate step, would degenerate: fairlets of distant members have centres
    # in one place.

    @property
    def fairlet_factor(self) -> float:
        """lambda_f / lambda: 1 with hubs, 1/2 with anchors."""
        return 1.0 if self.anchor is None else 0.5

    @property
    def degrees(self) -> float:
        """Power of lambda in the normaliser of exp(-lambda loss), N d / h for a loss of degree h (Rigon et al. 2023).

        Exact for homogeneous losses, to second order for the other Bregman divergences (see `BregmanLoss`). Either way it
        is part of the target as lambda^(N d / h), which the conjugate step samples exactly. N is the sum of the weights, and d
        counts the dimensions that the rows span.
        """
        n_numbers = self.n_obs * self.x.shape[1] if self.n_numbers is None else self.n_numbers
        return n_numbers / self.loss.degree

    def total_loss(self, losses: Losses):
        """The loss of the observations, of which lambda is the inverse temperature."""
        return self.fairlet_factor * losses.fairlet + self.mean_size * losses.clustering

    def of_dispersion(self, inverse_dispersion) -> InverseTemperatures:
        """(lambda_f, lambda_c) of one lambda = 1 / (2 sigma^2), sigma the within-cluster standard deviation."""
        return InverseTemperatures(self.fairlet_factor * inverse_dispersion, self.mean_size * inverse_dispersion)

    def dispersion_of(self, temperatures: InverseTemperatures):
        """The lambda of which these are the temperatures."""
        return temperatures.clustering / self.mean_size

    def with_dispersion(self, temperatures: InverseTemperatures, inverse_dispersion) -> InverseTemperatures:
        """The temperatures after lambda has been drawn anew."""
        return self.of_dispersion(inverse_dispersion)

    # Moves

    def temperature_moves(self) -> tuple:
        return () if self.prior is None else (DrawInverseDispersion(),)

    def swap_rounds(self) -> int:
        """Rounds of parallel swaps in a sweep; 0 where nobody can change fairlet."""
        if not self.swap_slots or self.n_fairlets == 1:
            return 0
        return min(max(SWAP_ROUND_FAIRLETS // self.n_fairlets, 1), MAX_ROUNDS, self.n_fairlets)

    def reallocation(self, settings: Settings):
        """The move of C given B: collapsed where fairlets are few, blocked where they are many, unless it is asked for."""
        kind = settings.reallocation
        if kind not in ("auto", "collapsed", "blocked"):
            remedy = "Both are exact; 'auto' takes the one that suits the number of fairlets."
            raise ValueError(message("reallocation", "be 'auto', 'collapsed' or 'blocked'", repr(kind), remedy))
        augmented = self.loss.augmentation is not None
        if kind == "collapsed" or (kind == "auto" and (self.n_fairlets <= COLLAPSED_LIMIT or not augmented)):
            return CollapsedReallocation()
        return GivenCenters((BlockedReallocation(),)) if augmented else IndependentBlocks()


def what_to_balance(table: Table, settings: Settings):
    """(groups, composition, the capacities that they make).

    Raises
    ------
    ValueError: more clusters than fairlets; a sampled or derived inverse temperature for a loss without a degree.
    """
    _refuse_min_balance(table, settings)
    groups, composition = _groups_to_balance(table, settings)
    held = capacities(groups.sizes, composition, groups.names)
    remedy = _fewer_clusters(groups, held, composition)
    check_integer("n_clusters", settings.n_clusters, maximum=len(held.lower), remedy=remedy)
    if settings.loss.degree is None and not settings.has_fixed_pair:
        refuse_without_degree(settings.inverse_temperature)
    check_how_many(settings.inverse_temperature, ("lambda_f", "lambda_c"))
    return groups, composition, held


def _groups_to_balance(table: Table, settings: Settings):
    """(groups, composition): those of the table, or everybody in one where fairlets are singletons."""
    if isinstance(settings.composition, str) and settings.composition == "singletons":
        return Groups(np.zeros(len(table.X), np.int32), ("everyone",)), "auto"
    return table.groups, settings.composition


def _fewer_clusters(groups, held: Capacities, composition):
    """What helps where there are more clusters than fairlets."""
    n_fairlets, n_obs = len(held.lower), len(groups.code)
    ruled = rule_of_small_groups(groups.sizes, groups.names) if isinstance(composition, str) else ""
    return f"There are {n_fairlets} fairlets (n_samples = {n_obs}): ask for fewer clusters or smaller fairlets. {ruled}".strip()


def _refuse_min_balance(table: Table, settings: Settings):
    """Fairlets hold whole crossings of all attributes, and their composition is what balance they have."""
    remedy = "Pass target='labels', or leave it out."
    if not (isinstance(settings.min_balance, str) and settings.min_balance == "exact"):
        rule = "be left out for targets over fairlets, whose composition decides"
        raise ValueError(message("min_balance", rule, repr(settings.min_balance), remedy))
    if table.groups.attributes:
        raise ValueError(message("crossed", "be true for targets over fairlets", "False", remedy))

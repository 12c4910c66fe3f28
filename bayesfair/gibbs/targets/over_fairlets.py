"""The common part of targets over fairlets: losses, temperatures, reallocation, and the decomposition to start from."""

from typing import NamedTuple

import numpy as np
from jaxtyping import ArrayLike, Float

from bayesfair._arrays import on_device
from bayesfair._check import check_integer, message, tell
from bayesfair._draws import Statistic
from bayesfair._scaling import ScaledRows
from bayesfair.fairlets.compositions import Capacities, capacities, rule_of_small_groups
from bayesfair.fairlets.decomposition import Decomposition, decompose
from bayesfair.fairlets.members import member_table
from bayesfair.fairness.groups import Groups
from bayesfair.gibbs.capabilities import HasUnits
from bayesfair.gibbs.moves.blocked import BlockedReallocation, GivenCenters
from bayesfair.gibbs.moves.collapsed import CollapsedReallocation
from bayesfair.gibbs.moves.independent_blocks import IndependentBlocks
from bayesfair.gibbs.moves.inverse_dispersion import DrawInverseDispersion
from bayesfair.gibbs.states import FairletState, InverseTemperatures
from bayesfair.gibbs.target import Settings, Table, Target, refuse_set
from bayesfair.gibbs.targets.starts import further_states, start_states
from bayesfair.gibbs.temperature import check_fixed

COLLAPSED_LIMIT = 2_000  # fairlets above which a sequential sweep costs more than its better mixing is worth


class Losses(NamedTuple):
    """L_f(B) and L_c(C | u(B))."""

    fairlet: Float[ArrayLike, ""]
    clustering: Float[ArrayLike, ""]


class OverFairlets(HasUnits, Target):
    """Fairlets B and their clusters C; subclasses say what is known of B, and by which moves B and C change.

    One lambda, on the scale of the observations, is the inverse temperature of both losses: SSE = L_f + (mean size) L_c with
    hubs. Anchored fairlets measure D to a member instead of to the mean, twice as far (exactly for 1:1, on average for 1:t).
    Two lambdas, each with its own conjugate step, would degenerate: fairlets of distant members have centres in one place.
    """

    promise = "fairlets"
    preparing = "fairlets"
    state_dims = {"members": ("fairlet", "slot"), "cluster": ("fairlet",)}  # noqa: RUF012
    statistics = {  # noqa: RUF012
        "lp": Statistic("quantity"),
        "fairlet_loss": Statistic("quantity", power=1),
        "clustering_loss": Statistic("quantity", power=1),
        "lambda_f": Statistic("parameter", power=-1),
        "lambda_c": Statistic("parameter", power=-1),
    }

    @classmethod
    def prepared(cls, table, settings, state=None):
        """The table with its optimal (or best found) decomposition, or with the fairlets of a run that continues."""
        groups, composition, held = what_to_balance(table, settings)
        if state is not None:
            members = np.asarray(state["members"])
            return table._replace(members=members.reshape(-1, *members.shape[-2:])[0])
        found = _best_fairlets(table._replace(groups=groups), settings, held, composition, cls.keeps_fairlets)
        return table._replace(fairlets=found, members=member_table(found.fairlet, groups.code, held.upper))

    def starts(self, table, settings, num_chains):
        """The table's decomposition in every chain, each with its own k-means++ restart of the clustering."""
        members = () if self.keeps_fairlets else on_device(table.members)
        return start_states(self, table, settings, members, num_chains)

    def further_starts(self, table, settings, best, most, rng):
        """The best decomposition's fairlets around annealed centres, or around the best clustering's with one relocated."""
        return further_states(self, best, most, rng)

    def write(self, states):
        lambda_f, lambda_c = states.lambdas
        parts = {"members": states.members, "cluster": states.cluster, "lambda_f": lambda_f, "lambda_c": lambda_c}
        return {name: np.asarray(part) for name, part in parts.items()}

    def read(self, arrays):
        lambdas = InverseTemperatures(arrays["lambda_f"], arrays["lambda_c"])
        return FairletState(() if self.keeps_fairlets else arrays["members"], arrays["cluster"], lambdas)

    @property
    def n_units(self):
        return self.n_fairlets

    @property
    def mean_size(self):
        return self.n_obs / self.n_fairlets

    # The law

    def log_density(self, state, lambdas, losses: Losses | None = None):
        """log p(B, C), or log p(B, C, lambda) if lambda has a prior, up to a constant. `losses`: if known."""
        losses = self.losses(state) if losses is None else losses
        lp = -lambdas.fairlet * losses.fairlet - lambdas.clustering * losses.clustering
        return lp + self.log_law_of(self.dispersion_of(lambdas))

    def scalars(self, state):
        losses, lambdas = self.losses(state), state.lambdas
        values = {
            "lp": self.log_density(state, lambdas, losses) if "lp" in self.statistics else None,
            "fairlet_loss": losses.fairlet,
            "clustering_loss": losses.clustering,
            "lambda_f": lambdas.fairlet,
            "lambda_c": lambdas.clustering,
        }
        return {name: values[name] for name in self.statistics}

    @property
    def fairlet_factor(self) -> float:
        """lambda_f / lambda: 1 with hubs, 1/2 with anchors."""
        return 1.0 if self.anchor is None else 0.5

    def total_loss(self, losses: Losses):
        return self.fairlet_factor * losses.fairlet + self.mean_size * losses.clustering

    def of_dispersion(self, inverse_dispersion) -> InverseTemperatures:
        return InverseTemperatures(self.fairlet_factor * inverse_dispersion, self.mean_size * inverse_dispersion)

    def dispersion_of(self, lambdas: InverseTemperatures):
        return lambdas.clustering / self.mean_size

    # Moves

    def temperature_moves(self) -> tuple:
        return () if self.prior is None else (DrawInverseDispersion(),)

    def reallocation(self, settings: Settings):
        """The move of C given B: collapsed with few fairlets, blocked with many, unless set otherwise."""
        kind = settings.reallocation
        if kind not in ("auto", "collapsed", "blocked"):
            remedy = "Both are exact; 'auto' takes the one that suits the number of fairlets."
            raise ValueError(message("reallocation", "be 'auto', 'collapsed' or 'blocked'", repr(kind), remedy))
        augmented = self.loss.augmentation is not None
        if kind == "collapsed" or (kind == "auto" and (self.n_fairlets <= COLLAPSED_LIMIT or not augmented)):
            return CollapsedReallocation()
        return GivenCenters((BlockedReallocation(),)) if augmented else IndependentBlocks()


def what_to_balance(table: Table, settings: Settings):
    """(groups, composition, the capacities that they make): everybody in one group where fairlets are singletons."""
    remedy = "Pass target='labels', or leave it out."
    refuse_set(settings, ("min_balance", "size_min", "size_max"), "targets over fairlets", remedy)
    if table.groups.attributes:
        raise ValueError(message("crossed", "be true for targets over fairlets", "False", remedy))
    groups, composition = table.groups, settings.composition
    if isinstance(composition, str) and composition == "singletons":
        groups, composition = Groups(np.zeros(len(table.X), np.int32), ("everyone",)), "auto"
    held = capacities(groups.sizes, composition, groups.names)
    remedy = _fewer_clusters(groups, held, composition)
    check_integer("n_clusters", settings.n_clusters, maximum=len(held.lower), remedy=remedy)
    check_fixed(settings, pair=True)
    return groups, composition, held


def _fewer_clusters(groups, held: Capacities, composition):
    """The remedy if there are more clusters than fairlets."""
    n_fairlets, n_obs = len(held.lower), len(groups.code)
    ruled = rule_of_small_groups(groups.sizes, groups.names) if isinstance(composition, str) else ""
    return f"There are {n_fairlets} fairlets (n_samples = {n_obs}): ask for fewer clusters or smaller fairlets. {ruled}".strip()


def _best_fairlets(table: Table, settings: Settings, held: Capacities, composition, stay: bool) -> Decomposition:
    """The optimum, or the best decomposition found; a warning if a suboptimal one has to `stay`."""
    if held.lower.sum(1).max() == 1:
        alone = np.arange(len(table.X))
        return Decomposition(alone, np.ones((len(alone), 1), np.int64), 0.0, 0.0, True)
    X = table.X.X if isinstance(table.X, ScaledRows) else table.X  # `decompose` scales by itself
    settled = {"random_state": settings.seed, "sample_weight": table.weight}
    found = decompose(X, table.groups, composition, dissimilarity=settings.loss.dissimilarity, **settled)
    if found.anchored and not found.optimal and stay:
        tell(f"The fairlets, which are the same in all draws, are not proved optimal: {found}.")
    return found

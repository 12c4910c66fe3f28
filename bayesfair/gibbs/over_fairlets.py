"""The common part of targets over fairlets: the decomposition, data for the kernels, starts, and the law."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from bayesfair._arrays import MANY, cell_masses, distinct_places
from bayesfair._check import check_integer, refuse_unread, tell
from bayesfair._draws import Statistic
from bayesfair.fairlets.compositions import Capacities, anchor_group, capacities, rule_of_small_groups
from bayesfair.fairlets.decomposition import decompose
from bayesfair.fairlets.members import fairlet_centers
from bayesfair.fairness.groups import Groups
from bayesfair.fairness.guarantee import Guarantee, guarantee_of_fairlets
from bayesfair.gibbs.chance import seeded
from bayesfair.gibbs.fairlet_chain import go_on
from bayesfair.gibbs.fairlet_moves import SweepPlan
from bayesfair.gibbs.fairlets import FAILED, LOSS_C, LOSS_F, NOBODY, Fairlets, State, new_state
from bayesfair.gibbs.loss import refuse_start, refuse_value
from bayesfair.gibbs.modes.jump import with_jumps_of
from bayesfair.gibbs.near_rows import near_pairs
from bayesfair.gibbs.target import Room, Table, check_temperature, empty_room, is_fixed
from bayesfair.gibbs.temperature import start_dispersion

STATISTICS = {
    "lp": Statistic("quantity"),
    "fairlet_loss": Statistic("quantity", power=1),
    "clustering_loss": Statistic("quantity", power=1),
    "lambda_f": Statistic("parameter", power=-1),
    "lambda_c": Statistic("parameter", power=-1),
    "swap_rate": Statistic("figure"),
    "reallocation_rate": Statistic("figure"),
}


class Sweep(NamedTuple):
    """Moves of B in a sweep, as multiples of the number of rows."""

    near: float
    random: float
    extra: float


SWEEP = Sweep(near=0.5, random=0.25, extra=0.25)


class OverFairlets(BaseEstimator):
    """Fairlets B and their clusters C; subclasses are the targets, with their settings.

    One lambda, on the scale of the observations, is the inverse temperature of both losses: SSE = L_f + (mean size) L_c with
    hubs. Anchored fairlets measure D to a member instead of to the mean, twice as far (exactly for 1:1, on average for 1:t).
    Two lambdas, each with its own conjugate step, would degenerate: fairlets of distant members have centres in one place.
    """

    keeps_fairlets = False  #: Whether the fairlets are the same in all draws.
    is_joint = True  #: Whether moves of B read the clustering loss, and lambda_f follows lambda.
    inner_steps = 1
    fairlet_move = "swaps"

    @property
    def moves_fairlets(self) -> bool:
        """Whether draws change the fairlets."""
        return not self.keeps_fairlets

    def prepare(self, table: Table, memory=None) -> "FairletLaw":
        """Prepare the law of a table.

        Parameters
        ----------
        table : Table
            What is sampled.
        memory : dict, optional
            Arrays of the run that continues, see `FairletLaw.memory`.

        Returns
        -------
        FairletLaw
        """
        if not self.keeps_fairlets and is_singletons(self.composition):
            refuse_unread(
                self, "fairlet_move", "keep_fairlets", where="with composition='singletons', whose fairlets stay"
            )
        groups, held = what_to_balance(table, self.composition)
        check_temperature(table, 2, "a pair for targets over fairlets", "Pass (lambda_f, lambda_c).")
        if memory is None:
            fairlet, gap = best_fairlets(table, groups, held, self.composition, self.keeps_fairlets)
        else:
            fairlet, gap = memory["start"], None
        data = make_fairlets(table, groups, held, self.keeps_fairlets)
        return with_jumps_of(FairletLaw(table, data, fairlet, self, gap), memory)


class FairletLaw:
    """A prepared target over fairlets: see `target.Law`."""

    state_type = State

    def __init__(self, table: Table, data: Fairlets, fairlet, target: OverFairlets, gap=None):
        self.table, self.data, self.fairlet, self.target = table, data, np.asarray(fairlet), target
        self.gap = gap  # how far the fixed fairlets of all draws may be from the best ones
        self.statistics = {name: kind for name, kind in STATISTICS.items() if target.is_joint or name != "lp"}

    @property
    def guarantee(self) -> Guarantee:
        """What holds in every draw."""
        return Guarantee() if self.data.lower.shape[1] == 1 else guarantee_of_fairlets(self.data.lower, self.data.upper)

    @property
    def memory(self) -> dict:
        """Arrays that a continued run needs beside its table and states: the fairlets at the start."""
        return {"start": self.fairlet.astype(np.int32)}

    @property
    def looks_per_sweep(self) -> float:
        """Looks at a row and a coordinate of a centre, or what takes as long."""
        plan, (n_clusters, dim) = self.plan, (self.table.n_clusters, self.table.X.shape[1])
        exchanges = plan.near + plan.random + plan.extra + plan.steps
        return exchanges * (30 + 8 * dim) + plan.visits * self.n_fairlets * (20 + n_clusters * dim)

    @property
    def n_fairlets(self) -> int:
        return len(self.data.lower)

    @property
    def mean_size(self) -> float:
        return len(self.data.group) / self.n_fairlets

    @property
    def fairlet_factor(self) -> float:
        """lambda_f / lambda: 1 with hubs, 1/2 with anchors."""
        return 1.0 if self.data.anchor == NOBODY else 0.5

    @cached_property
    def code(self):
        """The loss as kernels read it."""
        return self.table.loss.code()

    @cached_property
    def plan(self) -> SweepPlan:
        """What a sweep is."""
        target, n_obs = self.target, len(self.data.group)
        shape, rate = self.table.gamma
        moves = dict.fromkeys(("near", "random", "extra", "steps"), 0)
        if not target.keeps_fairlets and self.n_fairlets > 1 and len(self.data.movers):
            if target.fairlet_move == "rectangular-loop":
                moves["steps"] = n_obs
            else:
                moves["near"] = round(SWEEP.near * n_obs) if len(self.data.edges) else 0
                moves["random"] = round(SWEEP.random * n_obs)
                is_free = (self.data.lower != self.data.upper).any()
                moves["extra"] = round(SWEEP.extra * n_obs) if is_free else 0
        return SweepPlan(
            joint=target.is_joint,
            visits=target.inner_steps,
            shape=shape,
            rate=rate,
            factor=self.fairlet_factor,
            **moves,
        )

    def starts(self, num_chains: int) -> list[State]:
        """The table's decomposition in every chain, each with its own k-means++ restart of the clustering."""
        table = self.table
        centers = fairlet_centers(table.X, self.fairlet, table.weight)
        clusters = k_means(centers, np.bincount(self.fairlet, table.weight), table.n_clusters, num_chains, table.seed)
        return self._starts(clusters)

    def starts_at(self, labels) -> list[State]:
        """States of chains near labels (chains, N): every fairlet of the start is where most of its rows are."""
        shape = self.n_fairlets, self.table.n_clusters
        held = [cell_masses(self.fairlet, own, shape).argmax(1) for own in labels]
        return self._starts([fill_empty_clusters(clusters, shape[1]) for clusters in held])

    def _starts(self, clusters) -> list[State]:
        """States of chains with these clusters (chains, m); lambda suits the best of them."""
        table = self.table
        states = [self.state(chance, self.fairlet, c, 1.0, 1.0) for chance, c in enumerate(clusters)]
        if is_fixed(table.temperature):
            lambda_f, lambda_c = table.temperature
            lam = lambda_c / self.mean_size
        else:
            losses = [self.fairlet_factor * s.value[LOSS_F] + s.value[LOSS_C] for s in states]
            best = int(np.argmin(losses))
            lam = start_dispersion(table, clusters[best][self.fairlet], losses[best])
            lambda_f = self.fairlet_factor * lam
        for state in states:
            state.value[:2] = lambda_f, lam
        return states

    def state(self, chain: int, fairlet, cluster, lambda_f: float, lam: float) -> State:
        """A chain's state from scratch."""
        words = seeded(self.table.seed, chain)
        state = new_state(words, self.data, self.code, fairlet, cluster, self.table.n_clusters, lambda_f, lam)
        if not np.isfinite(state.value).all():
            first = np.unique(fairlet, return_index=True)[1]
            refuse_start(self.table.loss, self.table.X, np.asarray(fairlet), range(len(fairlet)))
            refuse_start(self.table.loss, state.total / state.mass[:, None], state.cluster, first)
        return state

    def advance(self, state: State, thinning: int, visits: int, room: Room, first: int) -> int:
        numbers = np.empty((len(room.scalars), 6))
        last = go_on(
            self.data, self.code, self.plan, state, thinning, visits, room.labels, room.fairlets, numbers, first
        )
        self._refuse_failure(state)
        room.scalars[first:last] = self._scalars(numbers[first:last])
        return last

    def learn(self, state: State, n_sweeps: int):
        """Sweeps that nobody reads, in place."""
        self.advance(state, n_sweeps, np.iinfo(np.int64).max, empty_room(self, 1), 0)

    def _scalars(self, numbers):
        """The columns of `statistics` from what the kernel writes."""
        loss_f, loss_c, lambda_f, lam, swapped, moved = numbers.T
        loss_c, lambda_c = loss_c / self.mean_size, lam * self.mean_size
        columns = [loss_f, loss_c, lambda_f, lambda_c, swapped, moved]
        if self.target.is_joint:
            lp = -lambda_f * loss_f - lambda_c * loss_c
            if self.plan.shape > 0:
                lp += (self.plan.shape - 1) * np.log(lam) - self.plan.rate * lam
            columns.insert(0, lp)
        return np.stack(columns, 1)

    def _refuse_failure(self, state: State):
        """Raise a ValueError if a loss was not a number."""
        if state.step[FAILED]:
            refuse_value(state.value[LOSS_C], f"row {state.step[FAILED] - 1}, when it moved")

    def labels(self, state: State) -> np.ndarray:
        return state.cluster[state.fairlet]


def is_singletons(composition) -> bool:
    """Whether every row is a fairlet."""
    return isinstance(composition, str) and composition == "singletons"


def what_to_balance(table: Table, composition):
    """(groups, capacities) of the composition: everybody is in one group where fairlets are singletons."""
    groups = table.groups
    if is_singletons(composition):
        groups, composition = Groups(np.zeros(len(table.X), np.int32), ("everyone",)), "auto"
    held = capacities(groups.sizes, composition, groups.names)
    n_fairlets, n_obs = len(held.lower), len(groups.code)
    ruled = rule_of_small_groups(groups.sizes, groups.names) if isinstance(composition, str) else ""
    remedy = (
        f"There are {n_fairlets} fairlets (n_samples = {n_obs}): ask for fewer clusters or smaller fairlets. {ruled}"
    )
    check_integer("n_clusters", table.n_clusters, maximum=n_fairlets, remedy=remedy.strip())
    return groups, held


def best_fairlets(table: Table, groups: Groups, held: Capacities, composition, stay: bool):
    """(the fairlet of every row in the optimum, or in the best found, its gap); a warning if a suboptimal one has to `stay`."""
    if held.lower.sum(1).max() == 1:
        return np.arange(len(table.X)), 0.0 if stay else None
    weight = None if (table.weight == 1).all() else table.weight
    settled = {"random_state": table.seed, "sample_weight": weight, "dissimilarity": table.loss.dissimilarity}
    found = decompose(table.X, groups, composition, **settled)
    if found.anchored and not found.optimal and stay:
        tell(f"The fairlets, which are the same in all draws, are not proved optimal: {found}.")
    return found.fairlet, (0.0 if found.optimal else found.gap) if stay else None


def make_fairlets(table: Table, groups: Groups, held: Capacities, stay: bool) -> Fairlets:
    """The data of the kernels; near rows only if fairlets move."""
    code, anchor = groups.code.astype(np.int32), anchor_group(held)
    movers = np.flatnonzero(code != (NOBODY if anchor is None else anchor))
    return Fairlets(
        x=table.X,
        group=code,
        weight=table.weight,
        order=np.argsort(code, kind="stable"),
        first=np.concatenate([[0], np.cumsum(groups.sizes)]),
        movers=movers,
        lower=np.ascontiguousarray(held.lower, np.int32),
        upper=np.ascontiguousarray(held.upper, np.int32),
        edges=np.empty((0, 2), np.int64) if stay else near_pairs(table.X, code, table.seed),
        width=held.upper.max(0).astype(np.int64),
        anchor=NOBODY if anchor is None else anchor,
    )


def k_means(X, weights, n_clusters: int, num_chains: int, seed: int):
    """Clusterings (chains, N) by Lloyd's algorithm from k-means++, all clusters used; many rows: centres of some."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(seed)
    n_found = min(n_clusters, len(distinct_places(X.__getitem__, n_clusters)))
    seeds = rng.integers(2**31 - 1, size=num_chains)
    some = slice(None) if len(X) <= MANY else np.sort(rng.choice(len(X), MANY, replace=False))
    clusters = []
    with threadpool_limits(1):  # bit-identical starts whatever the number of threads
        for own in seeds:
            fit = KMeans(n_found, n_init=1, random_state=int(own)).fit(X[some], sample_weight=weights[some])
            labels = fit.labels_ if len(fit.labels_) == len(X) else fit.predict(X)
            clusters.append(fill_empty_clusters(labels, n_clusters))
    return clusters


def fill_empty_clusters(labels, n_clusters: int):
    """Labels with every cluster used: an empty cluster takes a unit from the largest."""
    labels = np.array(labels, dtype=np.int32)
    for empty in np.setdiff1d(np.arange(n_clusters), labels):
        largest = np.bincount(labels, minlength=n_clusters).argmax()
        labels[np.flatnonzero(labels == largest)[-1]] = empty
    return labels

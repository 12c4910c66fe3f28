"""The posterior directly on balanced labellings, without fairlets (DESIGN.md, section 2.6).

p(z) is proportional to exp(-lambda L(z)) on the balanced labellings with every cluster used. L is the clustering loss
of the rows. Balance counts rows whatever their weights.
"""

from dataclasses import field
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bayesfair._arrays import MANY, on_device
from bayesfair._check import check_integer
from bayesfair._draws import Statistic
from bayesfair._jit import jit
from bayesfair.balanced.centroids import CENTROIDS, Centroids, centroids_of
from bayesfair.balanced.labels import balanced_labels, cooled_labels
from bayesfair.balanced.problem import BalancedProblem
from bayesfair.fairness.balanced import BalanceConstraint, balance_constraint
from bayesfair.gibbs.capabilities import HasLabels
from bayesfair.gibbs.labellings import Labelling
from bayesfair.gibbs.loss import Loss, Units
from bayesfair.gibbs.moves.balanced_in_turn import BundlesOfPeople, Counted, Excursions, Singles, SwapsOfPeople
from bayesfair.gibbs.moves.blocked import GivenCenters
from bayesfair.gibbs.moves.inverse_dispersion import DrawInverseDispersion
from bayesfair.gibbs.moves.mode_jumps import Modes
from bayesfair.gibbs.moves.pair_draws import PairDraws
from bayesfair.gibbs.parts_of_rows import sum_over_rows
from bayesfair.gibbs.relocations import has_distinct_rows, relocated_centers
from bayesfair.gibbs.target import STATIC, Settings, Table, Target, as_pytree, refuse_set, rows_of
from bayesfair.gibbs.targets.starts import start_dispersion
from bayesfair.gibbs.temperature import Dispersion, check_fixed

SQUARES = CENTROIDS["kmeans"]  # good enough to start from for losses without such centres
LARGEST_BUNDLE = 12
POOLS = 4  # pools of bundles, for losses without centres
# Reach of a sweep; larger tables get fewer visits per row, so that it stays O(N).
IN_TURN = 2_000  # rows, and pairs of rows, that are visited one by one
PAIRED = 80_000  # rows in the random matchings of clusters per sweep: at least one matching, at most K - 1
EXCURSIONS = 4
STARTS_PER_CHAIN = 4  # cooled starts per chain; one for tables of many rows


class LabelLosses(NamedTuple):
    """L(z)."""

    clustering: Float[Array, ""]


@as_pytree
class Labels(HasLabels, Target):
    """The Gibbs posterior of a clustering loss on balanced labellings."""

    x: Float[Array, "obs dim"]
    group: Int[Array, " obs"]
    by_group: Int[Array, " obs"]  # all rows, sorted by group
    first_of_group: Int[Array, " groups_and_one"]
    bundles: Int[Array, "pools bundles members"]  # for losses without centres
    constraint: BalanceConstraint
    loss: Loss = field(metadata=STATIC)
    n_clusters: int = field(metadata=STATIC)
    n_groups: int = field(metadata=STATIC)
    prior: Dispersion | None = field(metadata=STATIC)
    n_numbers: float = field(metadata=STATIC)
    weight: Float[Array, " obs"] | None = None  # of the rows, in the loss; None if all are 1
    modes: Modes | None = None

    promise = "labels"
    state_dims = {"label": ("obs",)}  # noqa: RUF012
    statistics = {  # noqa: RUF012
        "lp": Statistic("quantity"),
        "clustering_loss": Statistic("quantity", power=1),
        "lambda_c": Statistic("parameter", power=-1),
    }

    @classmethod
    def make(cls, table: Table, settings: Settings):
        """The balanced labellings of the table's groups."""
        remedy = f"There are {len(table.X)} rows: ask for fewer."
        check_integer("n_clusters", settings.n_clusters, maximum=len(table.X), remedy=remedy)
        where = "target='labels'"
        refuse_set(settings, ("reallocation", "inner_steps"), where, "Its moves are chosen by the loss: leave it out.")
        remedy = "Leave it out: this target has no fairlets; min_balance says how balanced clusters are."
        refuse_set(settings, ("composition",), where, remedy)
        check_fixed(settings, pair=False)
        bounds = {"size_min": settings.size_min, "size_max": settings.size_max}
        constraint = balance_constraint(table.groups, settings.min_balance, settings.n_clusters, **bounds)
        return cls.of(table, constraint, settings)

    @classmethod
    def of(cls, table: Table, constraint: BalanceConstraint, settings: Settings, dtype=jnp.float32):
        """The target on the labellings of a table that satisfy the constraint."""
        groups, loss, weight = table.groups, settings.loss, table.weight
        by_group = np.argsort(groups.code, kind="stable").astype(np.int32)
        first = np.concatenate([[0], np.cumsum(groups.sizes)]).astype(np.int32)
        bundles = np.zeros((0, 0, 0), np.int32)
        if loss.augmentation is None:
            rng = np.random.default_rng(settings.seed)
            bundles = _pools(table.X, by_group, first, bundle_composition(groups.sizes), rng)
        return cls(
            x=jax.device_put(rows_of(table.X, loss, dtype)),
            group=on_device(groups.code, jnp.int32),
            by_group=on_device(by_group),
            first_of_group=on_device(first),
            bundles=on_device(bundles),
            constraint=jax.tree.map(on_device, constraint),
            loss=loss,
            n_clusters=settings.n_clusters,
            n_groups=len(groups.names),
            prior=settings.prior,
            n_numbers=table.n_numbers,
            weight=None if weight is None else on_device(weight, dtype),
        )

    @property
    def n_obs(self):
        return self.x.shape[0]

    @property
    def n_units(self):
        return self.n_obs

    def starts(self, table, settings, num_chains):
        """Cooled labellings, the cheapest of several, a different one in each chain; lambda suits the best of them."""
        known = None if self.loss.augmentation is None else centroids_of(self.loss.dissimilarity)
        n_starts = num_chains * (STARTS_PER_CHAIN if self.n_obs < MANY else 1)
        labels, _ = cooled_labels(self._balanced(table, known or SQUARES), n_starts, settings.seed)
        labels = labels[:num_chains].astype(np.int32)
        losses = [float(_loss(self, label)) for label in labels]
        best = int(np.argmin(losses))
        fixed = settings.inverse_temperature[-1] if settings.has_fixed_pair else None
        dispersion = fixed or start_dispersion(self, table, settings.inverse_temperature, labels[best], losses[best])
        return Labelling(on_device(labels), on_device(np.full(num_chains, dispersion), self.x.dtype))

    def further_starts(self, table, settings, best, most, rng):
        """The best labelling with one centre relocated, balanced again by transport."""
        labels = np.asarray(best.label)
        if self.n_clusters == 1 or not has_distinct_rows(table.X, self.n_clusters + 1):
            return None
        problem = self._balanced(table, SQUARES)
        moved = relocated_centers(table.X, problem.weight, labels, self.n_clusters, most, rng)
        found = np.empty((len(moved), len(labels)), np.int32)
        for own, centers in zip(found, moved):
            own[:] = balanced_labels(problem, centers)
        return Labelling(on_device(found), on_device(np.broadcast_to(best.lambdas, len(found))))

    def _balanced(self, table, centroids: Centroids) -> BalancedProblem:
        """The problem of the cheapest labels: weights of mean 1 in double precision."""
        weight = np.ones(self.n_obs) if self.weight is None else np.asarray(self.weight, np.float64)
        constraint = jax.tree.map(np.asarray, self.constraint)
        rows = table.X, table.groups.code, weight / weight.mean()
        return BalancedProblem(*rows, constraint, centroids, self.n_clusters)

    def moves(self, settings):
        update = () if self.prior is None else (DrawInverseDispersion(),)
        if self.n_clusters == 1:
            return update
        singles, anywhere = Singles(min(self.n_obs, IN_TURN)), Excursions(EXCURSIONS)
        if self.loss.augmentation is None:
            swaps = SwapsOfPeople(min(self.n_obs // 2, IN_TURN))
            bundles = (BundlesOfPeople(),) * (self.bundles.shape[-1] > 1)
            return Counted((singles, swaps, *bundles, anywhere)), *update
        n_matchings = int(np.clip(PAIRED // self.n_obs, 1, self.n_clusters - 1))
        # Single rows too: without them a table of mixed columns took seven times the sweeps for a draw. Both moves report a
        # reallocation_rate; the later one is kept, that of the pairs.
        return Counted((singles, anywhere)), GivenCenters((PairDraws(n_matchings),)), *update

    def path_moves(self):
        return () if self.loss.augmentation is None else (PairDraws(),)

    # States

    def labels(self, state: Labelling):
        return state.label

    def units_of(self, state):
        """The rows as units."""
        return Units(self.x, self.weights, state.label)

    @property
    def weights(self) -> Float[Array, " obs"]:
        return jnp.ones(self.n_obs, self.x.dtype) if self.weight is None else self.weight

    def unit(self, i):
        return i, self.x[i], jnp.ones((), self.x.dtype) if self.weight is None else self.weight[i]

    def counts(self, label):
        blank = jnp.zeros((self.n_clusters, self.n_groups), jnp.int32)
        return sum_over_rows(lambda rows, new: blank.at[rows].add(new.astype(jnp.int32)), (label, self.group))

    def write(self, states):
        return {"label": np.asarray(states.label), "lambda_c": np.asarray(states.lambdas)}

    def read(self, arrays):
        return Labelling(arrays["label"], arrays["lambda_c"])

    # The law

    def losses(self, state) -> LabelLosses:
        return LabelLosses(self.loss.cluster_losses(self.units_of(state), self.n_clusters).sum())

    def log_density(self, state, lambdas, loss=None):
        """log p(z), or log p(z, lambda) if lambda has a prior, up to a constant. `loss`: if known."""
        loss = self.losses(state).clustering if loss is None else loss
        return -lambdas * loss + self.log_law_of(lambdas)

    def scalars(self, state):
        loss = self.losses(state).clustering
        lp = self.log_density(state, state.lambdas, loss)
        return {"lp": lp, "clustering_loss": loss, "lambda_c": state.lambdas}

    def total_loss(self, losses: LabelLosses):
        return losses.clustering


@jit
def _loss(target, label):
    return target.losses(Labelling(label, None)).clustering


def bundle_composition(sizes) -> tuple[int, ...]:
    """Members of each group in a bundle: few, near the groups' ratio; the smaller the group the nearer."""
    share, candidates = np.asarray(sizes) / np.sum(sizes), []
    for size in range(1, LARGEST_BUNDLE + 1):
        floor = np.floor(share * size).astype(int)
        rest = share * size - floor
        floor[np.argsort(-rest, kind="stable")[: size - floor.sum()]] += 1
        candidates.append((np.abs(floor - share * size).max() + 0.01 * size, floor))
    return tuple(min(candidates, key=lambda one: one[0])[1].tolist())


def _pools(X, by_group, first, composition, rng):
    """Bundles (pools, bundles, members) of near rows: a pool cuts the groups, sorted along a random projection."""
    pools = []
    for _ in range(POOLS):
        place = X @ rng.normal(size=X.shape[1])
        rows = [by_group[low:high] for low, high in pairwise(first)]
        rows = [each[np.argsort(place[each], kind="stable")] for each in rows]
        n = min(len(each) // count for each, count in zip(rows, composition) if count)
        parts = [each[: n * count].reshape(n, count) for each, count in zip(rows, composition) if count]
        pools.append(np.hstack(parts))
    return np.stack(pools).astype(np.int32)

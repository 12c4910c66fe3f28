"""Descend to labels that no small change improves: single rows, swaps of two rows, bundles in the groups' ratio.

A change moves some rows from one cluster to another (and for a swap one row back). Its effect on the loss is exact for
Bregman divergences, with centres moving along; for medians it is that at the current centres. Margins, the distance to
the other centre less that to the own one, select the changes to try: all single rows and (with up to WIDEST rows per
side) all swaps whose margins could sum to a gain, and the bundles of least margins.
"""

from typing import NamedTuple

import numpy as np

from bayesfair._arrays import MANY, cell_masses, cluster_sums, row_blocks
from bayesfair.balanced.centroids import Means, Paid
from bayesfair.balanced.inner_products import InnerProducts, are_worth_it
from bayesfair.balanced.means import gains_of_means, make_swaps
from bayesfair.balanced.problem import BalancedProblem
from bayesfair.balanced.transport import cheapest_to_move
from bayesfair.fairness.balanced import is_exact
from bayesfair.fairness.bounded_sizes import balance_of, within

PASSES = 200
SMALL = 1e-10  # relative to the loss per row: a smaller gain is none
ROUNDING = 16 * np.finfo(float).eps  # relative to `held`: gains are differences of four such numbers
# Rows of a group and a pair of clusters that are tried in swaps; up to WIDEST if nothing else gains.
CHEAPEST = 64
WIDEST = 4096
BUNDLES = 24  # largest number of rows that move together
REPEATS = 4  # bundles tried per kind, pair of clusters and pass
SPARE = 3  # times as many rows as a pass needs are kept for later passes
TOGETHER = 2**10  # transfers whose gains are computed together


class Exchanges(NamedTuple):
    """Candidate changes: rows `out` leave cluster k, and row `back` comes to it; -1 for none."""

    k: np.ndarray
    to: np.ndarray
    out: np.ndarray  # (changes, most)
    back: np.ndarray  # (changes,)
    gain: np.ndarray


class Clusters:
    """Labels with the counts of groups and the sums of rows in every cluster, and the effects of transfers."""

    def __init__(self, problem: BalancedProblem, labels):
        X, code, weight, self.constraint, loss, n_clusters = problem
        self.X, self.code, self.weight, self.loss, self.labels = X, code, weight, loss, labels.copy()
        self.n_groups = int(code.max()) + 1
        self.masses = np.bincount(labels, weight, n_clusters)
        self.sums = cluster_sums(X, labels, n_clusters, weight)
        self.counts = cell_masses(labels, code, (n_clusters, self.n_groups))
        # A swap of different weights changes the clusters' masses too, which has no bound.
        self.reach = loss.reach(X) * weight[0] if weight.min() == weight.max() else np.inf
        self.products = InnerProducts(X) if are_worth_it(problem) else None
        self.near = None
        self.refresh()

    @property
    def n_clusters(self):
        return len(self.counts)

    def refresh(self):
        """Update the centres, which rows pay for until the next update."""
        self.centers = self.loss.centers(self.X, self.labels, self.n_clusters, self.weight)
        if self.products is not None:
            self.products.start_from(self.sums)

    @property
    def paid(self):
        """Costs of the rows at these centres."""
        return Paid(self.loss, self.X, self.centers, self.weight)

    def value(self):
        """The loss at the centres of the last `refresh`."""
        return self.loss.value(self.X, self.labels, self.centers, self.weight)

    def members(self, most):
        """({(cluster, group): rows}, {(cluster, group): margins (rows, clusters)}); swaps use the `most` cheapest rows."""
        wanted = self.room_alone()
        found = self._near(wanted)
        if most > CHEAPEST and np.isfinite(self.reach):
            wanted = np.maximum(wanted, self.room_in_pairs(self.least(found[1])))
            found = self._near(wanted)
        return found

    def _near(self, wanted):
        """`members`: the cheapest of every cluster and group, and all with margins up to `wanted` (clusters, groups, clusters).

        All rows are searched only if those kept from the last search may be too few.
        """
        found = None if self.near is None else self._margins()
        if found is None or not self._are_enough(found[1], wanted):
            self._look_at_all(wanted)
            found = self._margins()
        return found

    def _margins(self):
        margin, whole = np.empty((len(self.near), self.n_clusters)), len(self.near) == len(self.X)
        for part in row_blocks(len(margin)):
            rows = part if whole else self.near[part]
            margin[part] = self.paid[rows]
            margin[part] -= margin[part][np.arange(len(margin[part])), self.labels[rows]][:, None]
        return self._parted(self.near, margin)

    def _parted(self, rows, margin):
        """({(cluster, group): rows}, {(cluster, group): their margins}) of these rows."""
        cells = self.labels[rows] * self.n_groups + self.code[rows]
        own = {divmod(cell, self.n_groups): np.flatnonzero(cells == cell) for cell in range(self.counts.size)}
        return {at: rows[part] for at, part in own.items()}, {at: margin[part] for at, part in own.items()}

    def _look_at_all(self, wanted):
        """Find rows `near` a change; `bounds` (clusters, groups, clusters) are below the margins of all others."""
        self.seen = self.centers
        if len(self.X) <= MANY:
            self.near, self.bounds = np.arange(len(self.X)), np.full_like(wanted, np.inf)
            return

        def wanted_of(block, margin):
            rows = np.arange(block.start, block.start + len(margin))
            if np.isfinite(self.reach):
                return (margin <= wanted[self.labels[rows], self.code[rows]]).any(1)
            alone = [part.out[:, 0] for part in singles(self, *self._parted(rows, margin))]
            return np.isin(rows, np.concatenate([np.zeros(0, int), *alone]))

        cells = self.labels * self.n_groups + self.code
        about = self.paid, self.labels, SPARE * enough(), cells, self.counts.size, wanted_of
        self.near, bounds = cheapest_to_move(*about)
        self.bounds = np.maximum(bounds.reshape(wanted.shape), wanted)

    def _are_enough(self, margins, wanted):
        """Are the margins of all other rows still too large to matter?"""
        if len(self.X) <= MANY or not np.isfinite(self.reach):
            return len(self.X) <= MANY
        drift = self.loss.drift(self.centers - self.seen, self.reach / self.weight[0]) * self.weight[0]
        for at, margin in margins.items():
            bounds, needed, few = self.bounds[at] - drift - drift[at[0]], wanted[at], enough()
            if np.isfinite(bounds).any():
                needed = np.maximum(needed, np.partition(margin, few - 1, 0)[few - 1] if len(margin) >= few else np.inf)
            if (needed > bounds)[np.arange(self.n_clusters) != at[0]].any():
                return False
        return True

    def room_alone(self):
        """Largest margin at which a single row may gain by moving (clusters, groups, clusters); -inf if no row may move."""
        size = self.counts.sum(1)
        room = self.reach * (1 / np.maximum(size - 1, 1)[:, None] + 1 / (size + 1))
        room[size == 1] = np.inf
        allowed = pairs_allowed(self, np.eye(self.n_groups, dtype=int))
        return np.where(allowed.swapaxes(1, 2), room[:, None], -np.inf)

    def room_of_two(self, k, to):
        """Largest sum of margins at which a swap may gain."""
        size = self.counts.sum(1)
        return self.reach * (1 / size[k] + 1 / size[to])

    def least(self, margins):
        """The least margins (clusters, groups, clusters)."""
        least = np.full((self.n_clusters, self.n_groups, self.n_clusters), np.inf)
        for at, margin in margins.items():
            least[at] = margin.min(0, initial=np.inf)
            least[at[0], at[1], at[0]] = np.inf
        return least

    def room_in_pairs(self, least):
        """Largest margin (clusters, groups, clusters) at which a swap with the row of least margin may gain; -inf for none."""
        k, to = np.indices((self.n_clusters,) * 2)
        room = self.room_of_two(k, to)[:, None] - least.T
        return np.where(least <= room, room, -np.inf)

    def allowed(self, k, to, moved):
        """May `moved` (changes, groups) rows leave k for another cluster?"""
        there = (self.counts[k] >= moved).all(-1) & (k != to)
        moved = np.where(there[..., None], moved, 0)
        leave, come = (within(self.constraint, clusters).satisfied for clusters in (k, to))
        return there & leave(self.counts[k] - moved) & come(self.counts[to] + moved)

    def gains(self, k, to, out, back):
        """The decrease of the loss by each transfer."""
        here = out >= 0
        two = back >= 0
        if not self.loss.exact_moves:
            cost, each = self.paid[out.ravel()].reshape(*out.shape, self.n_clusters), np.arange(len(k))
            more = np.where(here, cost[each, :, to] - cost[each, :, k], 0.0).sum(1)
            cost = self.paid[back]
            return -(more + np.where(two, cost[each, k] - cost[each, to], 0.0))
        go, come = np.where(here, self.weight[out], 0.0), np.where(two, self.weight[back], 0.0)
        many, size = go.sum(1) - come, self.masses
        if self.products is not None:
            rows, weight = np.column_stack([out, back]), np.column_stack([go, -come])
            left, joined = self.products.after(k, to, rows, weight)
            squares = self.products.squares
            before = squares[k] / size[k] + squares[to] / size[to]
            return left / np.maximum(size[k] - many, 1e-300) + joined / (size[to] + many) - before
        if isinstance(self.loss, Means):
            return gains_of_means(self.X, self.weight, self.sums, size, as_changes(k, to, out, back))
        moved = (go[..., None] * self.X[out]).sum(1) - come[:, None] * self.X[back]
        after = self.held(size[k] - many, self.sums[k] - moved) + self.held(size[to] + many, self.sums[to] + moved)
        return after - self.held(size[k], self.sums[k]) - self.held(size[to], self.sums[to])

    def held(self, size, total):
        """W phi(mean) with W the mass: a cluster's loss is its rows' own terms less this."""
        size = np.maximum(size, 1e-300)
        return size * self.loss.dissimilarity.potential(total / size[..., None])

    def rounding(self):
        """The part of gains that may be rounding alone; it is negligible for margins at fixed centres."""
        return ROUNDING * np.abs(self.held(self.masses, self.sums)).max() if self.loss.exact_moves else 0.0

    @property
    def makes_swaps(self):
        """Are swaps made by a kernel?"""
        return isinstance(self.loss, Means) and self.products is None

    def swap(self, some: Exchanges, tiny):
        """Make the swaps that still gain more than `tiny`, in their order; return their number."""
        changes = as_changes(some.k, some.to, some.out[:, :1], some.back)
        return make_swaps(self.X, self.weight, self.sums, self.masses, self.labels, changes, tiny)

    def apply(self, k, to, out, back):
        """Apply one transfer."""
        for people, start, end in ((out[out >= 0], k, to), (back[back >= 0], to, k)):
            self.labels[people] = end
            for group in self.code[people]:
                self.counts[start, group] -= 1
                self.counts[end, group] += 1
            if self.products is not None:
                self.products.move(people, self.weight[people], start, end)
            mass, moved = self.weight[people].sum(), self.weight[people] @ self.X[people]
            self.masses[start] -= mass
            self.masses[end] += mass
            self.sums[start] -= moved
            self.sums[end] += moved


def as_changes(k, to, out, back):
    """Transfers as a kernel reads them: of one type, so that it is compiled once."""
    return np.column_stack([k, to, out, back]).astype(np.int64, order="C")


def descend(problem: BalancedProblem, labels, passes=PASSES, done=lambda _: None):
    """(labels, losses after each pass, is nothing in the neighbourhood better?); the loss never rises.

    A pass moves the rows that are cheapest to move; if that fails, it tries all transfers that could gain. `done(1)` is
    called after each.
    """
    clusters = Clusters(problem, labels)
    trace, reached, thorough, optimal = [clusters.value()], clusters.labels.copy(), False, False
    tiny = max(SMALL * trace[0] / len(problem.X), clusters.rounding(), np.finfo(float).tiny)
    kinds = bundles(problem.constraint, clusters.counts.sum(0))
    while len(trace) <= passes and not optimal:
        made = improve(clusters, candidates(clusters, kinds, WIDEST if thorough else CHEAPEST), tiny)
        if made == 0 and thorough:
            return reached, np.array(trace), True
        done(1)
        clusters.refresh()
        value = clusters.value()
        optimal = value > trace[-1]  # only by rounding
        if not optimal:
            thorough = made == 0
            trace.append(value)
            reached[:] = clusters.labels
    return reached, np.array(trace), optimal


def improve(clusters: Clusters, found: Exchanges, tiny):
    """Make transfers, the best first, each checked again before it is made; return their number.

    Where a kernel makes swaps, all others come before them.
    """
    order = np.argsort(-found.gain, kind="stable")
    order = order[found.gain[order] > tiny]
    made, width, are_swaps = 0, 1, (found.back[order] >= 0) & clusters.makes_swaps
    swaps, order = order[are_swaps], order[~are_swaps]
    while len(order):
        some = Exchanges(*(part[order[:width]] for part in found))
        first = next(iter(still_good(clusters, some, tiny)), None)
        if first is None:
            order, width = order[width:], min(2 * width, TOGETHER)
        else:
            clusters.apply(some.k[first], some.to[first], some.out[first], some.back[first : first + 1])
            made, order, width = made + 1, order[first + 1 :], 1
    if len(swaps):
        made += clusters.swap(Exchanges(*(part[swaps] for part in found)), tiny)
    return made


def still_good(clusters: Clusters, some: Exchanges, tiny):
    """Which transfers are still allowed and gain more than `tiny`."""
    k, to, out, back, _ = some
    here, two = out >= 0, back >= 0
    at = ((clusters.labels[out] == k[:, None]) | ~here).all(1) & ((clusters.labels[back] == to) | ~two)
    moved = (here[..., None] & (clusters.code[out][..., None] == np.arange(clusters.n_groups))).sum(1)
    at = np.flatnonzero(at)
    at = at[two[at] | clusters.allowed(k[at], to[at], moved[at])]
    return at[clusters.gains(k[at], to[at], out[at], back[at]) > tiny]


def bundles(constraint, sizes):
    """Numbers of rows of every group (kinds, groups) that may move together, two or more.

    These are all numbers up to BUNDLES that are in the ratio of the data to within one row. If clusters need only a
    Balance, small bundles of one and of two groups too.
    """
    share, kinds = sizes / sizes.sum(), set()
    n_groups = len(sizes)
    for many in range(2, BUNDLES + 1):
        floor = np.floor(many * share + 1e-9).astype(int)
        rest, spare = many - floor.sum(), np.flatnonzero(many * share - floor > 1e-9)
        for first in range(len(spare) if rest else 1):
            extra = np.zeros(n_groups, int)
            extra[np.roll(spare, -first)[:rest]] = 1
            kinds.add(tuple(floor + extra))
    if not is_exact(constraint):
        one = np.eye(n_groups, dtype=int)
        ratio = max(1, round(1 / balance_of(constraint).min_balance))
        for g in range(n_groups):
            kinds.add(tuple(2 * one[g]))
            kinds |= {tuple(one[g] + times * one[h]) for h in range(n_groups) if h != g for times in (1, ratio)}
    return np.array(sorted(kinds), dtype=int).reshape(-1, n_groups)


def candidates(clusters: Clusters, kinds, most) -> Exchanges:
    """Transfers that may gain, with their gains; swaps use the `most` cheapest rows."""
    members, margins = clusters.members(most)
    parts = singles(clusters, members, margins) + swaps(clusters, members, margins, most)
    parts += together(clusters, cheapest(clusters, members, margins), kinds)
    if not parts:
        return Exchanges(*np.zeros((5, 0), int))
    k, to, out, back, gain = zip(*parts)
    return Exchanges(*map(np.concatenate, (k, to)), widened(out), *map(np.concatenate, (back, gain)))


def widened(parts):
    """The rows of all parts (changes, most), in few bytes: most changes have one row or two."""
    people = np.full((sum(map(len, parts)), max(part.shape[1] for part in parts)), -1, np.int32)
    first = 0
    for part in parts:
        people[first : first + len(part), : part.shape[1]] = part
        first += len(part)
    return people


def worth_it(clusters, k, to, out, back=None):
    """The transfers with a gain; k and to are two clusters, or two for each transfer."""
    k, to = (np.broadcast_to(one, len(out)) for one in (k, to))
    back = np.full(len(k), -1) if back is None else back
    gain = np.empty(len(k))
    for some in row_blocks(len(k), TOGETHER):
        gain[some] = clusters.gains(k[some], to[some], out[some], back[some])
    good = gain > 0
    return Exchanges(k[good], to[good], out[good], back[good], gain[good])


def enough():
    """Number of rows per group and pair of clusters that are always tried."""
    return max(CHEAPEST, BUNDLES * REPEATS)


def pairs_allowed(clusters, kinds):
    """May a bundle of each kind go from one cluster to another? (clusters, clusters, kinds)"""
    counts, everybody = clusters.counts[:, None], clusters.counts.sum(0)
    constraint = within(clusters.constraint, np.arange(len(counts))[:, None])

    def satisfied(there, after):
        there = there.all(-1)
        return there & constraint.satisfied(np.where(there[..., None], after, counts))

    leave = satisfied(counts >= kinds, counts - kinds)
    come = satisfied(counts + kinds <= everybody, counts + kinds)
    return leave[:, None] & come & ~np.eye(len(counts), dtype=bool)[..., None]


def singles(clusters: Clusters, members, margins):
    """Rows whose margin may be smaller than the gain from moving centres: a list by pair of clusters."""
    found, room = [], clusters.room_alone().swapaxes(1, 2)
    for k, to in np.argwhere((room > -np.inf).any(2)):
        groups = np.flatnonzero(room[k, to] > -np.inf)
        rows = [members[k, group][margins[k, group][:, to] <= room[k, to, group]] for group in groups]
        found.append(worth_it(clusters, k, to, np.concatenate(rows)[:, None]))
    return found


def swaps(clusters: Clusters, members, margins, most):
    """Swaps of two rows of one group whose margins and moving centres may sum to a gain: a list by pair of clusters."""
    found, least = [], clusters.least(margins)
    most = most if np.isfinite(clusters.reach) else CHEAPEST  # without a bound all pairs would be tried
    for k, to in np.argwhere(np.triu(np.ones((clusters.n_clusters,) * 2, bool), 1)):
        room, pairs = clusters.room_of_two(k, to), []
        together = least[k, :, to] + least[to, :, k]
        for group in np.flatnonzero((together <= room) & (together < np.inf)):
            there, back = margins[k, group][:, to], margins[to, group][:, k]
            i, j = below(there, room - back.min(), most), below(back, room - there.min(), most)
            first, second = np.nonzero(there[i][:, None] + back[j] <= room)
            pairs.append((members[k, group][i[first]], members[to, group][j[second]]))
        if pairs:
            rows, others = map(np.concatenate, zip(*pairs))
            found.append(worth_it(clusters, k, to, rows[:, None], others))
    return found


def below(values, limit, most):
    """Positions of the `most` smallest values that are at most `limit`."""
    where = np.flatnonzero(values <= limit)
    return where if len(where) <= most else where[np.argpartition(values[where], most)[:most]]


def cheapest(clusters: Clusters, members, margins):
    """Rows of every group by increasing margin (from, to, groups, BUNDLES * REPEATS); -1 for none."""
    width = BUNDLES * REPEATS
    order = np.full((clusters.n_clusters, clusters.n_clusters, clusters.n_groups, width), -1)
    for (k, group), margin in margins.items():
        few = min(width, len(margin))
        if few:
            first = np.argpartition(margin, few - 1, axis=0)[:few]
            first = np.take_along_axis(first, np.argsort(np.take_along_axis(margin, first, 0), 0, kind="stable"), 0)
            order[k, :, group, :few] = members[k, group][first].T
    return order


def together(clusters: Clusters, order, kinds):
    """Bundles of the rows with the least margins: a list by number of rows and repeat."""
    found, size = [], kinds.sum(1)
    for many in np.unique(size):
        own = kinds[size == many]
        group = np.repeat(np.tile(np.arange(own.shape[1]), len(own)), own.ravel()).reshape(-1, many)
        held = np.take_along_axis(own, group, 1)  # for each row's group
        place = np.arange(many) - np.take_along_axis(np.cumsum(own, 1) - own, group, 1)
        k, to, at = np.nonzero(pairs_allowed(clusters, own))
        for repeat in range(REPEATS):
            where = (place + repeat * held)[at]
            inside = where.max(1, initial=0) < order.shape[3]
            each = k[inside], to[inside], at[inside]
            people = order[each[0][:, None], each[1][:, None], group[each[2]], where[inside]]
            there = (people >= 0).all(1)
            found.append(worth_it(clusters, each[0][there], each[1][there], people[there]))
    return found

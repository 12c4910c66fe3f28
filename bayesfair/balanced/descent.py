"""Down to a labelling that no small change improves: people alone, two who change places, bundles in the groups' ratio.

A change is a transfer of some people from one cluster to another (and of one back, for two who change places). Its effect
on the loss is exact for Bregman divergences, centres moving along; for medians it is told at the centres as they are. Which
transfers are worth a look is told by margins, the distance to the other centre less that to one's own: every single and (of up
to WIDEST people a side) every two whose margins could sum to a gain, and the bundles of cheapest margins.
"""

from typing import NamedTuple

import numpy as np

from bayesfair._arrays import MANY, cluster_sums, row_blocks
from bayesfair.balanced.centroids import Paid
from bayesfair.balanced.problem import BalancedProblem
from bayesfair.balanced.transport import cheapest_to_move
from bayesfair.fairness.balanced import is_exact
from bayesfair.fairness.bounded_sizes import balance_of, within

PASSES = 200
SMALL = 1e-10  # of the loss of a row: what counts as no gain
ROUNDING = 16 * np.finfo(float).eps  # of what clusters hold: gains are differences of four such numbers
# People of a group and a pair of clusters that are tried in pairs; all that could gain where nothing else does.
CHEAPEST = 64
WIDEST = 4096
BUNDLES = 24  # people, at most, who move together
REPEATS = 4  # bundles of one kind and pair of clusters that are tried in one pass
SPARE = 3  # times as many people as a pass looks at are kept from all, for the passes after it
TOGETHER = 2**10  # transfers whose gains are worked out together


class Exchanges(NamedTuple):
    """Candidate changes: `out` leave cluster k and `back` come to it (people, -1 where there is none)."""

    k: np.ndarray
    to: np.ndarray
    out: np.ndarray  # (changes, most)
    back: np.ndarray  # (changes,)
    gain: np.ndarray


class Clusters:
    """Labels with the counts of groups and the sums of rows in every cluster, and what transfers would change."""

    def __init__(self, problem: BalancedProblem, labels):
        X, code, weight, self.constraint, loss, n_clusters = problem
        self.X, self.code, self.weight, self.loss, self.labels = X, code, weight, loss, labels.copy()
        self.n_groups = int(code.max()) + 1
        cells = np.bincount(labels * self.n_groups + code, minlength=n_clusters * self.n_groups)
        self.masses = np.bincount(labels, weight, n_clusters)
        self.sums = cluster_sums(X, labels, n_clusters, weight)
        self.counts = cells.reshape(n_clusters, self.n_groups)
        # Two of different weights change the clusters' masses too, for which there is no bound.
        self.reach = loss.reach(X) * weight[0] if weight.min() == weight.max() else np.inf
        self.near = None
        self.refresh()

    @property
    def n_clusters(self):
        return len(self.counts)

    def refresh(self):
        """Centres, for which rows pay until the next time."""
        self.centers = self.loss.centers(self.X, self.labels, self.n_clusters, self.weight)

    @property
    def paid(self):
        """What rows pay, for these centres."""
        return Paid(self.loss, self.X, self.centers, self.weight)

    def value(self):
        """The loss, of the centres that `refresh` has found."""
        return self.loss.value(self.X, self.labels, self.centers, self.weight)

    def members(self, most):
        """({(cluster, group): rows}, {(cluster, group): what each would pay more in every cluster (rows, clusters)}), of those
        rows who may be in a transfer of this pass, whose pairs are made of the `most` cheapest people."""
        wanted = self.room_alone()
        found = self._near(wanted)
        if most > CHEAPEST and np.isfinite(self.reach):
            wanted = np.maximum(wanted, self.room_in_pairs(self.least(found[1])))
            found = self._near(wanted)
        return found

    def _near(self, wanted):
        """`members`: the cheapest of every cluster and group, and all whose margins are up to those that are `wanted`
        (clusters, groups, clusters). They are looked for among all rows only where those kept from the last time may be too
        few."""
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
        """({(cluster, group): rows}, {(cluster, group): their margins}) of some rows."""
        cells = self.labels[rows] * self.n_groups + self.code[rows]
        own = {divmod(cell, self.n_groups): np.flatnonzero(cells == cell) for cell in range(self.counts.size)}
        return {at: rows[part] for at, part in own.items()}, {at: margin[part] for at, part in own.items()}

    def _look_at_all(self, wanted):
        """Rows `near` a change, and `bounds` (clusters, groups, clusters) that the margins of all others were above."""
        self.seen = self.centers
        if len(self.X) <= MANY:
            self.near, self.bounds = np.arange(len(self.X)), np.full_like(wanted, np.inf)
            return

        def wanted_of(block, margin):
            rows = np.arange(block.start, block.start + len(margin))
            if np.isfinite(self.reach):
                return (margin <= wanted[self.labels[rows], self.code[rows]]).any(1)
            alone = singles(self, *self._parted(rows, margin))
            return np.isin(rows, [] if alone is None else alone.out)

        cells = self.labels * self.n_groups + self.code
        about = self.paid, self.labels, SPARE * enough(), cells, self.counts.size, wanted_of
        self.near, bounds = cheapest_to_move(*about)
        self.bounds = np.maximum(bounds.reshape(wanted.shape), wanted)

    def _are_enough(self, margins, wanted):
        """Are the margins of all others still above what matters?"""
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
        """The most that the margin of one who goes alone may be, if that is to gain anything (clusters, groups, clusters); -inf
        where nobody may."""
        size = self.counts.sum(1)
        room = self.reach * (1 / np.maximum(size - 1, 1)[:, None] + 1 / (size + 1))
        room[size == 1] = np.inf
        allowed = pairs_allowed(self, np.eye(self.n_groups, dtype=int))
        return np.where(allowed.swapaxes(1, 2), room[:, None], -np.inf)

    def room_of_two(self, k, to):
        """The most that the margins of two who change places may sum to, if that is to gain anything."""
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
        """The most that the margin of one who changes places may be, beside the least of those who come (clusters, groups,
        clusters); -inf where no pair may gain."""
        k, to = np.indices((self.n_clusters,) * 2)
        room = self.room_of_two(k, to)[:, None] - least.T
        return np.where(least <= room, room, -np.inf)

    def allowed(self, k, to, moved):
        """May `moved` (changes, groups) people go from k to another cluster?"""
        there = (self.counts[k] >= moved).all(-1) & (k != to)
        moved = np.where(there[..., None], moved, 0)
        leave, come = (within(self.constraint, clusters).satisfied for clusters in (k, to))
        return there & leave(self.counts[k] - moved) & come(self.counts[to] + moved)

    def gains(self, k, to, out, back):
        """How much less the loss would be, of each transfer."""
        here = out >= 0
        two = back >= 0
        if not self.loss.exact_moves:
            cost, each = self.paid[out.ravel()].reshape(*out.shape, self.n_clusters), np.arange(len(k))
            more = np.where(here, cost[each, :, to] - cost[each, :, k], 0.0).sum(1)
            cost = self.paid[back]
            return -(more + np.where(two, cost[each, k] - cost[each, to], 0.0))
        go, come = np.where(here, self.weight[out], 0.0), np.where(two, self.weight[back], 0.0)
        moved = (go[..., None] * self.X[out]).sum(1) - come[:, None] * self.X[back]
        many = go.sum(1) - come
        size = self.masses
        after = self.held(size[k] - many, self.sums[k] - moved) + self.held(size[to] + many, self.sums[to] + moved)
        return after - self.held(size[k], self.sums[k]) - self.held(size[to], self.sums[to])

    def held(self, size, total):
        """W phi(mean), W its mass: what a cluster's loss is less than the own terms of its rows."""
        size = np.maximum(size, 1e-300)
        return size * self.loss.dissimilarity.potential(total / size[..., None])

    def rounding(self):
        """What gains may be of rounding alone; margins at the centres as they are have next to none."""
        return ROUNDING * np.abs(self.held(self.masses, self.sums)).max() if self.loss.exact_moves else 0.0

    def apply(self, k, to, out, back):
        """One transfer."""
        for people, start, end in ((out[out >= 0], k, to), (back[back >= 0], to, k)):
            self.labels[people] = end
            for group in self.code[people]:
                self.counts[start, group] -= 1
                self.counts[end, group] += 1
            mass, moved = self.weight[people].sum(), self.weight[people] @ self.X[people]
            self.masses[start] -= mass
            self.masses[end] += mass
            self.sums[start] -= moved
            self.sums[end] += moved


def descend(problem: BalancedProblem, labels, passes=PASSES):
    """(labels, losses after each pass, whether nothing in the neighbourhood improves): the loss never rises.

    A pass moves the people who are cheapest to move; after one in vain, all whose transfers could gain anything.
    """
    clusters = Clusters(problem, labels)
    trace, reached, thorough, optimal = [clusters.value()], clusters.labels.copy(), False, False
    tiny = max(SMALL * trace[0] / len(problem.X), clusters.rounding(), np.finfo(float).tiny)
    kinds = bundles(problem.constraint, clusters.counts.sum(0))
    while len(trace) <= passes and not optimal:
        made = improve(clusters, candidates(clusters, kinds, WIDEST if thorough else CHEAPEST), tiny)
        if made == 0 and thorough:
            return reached, np.array(trace), True
        clusters.refresh()
        value = clusters.value()
        optimal = value > trace[-1]  # by rounding alone
        if not optimal:
            thorough = made == 0
            trace.append(value)
            reached[:] = clusters.labels
    return reached, np.array(trace), optimal


def improve(clusters: Clusters, found: Exchanges, tiny):
    """How many of the transfers were made: the best first, each looked at again before it is made."""
    made, width = 0, 1
    order = np.argsort(-found.gain, kind="stable")
    order = order[found.gain[order] > tiny]
    while len(order):
        some = Exchanges(*(part[order[:width]] for part in found))
        first = next(iter(still_good(clusters, some, tiny)), None)
        if first is None:
            order, width = order[width:], min(2 * width, TOGETHER)
        else:
            clusters.apply(some.k[first], some.to[first], some.out[first], some.back[first : first + 1])
            made, order, width = made + 1, order[first + 1 :], 1
    return made


def still_good(clusters: Clusters, some: Exchanges, tiny):
    """Which transfers may be made as things are, and gain more than `tiny`."""
    k, to, out, back, _ = some
    here, two = out >= 0, back >= 0
    at = ((clusters.labels[out] == k[:, None]) | ~here).all(1) & ((clusters.labels[back] == to) | ~two)
    moved = (here[..., None] & (clusters.code[out][..., None] == np.arange(clusters.n_groups))).sum(1)
    at = np.flatnonzero(at & (two | clusters.allowed(k, to, moved)))
    return at[clusters.gains(k[at], to[at], out[at], back[at]) > tiny]


def bundles(constraint, sizes):
    """Numbers of people of every group (kinds, groups) who may move together, two or more.

    All that are in the ratio of the data to within one person, of up to BUNDLES people; where clusters need only be so
    balanced, small bundles of one and of two groups too.
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
            kinds |= {
                tuple(2 * one[g]),
                *(tuple(one[g] + times * one[h]) for h in range(n_groups) if h != g for times in (1, ratio)),
            }
    return np.array(sorted(kinds), dtype=int).reshape(-1, n_groups)


def candidates(clusters: Clusters, kinds, most) -> Exchanges:
    """The transfers that may be worth it, with their gains; pairs are made of the `most` cheapest people."""
    members, margins = clusters.members(most)
    parts = [singles(clusters, members, margins), swaps(clusters, members, margins, most)]
    parts += together(clusters, cheapest(clusters, members, margins), kinds)
    parts = [part for part in parts if part is not None]
    if not parts:
        return Exchanges(*np.zeros((5, 0), int))
    k, to, out, back, gain = zip(*parts)
    return Exchanges(*map(np.concatenate, (k, to)), widened(out), *map(np.concatenate, (back, gain)))


def widened(parts):
    """The people of all parts (changes, most), in few bytes: most changes are of one or two."""
    people = np.full((sum(map(len, parts)), max(part.shape[1] for part in parts)), -1, np.int32)
    first = 0
    for part in parts:
        people[first : first + len(part), : part.shape[1]] = part
        first += len(part)
    return people


def worth_it(clusters, k, to, out, back=None):
    """Those transfers that gain anything, between two clusters or between those of each."""
    k, to = (np.broadcast_to(one, len(out)) for one in (k, to))
    back = np.full(len(k), -1) if back is None else back
    gain = np.empty(len(k))
    for some in row_blocks(len(k), TOGETHER):
        gain[some] = clusters.gains(k[some], to[some], out[some], back[some])
    good = gain > 0
    return Exchanges(k[good], to[good], out[good], back[good], gain[good])


def concatenated(found):
    return Exchanges(*(np.concatenate(each) for each in zip(*found))) if found else None


def enough():
    """People of a group and pair of clusters who are always looked at."""
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
    """Every person who may go alone, where what the centres give way may make up for their margin."""
    found, room = [], clusters.room_alone().swapaxes(1, 2)
    for k, to in np.argwhere((room > -np.inf).any(2)):
        groups = np.flatnonzero(room[k, to] > -np.inf)
        rows = [members[k, group][margins[k, group][:, to] <= room[k, to, group]] for group in groups]
        found.append(worth_it(clusters, k, to, np.concatenate(rows)[:, None]))
    return concatenated(found)


def swaps(clusters: Clusters, members, margins, most):
    """Two of one group who change places, where their margins and what the centres give way may sum to a gain."""
    found, least = [], clusters.least(margins)
    most = most if np.isfinite(clusters.reach) else CHEAPEST  # without a bound every pair would be tried
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
    return concatenated(found)


def below(values, limit, most):
    """Where values are at most `limit`, of these the `most` smallest."""
    where = np.flatnonzero(values <= limit)
    return where if len(where) <= most else where[np.argpartition(values[where], most)[:most]]


def cheapest(clusters: Clusters, members, margins):
    """People of every group with the least margins, in order (from, to, groups, BUNDLES * REPEATS); -1 for none."""
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
    """Bundles of the people with the least margins, a list with one entry per number of people and repeat."""
    found, size = [], kinds.sum(1)
    for many in np.unique(size):
        own = kinds[size == many]
        group = np.repeat(np.tile(np.arange(own.shape[1]), len(own)), own.ravel()).reshape(-1, many)
        held = np.take_along_axis(own, group, 1)  # of each one's group
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

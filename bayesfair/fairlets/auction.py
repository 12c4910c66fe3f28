"""Anchors bid for members on a sparse graph: an assignment with prices, near-optimal by a margin that is asked for.

Bertsekas' auction in its parallel (Jacobi) form (Bertsekas 1988, Annals of Operations Research 14), with capacities. Every
anchor needs `lower` members and may hold `upper`. It bids for the member of least cost plus price; beyond `lower` it takes
members at a profit only. Where the auction ends with all members owned, prices p and u_i = min_j (c_ij + p_j) are dual
variables, and the plan costs at most `step` a member more than they prove on this graph. Where the last few would outbid each
other for long, far from the members that are left, these reach them by the shortest alternating paths, whatever they cost.
"""

from typing import NamedTuple

import numpy as np

__all__ = ["Arcs", "auction"]

PART = 2**14  # anchors whose arcs are looked at together
PATIENCE = 400  # rounds after which the least raise doubles: few are left who outbid each other
DOUBLINGS = 5  # of the least raise, before those few are served along alternating paths


class Arcs(NamedTuple):
    """A sparse graph, anchor by anchor: those of anchor i are start[i] to start[i + 1]."""

    start: np.ndarray
    member: np.ndarray
    cost: np.ndarray

    def of(self, anchors):
        """(places of all arcs of `anchors`, where those of each begin among them, how many each has)."""
        many = self.start[anchors + 1] - self.start[anchors]
        begin = np.cumsum(many) - many
        return np.arange(many.sum()) + np.repeat(self.start[anchors] - begin, many), begin, many

    def cheapest(self, price):
        """min_j c_ij + p_j of every anchor, infinite where it has no arcs."""
        least = np.full(len(self.start) - 1, np.inf)
        linked = np.flatnonzero(np.diff(self.start))
        for some in _parts(linked):
            places = slice(self.start[some[0]], self.start[some[-1] + 1])
            value = self.cost[places] + price[self.member[places]]
            least[some] = np.minimum.reduceat(value, self.start[some] - places.start)
        return least


def auction(arcs: Arcs, lower, upper, price, step):
    """(anchor of every member (n,), -1 where nobody bought it; prices (n,)) from starting prices and the least raise `step`.

    Prices rise. Members that find no buyer are offered once more, for so little that every anchor with room wants them;
    their prices are then the highest at which some anchor would have preferred them to all others.
    """
    state = _State(np.full(len(price), -1, np.int32), price.astype(np.float64), np.zeros(len(lower), np.int64))
    _bid(arcs, lower, upper, state, step)
    unsold = state.owner < 0
    if unsold.any() and len(arcs.cost):
        state.price[unsold] = -arcs.cost.max() - step
        _bid(arcs, lower, upper, state, step)
        state.price[unsold] = _best_offers(arcs, state.price, unsold)[unsold]
    return state.owner, state.price


def _parts(rows):
    return [rows[at : at + PART] for at in range(0, len(rows), PART)]


def _best_offers(arcs, price, late):
    """Prices at which `late` members, a mask (n,), are as dear to some anchor as its cheapest one that is not late."""
    u = arcs.cheapest(np.where(late, np.inf, price))
    best = np.full(len(price), -np.inf)
    for at in range(0, len(arcs.member), PART):
        places = at + np.flatnonzero(late[arcs.member[at : at + PART]])
        offer = u[np.searchsorted(arcs.start, places, side="right") - 1] - arcs.cost[places]
        np.maximum.at(best, arcs.member[places], np.where(np.isfinite(offer), offer, -np.inf))
    return np.where(np.isfinite(best), best, price)


def _bid(arcs, lower, upper, state, step):
    """Rounds of bids until every anchor has what it needs and sees no profit in more, which prices that rise do not change."""
    content = np.diff(arcs.start) == 0
    lower = np.where(content, 0, lower)
    for round_ in range(PATIENCE * (DOUBLINGS + 1)):
        active = np.flatnonzero((state.held < lower) | (~content & (state.held < upper)))
        if len(active) == 0:
            return
        raise_ = step * 2.0 ** (round_ // PATIENCE)
        bids = zip(*(_bids(arcs, lower, state, content, some, raise_) for some in _parts(active)))
        bids = [np.concatenate(part) for part in bids]
        del active
        _sell(state, *bids)
    while _lengthen(arcs, lower, state):
        pass


class _State(NamedTuple):
    """Changed in place. `owner` and `price` of every member, how many every anchor has `held`."""

    owner: np.ndarray
    price: np.ndarray
    held: np.ndarray


def _bids(arcs, lower, state, content, active, least_raise):
    """(bidder, member, what it raises the price by) of some active anchors; those that see no profit in more are `content`."""
    place, first, second = _two_cheapest(arcs, state, active)
    optional = state.held[active] >= lower[active]
    bids = ~(optional & (first >= 0))
    content[active[~bids]] = True
    raised = np.where(optional, np.minimum(second, 0), second) - first
    raised = np.where(np.isfinite(raised), raised, 0) + least_raise
    return active[bids].astype(np.int32), arcs.member[place[bids]], raised[bids]


def _two_cheapest(arcs, state, active):
    """The arc of least cost plus price of every active anchor, that sum, and the next: of members that it does not hold."""
    places, begin, many = arcs.of(active)
    member = arcs.member[places]
    value = arcs.cost[places] + state.price[member]
    value[state.owner[member] == np.repeat(active, many)] = np.inf
    first = np.minimum.reduceat(value, begin)
    at = np.flatnonzero(value == np.repeat(first, many))
    least = np.empty(len(active), np.int64)
    least[np.searchsorted(begin, at[::-1], side="right") - 1] = at[::-1]
    value[least] = np.inf
    return places[least], first, np.minimum.reduceat(value, begin)


def _sell(state, bidder, member, raised):
    """Every member that was bid for goes to the highest bidder."""
    if len(member) == 0:
        return
    order = np.lexsort((raised, member))  # the last of a member's bids is its highest, of equal ones the last anchor's
    last = order[np.append(member[order][1:] != member[order][:-1], True)]
    sold, buyer = member[last], bidder[last]
    loser = state.owner[sold]
    np.subtract.at(state.held, loser[loser >= 0], 1)
    np.add.at(state.held, buyer, 1)
    state.owner[sold] = buyer
    state.price[sold] += raised[last]


def _lengthen(arcs, lower, state):
    """Anchors that are short of members get one each along shortest alternating paths that do not meet; were there any?

    Breadth first from all that are short: to the members on their arcs, to those who own these, and so on, up to members
    whom nobody owns or whose owner has more than it needs.
    """
    buyer, lost = np.full(len(state.owner), -1), np.full(len(lower), -1)  # who would take a member; for which one lost
    frontier = np.flatnonzero(state.held < lower)
    seen = state.held < lower
    while len(frontier):
        places, _, many = arcs.of(frontier)
        member, first = np.unique(arcs.member[places], return_index=True)
        new = buyer[member] < 0
        member, first = member[new], first[new]
        buyer[member] = np.repeat(frontier, many)[first]
        owner = state.owner[member]
        ends = member[(owner < 0) | (state.held[owner] > lower[owner])]
        if len(ends):
            return sum(_follow(end, buyer, lost, lower, state) for end in ends) > 0
        owner, first = np.unique(owner, return_index=True)
        member, owner = member[first][~seen[owner]], owner[~seen[owner]]
        lost[owner], seen[owner] = member, True
        frontier = owner
    return False


def _follow(member, buyer, lost, lower, state):
    """Members change hands back along the path that ends in `member`, if no earlier path used a part of it."""
    path, free = [], state.owner[member]
    while member >= 0:
        root = buyer[member]
        if root < 0:
            return False
        path.append((member, root))
        member = lost[root]
    if state.held[root] >= lower[root] or (free >= 0 and state.held[free] <= lower[free]):
        return False
    if free >= 0:
        state.held[free] -= 1
    state.held[root] += 1
    for member, anchor in path:
        state.owner[member], buyer[member] = anchor, -1
    return True

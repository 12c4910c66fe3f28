"""Cheap fairlets for large tables and the hub form, by solving blocks exactly again and again.

At first, fairlets and the members of every group are cut into cells, and the members of cells go to the fairlets of
cells at the least cost between their means. If groups are distributed differently some must go far, which later passes
would find only slowly. Within cells, members are dealt out by halving both along random directions. Then fairlets are
cut into blocks at medians of their centres, half of the time along a direction in which these spread most, and the
members of a group are dealt out again among the fairlets of a block, as an assignment problem. A fairlet stays whole
within its block. A change that raises the cost is not kept, so that no pass raises the cost. The distance from the
optimum is not proved.

If every fairlet has an anchor, a block's assignment costs at most NEAR more than the cheapest. In the hub form every
member pays D to the fairlet's own centre, which moves with its members: the problem is NP-hard (two members of every
group in a fairlet already contain three-dimensional matching). There a member's price is the rise of squared distances
when it alone joins the others that stay: 2 W w / (W + w) times D from their centre, with W and w the weights of these
and of the member. First all members of a group are dealt out at once, then half of each fairlet's at a time, while the
others stay.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from bayesfair._arrays import cluster_sums, row_blocks
from bayesfair._scaling import ScaledRows
from bayesfair.fairlets.compositions import Capacities
from bayesfair.fairlets.dissimilarity import Dissimilarity, Weighted
from bayesfair.fairlets.transport import flow, on_all_cores, priced, transport

BLOCK = 1000  # members of a group in a block, and largest number of its fairlets
FEWEST = 16  # least number of fairlets in a block: with two or three, passes soon gain nothing
STARTS, FEW = 3, 5_000  # in the hub form, STARTS up to FEW rows, else one
# Into how many parts a fairlet's members of a group are dealt out, and the least gain of a pass, relative to the cost.
WITH_ANCHORS = ((1, 2e-3),)
WITH_HUBS = ((1, 3e-2), (2, 1e-3), (2, 1e-3))
MAX_PASSES = 50
SOFTNESS, ROUNDS, HASTE = 0.01, 20, 1.7  # relative to the mean cost; over-relaxation: to guess prices
FLOOR = np.float32(1e-30)  # of shares, so that none vanishes
NEAR = 0.03  # allowed excess cost of a block's members, relative to the least
SPREAD = 256  # centres that show the direction in which a part spreads most
CELLS, CELL = 256, 16  # the most cells, and the fewest fairlets or members in one
SMALL_PART = 64  # fairlets of a part whose members are dealt out in order


class PricedTable(NamedTuple):
    """Rows X (N, d) of the groups `code` (N,), the capacities of their fairlets, and D; `Weighted` with weights and for hubs.

    `anchor`: the group of the anchors, to which the others pay D; if None, they pay it to the centre of their fairlet.
    """

    X: np.ndarray | ScaledRows
    code: np.ndarray
    capacities: Capacities
    dissimilarity: Dissimilarity
    anchor: int | None
    weight: np.ndarray | None

    @property
    def n_fairlets(self):
        return len(self.capacities.lower)

    @property
    def others(self):
        """The groups without anchors."""
        return [group for group in range(self.capacities.lower.shape[1]) if group != self.anchor]

    def rows(self, which):
        """Some rows in the form that D takes."""
        x = self.X[which]
        if not isinstance(self.dissimilarity, Weighted):
            return x
        return np.column_stack([x, np.ones(len(x)) if self.weight is None else self.weight[which]])

    def centers(self, x, code, fairlet, n_fairlets):
        """The point that the members of every fairlet pay D to: its anchor, or its centre with the total weight of its rows."""
        if self.anchor is not None:
            return x[code == self.anchor]
        mass = np.bincount(fairlet, x[:, -1], n_fairlets)
        sums = cluster_sums(x[:, :-1], fairlet, n_fairlets, x[:, -1])
        sums[mass == 0] = x[0, :-1]  # any point: no row pays for it
        return np.column_stack([sums / np.where(mass > 0, mass, 1)[:, None], mass])

    def paid(self, x, code, fairlet, n_fairlets):
        """Total cost of these rows, which are sorted by fairlet if fairlets have anchors."""
        centers = self.centers(x, code, fairlet, n_fairlets)
        if self.anchor is None:
            return float(self.dissimilarity.to_center(x, centers[fairlet]).sum(dtype=np.float64))
        others = code != self.anchor
        return float(self.dissimilarity.between(x[others], centers[fairlet[others]]).sum(dtype=np.float64))


def decompose_by_blocks(table: PricedTable, rng):
    """(the fairlet of every row, int32 (N,), the total cost). With anchors, fairlet i has the i-th one."""
    starts = STARTS if table.anchor is None and len(table.code) <= FEW else 1
    return min((_decomposed(table, rng) for _ in range(starts)), key=lambda found: found[1])


def _decomposed(table, rng):
    fairlet, cost = dealt_at_first(table, rng), np.inf
    for parts, enough in WITH_HUBS if table.anchor is None else WITH_ANCHORS:
        for _ in range(MAX_PASSES):
            before = cost
            fairlet, cost = _dealt_again(table, fairlet, parts, rng)
            if cost >= before * (1 - enough):
                break
    return fairlet, cost


def _dealt_again(table, fairlet, parts, rng):
    """`fairlet` after a pass, and the total cost."""
    count = np.bincount(fairlet, minlength=table.n_fairlets)
    order = np.argsort(fairlet, kind="stable").astype(np.int32)
    start, better = np.cumsum(count) - count, fairlet.copy()
    blocks = _blocks(table, order, count, rng)

    def solve(block):
        own, seed = block
        held = count[own]
        rows = order[np.repeat(start[own] - (np.cumsum(held) - held), held) + np.arange(held.sum())]
        found, cost = _solved(table, own, rows, held, parts, np.random.default_rng(seed))
        better[rows] = own[found]
        return cost

    # Blocks have no rows in common.
    return better, sum(on_all_cores(solve, list(zip(blocks, rng.integers(2**63, size=len(blocks))))))


def _blocks(table, order, count, rng):
    """The fairlets of every block, cut by their centres; `order`: the rows sorted by fairlet."""
    m, n = table.n_fairlets, max(np.count_nonzero(table.code == group) for group in table.others)
    depth = int(np.ceil(np.log2(max(m / max(min(BLOCK * m // n, BLOCK), FEWEST), 1))))
    start = np.cumsum(count) - count

    def center(part):
        first = start[part]
        rows = table.X[order[first[0] : first[-1] + count[part][-1]]]
        return np.add.reduceat(rows, first - first[0]) / count[part, None].astype(rows.dtype)

    blocks = [np.arange(m, dtype=np.int32)]
    centers = np.concatenate(on_all_cores(center, row_blocks(m))) if depth else None
    for _ in range(depth):
        blocks = [half for part in blocks for half in _halves(part, centers[part], table.X, rng)]
    return blocks


def _halves(part, centers, X, rng):
    """Cut a part at the median of its centres along a direction.

    With equal chances it is a difference of random rows, along any of which fairlets may be cut, or nearly one along which
    these centres spread most.
    """
    direction = np.subtract(*X[rng.integers(len(X), size=2)])
    if rng.random() < 0.5:
        few = centers[rng.integers(len(centers), size=SPREAD)]
        few -= few.mean(0)
        direction = rng.normal(size=len(direction)).astype(few.dtype)
        for _ in range(2):
            direction = few.T @ (few @ direction)
    order, half = np.argsort(centers @ direction, kind="stable"), len(part) // 2
    return part[order[:half]], part[order[half:]]


def _solved(table, own, rows, held, parts, rng):
    """(each row's fairlet within the block, their cost) after dealing every group out again among `own`, which hold `held`."""
    x, code, fairlet = table.rows(rows), table.code[rows], np.repeat(np.arange(len(own)), held)
    cost = table.paid(x, code, fairlet, len(own))
    for group in table.others:
        lower, upper = (limit[own, group] for limit in table.capacities)
        for moving in _in_parts(fairlet, np.flatnonzero(code == group), parts, rng):
            stays = np.ones(len(x), bool)
            stays[moving] = False
            kept = np.bincount(fairlet[stays & (code == group)], minlength=len(own))
            limits = np.maximum(lower - kept, 0), np.minimum(upper - kept, -(-upper // parts))
            centers = table.centers(x[stays], code[stays], fairlet[stays], len(own))
            found = fairlet.copy()
            found[moving] = _assigned(centers, x[moving], *limits, table.dissimilarity)
            paid = table.paid(x, code, found, len(own))
            if paid < cost:
                fairlet, cost = found, paid
    return fairlet, cost


def _in_parts(fairlet, members, parts, rng):
    """Members in `parts` parts, each with about as many from every fairlet."""
    members = rng.permutation(members)
    members = members[np.argsort(fairlet[members], kind="stable")]
    own = fairlet[members]
    rank = np.arange(len(own)) - np.searchsorted(own, own)
    return [members[rank % parts == part] for part in range(parts)]


def _assigned(centers, members, lower, upper, dissimilarity):
    """The centre of every member in an assignment that costs at most NEAR more than the cheapest.

    It is the cheapest if limits are equal, or none is required. If the bound is not proved, the transport problem is
    solved, which takes ten times as long.

    All members are assigned to the required places and to as many extra places, each of which costs a member as much as
    its cheapest optional place, plus a surcharge if many want it. The members in extra places are then assigned to
    optional places.
    """
    rows = centers.astype(float), members.astype(float)
    if upper.sum() > 2 * max(BLOCK, len(centers)):
        return transport(*rows, lower, upper, dissimilarity).anchor
    lower = upper if upper.sum() == len(members) else lower
    required, optional = (np.repeat(np.arange(len(centers)), held) for held in (lower, upper - lower))
    costs = priced(dissimilarity, members, centers, np.zeros(len(centers), centers.dtype))
    if len(required) == 0:
        return optional[linear_sum_assignment(costs[:, optional])[1]]
    price, every = _prices(costs, lower, upper), np.arange(len(members))
    surcharge, place = np.minimum(price, 0), np.append(required, np.full(len(members) - len(required), -1))
    each = (costs - price)[:, place]
    each[:, len(required) :] = (costs - surcharge)[:, upper > lower].min(1, keepdims=True, initial=np.inf)
    chosen = linear_sum_assignment(each)[1]
    place = place[chosen]
    extra = np.flatnonzero(place < 0)
    place[extra] = optional[linear_sum_assignment(costs[extra][:, optional])[1]]
    least = each[every, chosen].sum() + price @ lower + surcharge @ (upper - lower)  # by duality
    if len(optional) == 0 or costs[every, place].sum() <= (1 + NEAR) * least:
        return place
    return transport(*rows, lower, upper, dissimilarity).anchor


def _prices(costs, lower, upper):
    """Approximate values of a place at each centre (m,), by some rounds of Sinkhorn's algorithm.

    They are above 0 only if a centre has its least, below only if it has its most. An extra that all members pay for a
    taken place changes no cheapest plan, and the exact solver, which starts without prices, ends several times sooner.
    """
    reduced = costs - costs.min(1, keepdims=True)
    least = reduced.min(0)
    reduced -= least
    softness = SOFTNESS * reduced.mean()
    if not 0 < softness < np.inf:
        return least
    reduced /= -softness
    likely = np.exp(reduced.astype(np.float32, copy=False))
    likely += FLOOR
    free, worth = np.exp(-least / softness).astype(np.float32), np.ones(len(least), np.float32)
    for _ in range(ROUNDS):
        wanted = 1 / (likely @ worth) @ likely
        fit = np.clip(free, lower / wanted, upper / wanted)
        worth = np.clip(worth * (fit / worth) ** HASTE, FLOOR, 1 / FLOOR).astype(np.float32)
    return least + softness * np.log(worth)


def dealt_at_first(table, rng):
    """The fairlet of every row, int32 (N,), within all capacities.

    Fairlets, at their anchor or a random row, and members are put in cells, then halved along random directions.
    """
    hubs, m = table.anchor is None, table.n_fairlets
    seeds = rng.choice(len(table.code), m, replace=False) if hubs else np.flatnonzero(table.code == table.anchor)
    dealt = np.empty(len(table.code), np.int32)
    dealt[seeds] = np.arange(m)
    cells = _cells(table.X, seeds, rng)
    for group in table.others:
        lower, upper = (limit[:, group] for limit in table.capacities)
        members = np.flatnonzero(table.code == group).astype(np.int32)
        parts = _dealt_to_cells(table, seeds, cells, members, (lower, upper), rng)
        while parts:
            own, members = parts.pop()
            if len(members) == 0:
                continue
            direction = np.subtract(*table.X[[seeds[rng.choice(own)], rng.choice(members)]])
            own = own[np.argsort(_places(table.X, seeds[own], direction))]
            members = members[np.argsort(_places(table.X, members, direction))]
            if len(own) <= SMALL_PART:  # dealt out in order
                dealt[members] = np.repeat(own, _shares(len(members), lower[own], upper[own]))
                continue
            half = len(own) // 2
            halves = (np.add.reduceat(limit[own], [0, half]) for limit in (lower, upper))
            count = int(_shares(len(members), *halves)[0])
            parts += [(own[:half], members[:count]), (own[half:], members[count:])]
    return dealt


def _dealt_to_cells(table, seeds, cells, members, limits, rng):
    """(fairlets of a cell, members dealt out to it) for every cell, at the least cost if all were at their cells' means."""
    if len(cells) == 1:
        return [(cells[0], members)]
    from_cells = [members[cell] for cell in _cells(table.X, members, rng)]
    both = [seeds[cell] for cell in cells], from_cells
    means = [np.stack([table.X[rows].mean(0, dtype=np.float64) for rows in some]) for some in both]
    if isinstance(table.dissimilarity, Weighted):
        means = [np.column_stack([rows, np.ones(len(rows))]) for rows in means]
    limits = [[limit[cell].sum() for cell in cells] for limit in limits]
    flows = flow(*means, [len(cell) for cell in from_cells], *limits, table.dissimilarity)
    shares = [np.split(rng.permutation(cell), np.cumsum(own)[:-1]) for cell, own in zip(from_cells, flows.T)]
    return [(cell, np.concatenate(found)) for cell, found in zip(cells, zip(*shares))]


def _cells(X, rows, rng):
    """Number of the cell of each of these rows, cut as blocks are."""
    cells = [np.arange(len(rows), dtype=np.int32)]
    for _ in range(int(np.log2(min(max(len(rows) // CELL, 1), CELLS)))):
        cells = [half for cell in cells for half in _halves(cell, X[rows[cell]], X, rng)]
    return cells


def _places(X, rows, direction):
    """Positions of rows along a direction (d,)."""
    return np.concatenate([X[rows[part]] @ direction for part in row_blocks(len(rows))])


def _shares(count, lower, upper):
    """`count` members dealt out between limits, with extra ones spread evenly over the order."""
    free = np.cumsum(upper - lower)
    taken = (count - lower.sum()) * free // max(free[-1], 1)
    return lower + np.diff(taken, prepend=0)

"""The spaces S of balanced labellings without fairlets: which clusterings of rows are balanced (DESIGN.md, section 2.6).

A constraint depends only on the numbers of members of every group in each cluster: `counts` (..., K, J), as in
`group_masses`. `BoundedSizes` adds bounds on the members in all. Of several attributes the J groups are the combinations, and
an attribute's counts are sums over them. Attributes and combinations are balanced together, or attributes alone.
"""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from bayesfair._check import check_integer, check_number, listed, message, tell
from bayesfair._interrupts import heard
from bayesfair.fairness.bounded_sizes import BoundedSizes, balance_of, bounded, in_words, size_bounds
from bayesfair.fairness.counts_of_sizes import counts_of_sizes, sizes_near
from bayesfair.fairness.groups import Groups
from bayesfair.fairness.metrics import masses_of_attributes

MARGIN = 1e-5  # in rows: keeps a rounded programme inside strict inequalities
WIDEST = 8  # in rows: distance from the wanted counts that is searched first
RUNGS = 0.9, 0.8, 0.6, 0.4, 0.2  # of the data's own Balance
FEW = 24  # counts up to which the sizes of clusters are sought together with them
GAP = 0.01  # of an integer programme: how far its answer may be from the best, as a share
NODES = 20_000  # limit of the branch and bound, independent of the clock


class WithinOnePerson(NamedTuple):
    """Exact balance, as near as whole rows allow: |n_gk - (N_g / N) n_k| < 1 for every group g and cluster k.

    incidence: which of the J crossed groups each group of an attribute holds, None if they are the same. The crossed groups
    may be among these groups themselves, first (`each_and_together`); then `room` is that of theirs, in place of 1.
    """

    sizes: Int[ndarray, " groups"]
    incidence: Int[ndarray, "groups cells"] | None
    n_obs: int
    room: int = 1

    @property
    def together(self) -> bool:
        """Are the crossed groups balanced themselves?"""
        first = None if self.incidence is None else self.incidence[: self.incidence.shape[1]]
        return first is None or np.array_equal(first, np.eye(len(first.T)))

    @property
    def member(self) -> Int[ndarray, "groups cells"] | None:
        """`incidence` without the crossed groups themselves; None if they are all there is."""
        if self.incidence is None or not self.together:
            return self.incidence
        return self.incidence[self.incidence.shape[1] :]

    @property
    def rooms(self) -> Int[ndarray, " groups"]:
        """Less than so many rows every group is from its share."""
        n_attributes = 0 if self.member is None else len(self.member)
        return np.where(np.arange(len(self.sizes)) < len(self.sizes) - n_attributes, self.room, 1)

    def satisfied(self, counts) -> Bool[ndarray, "... clusters"]:
        """Which clusters are balanced, and not empty: |N n_gk - N_g n_k| < N, in whole numbers."""
        counts = np.asarray(counts, np.int64)
        held, size = _held(counts, self.incidence), counts.sum(-1, keepdims=True)
        excess = np.abs(self.n_obs * held - self.sizes.astype(np.int64) * size)
        return (excess < self.n_obs * self.rooms).all(-1) & (counts.sum(-1) > 0)

    def rows(self) -> tuple[Float[ndarray, "rows cells"], Float[ndarray, " rows"]]:
        """(A, b): a cluster with counts n is balanced if A n <= b, for whole numbers n."""
        deviation = _dense(self.incidence, len(self.sizes)) - (self.sizes / self.n_obs)[:, None]
        return np.concatenate([deviation, -deviation]), np.tile(self.rooms - max(1 / self.n_obs, MARGIN), 2)

    def said(self) -> str:
        if self.room > 1:
            return (
                "every group's share of every cluster is the data's to within one row, for each attribute by itself, and "
                f"every combination's to within {self.room} rows, the least found that can be met together"
            )
        return "every group's share of every cluster is the data's to within one row"


class AtLeastBalanced(NamedTuple):
    """Every cluster's Balance, FMC eq. (3), is at least `min_balance`: n_gk >= min_balance n_hk for groups g, h.

    attribute: of every group; pairs g, h are of one attribute. needed: the least count beside a count of 0, 1, ..., N.
    """

    incidence: Int[ndarray, "groups cells"] | None
    attribute: Int[ndarray, " groups"]
    needed: Int[ndarray, " counts"]
    min_balance: float

    def satisfied(self, counts) -> Bool[ndarray, "... clusters"]:
        """Which clusters are balanced, and not empty."""
        held = _held(counts, self.incidence)
        same = self.attribute[:, None] == self.attribute
        largest = np.where(same, held[..., None, :], 0).max(-1)
        return (held >= self.needed[largest]).all(-1) & (counts.sum(-1) > 0)

    def rows(self) -> tuple[Float[ndarray, "rows cells"], Float[ndarray, " rows"]]:
        """(A, b): a cluster with counts n is balanced if A n <= b."""
        pairs = np.argwhere((self.attribute[:, None] == self.attribute) & ~np.eye(len(self.attribute), dtype=bool))
        incidence = _dense(self.incidence, len(self.attribute))
        return self.min_balance * incidence[pairs[:, 0]] - incidence[pairs[:, 1]], np.zeros(len(pairs))

    def said(self) -> str:
        return f"every cluster's Balance is at least {self.min_balance:g}"


BalanceConstraint = WithinOnePerson | AtLeastBalanced | BoundedSizes


def is_exact(constraint) -> bool:
    return isinstance(balance_of(constraint), WithinOnePerson)


def exactly(constraint: BalanceConstraint, sizes):
    """Exact balance of the same groups, of `sizes` (J,), and the same bounds."""
    if isinstance(constraint, BoundedSizes):
        return constraint._replace(balance=exactly(constraint.balance, sizes))
    incidence = constraint.incidence
    held = sizes if incidence is None else incidence @ sizes
    return WithinOnePerson(np.asarray(held, np.int32), incidence, int(np.sum(sizes)))


def tighter(constraint: BalanceConstraint, sizes) -> list[BalanceConstraint]:
    """The RUNGS of the data's own Balance above the one asked for, tightest first; none above exact balance."""
    if isinstance(constraint, BoundedSizes):
        return [constraint._replace(balance=one) for one in tighter(constraint.balance, sizes)]
    if isinstance(constraint, WithinOnePerson):
        return []
    own = _own_balance(_held(sizes, constraint.incidence), constraint.attribute)
    return [_at_least(constraint, rung * own) for rung in RUNGS if rung * own > constraint.min_balance]


def _at_least(constraint, min_balance):
    return constraint._replace(min_balance=min_balance, needed=_least_beside(min_balance, len(constraint.needed) - 1))


def _own_balance(sizes, attribute):
    return min(sizes[attribute == part].min() / sizes[attribute == part].max() for part in set(attribute.tolist()))


def _held(counts, incidence):
    """Members of the groups of all attributes (..., clusters, groups), from those of their crossings."""
    return counts if incidence is None else counts @ incidence.T


def _dense(incidence, n_groups):
    return np.eye(n_groups, dtype=np.int32) if incidence is None else incidence


def balance_constraint(
    groups: Groups, min_balance: Literal["exact"] | float = "exact", n_clusters=1, *, size_min=None, size_max=None
) -> BalanceConstraint:
    """The rule that says which labellings of a table are balanced.

    `GibbsFairClustering(target="labels")` and `BalancedKMeans` stay within it. A warning names groups with fewer rows
    than there are clusters: under "exact" some clusters may hold none of them.

    Parameters
    ----------
    groups : Groups
        The groups of the rows.
    min_balance : "exact" or float above zero, default "exact"
        "exact": in every cluster each group's count differs by less than one row from its share of the data. A number:
        the least balance of every cluster, at most the balance of the data.
    n_clusters : int, at least 1, default 1
        Number of clusters, all of which are used.
    size_min : int, at least 1, or sequence of int, optional
        The least rows of a cluster, one number for all clusters or one for each. Rows count, not weights.
    size_max : int, at least 1, or sequence of int, optional
        The most rows of a cluster, like `size_min`.

    Returns
    -------
    BalanceConstraint
        Its method `satisfied(counts)` says which clusters are balanced.

    Raises
    ------
    TypeError
        If `min_balance` is neither a number nor "exact", or sizes are not whole numbers.
    ValueError
        If `min_balance` is more than the data have, or no labelling is balanced. The message gives the largest number
        for which there is one. If balanced labellings have other sizes; the message gives the nearest.

    References
    ----------
    FMC, eq. (3), for balance.
    """
    constraint = constraint_of(groups, min_balance, n_clusters, size_min=size_min, size_max=size_max)
    if is_exact(constraint):
        _tell_small(groups, n_clusters)
    return constraint


def constraint_of(
    groups: Groups, min_balance, n_clusters, *, size_min=None, size_max=None, room=None
) -> BalanceConstraint:
    """`balance_constraint`, without warnings; `room` for combinations, if it is known."""
    constraint, alike = _constraint(groups, min_balance), np.tile(groups.sizes / n_clusters, (n_clusters, 1))
    if room is not None:
        constraint = constraint._replace(room=room) if is_exact(constraint) else constraint
        return bounded(constraint, n_clusters, len(groups.code), size_min, size_max)
    constraint, _ = least_room(constraint, groups.sizes, alike)
    constraint = bounded(constraint, n_clusters, len(groups.code), size_min, size_max)
    return least_room(constraint, groups.sizes, alike)[0] if isinstance(constraint, BoundedSizes) else constraint


def least_room(constraint: BalanceConstraint, sizes, wanted):
    """(the constraint with the least room for combinations at which there are counts, those `nearest_counts`); or an error."""
    while True:
        try:
            return constraint, nearest_counts(constraint, sizes, wanted)
        except ValueError:
            balance = balance_of(constraint)
            if not is_exact(balance) or not balance.together or balance.member is None or balance.room == WIDEST:
                raise
            wider = balance._replace(room=balance.room + 1)
            constraint = constraint._replace(balance=wider) if isinstance(constraint, BoundedSizes) else wider


def _tell_small(groups, n_clusters):
    held = zip(groups.attributes or (groups,), masses_of_attributes(groups.sizes, groups))
    sizes = [each for part, masses in held for each in zip(part.names, masses)]
    small = [f"{name} ({size})" for name, size in sizes if size < n_clusters]
    if small and len(groups.names) > 1:
        tell(
            f"Groups with fewer members than there are clusters ({n_clusters}): {listed(small)}. Balanced to within one "
            "row, some clusters will hold none of them; min_group_size merges small groups."
        )


def _constraint(groups, min_balance):
    """The constraint before it is known whether any labels satisfy it; several attributes as `Groups` has them."""
    n_groups, n_obs = len(groups.names), len(groups.code)
    incidence, attribute = None, np.zeros(n_groups, np.int32)
    if groups.parts:
        incidence, n_levels = members_of(groups.parts), [len(part.names) for part in groups.parts]
        if groups.crosses:
            incidence, n_levels = np.concatenate([np.eye(n_groups, dtype=np.int32), incidence]), [n_groups, *n_levels]
        attribute = np.repeat(np.arange(len(n_levels), dtype=np.int32), n_levels)
    sizes = _held(groups.sizes, incidence).astype(np.int32)
    if isinstance(min_balance, str) and min_balance == "exact":
        return WithinOnePerson(sizes, incidence, n_obs)
    least = _checked(min_balance, sizes, attribute)
    return AtLeastBalanced(incidence, attribute, _least_beside(least, n_obs), least)


def members_of(parts) -> Int[ndarray, "groups cells"]:
    """Which crossed groups each group of the attributes holds."""
    return np.concatenate([part.code == np.arange(len(part.names))[:, None] for part in parts]).astype(np.int32)


def each_and_together(groups: Groups) -> WithinOnePerson:
    """Exact balance of the crossed groups, and of every attribute that they cross, whether or not there are such counts."""
    return _constraint(groups._replace(attributes=(), crosses=groups.parts), "exact")


def _least_beside(min_balance, n_obs):
    """The least count beside 0, 1, ..., n_obs of another group. The ratio of two counts is rounded: 1e-12 allows for that."""
    return np.ceil(min_balance * (1 - 1e-12) * np.arange(n_obs + 1)).astype(np.int32)


def _checked(min_balance, sizes, attribute):
    rule, remedy = 'be "exact" or a number in (0, the data\'s own Balance]', '"exact" is the best that rows allow.'
    if isinstance(min_balance, str):
        raise ValueError(message("min_balance", rule, repr(min_balance), remedy))
    least = check_number("min_balance", min_balance, remedy=remedy)
    best = _own_balance(sizes, attribute)
    if least > best * (1 + 1e-9):
        raise ValueError(message("min_balance", f"be at most the data's own Balance, {best:.4g}", min_balance, remedy))
    return least


def nearest_counts(
    constraint: BalanceConstraint, sizes, wanted: Float[ndarray, "clusters groups"], widest=WIDEST, gap=GAP
):
    """Counts (K, J) in S near those `wanted`; `sizes` (J,): everybody is somewhere. An error if S is empty, or seems so.

    Integer programmes, solved by HiGHS through `scipy.optimize.milp`: the nearest (in the sum of differences) of those that
    round each count up or down; where there are none, the nearest within `widest` rows; where there are none, of all.
    Several attributes with many counts have a shorter one for given sizes of the clusters, which are tried in turn. `gap`: by
    which share the sum may be above the least.
    """
    n_clusters, remedy = len(wanted), "Ask for at most as many clusters as rows."
    check_integer("n_clusters", n_clusters, maximum=int(np.sum(sizes)), remedy=remedy)
    if is_exact(constraint) and balance_of(constraint).incidence is not None and wanted.size > FEW:
        counts = _of_several(constraint, np.asarray(sizes), wanted)
        if counts is not None:
            return counts
    else:
        for room in (0, widest, np.sum(sizes)):
            counts = _solved(constraint, sizes, wanted, room, gap=gap)
            if counts is not None:
                return counts
    raise ValueError(_why_empty(constraint, sizes, n_clusters))


def _of_several(constraint, sizes, wanted):
    """Counts of several attributes near those wanted, or None if no sizes that were tried have any."""
    balance, (least, most) = balance_of(constraint), size_bounds(constraint)
    rooms = (balance.room,) if balance.together else (np.inf,)
    for held in sizes_near(wanted, sizes, balance.member, least, most, together=balance.together):
        found = counts_of_sizes(wanted, sizes, held, balance.member, rooms)
        if found is not None:
            return found.counts
    return None


def _solved(constraint, sizes, wanted, room, margin=0.0, gap=GAP):
    """Counts in S: the wanted ones rounded up or down, then up to `room` more or less; None without a solution.

    The unknowns are which are rounded up, and how many more and fewer there are. `margin` tightens inequalities.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import eye_array, hstack

    rows, least, most = _space(constraint, sizes, len(wanted), margin)
    low = np.floor(wanted).ravel()
    change = hstack([eye_array(low.size), eye_array(low.size), -eye_array(low.size)], format="csr")
    one, many = np.ones(low.size), np.full(low.size, float(room))
    result = heard(
        milp,
        np.concatenate([1 - 2 * (wanted.ravel() - low), one, one]),
        integrality=np.ones(3 * low.size),
        bounds=Bounds(0, np.concatenate([one, many, np.minimum(many, low)])),
        constraints=LinearConstraint(rows @ change, least - rows @ low, most - rows @ low),
        options={"node_limit": NODES, "mip_rel_gap": gap},
    )
    if result.x is None:
        return None
    counts = np.rint(low + change @ result.x).astype(np.int64).reshape(wanted.shape)
    if constraint.satisfied(counts).all():
        return counts
    return None if margin else _solved(constraint, sizes, wanted, room, MARGIN, gap)


def _space(constraint, sizes, n_clusters, margin=0.0):
    """(rows, least, most): counts (K J,) are in S if rows @ counts is between them; of balance, groups and sizes in turn."""
    from scipy.sparse import csr_array, eye_array, kron, vstack

    A, b = constraint.rows()
    balanced = kron(eye_array(n_clusters), csr_array(A), format="csr")
    everyone = kron(csr_array(np.ones((1, n_clusters))), eye_array(len(sizes)), format="csr")
    size = kron(eye_array(n_clusters), csr_array(np.ones((1, len(sizes)))), format="csr")
    smallest, largest = (np.full(n_clusters, bound, float) for bound in size_bounds(constraint))
    below = np.full(balanced.shape[0], -np.inf)
    least, most = [below, sizes, smallest], [np.tile(b - margin, n_clusters), sizes, largest]
    return vstack([balanced, everyone, size], format="csr"), np.concatenate(least), np.concatenate(most)


def nearest_bounds(constraint: BoundedSizes, sizes, n_clusters, margin=0.0):
    """The constraint with the nearest sizes that balanced labels can have; None if none is found. `margin`: of `_solved`."""
    from scipy.optimize import LinearConstraint, milp
    from scipy.sparse import block_array

    rows, least, most = _space(constraint.balance, sizes, n_clusters, margin)
    size, each = rows[-n_clusters:], np.ones((n_clusters, 1)) if np.ndim(constraint.least) == 0 else np.eye(n_clusters)
    smallest, largest = (np.full(n_clusters, bound, float) for bound in size_bounds(constraint))
    either, n_counts, n_bounds = np.full(n_clusters, np.inf), rows.shape[1], each.shape[1]
    result = heard(
        milp,
        np.repeat([0.0, 1.0], [n_counts, 2 * n_bounds]),
        integrality=np.ones(n_counts + 2 * n_bounds),
        constraints=LinearConstraint(
            block_array([[rows, None, None], [size, each, None], [size, None, -each]], format="csr"),
            np.concatenate([least, smallest, -either]),
            np.concatenate([most, either, largest]),
        ),
        options={"node_limit": NODES},
    )
    if result.x is None:
        return None
    whole = np.rint(result.x).astype(np.int32)
    counts = whole[:n_counts].reshape(n_clusters, -1)
    less, more = whole[n_counts:].reshape(2, *constraint.least.shape)
    if not constraint.balance.satisfied(counts).all():
        return None if margin else nearest_bounds(constraint, sizes, n_clusters, MARGIN)
    return constraint._replace(least=constraint.least - less, most=constraint.most + more)


def _why_no_such_sizes(constraint, sizes, n_clusters):
    """The message if balanced labellings need other sizes."""
    asked, nearest = (in_words(one, sizes) for one in (constraint, nearest_bounds(constraint, sizes, n_clusters)))
    rule = f"leave a labelling of these {np.sum(sizes)} rows into {n_clusters} clusters in which {constraint.balance.said()}"
    remedy = f"The nearest that do: {nearest}." if nearest else "Ask for looser bounds."
    return message(asked.split("=")[0], rule, asked, remedy)


def _why_empty(constraint, sizes, n_clusters):
    """The message if no labelling is balanced."""
    if isinstance(constraint, BoundedSizes):
        return _why_no_such_sizes(constraint, sizes, n_clusters)
    rule = f"leave a labelling of these rows into {n_clusters} clusters"
    if isinstance(constraint, WithinOnePerson):
        of_attributes = "Balance each attribute on its own (crossed=False), pass" if constraint.together else "Pass"
        remedy = f"{of_attributes} a number, or ask for fewer clusters."
        return message("min_balance", rule, '"exact"', remedy)
    low, high = 0.0, constraint.min_balance
    wanted = np.tile(np.asarray(sizes) / n_clusters, (n_clusters, 1))
    for _ in range(12):
        middle = (low + high) / 2
        counts = _solved(_at_least(constraint, middle), sizes, wanted, np.sum(sizes))
        low, high = (low, middle) if counts is None else (middle, high)
    remedy = f"The largest that does is about {low:.3g}; or ask for fewer clusters."
    if low == 0:
        remedy = 'A cluster without members of a group has Balance 0: ask for fewer clusters, or for "exact".'
    return message("min_balance", rule, f"{constraint.min_balance:.4g}", remedy)

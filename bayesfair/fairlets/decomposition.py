"""Fairlet decompositions: the optimum if it is a transport problem, otherwise the best found."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._arrays import cell_masses
from bayesfair._check import (
    Refusal,
    check_features,
    check_integer,
    check_number,
    check_positive_weights,
    check_same_length,
    check_same_rows,
    column_names,
    generator_of,
    message,
    node_names,
    row_names,
    tell,
)
from bayesfair._names import Graph, csr_array
from bayesfair._scaling import ScaledRows, Scaling, scaling_of
from bayesfair.fairlets.by_blocks import PricedTable, decompose_by_blocks
from bayesfair.fairlets.compositions import Capacities, anchor_group, capacities, rule_of_small_groups
from bayesfair.fairlets.dissimilarity import (
    Dissimilarity,
    KullbackLeibler,
    Minkowski,
    SquaredEuclidean,
    Weighted,
    resolve_dissimilarity,
)
from bayesfair.fairlets.members import fairlet_centers
from bayesfair.fairlets.transport import rounding_of, transport
from bayesfair.fairness.groups import Groups, encode_groups

DEGREES = {SquaredEuclidean: 2, Minkowski: 1, KullbackLeibler: 1}  # D(s x, s y) = s**degree D(x, y)
FEW, NEGLIGIBLE = 1_000, 1e-4  # rows that show typical distances; share of these that float32 may lose
BY_BLOCKS = "blocks by POT's network simplex and SciPy's linear_sum_assignment"
PROVED = 1e-8  # relative gap between cost and bound that rounding may cause


class DecomposedRows(NamedTuple):
    """The input of a decomposition; features are None if only matrices were given, names for rows without."""

    groups: Groups
    X: ArrayLike | None
    dissimilarity: Dissimilarity
    names: np.ndarray | None


class Decomposition(NamedTuple):
    """A fairlet decomposition: every row is in one fairlet.

    In the anchored form every fairlet has exactly one member of one group, its anchor. `decompose` numbers fairlets in
    the order of their anchors. In the hub form there are no anchors.

    Attributes
    ----------
    fairlet : numpy.ndarray of shape (n_obs,)
        The number of every row's fairlet, from 0.
    composition : numpy.ndarray of shape (n_fairlets, n_groups)
        Number of members of each group in each fairlet.
    cost : float
        The fairlet loss L_f.
    lower_bound : float
        No decomposition costs less.
    anchored : bool
        Whether this is the anchored form.
    rows : DecomposedRows or None
        The features, groups and names of the rows. None if each row is a fairlet.
    solver : str
        What found the decomposition.

    References
    ----------
    The Gibbs paper, eq. (2). Chierichetti, Kumar, Lattanzi and Vassilvitskii (2017), Fair Clustering Through Fairlets.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.fairlets.decompose([[0.0], [1.0], [5.0], [6.0]], ["a", "b", "a", "b"]).composition.tolist()
    [[1, 1], [1, 1]]
    """

    fairlet: np.ndarray
    composition: np.ndarray
    cost: float
    lower_bound: float
    anchored: bool
    rows: DecomposedRows | None = None
    solver: str = ""

    @property
    def gap(self):
        """Distance of the cost from its lower bound relative to the cost; infinite if nothing is proved."""
        if self.cost <= 0:
            return 0.0
        return np.inf if self.lower_bound <= 0 else (self.cost - self.lower_bound) / self.cost

    @property
    def optimal(self):
        """Whether the cost is proved to be the least possible."""
        return bool(self.gap <= PROVED)

    @property
    def method(self):
        """How the decomposition was found, in words."""
        return "optimal transport" if self.optimal else "blocks solved exactly, and made again"

    def __repr__(self):
        proof = ", optimal" if self.optimal else f"; {describe_gap(self.gap)}"
        form = "anchored" if self.anchored else "hub"
        solver = f"; {self.solver}" if self.solver else ""
        return f"Decomposition({len(self.composition)} fairlets, {form} form, cost {self.cost:.6g}{proof}{solver})"

    def matrices(self) -> dict[str, csr_array]:
        """The binary matrix B of every group, which says which fairlet each member is in.

        Returns
        -------
        dict of scipy.sparse.csr_array
            {group: matrix of shape (fairlets, members)} of type int8. Members are in the order of the rows. Columns sum to
            1, rows to `composition`.

        Raises
        ------
        ValueError
            If each row is a fairlet of its own.

        References
        ----------
        The Gibbs paper, section 3.1.

        Examples
        --------
        >>> found = decompose([[0.0], [1.0], [5.0], [6.0]], ["a", "b", "a", "b"])
        >>> found.matrices()["b"].toarray().tolist()
        [[1, 0], [0, 1]]
        """
        from scipy import sparse

        groups, m = self._rows("matrices").groups, len(self.composition)
        own = [self.fairlet[groups.code == group] for group in range(len(groups.names))]
        return {
            name: sparse.csr_array((np.ones(len(at), np.int8), (at, np.arange(len(at)))), shape=(m, len(at)))
            for name, at in zip(groups.names, own)
        }

    def weights(self, inverse_temperature: float) -> dict[str, np.ndarray]:
        """The weights exp(-lambda_f D) that the rectangular loop gives to the ones of every matrix.

        Parameters
        ----------
        inverse_temperature : float above zero
            lambda_f, per unit of D.

        Returns
        -------
        dict of numpy.ndarray
            {group: array of shape (fairlets, members)} for every group but that of the anchors. D is the distance to the
            anchor of the fairlet.

        Raises
        ------
        ValueError
            If this is the hub form, where what a member pays depends on the others, or there are no features.

        References
        ----------
        The Gibbs paper, Algorithm 1.

        Examples
        --------
        >>> found = decompose([[0.0], [1.0], [5.0], [6.0]], ["a", "b", "a", "b"])
        >>> found.weights(0.1)["b"].round(3).tolist()
        [[0.905, 0.027], [0.202, 0.905]]
        """
        rows, scale = self._rows("weights", features=True), check_number("inverse_temperature", inverse_temperature)
        if not self.anchored:
            what = "A decomposition in the hub form has no `weights`: a member's cost depends on its fairlet's others."
            raise ValueError(
                Refusal(f"{what} Remedy: choose a composition that has one member of some group in every fairlet.")
            )
        X, code = features_of(rows.X), rows.groups.code
        anchors = X[self.anchors]
        return {
            name: np.exp(-scale * rows.dissimilarity.pairwise(anchors, X[code == group]))
            for group, name in enumerate(rows.groups.names)
            if group != self._anchor_group
        }

    def graph(self) -> Graph:
        """The graph of who is matched with whom.

        Returns
        -------
        networkx.Graph
            Nodes are named as the rows: by the index of a DataFrame, or by their numbers. They have the attributes `group`
            and `fairlet`. Edges go from every anchor to the members of its fairlet and have their `distance`, which is D.
            In the hub form they start at a node ("hub", fairlet), which has no group.

        Raises
        ------
        ValueError
            If each row is a fairlet of its own, there are no features, or rows share a name.

        Examples
        --------
        >>> found = decompose([[0.0], [1.0], [5.0], [6.0]], ["a", "b", "a", "b"])
        >>> list(found.graph().edges(data="distance"))
        [(0, 1, 1.0), (2, 3, 1.0)]
        """
        import networkx as nx

        rows, graph = self._rows("graph", features=True), nx.Graph()
        names = range(len(self.fairlet)) if rows.names is None else node_names("X", rows.names)
        for name, group, fairlet in zip(names, rows.groups.code, self.fairlet.tolist()):
            graph.add_node(name, group=rows.groups.names[group], fairlet=fairlet)
        if self.anchored:
            centers = [names[row] for row in self.anchors]
        else:
            centers = [("hub", fairlet) for fairlet in range(len(self.composition))]
            graph.add_nodes_from((center, {"fairlet": center[1]}) for center in centers)
        for name, fairlet, far in zip(names, self.fairlet, self.distances().tolist()):
            if centers[fairlet] != name:
                graph.add_edge(centers[fairlet], name, distance=far)
        return graph

    def distances(self) -> np.ndarray:
        """Distance D of every row to its anchor, or to the centre of its fairlet in the hub form.

        Returns
        -------
        numpy.ndarray of shape (n_obs,)
            Their sum is the cost if rows have no weights.

        Raises
        ------
        ValueError
            If each row is a fairlet of its own, or there are no features.

        Examples
        --------
        >>> decompose([[0.0], [1.0], [5.0], [6.0]], ["a", "b", "a", "b"]).distances().tolist()
        [0.0, 1.0, 0.0, 1.0]
        """
        rows = self._rows("distances", features=True)
        X = features_of(rows.X)
        if self.anchored:
            return rows.dissimilarity.between(X, X[self.anchors[self.fairlet]])
        return rows.dissimilarity.to_center(X, fairlet_centers(X, self.fairlet)[self.fairlet])

    @property
    def _anchor_group(self):
        return anchor_group(Capacities(self.composition, self.composition))

    @property
    def anchors(self) -> np.ndarray:
        """The row that is the anchor of every fairlet in the anchored form, int of shape (n_fairlets,)."""
        rows = np.flatnonzero(self.rows.groups.code == self._anchor_group)
        return rows[np.argsort(self.fairlet[rows])]

    def _rows(self, what, features=False):
        if self.rows is None:
            raise ValueError(Refusal(f"A decomposition in which each row is a fairlet has no `{what}`."))
        if features and self.rows.X is None:
            raise ValueError(
                Refusal(f"A decomposition made of matrices alone has no `{what}`. Remedy: pass from_matrices(X=).")
            )
        return self.rows


def describe_gap(gap, risk=0.0):
    """A clause: how much cheaper the best fairlets could be, given this gap, see `Decomposition`; rounded up, as a bound is.

    `risk`: that the bound is too high, in runs saved by earlier versions; now it is proved.
    """
    if not np.isfinite(gap):
        return "how much less the best ones would cost is not known"
    sure = f", with a risk of {risk:.0e} of being wrong" if risk else ""
    return f"the best ones cost at most {np.ceil(1000 * gap - 1e-9) / 10:.3g}% less{sure}"


def decompose(
    X: ArrayLike,
    sensitive: ArrayLike | Groups,
    composition: Mapping | ArrayLike = "auto",
    *,
    dissimilarity: str | Dissimilarity = "kmeans",
    power: float = 1.0,
    exact_up_to: int = 50_000,
    random_state: int | np.random.RandomState | None = None,
    sample_weight: ArrayLike | None = None,
) -> Decomposition:
    """The fairlet decomposition of least cost, or the best one found.

    If some group has exactly one member in every fairlet, these are the anchors, and the cost is the sum of distances D
    from the others to their anchor. The optimum is then found and proved in tables of up to `exact_up_to` rows. In
    larger tables, and without anchors (D is then the distance to the centre of the fairlet), a cheap decomposition is
    found without proof. `optimal` and `gap` of the result say which. A warning is issued if "auto" lets a group of a few
    rows make fairlets of hundreds.

    Parameters
    ----------
    X : array-like of shape (n_obs, n_features)
        Features.
    sensitive : array-like of shape (n_obs,) or (n_obs, n_attributes), or Groups
        The groups of the rows, see `bayesfair.fairness.encode_groups`.
    composition : "auto", dict, int or array-like, default "auto"
        Members of each group in each fairlet. "auto": the exact ratio of the group sizes if it reduces to fairlets of
        at most 12 members; otherwise one fairlet for each member of the smallest group, with counts rounded down or up.
        {group: count}, or counts in the order of the groups: that ratio, exactly if the sizes allow it; otherwise
        rounded down or up. A count of 0 lets fairlets go without a group, whose balance is then not guaranteed. An int:
        that many fairlets. An int array of shape (n_fairlets, n_groups): exactly these counts, with the i-th anchor in the
        table in the fairlet of row i; rows are not exchanged.
    dissimilarity : str or Dissimilarity, default "kmeans"
        D: "kmeans" (squared Euclidean), "manhattan", "minkowski", "kl", "itakura-saito", "binary", or one of your own.
        From a Bregman divergence of phi, D(x, a) is twice the Jensen gap: 2 (phi(x) + phi(a) - 2 phi((x + a) / 2)).
    power : float, default 1.0
        Power of "minkowski", the norm of x - y.
    exact_up_to : int, at least 0, default 50_000
        Most rows for which the optimum is proved. The time of the proof grows faster than the number of rows.
    random_state : int or numpy.random.RandomState, optional
        Seed of what is not exact.
    sample_weight : array-like of shape (n_obs,), optional
        Weights above zero. They enter the cost only: compositions count rows, since a row is in one fairlet. A member of
        weight w pays 2 w v / (w + v) D to an anchor of weight v, which is w D if both are equal.

    Returns
    -------
    Decomposition

    Raises
    ------
    TypeError
        If the features are not numbers, or the composition is of another type.
    ValueError
        If there is a single group, the sizes of the groups do not admit the composition, or the data are outside the
        domain of D.

    References
    ----------
    The Gibbs paper, eq. (2). Chierichetti et al. (2017).

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.fairlets.decompose([[0.0], [1.0], [5.0], [6.0]], ["a", "b", "a", "b"]).fairlet.tolist()
    [0, 0, 1, 1]
    """
    check_same_rows(X=X, sensitive=sensitive, sample_weight=sample_weight)
    given, names = X, column_names(X)
    check_integer("exact_up_to", exact_up_to, minimum=0)
    X, groups = features_of(X), encode_groups(sensitive, argument="sensitive")
    check_same_length("sensitive", len(groups.code), "X", len(X))
    if len(groups.names) == 1:
        remedy = "Check the column; clustering without fairness needs no fairlets."
        raise ValueError(message("sensitive", "have at least two groups", f"only {groups.names[0]!r}", remedy))
    dissimilarity = resolve_dissimilarity(dissimilarity, power)
    dissimilarity.check(X)
    held, code = capacities(groups.sizes, composition, groups.names), groups.code
    if isinstance(composition, str) and (ruled := rule_of_small_groups(groups.sizes, groups.names)):
        tell(ruled)
    weight = None if sample_weight is None else check_positive_weights(sample_weight, len(X), given)
    degree, rng = DEGREES.get(type(dissimilarity)), generator_of(random_state)
    # Scaling does not change the answer, and the network simplex has absolute tolerances.
    units = Scaling(np.zeros(X.shape[1]), 0)
    if degree is not None:
        units = scaling_of(X, names=names, degree=degree, center=degree == 2)
    anchor, few = anchor_group(held), len(X) <= exact_up_to
    paid = dissimilarity if weight is None and anchor is not None else Weighted(dissimilarity)
    Z = ScaledRows(X, units, np.float64 if few else _precision(X, units, dissimilarity, rng))
    table = PricedTable(Z, code, held, paid, anchor, weight)
    if few and anchor is not None:
        fairlet, cost, bound, solver = _optimal(table)
    else:
        (fairlet, cost), bound, solver = decompose_by_blocks(table, rng), 0.0, BY_BLOCKS
    cost, bound = (units.cost(value, degree or 0) for value in (cost, bound))
    rows = DecomposedRows(groups, given, dissimilarity, row_names(given))
    fairlet, composition = fairlet.astype(np.int32, copy=False), cell_masses(fairlet, code, held.lower.shape)
    return Decomposition(fairlet, composition, cost, bound, anchor is not None, rows, solver)


def features_of(X):
    """`check_features`, but float32 stays float32."""
    return check_features(X, dtypes=(np.float64, np.float32))


def _optimal(table):
    """(fairlet (N,), cost, lower bound, what POT did): given the anchors, each other group is a separate transport problem."""
    code, (lower, upper) = table.code, table.capacities
    fairlet, cost, bound, rounds = np.empty(len(code), np.int32), 0.0, 0.0, 0
    fairlet[code == table.anchor] = np.arange(table.n_fairlets)
    for group in table.others:
        anchors, members = (table.rows(code == some) for some in (table.anchor, group))
        plan = transport(anchors, members, lower[:, group], upper[:, group], table.dissimilarity)
        fairlet[code == group] = plan.anchor
        cost, bound, rounds = cost + plan.cost, bound + plan.lower_bound, rounds + plan.rounds
    return fairlet, cost, bound, f"POT's network simplex, {rounds} round{'s' * (rounds > 1)}"


def _precision(X, units, dissimilarity, rng):
    """float32 for squared distances if a few rows show that its rounding is negligible for near rows."""
    if not isinstance(dissimilarity, SquaredEuclidean):
        return np.float64
    rows = units.rows(X[rng.choice(len(X), min(FEW, len(X)), replace=False)], np.float32)
    far = dissimilarity.pairwise(rows, rows)
    np.fill_diagonal(far, np.inf)
    lost = rounding_of(rows) * 2 * np.square(rows).sum(1).mean()
    return np.float32 if lost < NEGLIGIBLE * far.min(1).mean() else np.float64

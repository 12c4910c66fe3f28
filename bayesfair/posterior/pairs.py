"""Pairs of rows: how often two rows share a cluster, or a fairlet, as a matrix and as a graph."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._arrays import row_blocks
from bayesfair._check import Number, Refusal, check_integer, message, node_names
from bayesfair._names import DataTree, Graph, csr_array
from bayesfair.posterior import sentences
from bayesfair.posterior.draws import LabelDraws
from bayesfair.posterior.point_estimates import reference_partition
from bayesfair.posterior.schema import AXES, KEPT, flat_labels, groups_of, variable
from bayesfair.posterior.tables import count_together, distinct_observations
from bayesfair.posterior.view import View, once

MAX_OBS = 5_000
MAX_EDGES = 10_000_000  # some 5 GB in networkx
TILE = 2_048  # rows and columns of the co-clustering matrix in memory at a time
SURE = 0.9  # of the draws: how often a partner is the same


def co_clustering(tree: "DataTree", *, indices: ArrayLike | None = None, max_obs: int = MAX_OBS) -> np.ndarray:
    """The share of draws in which two rows are in one cluster.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).
    indices : array-like of int, optional
        Rows of the matrix. By default all.
    max_obs : int, default 5_000
        Most rows of the matrix. 5,000 take 100 MB.

    Returns
    -------
    numpy.ndarray of shape (n_obs, n_obs)
        float32.

    Raises
    ------
    ValueError
        If `indices` are no positions of rows, or there are more than `max_obs`. No other summary needs this matrix.

    References
    ----------
    The Gibbs paper, section 3.2: etabar.

    Examples
    --------
    >>> import bayesfair as bf
    >>> tree = bf.posterior.tree_from_labels([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]], [[0], [1], [8], [9]])
    >>> bf.posterior.co_clustering(tree)[2].tolist()
    [0.25, 0.25, 1.0, 0.75]
    """
    labels = flat_labels(tree)
    rows = np.arange(labels.shape[1]) if indices is None else _places(indices, labels.shape[1])
    if len(rows) > max_obs:
        raise ValueError(
            Refusal(
                f"`co_clustering` makes an N x N matrix only up to `max_obs` rows ({max_obs}), got {len(rows)} "
                f"({4e-9 * len(rows) ** 2:.1f} GB). Pass indices= for a sample, e.g. "
                f"np.random.default_rng(0).choice({len(rows)}, {min(2000, max_obs)}, replace=False), "
                "or raise max_obs= if you have that much memory."
            )
        )
    labels = labels.columns(rows)
    columns, _, inverse = distinct_observations(labels)
    together = count_together(labels[:, columns], int(labels.max()) + 1) / np.float32(len(labels))
    return together[np.ix_(inverse, inverse)]


def _places(indices, n_obs):
    """Positions of rows, some perhaps counted from the end, or a mask of them, as positions."""
    found = np.asarray(indices)
    is_mask = found.dtype == bool and found.shape == (n_obs,)
    is_place = found.ndim == 1 and found.dtype.kind in "iu" and ((found >= -n_obs) & (found < n_obs)).all()
    if not (is_mask or is_place) or found.size == 0:
        rule, got = f"be positions of rows below {n_obs}", f"{found.dtype} of shape {found.shape}"
        remedy = "For names of rows pass tree['posterior']['obs'].to_index().get_indexer(names)."
        raise ValueError(message("indices", rule, got, remedy))
    return np.arange(n_obs)[found]


def co_clustering_graph(tree: "DataTree", threshold: float = 0.5, *, max_edges: int = MAX_EDGES) -> "Graph":
    """The graph of rows that are in one cluster in a large share of the draws.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).
    threshold : float above zero and at most 1, default 0.5
        Least co-clustering probability of an edge.
    max_edges : int, default 10_000_000
        Most edges: networkx takes about 500 bytes for each.

    Returns
    -------
    networkx.Graph
        One node for each row, named as `obs` is, with its `cluster` in `reference_partition(tree)` and its `group` if the
        tree has groups. Edges have the attribute `probability`.

    Raises
    ------
    ValueError
        If the threshold is not in (0, 1], rows share a name, or there are too many edges.

    Notes
    -----
    Connected components are cores: no row is together with a row of another core as often as the threshold. A row whose
    removal splits a core bridges it; `networkx.articulation_points` finds those. Two rows of one core need not be together
    often themselves, if others link them. No matrix of all pairs is made, yet the time grows with the square of the number
    of rows whose labels differ between draws.

    Examples
    --------
    >>> import networkx as nx, bayesfair as bf
    >>> tree = bf.posterior.tree_from_labels([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]], [[0], [1], [8], [9]])
    >>> graph = bf.posterior.co_clustering_graph(tree, 0.7)
    >>> [sorted(core) for core in nx.connected_components(graph)]
    [[0, 1], [2, 3]]
    """
    remedy = "0.5 joins rows that are together in half of the draws."
    threshold = Number(False, 0, 1, above=True).check("threshold", threshold, remedy)
    max_edges, tree = check_integer("max_edges", max_edges), View.of(tree)
    pairs = _pairs(flat_labels(tree), threshold, max_edges)
    return graph_of_rows(tree, pairs, cluster=reference_partition(tree).tolist())


def graph_of_rows(tree, parts, **about):
    """A networkx.Graph of the rows with facts `about` them (obs,); `parts`: arrays (rows, other rows, probabilities)."""
    import networkx as nx

    graph, names, groups = nx.Graph(), node_names("tree", tree["posterior"]["obs"].values), groups_of(tree)
    if groups is not None:
        about["group"] = [groups.names[g] for g in groups.code]
    graph.add_nodes_from((name, dict(zip(about, one))) for name, *one in zip(names, *about.values()))
    for pairs in parts:
        edges = zip(*(part.tolist() for part in pairs))
        named = ((names[one], names[other], share) for one, other, share in edges)
        graph.add_weighted_edges_from(named, weight="probability")
    return graph


class Kinds(NamedTuple):
    """Groups of rows that share all their draws: `rows`, kind after kind; each kind has `size` rows from `first` on."""

    rows: np.ndarray
    first: np.ndarray
    size: np.ndarray

    def pairs(self, one, other):
        """Every pair of a row of the first kind with one of the second: (position in `rows`, likewise, pair of kinds)."""
        n_pairs = self.size[one] * self.size[other]
        pair = np.repeat(np.arange(len(one)), n_pairs)
        place = np.arange(len(pair)) - np.repeat(np.cumsum(n_pairs) - n_pairs, n_pairs)
        row, column = np.divmod(place, self.size[other][pair])
        return self.first[one][pair] + row, self.first[other][pair] + column, pair


def _pairs(labels, threshold, max_edges):
    """Arrays (rows, other rows, shares of draws) of rows that are together as often; ValueError above `max_edges`."""
    columns, size, inverse = distinct_observations(labels)
    kinds = Kinds(np.argsort(inverse, kind="stable"), np.cumsum(size) - size, size)
    n_edges = int((size * (size - 1) // 2).sum())
    _check_edges(n_edges, max_edges)
    several = np.flatnonzero(size > 1)
    one, other, _ = kinds.pairs(several, several)
    one, other = one[one < other], other[one < other]
    yield kinds.rows[one], kinds.rows[other], np.ones(len(one))
    for a, b, share in _kinds_together(labels, columns, threshold):
        n_edges += int(size[a] @ size[b])
        _check_edges(n_edges, max_edges)
        one, other, pair = kinds.pairs(a, b)
        yield kinds.rows[one], kinds.rows[other], share[pair]


def _kinds_together(labels, columns, threshold):
    """The pairs of `columns`, by position, that are together often enough, and how often: tile by tile of their matrix."""
    n_clusters, blocks = int(labels.max()) + 1, row_blocks(len(columns), TILE)
    for at, rows in enumerate(blocks):
        own = labels.columns(columns[rows])
        for others in blocks[at:]:
            together = count_together(own, n_clusters, None if others == rows else labels.columns(columns[others]))
            share = together / np.float64(len(labels))
            near = share >= threshold
            one, other = np.nonzero(np.triu(near, 1) if others == rows else near)
            yield one + rows.start, other + others.start, share[one, other]


def _check_edges(n_edges, max_edges):
    if n_edges > max_edges:
        rule, got = f"have at most {max_edges:,} edges at this threshold", f"{n_edges:,} so far"
        remedy = (
            "Raise `threshold`, take some of the rows, tree.isel(obs=[...], missing_dims='ignore'), or raise max_edges="
        )
        raise ValueError(message("tree", rule, got, f"{remedy}, if you have 500 bytes for each."))


@once
def fairlet_probability(tree: "DataTree") -> "csr_array":
    """The share of draws in which two rows share a fairlet.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior that keeps its fairlets: `target=bf.gibbs.Joint(keep_fairlets=True)`, or a number.

    Returns
    -------
    scipy.sparse.csr_array of shape (n_obs, n_obs)
        float64, symmetric, with zeros on the diagonal. It holds the pairs that share a fairlet in any draw and no others.

    Raises
    ------
    ValueError
        If the tree has no fairlets.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_well_specified()
    >>> settings = {"num_chains": 2, "num_warmup": 200, "num_draws": 400, "random_state": 0, "progress_bar": False}
    >>> est = bf.GibbsFairClustering(2, target=bf.gibbs.Joint(keep_fairlets=True), **settings)
    >>> P = bf.posterior.fairlet_probability(est.fit(data.features, sensitive_features=data.sensitive).posterior_)
    >>> P.sum(1).round(6).tolist() == [1.0] * 100  # of pairs: everybody has one partner in every draw
    True
    """
    from scipy.sparse import csr_array

    draws = _fairlets_of(tree)
    n_obs = draws.shape[1]
    together = csr_array((n_obs, n_obs), dtype=np.int32)
    for block in draws.blocks():
        width = int(block.max()) + 1
        fairlet = (np.arange(len(block))[:, None] * width + block).ravel()
        cells = np.ones(fairlet.size, np.int32), (fairlet, np.tile(np.arange(n_obs), len(block)))
        holds = csr_array(cells, shape=(len(block) * width, n_obs))
        together = together + holds.T.tocsr() @ holds
    together.setdiag(0)
    together.eliminate_zeros()
    together.sort_indices()
    return together / len(draws)


@once
def matched_sentence(tree: "DataTree") -> str:
    """How surely anchors, or in the hub form all rows, keep their likeliest partner; "" if draws keep no fairlets."""
    if not holds_fairlets(tree):
        return ""
    most, anchors = fairlet_probability(tree).max(1).toarray().ravel(), anchor_rows(tree)
    kind, counted = ("rows", np.ones(len(most), bool)) if anchors is None else ("anchors", anchors)
    return sentences.of_partners(
        int((most[counted] >= SURE).sum()), int(counted.sum()), kind, SURE, float(np.median(most))
    )


def fairlet_graph(tree: "DataTree", threshold: float = 0.1) -> "Graph":
    """The graph of who is matched with whom.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior that keeps its fairlets, see `fairlet_probability`.
    threshold : float above zero and at most 1, default 0.1
        Pairs that share a fairlet in a smaller share of the draws have no edge.

    Returns
    -------
    networkx.Graph
        Nodes are named as the rows and have the attribute `group`, if there are groups. Edges have the attribute
        `probability`.

    Raises
    ------
    ValueError
        If the tree has no fairlets, rows share a name, or the threshold is not in (0, 1].

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_well_specified()
    >>> settings = {"num_chains": 2, "num_warmup": 200, "num_draws": 400, "random_state": 0, "progress_bar": False}
    >>> est = bf.GibbsFairClustering(2, target=bf.gibbs.Joint(keep_fairlets=True), **settings)
    >>> graph = bf.posterior.fairlet_graph(est.fit(data.features, sensitive_features=data.sensitive).posterior_)
    >>> graph.number_of_nodes()
    100
    """
    threshold = Number(False, 0, 1, above=True).check("threshold", threshold, "Pass a share of the draws, such as 0.1.")
    return graph_of_rows(tree, [pairs_of(fairlet_probability(tree), threshold)])


def pairs_of(P, threshold):
    """(rows, columns, probabilities) of the pairs with at least that probability, each pair once."""
    row = np.repeat(np.arange(P.shape[0]), np.diff(P.indptr))
    kept = (row < P.indices) & (P.data >= threshold)
    return row[kept], P.indices[kept], P.data[kept]


def holds_fairlets(tree: "DataTree") -> bool:
    """Does the tree keep the fairlets of its draws?"""
    return variable(tree, "posterior", "fairlet") is not None


@once
def _fairlets_of(tree):
    """The fairlets of the draws that keep them (draws, obs); ValueError if none does."""
    fairlet = variable(tree, "posterior", "fairlet")
    if fairlet is None:
        remedy = "Fit GibbsFairClustering(target=bf.gibbs.Joint(keep_fairlets=True)); bf.gibbs.Cut keeps them too."
        raise ValueError(message("tree", "hold `fairlet` in its group 'posterior'", "none", remedy))
    if fairlet.dims not in (AXES, (AXES[0], KEPT, AXES[2])) or 0 in fairlet.shape:
        rule, got = "hold at least one draw of `fairlet`", f"`fairlet` {fairlet.dims} of shape {fairlet.shape}"
        remedy = "Select with lists, such as tree.isel(chain=[0], missing_dims='ignore'), which keep every dimension."
        raise ValueError(message("tree", rule, got, remedy))
    return LabelDraws(fairlet)


def anchor_rows(tree):
    """Which rows are the anchors (obs,); None in the hub form, and without groups."""
    groups, fairlet = groups_of(tree), _fairlets_of(tree)[0]
    n_fairlets = int(fairlet.max()) + 1
    for code in range(0 if groups is None else len(groups.names)):
        members = groups.code == code
        if members.sum() == n_fairlets and len(np.unique(fairlet[members])) == n_fairlets:
            return members
    return None

"""The posterior as a graph of rows that are together in most draws: a co-clustering matrix for more rows."""

from typing import NamedTuple

import numpy as np

from bayesfair._arrays import row_blocks
from bayesfair._check import Number, check_integer, message, node_names
from bayesfair._names import DataTree, Graph
from bayesfair.posterior.point_estimates import reference_partition
from bayesfair.posterior.schema import flat_labels, groups_of
from bayesfair.posterior.tables import count_together, distinct_observations
from bayesfair.posterior.view import View

MAX_EDGES = 10_000_000  # some 5 GB in networkx
TILE = 2_048  # rows and columns of the co-clustering matrix in memory at a time


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

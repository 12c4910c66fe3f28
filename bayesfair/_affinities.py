"""Sparse symmetric affinities of rows, of matrices and of graphs."""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesfair._check import check_features, message
from bayesfair._names import Graph, csr_array

WEAKEST = 1e-12  # smallest degree, relative to the largest affinity: clusters' shares of it are squared in float32
SAME = 1e-6  # relative difference that float32 rounding may leave between the two directions of a tie
ROUNDS, STEPS = 20, 5  # rounds of the search for eigenvectors, and matrix products per round
FURTHER = 10  # extra vectors in the search
POWERS, LEAST = (3, 30), 1e-3  # powers of eigenvalues (low: many vectors count; high: few); least weight of a vector


@dataclass(frozen=True)
class Nodes:
    """A checked affinity, in place of a table's `Columns`. `index`: that of a data frame."""

    affinity: csr_array
    index: Any = None
    categorical = names = None

    @property
    def continuous(self):
        return np.empty((self.affinity.shape[0], 0))


def is_graph(X) -> bool:
    """Is X a networkx graph? False if networkx is not imported: then nobody can hold one."""
    networkx = sys.modules.get("networkx")
    return networkx is not None and isinstance(X, networkx.Graph)


def nodes_of_graph(graph: Graph) -> Nodes:
    """The affinity of a `networkx.Graph`: the attribute `weight` of its edges, 1 of those without."""
    import networkx

    by_sums = "pass affinity='precomputed' and W = networkx.to_scipy_sparse_array(X)"
    if graph.is_directed():
        remedy = f"Decide what its directions mean. To add them up, {by_sums}, as W + W.T."
        raise ValueError(message("X", "have undirected edges", f"a {type(graph).__name__}", remedy))
    if graph.is_multigraph():
        remedy = f"To add parallel edges up, {by_sums}. networkx.Graph(X) keeps one of them."
        raise ValueError(message("X", "have one edge between two nodes", f"a {type(graph).__name__}", remedy))
    names = list(graph)
    if not graph.number_of_edges():
        raise ValueError(message("X", "have edges", f"{len(names)} nodes and no edge", "Check how it was made."))
    for edge in graph.edges(data="weight", default=1):
        _check_number(*edge)
    return Nodes(_checked(networkx.to_scipy_sparse_array(graph, dtype=float), lambda at: f"node {names[at]!r}"))


def _check_number(one, other, weight):
    try:
        float(weight)
    except (TypeError, ValueError):
        got, remedy = f"{weight!r} between {one!r} and {other!r}", "Correct it, or drop the attribute."
        raise ValueError(message("X", "have numbers as `weight` of its edges", got, remedy)) from None


def groups_of_nodes(graph: Graph, sensitive_features):
    """The values (N,) of the attribute of that name; what is no name is left as it is."""
    if not isinstance(sensitive_features, str):
        check_node_names("sensitive_features", sensitive_features, graph)
        return sensitive_features
    without = [name for name, known in graph.nodes(data=True) if sensitive_features not in known]
    if without:
        known = sorted({str(name) for _, attributes in graph.nodes(data=True) for name in attributes})
        got = f"{sensitive_features!r}, which is missing for {_first_of([f'node {name!r}' for name in without])}"
        remedy = f"Known attributes: {', '.join(map(repr, known)) or 'none'}. Set it, or pass an array in node order."
        raise ValueError(message("sensitive_features", "name an attribute of every node", got, remedy))
    return np.array([value for _, value in graph.nodes(data=sensitive_features)], dtype=object)


def check_node_names(argument, values, graph):
    """Raise a ValueError if a pandas object is not indexed by the nodes: by position its rows would be mixed up."""
    index = getattr(values, "index", None)
    if not hasattr(index, "equals") or len(index) != len(graph) or index.tolist() == list(graph):
        return
    begins = [", ".join(map(repr, part[:3])) for part in (index.tolist(), list(graph))]
    remedy = f"Pass {argument}.loc[list(X)], or {argument}.to_numpy() if it is in node order."
    raise ValueError(message(argument, "have the nodes as its index", " but nodes begin with ".join(begins), remedy))


def nodes_of_matrix(W) -> Nodes:
    """A given affinity (N, N), sparse or dense, without its diagonal."""
    from scipy import sparse

    index = getattr(W, "index", None)
    if not sparse.issparse(W):
        W = check_features(W)
    elif W.dtype.kind not in "biuf":
        raise ValueError(message("X", "hold real numbers", f"entries of type {W.dtype}", "Pass X.astype(float)."))
    if len(W.shape) != 2 or W.shape[0] != W.shape[1]:
        remedy = "Pass one row and one column for each node, or affinity='nearest_neighbors' for a table of features."
        raise ValueError(message("X", "be square if affinity='precomputed'", f"the shape {W.shape}", remedy))
    return Nodes(_checked(sparse.csr_array(W, dtype=np.float64), "row {}".format), index)


def _checked(W, named):
    """W (N, N) without its diagonal, over a power of two near its largest entry; `named(position)` names a row."""
    from scipy import sparse

    W = W.tocoo()
    _refuse_some(W, ~np.isfinite(W.data), "be finite", "Impute it, or drop the tie.", named)
    alike = "Pass similarities: 0 for rows that are not alike."
    _refuse_some(W, W.data < 0, "hold no negative affinities", alike, named)
    off = W.row != W.col
    W = _symmetric(sparse.csr_array((W.data[off], (W.row[off], W.col[off])), shape=W.shape), named)
    W.eliminate_zeros()
    W.sort_indices()  # the order of summands decides how sums are rounded
    W.data = np.ldexp(W.data, 1 - np.frexp(W.data.max(initial=0.0))[1])
    alone = np.flatnonzero(W.sum(1) <= WEAKEST)
    if len(alone):
        rule = f"tie every row to others, by more than {WEAKEST:.0e} of its largest affinity"
        remedy = "Drop rows without ties: no cut can assign them a cluster. The diagonal does not count."
        raise ValueError(message("X", rule, f"no tie of {_first_of([*map(named, alone)])}", remedy))
    return W


def _symmetric(W, named):
    """The mean of W and its transpose. They may differ by rounding only."""
    far = (abs(W - W.T) - SAME * W.maximum(W.T)).tocoo()
    if (far.data > 0).any():
        one, other = far.row[far.data.argmax()], far.col[far.data.argmax()]
        got = f"{W[one, other]:.6g} from {named(one)} to {named(other)} and {W[other, one]:.6g} back"
        raise ValueError(message("X", "be symmetric", got, "Pass (X + X.T) / 2 if that is what you mean."))
    return (W + W.T) / 2


def _refuse_some(W, bad, rule, remedy, named):
    if bad.any():
        at = int(bad.argmax())
        more = f" ({bad.sum()} such entries)" if bad.sum() > 1 else ""
        got = f"{W.data[at]:.6g} between {named(W.row[at])} and {named(W.col[at])}{more}"
        raise ValueError(message("X", rule, got, remedy))


def _first_of(names):
    return names[0] if len(names) == 1 else f"{names[0]} ({len(names)} such)"


def nearest_neighbors(X, n_neighbors) -> csr_array:
    """The symmetric affinity (w + w') / 2 of rows (N, d); w is 1 if one row is among the `n_neighbors` nearest of the other."""
    from scipy.sparse import csr_array
    from sklearn.neighbors import kneighbors_graph

    nearest = csr_array(kneighbors_graph(X, min(n_neighbors, len(X) - 1)))
    return ((nearest + nearest.T) / 2).sorted_indices()


def spectral_points(affinity, weight, n_parts, rng, code=None):
    """Views (views, N, dim) of the rows in which rows are close if the normalised cut keeps them together.

    The leading eigenvectors of D^-1/2 W D^-1/2 (Shi and Malik 2000), by subspace iteration, scaled by POWERS of their
    eigenvalues. The mean degree is added to D: otherwise single weakly tied rows have eigenvectors of their own. `weight`
    (N,): how many rows, tied alike, each stands for. `code` (N,): groups whose points get the same mean, as in fair spectral
    clustering (Kleindessner et al. 2019), unless that leaves no room for as many clusters.
    """
    from scipy.sparse import diags_array

    degree = affinity @ weight
    degree = degree + np.average(degree, weights=weight)
    root = np.sqrt(weight / degree)
    scaled = diags_array(root) @ affinity @ diags_array(root)
    unfair = np.zeros((len(weight), 0))
    if code is not None and len(weight) >= n_parts + code.max():
        member = np.equal.outer(code, np.arange(code.max())).astype(float)
        unfair = np.linalg.qr(root[:, None] * (member - np.average(member, axis=0, weights=weight)))[0]
    Q = rng.normal(size=(len(weight), min(len(weight) - unfair.shape[1], n_parts + FURTHER)))
    for _ in range(ROUNDS):
        for _ in range(STEPS):
            Q = Q + scaled @ Q
            Q -= unfair @ (unfair.T @ Q)
        Q = np.linalg.qr(Q)[0]
    values, vectors = np.linalg.eigh(Q.T @ (scaled @ Q))
    points = np.sqrt(weight @ degree) * (root / weight)[:, None] * (Q @ vectors)
    share = np.maximum(values / values[-1], 0)
    return np.stack([points * np.maximum(share**power, LEAST) for power in POWERS])

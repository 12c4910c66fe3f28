"""Who is matched with whom, and how surely: shares of the draws in which rows share a fairlet."""

import numpy as np

from bayesfair._check import Number, message
from bayesfair._names import DataTree, Graph, csr_array
from bayesfair.posterior import sentences
from bayesfair.posterior.draws import LabelDraws
from bayesfair.posterior.graphs import graph_of_rows
from bayesfair.posterior.schema import AXES, KEPT, groups_of, variable
from bayesfair.posterior.view import once

SURE = 0.9  # of the draws


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

"""Rows that leave crowded clusters along shortest paths: successive shortest paths, one row an arc (`transport`)."""

import numpy as np

from bayesfair._compiled import allocating, inner


@inner
def look(cost, first, following, k, least, cheapest):
    """The least extra cost of any row of cluster k in every other one, and that row; `first[k]` begins a list of the rows."""
    for other in range(cost.shape[1]):
        least[k, other] = np.inf
    row = first[k]
    while row >= 0:
        for other in range(cost.shape[1]):
            extra = cost[row, other] - cost[row, k]
            if other != k and extra < least[k, other]:
                least[k, other] = extra
                cheapest[k, other] = row
        row = following[row]


@inner
def move(first, following, row, start, end):
    """Take a row from the list of one cluster to that of another."""
    if first[start] == row:
        first[start] = following[row]
    else:
        before = first[start]
        while following[before] != row:
            before = following[before]
        following[before] = following[row]
    following[row] = first[end]
    first[end] = row


@inner
def walk(least, duals, length, before, done):
    """Dijkstra from the clusters of length 0: lengths at these prices, and the cluster before each, -1 for a first one.

    Rounding below 0 is cut off. A cluster is reached only from earlier ones, so that every path ends even with ties.
    """
    n_clusters = len(length)
    for k in range(n_clusters):
        before[k] = -1
        done[k] = False
    for _ in range(n_clusters):
        via = -1
        for k in range(n_clusters):
            if not done[k] and (via < 0 or length[k] < length[via]):
                via = k
        done[via] = True
        for k in range(n_clusters):
            through = length[via] + max(least[via, k] + duals[via] - duals[k], 0.0)
            if not done[k] and through < length[k]:
                length[k] = through
                before[k] = via


@allocating
def lengths_at_prices(least, duals):
    """The lengths (clusters, clusters) of the shortest paths between all clusters."""
    n_clusters = len(duals)
    length, before, done = (
        np.full((n_clusters, n_clusters), np.inf),
        np.empty(n_clusters, np.int64),
        np.empty(n_clusters),
    )
    for k in range(n_clusters):
        length[k, k] = 0.0
        walk(least, duals, length[k], before, done)
    return length


@allocating
def along_paths(cost, labels, surplus, duals):
    """Change labels, surplus and duals in place until no cluster has a surplus; returns the least extra costs then."""
    n_obs, n_clusters = cost.shape
    first, following = np.full(n_clusters, -1), np.empty(n_obs, np.int64)
    least, cheapest = np.empty((n_clusters, n_clusters)), np.empty((n_clusters, n_clusters), np.int64)
    length, before, done = np.empty(n_clusters), np.empty(n_clusters, np.int64), np.empty(n_clusters)
    for row in range(n_obs - 1, -1, -1):
        following[row] = first[labels[row]]
        first[labels[row]] = row
    for k in range(n_clusters):
        look(cost, first, following, k, least, cheapest)
    while True:
        end = np.int64(-1)
        for k in range(n_clusters):
            length[k] = 0.0 if surplus[k] > 0 else np.inf
        walk(least, duals, length, before, done)
        for k in range(n_clusters):
            if surplus[k] < 0 and (end < 0 or length[k] < length[end]):
                end = k
        if end < 0:
            return least
        for k in range(n_clusters):  # at these prices the path costs nothing
            duals[k] += min(length[k], length[end])
        surplus[end] += 1
        while before[end] >= 0:
            start = before[end]
            row = cheapest[start, end]
            labels[row] = end
            move(first, following, row, start, end)
            look(cost, first, following, end, least, cheapest)
            end = start
        surplus[end] -= 1
        look(cost, first, following, end, least, cheapest)

"""The page's tables of fairness beside the clusters' shares: doubt by group, individual distances, the cost of fairness."""

import numpy as np

from bayesfair._numbers import alike, intervals, more_or_less, percent, rounded_down, rows_away, significant
from bayesfair.fairness.distances import distance_report
from bayesfair.fairness.metrics import balance, group_masses, rows_off
from bayesfair.fairness.plain import plain_kmeans, share_above
from bayesfair.posterior.membership import DOUBTFUL
from bayesfair.posterior.schema import columns_of, flat_labels, guarantee_of
from bayesfair.reports.contents import SHOWN_GROUPS

NAMES = {"rms_distance": "root mean square", "max_distance": "largest", "distance_variance": "variance of squares"}
MOST_ROWS = 200_000  # rows for the comparison with k-means
STARTS = 5


def doubt_by_group(contents):
    """Head and rows: rows of every group in doubt, and the share that a draw has elsewhere; None without groups."""
    groups = contents.groups
    if groups is None:
        return None
    shown = np.sort(np.argsort(-groups.sizes, kind="stable")[:SHOWN_GROUPS])
    apart = [
        np.bincount(groups.code[draw != contents.cluster], minlength=len(groups.names))
        for draw in flat_labels(contents.tree)
    ]
    doubtful = np.bincount(groups.code[contents.doubt > DOUBTFUL], minlength=len(groups.names))
    columns = {
        "group": [groups.names[g] for g in shown],
        "rows": [f"{groups.sizes[g]:,}" for g in shown],
        "in doubt": [f"{doubtful[g]:,}" for g in shown],
        "share in doubt": [percent(doubtful[g] / groups.sizes[g]) for g in shown],
        "share elsewhere in a draw": intervals((np.array(apart) / groups.sizes)[:, shown]),
    }
    return list(columns), list(zip(*columns.values()))


def distance_table(contents):
    """Head and rows: distances of rows from the mean of their cluster in the point estimate; None without plain numbers."""
    return as_table(distance_report(contents.X, contents.cluster, overall=True)) if _has_numbers(contents) else None


def as_table(distances):
    """Head and rows of a `distance_report`."""
    columns = {"cluster": distances.index, "rows": [f"{size:,.0f}" for size in distances["size"]]}
    columns |= {shown: alike(distances[name]) for name, shown in NAMES.items()}
    return list(columns), list(zip(*columns.values()))


def cost_of_fairness(contents):
    """The cost of the clusters shown, beside k-means without fairness, in sentences; None if costs are no sums of squares."""
    loss = contents.tree.attrs.get("loss", "kmeans")
    groups, X = contents.groups, contents.X
    if groups is None or loss != "kmeans" or contents.weight is not None or not _has_numbers(contents):
        return None
    if len(X) > MOST_ROWS:
        return None
    labels, plain = plain_kmeans(X, len(np.unique(contents.cluster)), n_init=STARTS, seed=0)
    fair = distance_report(X, contents.cluster).attrs["within_ss"]
    off = rows_off(group_masses(labels, groups)).max()
    why = ": the price of fairness, and of showing where rows are most often rather than the cheapest clusters"
    why = "" if guarantee_of(contents.tree).kind == "none" else why
    return (
        f"The clusters shown have a within-cluster sum of squares of {significant(fair)}. {_beside(fair, plain)} the best of "
        f"{STARTS} starts of k-means without fairness{why}. Without fairness a count is up to {rows_away(off)} off a group's "
        f"share, and Balance is {rounded_down(balance(labels, groups))}."
    )


def _beside(fair, plain):
    """The beginning of the sentence that compares a cost with that of k-means."""
    more = share_above(fair, plain)
    if np.isnan(more):
        return "All rows of a cluster are equal, and the sum is 0, in"
    return f"That is {more_or_less(more)} than {significant(plain)},"


def _has_numbers(contents):
    """Are distances between rows meaningful: are there features, none of which stands for a category?"""
    if contents.X is None or not np.isfinite(contents.X).all():
        return False
    return all(column.kind == "number" for column in columns_of(contents.tree))

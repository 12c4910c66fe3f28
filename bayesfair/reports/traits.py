"""The traits of clusters on the page: in words for each cluster, then as a table."""

from itertools import islice

import numpy as np

from bayesfair.posterior.profiles import (
    EVERYONE,
    GROUP,
    SPREAD,
    in_words,
    names_in_words,
    telling_order,
)
from bayesfair.reports.contents import SHOWN_FEATURES, SHOWN_GROUPS

SHOWN_TRAITS = 3  # traits of a cluster in words
FAR = 0.25  # standard deviations from everyone above which a difference is named
STANDARDISED = 1e-6  # tolerance for means of 0 and standard deviations of 1


def cluster_traits(contents):
    """Pairs of a cluster with its size, and the features in which it differs most from everyone; None without features."""
    if contents.traits is None:
        return None
    table = contents.traits[contents.traits.index.get_level_values("feature") != GROUP]
    clusters, sizes = np.unique(contents.cluster, return_counts=True)
    return [(f"Cluster {k}, {size:,} rows", _traits_of(table, k)) for k, size in zip(clusters.tolist(), sizes)]


def _traits_of(table, cluster):
    spread, texts, names = table[SPREAD].to_numpy(), in_words(table), names_in_words(table)
    off = (table[cluster] - table[EVERYONE]).abs().to_numpy()
    far = np.divide(off, spread, out=np.zeros(len(table)), where=spread > 0)
    farthest = {}  # line of each feature
    for at in np.argsort(-far, kind="stable"):
        if far[at] >= FAR:
            farthest.setdefault(table.index[at][0], at)
    told = [
        f"{names[at]} {texts[cluster].iloc[at]} (everyone {texts[EVERYONE].iloc[at]})"
        for at in islice(farthest.values(), SHOWN_TRAITS)
    ]
    return ", ".join(told) or "near everyone in all features"


def trait_table(contents):
    """Head and rows: means and shares of the clusters, the most telling first, large groups last; None without features."""
    if contents.traits is None:
        return None
    table = contents.traits
    n_groups = (table.index.get_level_values("feature") == GROUP).sum()
    order = telling_order(table, SHOWN_FEATURES)
    table = table.iloc[order[: len(order) - max(n_groups - SHOWN_GROUPS, 0)]]
    texts = in_words(table)
    head = ["feature", *(name if name == EVERYONE else f"cluster {name}" for name in texts.columns)]
    return head, [(name, *line) for name, line in zip(names_in_words(table), texts.to_numpy().tolist())]


def units_in_words(contents):
    """The units of the features, if that is a question; "" if they are those of the table."""
    if contents.traits is None:
        return ""
    if contents.is_rescaled:
        return "Features are in their own units. Distances between rows were those of the scaled table."
    table = contents.traits
    numbers = table[(table.index.get_level_values("level") == "") & (table[SPREAD] > 0)]
    off = np.maximum(numbers[EVERYONE].abs(), (numbers[SPREAD] - 1).abs())
    if len(numbers) and (off < STANDARDISED).all():
        return (
            "Features have mean 0 and standard deviation 1 here, as they were in the fit. bayesfair.report(tree, path, "
            "X=table) shows the units of your table."
        )
    return ""

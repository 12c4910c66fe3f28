"""The content of the page as numbers and text: read from a tree, without HTML."""

from functools import partial
from typing import NamedTuple

import numpy as np

from bayesfair._names import DataFrame
from bayesfair._numbers import INTERVAL, alike, intervals, percent, significant
from bayesfair.fairness.groups import Groups
from bayesfair.fairness.metrics import cluster_balance
from bayesfair.posterior.found_modes import modes
from bayesfair.posterior.guarantees import has_groups, masses_of
from bayesfair.posterior.membership import alike as numbered_alike
from bayesfair.posterior.membership import misclassification_probability, runners_up
from bayesfair.posterior.point_estimates import reference_partition
from bayesfair.posterior.profiles import (
    GROUP,
    NUMBER,
    SPREAD,
    YES,
    lines_of_table,
    named_features,
    profile_table,
    readable_features,
    telling_order,
)
from bayesfair.posterior.schema import (
    check_rows_of,
    columns_of,
    count_clusters,
    flat_labels,
    groups_of,
    guarantee_of,
    variable,
    weight_of,
)
from bayesfair.posterior.tree import cluster_means
from bayesfair.posterior.view import View

SHOWN_ROWS, SHOWN_FEATURES, SHOWN_GROUPS = 15, 12, 12
INTERVALS = 6  # columns of intervals that fit a sheet of paper
SHARE = "share of "
SHOWN_VALUES = 4  # values that fit a line beside the rest
MANY_OUTSIDE = (
    0.2  # share of the point estimate's means outside their intervals above which the tables contradict each other
)
ROUNDING = 1e-4  # of draws in float32, in standard deviations
RARE = 0.05  # share of the draws below which a cluster of a sparse mixture is not shown


class Contents(NamedTuple):
    """A posterior as the page reads it: `tree` is a view, draws numbered like its point estimate. `groups`, `X` may be None.

    `table`: the features as readers know them, None without features. `traits`: the table of `profile` for it. `means`:
    {name of a line: means (draws, clusters)} of those that separate clusters best. `is_rescaled`: are the units of the table
    others than those of the fit?
    """

    tree: View
    groups: Groups | None
    X: np.ndarray | None
    table: DataFrame | None
    traits: DataFrame | None
    means: dict[str, np.ndarray]
    is_rescaled: bool

    @property
    def features(self):
        """Names of the features of the table."""
        return () if self.table is None else tuple(map(str, self.table.columns))

    @property
    def n_lines(self):
        """Number of features and levels."""
        return 0 if self.traits is None else int((self.traits.index.get_level_values("feature") != GROUP).sum())

    @property
    def has_shares(self):
        """Are there shares among the means that are shown?"""
        return any(name.startswith(SHARE) for name in self.means)

    @property
    def cluster(self):
        """The point estimate (obs,)."""
        return reference_partition(self.tree)

    @property
    def doubt(self):
        """Misclassification probabilities (obs,)."""
        return misclassification_probability(self.tree)

    @property
    def n_clusters(self):
        return count_clusters(self.tree)

    @property
    def weight(self):
        """Weights (obs,) of the rows; None if all are 1."""
        return weight_of(self.tree)

    @property
    def is_open(self):
        """May there be fewer clusters than components, as in a sparse mixture?"""
        return variable(self.tree, "sample_stats", "occupied") is not None


def read_contents(tree, X=None) -> Contents:
    """The contents of a tree with `labels`, and of its table in the user's units; raises a ValueError without labels."""
    import pandas as pd

    view = View.of(tree).once(numbered_alike)
    check_rows_of(view, X=X)
    observed = variable(view, "observed_data", "X")
    table = None if X is None else pd.DataFrame(named_features(view, X))
    if table is None and observed is not None:
        table = readable_features(view)
    groups = groups_of(view) if has_groups(view) else None
    cluster = reference_partition(view)
    traits = None if table is None else profile_table(table, cluster, groups, weight_of(view))
    means = {} if table is None else _telling_means(view, table, traits)
    is_rescaled = X is not None or (observed is not None and any(one.unit != 1 for one in columns_of(view)))
    return Contents(view, groups, None if observed is None else observed.values, table, traits, means, is_rescaled)


def shown_clusters(contents):
    """Numbers of the clusters shown in tables: all, or in a sparse mixture those of the point estimate and frequent ones."""
    if not contents.is_open:
        return np.arange(contents.n_clusters)
    used = (masses_of(contents.tree).sum(2) > 0).mean(0)
    return np.union1d(np.flatnonzero(used >= RARE), contents.cluster)


def cluster_table(contents):
    """Head and rows: the clusters' sizes, shares of groups and balance, with intervals over the draws."""
    groups, shown = contents.groups, shown_clusters(contents)
    masses = masses_of(contents.tree)[:, shown]
    sizes = masses.sum(axis=2)
    estimate = np.bincount(contents.cluster, minlength=contents.n_clusters)[shown]
    head = ["cluster", "size", "size over draws"]
    columns = [[f"{size:,}" for size in estimate], intervals(sizes)]
    if groups is not None:
        share = masses / np.where(sizes > 0, sizes, np.nan)[:, :, None]
        most = np.sort(np.argsort(-groups.sizes, kind="stable")[:SHOWN_GROUPS])
        head += [*(f"share of {groups.names[group]}" for group in most), "balance"]
        columns += [
            *(intervals(share[:, :, group]) for group in most),
            intervals(cluster_balance(masses, groups)),
        ]
    return head, list(zip(shown.tolist(), *columns))


def centre_table(contents):
    """Head and rows: clusters' means and shares of levels, with intervals, the most telling first; None without features."""
    if contents.table is None:
        return None
    shown = shown_clusters(contents)
    head = ["feature", *(f"cluster {cluster}" for cluster in shown)]
    return head, [(name, *intervals(values[:, shown])) for name, values in contents.means.items()]


def _telling_means(view, table, traits) -> dict:
    """{name of a line: its means (draws, clusters)} of up to `SHOWN_FEATURES` lines that separate clusters best."""
    lines, order = list(lines_of_table(table, len(table))), telling_order(traits, SHOWN_FEATURES)
    chosen = [lines[at] for at in order if at < len(lines)]  # groups come after features
    values = np.stack([of_line for *_, of_line in chosen], 1)
    has = np.isfinite(values)
    mean = partial(cluster_means, flat_labels(view), n_clusters=count_clusters(view), weight=weight_of(view))
    means = mean(np.where(has, values, 0.0)) / (1.0 if has.all() else mean(has.astype(float)))
    return {line_in_words(*line[:2]): means[..., at] for at, line in enumerate(chosen)}


def line_in_words(feature, level):
    """The name of a line: of a number's mean, or of a share."""
    if level == NUMBER:
        return feature
    return f"{SHARE}{feature}" if level == YES else f"{SHARE}{feature}={level}"


def point_beside_draws(contents):
    """What the tables of means are about, and what it means if they contradict each other; "" without the second one."""
    if contents.table is None:
        return ""
    told = "The first table describes the point estimate, where every row is in one cluster, the second the draws."
    order, outside = telling_order(contents.traits, SHOWN_FEATURES), []
    for at, means in zip(order, contents.means.values()):
        rounding = ROUNDING * contents.traits[SPREAD].iloc[at]
        for cluster in np.unique(contents.cluster):
            low, high = np.nanquantile(means[:, cluster], INTERVAL)
            outside.append(not low - rounding <= contents.traits[cluster].iloc[at] <= high + rounding)
    if np.mean(outside) <= MANY_OUTSIDE:
        return told
    return (
        f"{told} {sum(outside)} of {len(outside)} means of the point estimate are outside their interval: the clusters cannot "
        "be told apart. Try a smaller number of clusters."
    )


def uncertain_table(contents):
    """Head and rows: the rows of largest misclassification probability; no rows if none is uncertain."""
    worst = np.argsort(-contents.doubt, kind="stable")[:SHOWN_ROWS]
    worst = worst[contents.doubt[worst] > 0]
    columns = {
        "row": contents.tree["posterior"]["obs"].values[worst].astype(str).tolist(),
        "group": None
        if contents.groups is None
        else [contents.groups.names[contents.groups.code[row]] for row in worst],
        "cluster": contents.cluster[worst].tolist(),
        "P(misclassified)": [f"{contents.doubt[row]:.2f}" for row in worst],
        "next likeliest cluster": _runners_up(contents, worst),
    }
    for at, feature in enumerate(contents.features[:SHOWN_VALUES]):
        columns[_unused(feature, columns)] = _in_words(contents.table.iloc[worst, at])
    kept = {name: column for name, column in columns.items() if column is not None}
    return list(kept), list(zip(*kept.values()))


def _in_words(column):
    """Values of a feature as readers know them: levels by name, indicators as yes or no."""
    if column.dtype == bool:
        return ["yes" if value else "no" for value in column]
    return alike(column) if column.dtype.kind in "iuf" else column.astype(str).tolist()


def _unused(name, columns):
    return name if name not in columns else _unused(f"{name} (feature)", columns)


def _runners_up(contents, rows):
    """The cluster that has each of the rows in most draws, except its own, with its share of draws."""
    labels = flat_labels(contents.tree).columns(rows)
    _, other, times = runners_up(labels, contents.cluster[rows], contents.n_clusters)
    shares = times / len(labels)
    return [f"{k} ({percent(share)} of draws)" if share else "none" for k, share in zip(other.tolist(), shares)]


def mode_table(contents):
    """Head and rows: the modes, best first, with their masses as far as known; no rows with a single mode."""
    found = modes(contents.tree)
    head = ["mode", "log mass", "interval", "starts", "chains", "loss", "balance", "sizes", "bits from the best"]
    if len(found) == 1:
        return head, []
    columns = [
        alike(found["log_mass"], "not known"),
        [_bounds(low, high) for low, high in zip(found["lower"], found["upper"])],
        *(found[name].tolist() for name in ("starts", "chains")),
        *(alike(found[name]) for name in ("loss", "balance")),
        [", ".join(f"{size:,}" for size in sizes) for sizes in found["sizes"]],
        alike(found["distance"]),
    ]
    return head, list(zip(found.index, *columns))


def _bounds(low, high):
    """An interval with ends that may be unknown."""
    if np.isinf(low):
        return "not known" if np.isinf(high) else f"at most {significant(high)}"
    return f"at least {significant(low)}" if np.isinf(high) else f"[{significant(low)}, {significant(high)}]"


def fairlet_text(contents):
    """The number of fairlets and their members by group; None if the method has no balanced fairlets."""
    given = guarantee_of(contents.tree)
    if given.kind != "fairlets" or contents.groups is None:
        return None
    ranges = zip(contents.groups.names, given.fewest.tolist(), given.most.tolist())
    members = [f"{low if low == high else f'{low} to {high}'} of {name}" for name, low, high in ranges][:SHOWN_GROUPS]
    more = " and others" if len(contents.groups.names) > SHOWN_GROUPS else ""
    return f"{given.n_fairlets:,}, each with {', '.join(members)}{more}"

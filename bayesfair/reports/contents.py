"""The content of the page as numbers and text: read from a tree, without HTML."""

from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from bayesfair._check import listed
from bayesfair._names import DataFrame
from bayesfair._numbers import (
    INTERVAL,
    alike,
    fine_percent,
    intervals,
    more_or_less,
    percent,
    rounded_down,
    rows_away,
    significant,
)
from bayesfair.fairness.distances import distance_report
from bayesfair.fairness.groups import Groups
from bayesfair.fairness.metrics import balance, cluster_balance, group_masses, rows_off
from bayesfair.fairness.plain import plain_kmeans, share_above
from bayesfair.posterior.calibrating import kept_calibration
from bayesfair.posterior.diagnostics import Note, brief
from bayesfair.posterior.found_modes import modes
from bayesfair.posterior.guarantees import has_groups, masses_of
from bayesfair.posterior.membership import DOUBTFUL, misclassification_probability, runners_up
from bayesfair.posterior.membership import alike as numbered_alike
from bayesfair.posterior.point_estimates import reference_partition
from bayesfair.posterior.profiles import (
    EVERYONE,
    GROUP,
    NUMBER,
    SPREAD,
    YES,
    in_words,
    lines_of_table,
    named_features,
    names_in_words,
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
from bayesfair.posterior.settings import of_attribute
from bayesfair.posterior.tables import count_labels
from bayesfair.posterior.temperatures import FOUND
from bayesfair.posterior.tree import cluster_means
from bayesfair.posterior.view import View
from bayesfair.reports.templates import YES_OR_NO, as_table

SHOWN_ROWS, SHOWN_FEATURES, SHOWN_GROUPS = 15, 12, 12
INTERVALS = 6  # columns of intervals that fit a sheet of paper
SHARE = "share of "
HOW_TO_CALIBRATE = (
    "How often such probabilities are right can be found out by simulation: bayesfair calibrate run.nc, or "
    "bayesfair.posterior.calibration(est) in Python."
)
SHOWN_VALUES = 4  # values that fit a line beside the rest
MANY_OUTSIDE = (
    0.2  # share of the point estimate's means outside their intervals above which the tables contradict each other
)
ROUNDING = 1e-4  # of draws in float32, in standard deviations
SHOWN_TRAITS = 3  # traits of a cluster in words
FAR = 0.25  # standard deviations from everyone above which a difference is named
STANDARDISED = 1e-6  # tolerance for means of 0 and standard deviations of 1
DISTANCES = {"rms_distance": "root mean square", "max_distance": "largest", "distance_variance": "variance of squares"}
MOST_ROWS = 200_000  # rows for the comparison with k-means
STARTS = 5
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
    columns = {
        "cluster": shown.tolist(),
        "size": [f"{size:,}" for size in estimate],
        "size over draws": intervals(sizes),
    }
    if groups is not None:
        share = masses / np.where(sizes > 0, sizes, np.nan)[:, :, None]
        columns |= {f"share of {groups.names[group]}": intervals(share[:, :, group]) for group in largest(groups)}
        columns["balance"] = intervals(cluster_balance(masses, groups))
    return as_table(columns)


def largest(groups):
    """The groups that are shown, in their order."""
    return np.sort(np.argsort(-groups.sizes, kind="stable")[:SHOWN_GROUPS])


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


def in_short(contents) -> list[Note]:
    """A posterior in short, and a warning if its tables of means contradict each other."""
    told = contradiction(contents)
    return [*brief(contents.tree), *([Note("caution", "Clusters that run together:", told)] if told else [])]


def point_beside_draws(contents):
    """What the tables of means are about, and what it means if they contradict each other; "" without the second one."""
    if contents.table is None:
        return ""
    told = "The first table describes the point estimate, where every row is in one cluster, the second the draws."
    return f"{told} {contradiction(contents)}".rstrip()


def contradiction(contents):
    """What it means if many means of the point estimate are outside their intervals over the draws; "" if they are not."""
    if contents.table is None:
        return ""
    order, outside = telling_order(contents.traits, SHOWN_FEATURES), []
    for at, means in zip(order, contents.means.values()):
        rounding = ROUNDING * contents.traits[SPREAD].iloc[at]
        for cluster in np.unique(contents.cluster):
            low, high = np.nanquantile(means[:, cluster], INTERVAL)
            outside.append(not low - rounding <= contents.traits[cluster].iloc[at] <= high + rounding)
    if np.mean(outside) <= MANY_OUTSIDE:
        return ""
    return (
        f"{sum(outside)} of {len(outside)} means of the point estimate are outside their interval: the clusters cannot be told "
        "apart. Try a smaller number of clusters."
    )


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


def uncertain_table(contents):
    """Head and rows: the rows of largest misclassification probability; no rows if none is uncertain."""
    worst = np.argsort(-contents.doubt, kind="stable")[:SHOWN_ROWS]
    worst = worst[contents.doubt[worst] > 0]
    labels = flat_labels(contents.tree).columns(worst)
    _, other, often = runners_up(count_labels(labels, contents.n_clusters), contents.cluster[worst])
    columns = {
        "row": contents.tree["posterior"]["obs"].values[worst].astype(str).tolist(),
        "group": None
        if contents.groups is None
        else [contents.groups.names[contents.groups.code[row]] for row in worst],
        "cluster": contents.cluster[worst].tolist(),
        "P(misclassified)": [f"{contents.doubt[row]:.2f}" for row in worst],
        "next likeliest cluster": [
            f"{k} ({percent(times / len(labels))} of draws)" if times else "none" for k, times in zip(other, often)
        ],
    }
    for at, feature in enumerate(contents.features[:SHOWN_VALUES]):
        columns[_unused(feature, columns)] = _in_words(contents.table.iloc[worst, at])
    return as_table({name: column for name, column in columns.items() if column is not None})


def _in_words(column):
    """Values of a feature as readers know them: levels by name, indicators as yes or no."""
    if column.dtype == bool:
        return column.map(YES_OR_NO).tolist()
    return alike(column) if column.dtype.kind in "iuf" else column.astype(str).tolist()


def _unused(name, columns):
    return name if name not in columns else _unused(f"{name} (feature)", columns)


def calibration_text(contents):
    """What a calibration found, or how to make one; "" for a posterior without an inverse temperature."""
    table, about = kept_calibration(contents.tree), contents.tree.attrs
    if table is None:
        return HOW_TO_CALIBRATE if about.get("estimator") == "GibbsFairClustering" and contents.weight is None else ""
    found = of_attribute(about.get(FOUND, "()"))
    own = f" The run itself has the inverse temperature that a calibration chose, {listed(map(significant, found))}."
    return table.attrs["sentence"] + own * bool(found)


def calibration_table(contents):
    """Head and rows: what is stated, how often it is true, and their difference, at every multiple; None without one."""
    table = kept_calibration(contents.tree)
    if table is None:
        return None
    cells = table.reset_index()
    columns = {"multiple": [f"{one:g}" for one in cells["multiple"]], "statement": cells["statement"].tolist()}
    columns |= {name: [fine_percent(one) for one in cells[name]] for name in ("stated", "true")}
    columns["difference in bins"] = [f"{one:.3f} ± {se:.3f}" for one, se in zip(cells["error"], cells["error_se"])]
    return as_table(columns)


def doubt_by_group(contents):
    """Head and rows: rows of every group in doubt, and the share that a draw has elsewhere; None without groups."""
    groups = contents.groups
    if groups is None:
        return None
    shown = largest(groups)
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
    return as_table(columns)


def distance_table(contents):
    """Head and rows: distances of rows from the mean of their cluster in the point estimate; None without plain numbers."""
    return (
        table_of_distances(distance_report(contents.X, contents.cluster, overall=True))
        if _has_numbers(contents)
        else None
    )


def table_of_distances(distances):
    """Head and rows of a `distance_report`."""
    columns = {"cluster": distances.index, "rows": [f"{size:,.0f}" for size in distances["size"]]}
    columns |= {shown: alike(distances[name]) for name, shown in DISTANCES.items()}
    return as_table(columns)


def cost_of_fairness(contents):
    """The cost of the clusters shown, beside k-means without fairness, in sentences; None if costs are no sums of squares."""
    loss = contents.tree.attrs.get("loss", "kmeans")
    groups, X = contents.groups, contents.X
    if (
        groups is None
        or loss != "kmeans"
        or contents.weight is not None
        or not _has_numbers(contents)
        or len(X) > MOST_ROWS
    ):
        return None
    labels, plain = plain_kmeans(X, len(np.unique(contents.cluster)), n_init=STARTS, seed=0)
    fair = distance_report(X, contents.cluster).attrs["within_ss"]
    off = rows_off(group_masses(labels, groups)).max()
    why = ": the price of fairness, and of showing where rows are most often rather than the cheapest clusters"
    why = "" if guarantee_of(contents.tree).kind == "none" else why
    more = f"That is {more_or_less(share_above(fair, plain))} than {significant(plain)},"
    more = more if plain > 0 or fair == 0 else "All rows of a cluster are equal, and the sum is 0, in"
    return (
        f"The clusters shown have a within-cluster sum of squares of {significant(fair)}. {more} the best of "
        f"{STARTS} starts of k-means without fairness{why}. Without fairness a count is up to {rows_away(off)} off a group's "
        f"share, and Balance is {rounded_down(balance(labels, groups))}."
    )


def _has_numbers(contents):
    """Are distances between rows meaningful: are there features, none of which stands for a category?"""
    if contents.X is None or not np.isfinite(contents.X).all():
        return False
    return all(column.kind == "number" for column in columns_of(contents.tree))


def mode_table(contents):
    """Head and rows: the modes, best first, with their masses as far as known; no rows with a single mode."""
    found = modes(contents.tree)
    found = found.iloc[: 0 if len(found) == 1 else None]
    columns = {
        "mode": found.index,
        "log mass": alike(found["log_mass"], "not known"),
        "interval": [_bounds(low, high) for low, high in zip(found["lower"], found["upper"])],
        "starts": found["starts"].tolist(),
        "chains": found["chains"].tolist(),
        "loss": alike(found["loss"]),
        "balance": found["balance"].map(rounded_down),
        "sizes": [", ".join(f"{size:,}" for size in sizes) for sizes in found["sizes"]],
        "bits from the best": alike(found["distance"]),
    }
    return as_table(columns)


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

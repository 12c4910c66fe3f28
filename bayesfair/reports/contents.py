"""The content of the page as numbers and text: read from a tree, without HTML."""

from math import floor, log10
from typing import NamedTuple

import numpy as np

from bayesfair._columns import indicators_of, levels_of, units_of
from bayesfair._partitions import tables_with
from bayesfair._percent import percent
from bayesfair.fairness.groups import Groups
from bayesfair.fairness.metrics import cluster_balance
from bayesfair.posterior.cluster_profiles import SPREAD, telling_order, tree_profile, unscaled
from bayesfair.posterior.co_clustering_probability import misclassification_probability
from bayesfair.posterior.guarantees import fairlet_capacities, masses_of
from bayesfair.posterior.membership_table import runners_up
from bayesfair.posterior.mode_tables import modes
from bayesfair.posterior.partitions import reference_partition
from bayesfair.posterior.partners import fairlet_summary, holds_fairlets
from bayesfair.posterior.relabelling import numbered_alike
from bayesfair.posterior.saved import settings_of
from bayesfair.posterior.schema import count_clusters, flat_labels, groups_of, variable, weight_of
from bayesfair.posterior.view import View

SHOWN_ROWS, SHOWN_FEATURES, SHOWN_GROUPS = 15, 12, 12
INTERVALS = 6  # columns of intervals that fit a sheet of paper
SHOWN_VALUES = 4  # values that fit a line beside the rest
MOST_DECIMALS = 6
MANY_OUTSIDE = (
    0.2  # share of the point estimate's means outside their intervals above which the tables contradict each other
)
ROUNDING = 1e-4  # of draws in float32, in standard deviations
RARE = 0.05  # share of the draws below which a cluster of a sparse mixture is not shown
_INTERVAL = 0.055, 0.945  # equal-tailed, 89%, as in `bayesfair.posterior.summary`


class Line(NamedTuple):
    """A line: the means of a `feature`, by its position, as `middle` plus so many `unit`s, or the shares of one `level`."""

    name: str
    feature: int
    middle: float = 0.0
    unit: float = 1.0
    level: int | None = None
    is_share: bool = True


class Contents(NamedTuple):
    """A posterior as the page reads it: `tree` is a view, draws numbered like its point estimate. `groups`, `X` may be None."""

    tree: View
    groups: Groups | None
    X: np.ndarray | None
    features: tuple[str, ...]
    lines: list[Line]

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
        """May there be fewer clusters than components: in a sparse mixture, except for draws given their number?"""
        return variable(self.tree, "sample_stats", "occupied") is not None and "share_kept" not in self.tree.attrs


def read_contents(tree) -> Contents:
    """The contents of a tree with `labels`; raises a ValueError without them."""
    view = View.of(numbered_alike(View.of(tree)))
    observed = variable(view, "observed_data", "X")
    X, features = (None, ()) if observed is None else (observed.values, observed["feature"].values.astype(str).tolist())
    groups = groups_of(view)
    if groups is not None and len(groups.names) < 2:
        groups = None
    return Contents(view, groups, X, tuple(features), lines_of(X, features, settings_of(view)))


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
    centers = variable(contents.tree, "posterior", "centers")
    if centers is None or not contents.features or centers.sizes.get("feature") != len(contents.features):
        return None
    shown = shown_clusters(contents)
    values = centers.transpose("chain", "draw", "cluster", "feature").values
    head = ["feature", *(f"cluster {cluster}" for cluster in shown)]
    lines = [contents.lines[at] for at in _telling(contents)]
    return head, [(line.name, *intervals(means_of(contents, values, line)[:, shown])) for line in lines]


def _telling(contents):
    """Positions of up to `SHOWN_FEATURES` lines with the largest share of variance between clusters."""
    order = telling_order(tree_profile(contents.tree), SHOWN_FEATURES)
    return [at for at in order if at < len(contents.lines)]  # groups come after features


def point_beside_draws(contents):
    """What the tables of means are about, and what it means if they contradict each other; "" without the second one."""
    if centre_table(contents) is None:
        return ""
    told = "The first table describes the point estimate, where every row is in one cluster, the second the draws."
    values = contents.tree["posterior"]["centers"].transpose("chain", "draw", "cluster", "feature").values
    profile, outside = tree_profile(contents.tree), []
    for at in _telling(contents):
        means, rounding = means_of(contents, values, contents.lines[at]), ROUNDING * profile[SPREAD].iloc[at]
        for cluster in np.unique(contents.cluster):
            low, high = np.nanquantile(means[:, cluster], _INTERVAL)
            outside.append(not low - rounding <= profile[cluster].iloc[at] <= high + rounding)
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
    for position, feature in enumerate(contents.features[:SHOWN_VALUES]):
        columns[_unused(feature, columns)] = _in_words(contents, feature, contents.X[worst, position])
    kept = {name: column for name, column in columns.items() if column is not None}
    return list(kept), list(zip(*kept.values()))


def _in_words(contents, feature, values):
    """Values of a feature as readers know them: levels by name, indicators as yes or no."""
    settings = settings_of(contents.tree)
    levels = levels_of(settings).get(feature)
    if levels is not None:
        return [levels[int(code)] for code in values]
    if feature in indicators_of(settings):
        return ["yes" if value else "no" for value in values]
    return alike(unscaled(values, units_of(settings).get(feature)))


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
        return "not known" if np.isinf(high) else f"at most {number(high)}"
    return f"at least {number(low)}" if np.isinf(high) else f"[{number(low)}, {number(high)}]"


def lines_of(X, features, settings):
    """All lines of a table `X` (obs, feature) of a run with such `settings`, those of a feature's levels together."""
    levels, indicators, scaling, lines = levels_of(settings), indicators_of(settings), units_of(settings), []
    for feature, name in enumerate(features):
        if name in levels:
            codes = enumerate(levels[name])
            lines += [Line(f"share of {name}={level}", feature, level=code) for code, level in codes]
        elif name in indicators:
            lines.append(Line(f"share of {name}", feature, unit=1 / (float(X[:, feature].max()) or 1.0)))
        else:
            lines.append(Line(name, feature, *scaling.get(name, ()), is_share=False))
    return lines


def means_of(contents, centers, line):
    """The means (draws, cluster) of a line by `centers` (chain, draw, cluster, feature); NaN where a cluster is empty."""
    if line.level is None:
        return line.middle + line.unit * centers[..., line.feature].reshape(-1, centers.shape[2])
    has = (contents.X[:, line.feature] == line.level).astype(np.int32)
    rest, held = tables_with(flat_labels(contents.tree), has, 2, centers.shape[2]).transpose(1, 0, 2)
    sizes = rest + held
    return np.divide(held, sizes, out=np.full(sizes.shape, np.nan), where=sizes > 0)


def intervals(values):
    """Texts of the mean and 89% interval of each column of `values` (draws, columns), alike; empty clusters do not count."""
    known = [column[np.isfinite(column)] for column in values.T]
    figures = [(float(part.mean()), *np.quantile(part, _INTERVAL).tolist()) if part.size else None for part in known]
    widths = [three[2] - three[1] for three in figures if three is not None and three[2] > three[1]]
    decimals = 1 - floor(log10(np.median(widths))) if widths else MOST_DECIMALS + 1  # two digits of the usual width
    return ["empty" if three is None else "{} [{}, {}]".format(*_rounded(three, decimals)) for three in figures]


def interval(values):
    """Mean and 89% interval of `values`, rounded alike by the width of the interval."""
    return intervals(np.asarray(values).reshape(-1, 1))[0]


def _rounded(figures, decimals):
    return [f"{x:z,.{max(decimals, 0)}f}" if decimals <= MOST_DECIMALS else number(x) for x in figures]


def fairlet_text(contents):
    """The number of fairlets and their members by group; None if the method has no balanced fairlets."""
    held = fairlet_capacities(contents.tree)
    if held is None:
        return None
    ranges = zip(contents.groups.names, held.lower.min(axis=0).tolist(), held.upper.max(axis=0).tolist())
    members = [f"{low if low == high else f'{low} to {high}'} of {name}" for name, low, high in ranges][:SHOWN_GROUPS]
    more = " and others" if len(contents.groups.names) > SHOWN_GROUPS else ""
    return f"{len(held.lower):,}, each with {', '.join(members)}{more}"


def matched_text(contents):
    """How surely rows keep their partners, in two sentences; None if draws keep no fairlets."""
    if not holds_fairlets(contents.tree):
        return None
    table = fairlet_summary(contents.tree)
    half = percent(float(table["probability"].median()))
    return (
        f"{table.attrs['in_words']} Half of the rows are with their likeliest partner in at least {half} of the draws."
    )


def number(value):
    """Three digits, and all digits before the point."""
    if np.isnan(value):
        return "none"
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:z,.0f}"
    return f"{value:z.1f}" if abs(value) >= 100 else f"{value:z.3g}"


def alike(values, unknown="none"):
    """A column of numbers as texts with equal decimals: three digits of the largest, none if all are whole."""
    values = np.asarray(values, np.float64)
    known = np.abs(values[np.isfinite(values)])
    whole = known.size == 0 or (known == np.round(known)).all()
    decimals = 0 if whole else min(max(2 - floor(log10(known.max())), 0), MOST_DECIMALS)
    return [f"{value:z,.{decimals}f}" if np.isfinite(value) else unknown for value in values]

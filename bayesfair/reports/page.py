"""`report`: the page, section by section, and the file it goes to."""

import os
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesfair import __version__
from bayesfair._check import message
from bayesfair._percent import percent
from bayesfair._progress import progress
from bayesfair.posterior import (
    brief,
    check_destination,
    cost_of,
    is_guide,
    judge,
    of_all_chains,
    reading,
    summary,
    variable,
    worst_first,
    write_whole,
)
from bayesfair.reports.contents import (
    RARE,
    SHOWN_FEATURES,
    SHOWN_GROUPS,
    SHOWN_ROWS,
    SHOWN_VALUES,
    centre_table,
    cluster_table,
    fairlet_text,
    interval,
    mode_table,
    number,
    read_contents,
    shown_clusters,
    uncertain_table,
)
from bayesfair.reports.markup import definitions, document, note, paragraph, picture, table
from bayesfair.reports.pictures import draw_co_clustering, draw_modes, draw_profile, draw_trace, draw_uncertainty

if TYPE_CHECKING:
    from xarray import DataTree

__all__ = ["report"]

TRACES = 6
INTERVALS = 6  # columns of intervals that a sheet of paper holds


def report(
    tree: "DataTree", path: str | PathLike[str], *, title: str | None = None, progress_bar: bool = False
) -> Path:
    """Write one self-contained HTML page about a posterior; returns its path.

    The page has what the tree alone says: the data and what balance every draw has, a table of the clusters with 89%
    intervals, who is uncertain, who is together with whom, whether the chains agree and what to do if not, settings and
    versions. Pictures are inside the file; nothing in it runs or is fetched; what a tree lacks is left out.

    Parameters
    ----------
    tree: `est.posterior_`, or the result of `bayesfair.posterior.read_tree`. path: the file to write, named .html.
    title: a heading of your own. progress_bar: show one, over the sections.

    Raises
    ------
    ValueError: a tree without draws of `labels`, a path of another kind. FileNotFoundError: a folder that is not there.

    Examples
    --------
    >>> import bayesfair as bf
    >>> est = bf.GibbsFairClustering(2, num_warmup=50, num_draws=50, random_state=0, progress_bar=False)
    >>> data = bf.datasets.make_well_specified()
    >>> bf.report(est.fit(data.features, sensitive_features=data.sensitive).posterior_, "report.html")  # doctest: +SKIP
    """
    path = _check_path(path)
    contents = read_contents(tree)
    heading = _title(contents) if title is None else str(title)
    page = document(heading, _sections(contents, progress_bar))
    write_whole([page.encode("utf-8", errors="replace")], path)
    return path


def _sections(contents, progress_bar):
    diagnostics = summary(contents.tree)
    verdict = judge(diagnostics, contents.num_chains, contents.num_draws)
    sections = {
        "In short": lambda: _in_short(contents, diagnostics),
        "Data and guarantee": lambda: _data(contents),
        "Clusters": lambda: _clusters(contents),
        "Who is uncertain": lambda: _uncertain(contents),
        "Who is together": lambda: _together(contents),
        "Do the chains agree?": lambda: _diagnostics(contents, diagnostics, verdict),
        "What one may not conclude": _limits,
        "Settings and versions": lambda: _settings(contents),
    }
    written = []
    with progress(len(sections), "report", progress_bar) as bar:
        for heading, write in sections.items():
            written.append((heading, write()))
            bar.update(1)
    return written


def _title(contents):
    kind = "Clustering" if contents.groups is None else "Fair clustering"
    most = "at most " * contents.is_open
    return f"{kind} of {len(contents.cluster):,} rows into {most}{_count(contents.n_clusters, 'cluster')}"


def _count(total, thing):
    return f"{total:,} {thing}" if total == 1 else f"{total:,} {thing}s"


def _in_short(contents, diagnostics):
    return "".join(note(*one) for one in brief(contents.tree, diagnostics, contents.doubt))


def _data(contents):
    tree, parameters = contents.tree, contents.settings.get("parameters", {})
    pairs = [("Rows", f"{len(contents.cluster):,}"), ("Features", _feature_names(contents))]
    if contents.weight is not None:
        pairs.append(("Weights", _weights(contents.weight)))
    if contents.groups is not None:
        pairs.append(("Groups", _group_sizes(contents.groups)))
    pairs.append(("Clusters", f"{'at most ' * contents.is_open}{contents.n_clusters}"))
    pairs.append(("Draws", _draws(contents)))
    if "unfinished" in tree.attrs:
        pairs.append(("The run is not finished", f"it has {tree.attrs['unfinished']}"))
    fairlets = fairlet_text(contents)
    pairs += [("Fairlets", fairlets)] if fairlets is not None else []
    pairs += [
        (term, _TARGETS.get(str(parameters[name]), parameters[name])) for name, term in _NAMED if name in parameters
    ]
    stats = {name: variable(tree, *home) for name, home in _OVER_DRAWS.items()}
    pairs += [(f"{name}, mean and 89%", interval(v.values)) for name, v in stats.items() if v is not None]
    return definitions(pairs)


def _weights(weight):
    least, most, total = (number(value) for value in (weight.min(), weight.max(), weight.sum()))
    return f"{least} to {most} for a row, {total} in all; the loss weighs rows, balance and sizes count them"


def _draws(contents):
    if is_guide(contents.tree):
        return f"{contents.num_draws:,} of a variational guide"
    if "share_kept" in contents.tree.attrs:
        return f"{contents.num_draws:,} of all chains"
    return f"{_count(contents.num_chains, 'chain')} of {contents.num_draws:,}"


_NAMED = (
    ("target", "Target"),
    ("loss", "Loss"),
    ("inverse_temperature", "Inverse temperature"),
)
_TARGETS = {
    "joint": "joint: decompositions into fairlets and clusterings together, exactly eq. (9) of the paper",
    "cut": "cut: decompositions into fairlets by themselves, then clusterings given them",
    "labels": "labels: balanced labellings themselves, without fairlets",
    "optimal": "optimal: the best decomposition into fairlets alone, clusterings given it",
}
_OVER_DRAWS = {
    "Balance": ("sample_stats", "balance"),
    "Gap": ("sample_stats", "gap"),
    "lambda_f": ("posterior", "lambda_f"),
    "lambda_c": ("posterior", "lambda_c"),
}


def _feature_names(contents):
    names, total = contents.features[:SHOWN_FEATURES], len(contents.features)
    more = f" and {total - len(names):,} more" if total > len(names) else ""
    return f"{total:,}: {', '.join(names)}{more}" if total else "not in this file"


def _group_sizes(groups):
    shown = [f"{name} ({size:,})" for name, size in zip(groups.names, groups.sizes.tolist())][:SHOWN_GROUPS]
    more = f" and {len(groups.names) - len(shown):,} more" if len(groups.names) > len(shown) else ""
    return f"{len(groups.names):,}: {', '.join(shown)}{more}"


def _clusters(contents):
    weighed = " Sizes, shares of groups and balance count rows, not their weights; means of features are weighted."
    parts = [
        paragraph(
            f"The clusters are those of the point estimate, {_point_estimate(contents)}. Cells show the mean over all "
            f"draws and the interval that holds 89% of them.{'' if contents.weight is None else weighed}"
        ),
        table("Clusters, with 89% intervals", *cluster_table(contents), columns=INTERVALS),
    ]
    left_out = contents.n_clusters - len(shown_clusters(contents))
    if left_out:
        other = _count(left_out, "other cluster")
        parts.append(paragraph(f"Not shown: {other}, with members in fewer than {percent(RARE)} of the draws each."))
    if contents.groups is not None and len(contents.groups.names) > SHOWN_GROUPS:
        parts.append(paragraph(f"Shares of the {SHOWN_GROUPS} largest of {len(contents.groups.names):,} groups."))
    centres = centre_table(contents)
    if centres is not None:
        shares = " and share of each level" * any(line.is_share for line in contents.lines)
        parts.append(table(f"Mean of each feature{shares}, with 89% intervals", *centres, columns=INTERVALS))
    if len(contents.lines) > SHOWN_FEATURES:
        what = f"{len(contents.lines):,} features{' and levels' * any(line.is_share for line in contents.lines)}"
        parts.append(paragraph(f"The {SHOWN_FEATURES} of {what} whose variance lies most between clusters."))
    return "".join(parts)


def _point_estimate(contents):
    point = contents.tree["constant_data"]["reference_labels"].attrs.get("point", "dahl")
    return _POINT_ESTIMATES.get(point, _POINT_ESTIMATES["given"])


_POINT_ESTIMATES = {
    "dahl": "the draw nearest to the co-clustering probabilities in least squares (Dahl), the largest first",
    "mode": "each row's most frequent cluster over the draws",
    "given": "the partition to which the draws were relabelled",
}


def _uncertain(contents):
    parts = [
        paragraph(
            "P(misclassified) of a row is the share of draws in which it is not with the medoid of its cluster, the "
            "member most often together with the others."
        )
    ]
    if contents.X is not None:
        drawn = draw_uncertainty(contents)
        caption = "Colour: cluster. Size: probability of being misclassified."
        parts.append(picture(drawn.png, _alt_uncertainty(contents), caption + drawn.remarks))
    profile = draw_profile(contents)
    parts.append(picture(profile.png, _alt_profile(contents), "All rows in order of uncertainty." + profile.remarks))
    return "".join(parts) + _uncertain_rows(contents)


def _uncertain_rows(contents):
    head, rows = uncertain_table(contents)
    if not rows:
        return paragraph("No row was ever apart from the medoid of its cluster.")
    shown = f"The {SHOWN_ROWS} most uncertain rows" if len(rows) == SHOWN_ROWS else "All uncertain rows"
    more = len(contents.features) - SHOWN_VALUES
    hidden = paragraph(f"Values of the first {SHOWN_VALUES} features; {more:,} more are not shown.") if more > 0 else ""
    return table(shown, head, rows) + hidden


def _alt_uncertainty(contents):
    counts = ", ".join(f"{percent(np.mean(contents.doubt > level))} above {level}" for level in (0.1, 0.25, 0.5))
    return (
        f"Scatter plot of {len(contents.cluster):,} rows in {contents.n_clusters} clusters, larger marks for rows of "
        f"higher misclassification probability: {counts}."
    )


def _alt_profile(contents):
    return (
        f"Misclassification probabilities in descending order, from {contents.doubt.max():.2f} to "
        f"{contents.doubt.min():.2f}; half of the rows are below {np.median(contents.doubt):.2f}."
    )


def _together(contents):
    drawn = draw_co_clustering(contents)
    alt = (
        f"Heat map of the probability that two rows share a cluster, in the order of the {contents.n_clusters} clusters; "
        "dark squares on the diagonal are clusters that stay together."
    )
    caption = (
        "Rows in the order of their clusters, the surest first. A dark square is a cluster that stays together; colour "
        "off the diagonal shows which clusters exchange members."
    )
    return picture(drawn.png, alt, caption + drawn.remarks)


def _diagnostics(contents, diagnostics, verdict):
    verdict_note = note(verdict.kind, verdict.headline, f"{verdict.evidence} {verdict.advice}")
    parts = [verdict_note, _modes(contents)]
    drawn = draw_trace(contents, worst_first(diagnostics).index[:TRACES].tolist())
    if drawn is not None:
        alt = (
            f"Traces of {_count(contents.num_chains, 'chain')} over {contents.num_draws:,} draws, and their histograms."
        )
        caption = "Chains that agree lie on top of each other. Shown: the scalars on which they agree least."
        parts.append(picture(drawn.png, alt, caption + drawn.remarks))
    rows = [(name.replace("_", " "), *_diagnostic_cells(row)) for name, row in of_all_chains(diagnostics).iterrows()]
    head = ["scalar", "mean", "89% interval", "R-hat", "ESS bulk", "ESS tail", "reading"]
    names = (
        "Cluster size 1 is that of the largest cluster of each draw. Together i j: whether the rows at positions i and "
        "j (from 0) share a cluster. Distance to reference: variation of information from the point estimate, in bits. "
        "ESS: effective sample size."
    )
    return "".join(parts) + table("Scalars on which convergence is read", head, rows) + paragraph(names)


def _modes(contents):
    """The modes in a table and a picture, where there are several."""
    head, rows = mode_table(contents)
    if not rows:
        return ""
    names = (
        "Log mass: the logarithm of the posterior mass relative to the best mode's, with its interval of about 95%, or bounds. "
        "Starts: how many short runs of the search ended there. Chains: how many chains started there, or visited it where "
        "there was no search. Balance and sizes are those of a representative clustering."
    )
    parts = [table("Modes of the posterior", head, rows), paragraph(names)]
    if contents.X is not None:
        drawn = draw_modes(contents, len(rows))
        alt = (
            f"Log masses of {len(rows)} modes against their loss, and scatter plots of up to six of their clusterings."
        )
        caption = "Below: clusters in the same colours; large marks are rows that are elsewhere than in the best mode."
        parts.append(picture(drawn.png, alt, caption + drawn.remarks))
    return "".join(parts)


def _diagnostic_cells(row):
    bounds = f"[{number(row['eti89_lb'])}, {number(row['eti89_ub'])}]"
    r_hat = "none" if np.isnan(row["r_hat"]) else f"{row['r_hat']:.3f}"
    sizes = ["none" if np.isnan(row[name]) else f"{row[name]:,.0f}" for name in ("ess_bulk", "ess_tail")]
    return number(row["mean"]), bounds, r_hat, *sizes, reading(row)


def _limits():
    return paragraph(
        "Balance says how the groups that were given are spread over the clusters; it does not say that a cluster does "
        "its members no harm, nor anything about attributes that were not given or about new rows."
    ) + paragraph(
        "The probabilities hold for this number of clusters, loss and temperature, and for rows as they were given; they "
        "are no error rates against a truth, and a sure cluster need not be a real one."
    )


def _settings(contents):
    attrs, settings = contents.tree.attrs, contents.settings
    pairs = [("Estimator", settings["estimator"])] if "estimator" in settings else []
    pairs += list(settings.get("parameters", {}).items())
    pairs += [(term, settings[name]) for name, term in (("seed", "seed"), ("sweep", "sweeps done")) if name in settings]
    posterior = contents.tree["posterior"].attrs
    pairs += [("Sampled with bayesfair", attrs["bayesfair_version"])] if "bayesfair_version" in attrs else []
    pairs += [("Sampled at", posterior["created_at"])] if "created_at" in posterior else []
    cost = cost_of(contents.tree)
    pairs += [("Sampled in", cost)] if cost else []
    return definitions([*pairs, ("Page made with bayesfair", __version__), *_versions()])


def _versions():
    from importlib.metadata import version

    return [(name, version(name)) for name in ("arviz-stats", "matplotlib", "numpy", "xarray")]


def _check_path(path):
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        remedy = "Name the file report.html; the saved run itself must not be overwritten."
        raise ValueError(message("path", "end in .html", repr(os.fspath(path)), remedy))
    return check_destination(path)

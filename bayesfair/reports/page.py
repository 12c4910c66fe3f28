"""`report`: what fills the template of the page, and the file it goes to."""

from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from bayesfair import __version__
from bayesfair._draws import in_words
from bayesfair._names import DataTree
from bayesfair._numbers import alike, counted, interval, r_hat, significant
from bayesfair._progress import progress
from bayesfair.posterior.calibrating import CALIBRATION
from bayesfair.posterior.diagnostics import diagnostic_vars, is_guide, judge, reading, scalar_table
from bayesfair.posterior.membership import DOUBTFUL
from bayesfair.posterior.pairs import matched_sentence
from bayesfair.posterior.point_estimates import point_of
from bayesfair.posterior.relabelling import about
from bayesfair.posterior.schema import cost_of, guarantee_of
from bayesfair.posterior.settings import of_attribute
from bayesfair.reports import contents as limits
from bayesfair.reports.contents import (
    SHOWN_FEATURES,
    SHOWN_GROUPS,
    calibration_table,
    calibration_text,
    centre_table,
    cluster_table,
    cluster_traits,
    cost_of_fairness,
    distance_table,
    doubt_by_group,
    fairlet_text,
    in_short,
    mode_table,
    point_beside_draws,
    read_contents,
    trait_table,
    uncertain_table,
    units_in_words,
)
from bayesfair.reports.pictures import (
    draw_calibration,
    draw_co_clustering,
    draw_fairlets,
    draw_modes,
    draw_profile,
    draw_trace,
    draw_uncertainty,
)
from bayesfair.reports.templates import page_place, versions, write_page


def report(
    tree: "DataTree",
    path: str | PathLike[str],
    *,
    X: ArrayLike | None = None,
    reference: ArrayLike | None = None,
    title: str | None = None,
    progress_bar: bool = False,
) -> Path:
    """Write one self-contained HTML page about a posterior.

    It has the balance of every draw, the clusters with 89% intervals, what fairness costs, what the clusters are, which rows
    are uncertain, together or matched, whether the chains agree and what to do if not, the source, settings and versions. What
    a tree lacks is left out. Pictures are inside the file; nothing in it runs or is fetched. To name your source in Python, set
    `est.provenance = {"File": "people.csv"}` before the fit; a run of the shell names its file and command itself.

    Parameters
    ----------
    tree : xarray.DataTree
        `est.posterior_`, or the result of `bayesfair.posterior.read_tree`.
    path : str or os.PathLike
        The file to write, named .html.
    X : data frame or array-like of shape (n_obs, n_features), optional
        The table in the units to be shown, as it was before a scaler or an encoder. By default the features of the tree.
    reference : array-like of int of shape (n_obs,), optional
        Clusters that the page is about. By default those of `bayesfair.posterior.reference_partition`.
    title : str, optional
        A heading of your own.
    progress_bar : bool, default False
        Whether to show a progress bar over the sections.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    ValueError
        If the tree has no draws of `labels`, or the path does not end in .html.
    FileNotFoundError
        If the folder of the path does not exist.

    Examples
    --------
    >>> import bayesfair as bf
    >>> est = bf.GibbsFairClustering(2, num_chains=2, num_warmup=200, num_draws=400, random_state=0, progress_bar=False)
    >>> data = bf.datasets.make_well_specified()
    >>> bf.report(est.fit(data.features, sensitive_features=data.sensitive).posterior_, "report.html")  # doctest: +SKIP
    """
    path = page_place(path)
    contents, filled = read_contents(about(tree, reference), X), {}
    with progress(len(PARTS), "report", progress_bar) as bar:
        for name, part in PARTS.items():
            filled[name] = part(contents)
            bar.update(1)
    heading = _title(contents) if title is None else str(title)
    return write_page(path, "page.html", title=heading, contents=contents, limits=limits, doubtful=DOUBTFUL, **filled)


def _title(contents):
    kind = "Clustering" if guarantee_of(contents.tree).kind == "none" or contents.groups is None else "Fair clustering"
    most = "at most " * contents.is_open
    return f"{kind} of {len(contents.cluster):,} rows into {most}{counted(contents.n_clusters, 'cluster')}"


NAMED = {  # settings that are told in words: {term: (the parameter, its default, {value: words})}
    "Target": (
        "target",
        "labels",
        {
            "joint": "joint: decompositions into fairlets and clusterings together, exactly eq. (9) of the paper",
            "cut": "cut: decompositions into fairlets first, without regard to clusters, then clusterings given them",
            "labels": "labels: balanced clusterings directly, without fairlets",
            "optimal": "optimal: the best decomposition into fairlets alone, clusterings given it",
        },
    ),
    "Loss": (
        "loss",
        "kmeans",
        {
            "kmeans": "kmeans: squared distances to the mean of the cluster",
            "manhattan": "manhattan: sums of absolute differences, less affected by outliers",
            "kl": "kl: Kullback-Leibler divergences, for counts",
            "itakura-saito": "itakura-saito: divergences for positive numbers that vary by factors",
            "binary": "binary: logistic divergences, for shares and for 0 and 1",
        },
    ),
    "Inverse temperature": (
        "inverse_temperature",
        "dispersion",
        {
            "dispersion": "sampled, as if the loss were that of a dispersion around the clusters",
            "calibrated": "fixed, at the multiple that simulated tables chose of its mean in a short run",
            "holmes-walker": "fixed by Holmes and Walker (2017) before sampling",
        },
    ),
}
SCALARS = {"Balance": "balance", "Gap": "gap", "lambda_f": "lambda_f", "lambda_c": "lambda_c"}


def _data(contents):
    """Pairs of a term and a text: what was clustered, how, and what came of balance and temperature."""
    attrs, groups, sizes = contents.tree.attrs, contents.groups, contents.tree["posterior"].sizes
    scalars = diagnostic_vars(contents.tree, constant=True)
    told = {
        "Rows": f"{len(contents.cluster):,}",
        "Features": _first(contents.features, SHOWN_FEATURES) if contents.features else "not in this file",
        "Weights": contents.weight is not None and _weights(contents.weight),
        "Groups": groups
        and _first([f"{name} ({size:,})" for name, size in zip(groups.names, groups.sizes)], SHOWN_GROUPS),
        "Clusters": f"{'at most ' * contents.is_open}{contents.n_clusters}",
        "Draws": f"{counted(sizes['chain'], 'chain')} of {sizes['draw']:,}",
        "Fairlets": fairlet_text(contents),
    }
    if is_guide(contents.tree):
        told["Draws"] = f"{sizes['draw']:,} of a variational guide"
    if attrs.get("estimator") == "GibbsFairClustering":
        for term, (name, usual, words) in NAMED.items():
            value = attrs.get(name, usual)
            value = str(value).partition("(")[0].lower() if name == "target" else value
            told[term] = words.get(value, value)
    told |= {
        f"{term}, mean and 89%": interval(scalars[name].values) for term, name in SCALARS.items() if name in scalars
    }
    return [(term, text) for term, text in told.items() if text]


def _weights(weight):
    least, most, total = (significant(value) for value in (weight.min(), weight.max(), weight.sum()))
    return f"{least} to {most} for a row, {total} in all; the loss weighs rows, balance and sizes count them"


def _first(names, most):
    """How many names there are, and the first of them."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{len(names):,}: {', '.join(names[:most])}{more}"


_POINT_ESTIMATES = {
    "likeliest": "each row in the cluster where most draws have it, as far as balance allows",
    "dahl": "the draw nearest to the co-clustering probabilities in least squares (Dahl), the largest first",
    "mode": "each row's most frequent cluster over the draws",
    "given": "the partition to which the draws were relabelled",
}


def _scalars(contents):
    """Head and rows: the scalars that show convergence."""
    rows = scalar_table(contents.tree).iterrows()
    head = ["scalar", "mean", "89% interval", "R-hat", "ESS bulk", "ESS tail", "reading"]
    return head, [(in_words(name), *_diagnostic_cells(row)) for name, row in rows]


def _diagnostic_cells(row):
    mean, *bounds = alike([row["mean"], row["eti89_lb"], row["eti89_ub"]])
    sizes = ["none" if np.isnan(row[name]) else f"{row[name]:,.0f}" for name in ("ess_bulk", "ess_tail")]
    return mean, "[{}, {}]".format(*bounds), r_hat(row["r_hat"]), *sizes, reading(row)


def _provenance(contents):
    """Pairs of a term and a text: the source of the page's figures."""
    attrs = contents.tree.attrs
    pairs = list(of_attribute(attrs.get("provenance", "{}")).items())
    pairs += [("Estimator", attrs["estimator"])] if "estimator" in attrs else []
    pairs += [("Sampled with bayesfair", attrs["bayesfair_version"])] if "bayesfair_version" in attrs else []
    posterior, cost = contents.tree["posterior"].attrs, cost_of(contents.tree)
    pairs += [("Sampled at", posterior["created_at"])] if "created_at" in posterior else []
    pairs += [("Sampled in", cost)] if cost else []
    return [*pairs, ("Page made with bayesfair", __version__)]


def _settings(contents):
    """Pairs of a fact or setting and its value, and versions of libraries."""
    left_out = ("estimator", "provenance", "bayesfair_version", "format", CALIBRATION)
    return [*((name, value) for name, value in contents.tree.attrs.items() if name not in left_out), *versions()]


PARTS = {  # of the page, in the words of its template, and what each is read from the contents by
    "notes": in_short,
    "data": _data,
    "point_estimate": lambda contents: _POINT_ESTIMATES.get(point_of(contents.tree), _POINT_ESTIMATES["given"]),
    "clusters": cluster_table,
    "cost": cost_of_fairness,
    "distances": distance_table,
    "by_group": doubt_by_group,
    "centres": centre_table,
    "beside": point_beside_draws,
    "traits": cluster_traits,
    "trait_table": trait_table,
    "units": units_in_words,
    "uncertainty": draw_uncertainty,
    "profile": draw_profile,
    "uncertain": uncertain_table,
    "calibration": calibration_text,
    "calibration_table": calibration_table,
    "calibration_picture": draw_calibration,
    "co_clustering": draw_co_clustering,
    "matched": lambda contents: matched_sentence(contents.tree) or None,
    "matched_picture": draw_fairlets,
    "verdict": lambda contents: judge(contents.tree),
    "modes": mode_table,
    "modes_picture": draw_modes,
    "traces": draw_trace,
    "scalars": _scalars,
    "provenance": _provenance,
    "settings": _settings,
}

"""Scalars of the posterior that show convergence, the verdict on them, and a posterior in short; labels are never averaged."""

import warnings
from html import escape
from typing import NamedTuple

import numpy as np

import bayesfair
from bayesfair._arviz import load_arviz_stats, own_settings
from bayesfair._draws import COMPARED, SIZE
from bayesfair._names import DataFrame, Dataset, DataTree
from bayesfair._partitions import partition_distance
from bayesfair.fairness.metrics import cluster_balance
from bayesfair.posterior import sentences
from bayesfair.posterior.calibrating import calibration_sentence
from bayesfair.posterior.found_modes import chains_apart, modes_sentence, occupied_sentence
from bayesfair.posterior.guarantees import balances, farthest_counts, guarantee_sentence, has_groups, masses_of
from bayesfair.posterior.joint_statements import sure_sentence
from bayesfair.posterior.membership import DOUBTFUL, misclassification_probability
from bayesfair.posterior.point_estimates import reference_partition
from bayesfair.posterior.residuals import residuals_sentence
from bayesfair.posterior.schema import UNFINISHED, flat_labels, groups_of, guarantee_of, scalars_of
from bayesfair.posterior.sentences import ENOUGH, R_HAT_BAD, R_HAT_GOOD, VERDICTS, Verdict, verdict
from bayesfair.posterior.temperatures import temperature_sentence
from bayesfair.posterior.view import once

ROUNDING = 1e-6  # relative, of float32 sums: chains may number one partition differently and add in another order
FEWEST_DRAWS = 4  # per chain: with fewer neither R-hat nor an effective sample size exists
_ROUNDING_STEPS = 16  # of float32, possible between sums of the same terms
_PAIRS_SHOWN, _PAIRS_TRIED = 3, 200
COLOURS = {"good": "#229954", "caution": "#bb9900", "bad": "#cc3366"}  # seen on light and on dark ground
PLAIN = "#888888"
TABLE = "max-width: 56em; margin-top: 0.5em; border-collapse: collapse; overflow-wrap: anywhere"
CELL = "text-align: left; vertical-align: top; padding: 0.2em 0.8em"
FURTHER = {  # what `summary` and `brief` tell beside the verdict and the guarantee
    "modes": ("What else there is:", modes_sentence),
    "occupied": ("How many clusters:", occupied_sentence),
    "sure": ("What holds together:", sure_sentence),
    "calibration": ("How right that is:", calibration_sentence),
    "temperature": ("How much the inverse temperature matters:", temperature_sentence),
    "residuals": ("What may fit better:", residuals_sentence),
}


def diagnostic_vars(tree: "DataTree", *, constant: bool = False) -> "Dataset":
    """The scalars of every draw on which R-hat, ESS and traces are read.

    None depends on the numbers of the clusters. ArviZ's diagnostics take them; `diagnostic_vars(tree).to_netcdf(path)` saves
    them.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).
    constant : bool, default False
        Whether to keep variables that never change, which break ArviZ's plots, and those of 0 and 1 only, whose ties
        `az.plot_rank` takes for disagreement.

    Returns
    -------
    xarray.Dataset
        float64 variables of shape (chain, draw): what the sampler declares (`lp`, losses, inverse temperatures, `gap`);
        `balance`; `cluster_size_1` and so on, from the largest down; `distance_to_reference`, the variation of information
        in bits from the reference partition; and with `constant=True` also `together_i_j`, whether rows i and j share a
        cluster, for the most undecided of a fixed sample of pairs.

    Examples
    --------
    >>> import bayesfair as bf
    >>> tree = bf.posterior.tree_from_labels([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]], [[0], [1], [8], [9]])
    >>> bf.posterior.diagnostic_vars(tree)["cluster_size_1"].values.tolist()
    [[2.0, 2.0, 3.0, 2.0]]
    """
    scalars = _scalars(tree)
    if constant:
        return scalars
    varied = {name: one.values for name, one in scalars.items() if np.ptp(one.values) > 0}
    return scalars[[name for name, values in varied.items() if not np.isin(values, (0, 1)).all()]]


@once
def _scalars(tree):
    """`diagnostic_vars` including the constant ones."""
    import xarray as xr

    flat = flat_labels(tree)
    labels = tree["posterior"]["labels"]
    masses, groups = masses_of(tree), groups_of(tree)
    sizes = -np.sort(-masses.sum(axis=2), axis=1)
    # Anew: what was kept of the run is another number if these are a part of its rows.
    derived = {} if groups is None else {"balance": balances(masses, groups)}
    derived |= {f"{SIZE}{rank + 1}": of_rank for rank, of_rank in enumerate(sizes.T)}
    derived["distance_to_reference"] = partition_distance(flat, reference_partition(tree))
    derived |= _pairs(flat)
    columns = {name: _without_rounding(values.values) for name, kind, values in scalars_of(tree) if kind in COMPARED}
    columns |= {name: values.reshape(labels.shape[:2]).astype(float) for name, values in derived.items()}
    scalars = {name: (("chain", "draw"), values) for name, values in columns.items()}
    return xr.Dataset(scalars, coords={"chain": labels["chain"], "draw": labels["draw"]})


def _without_rounding(values):
    """Scalars (chain, draw) in float64, equal where float32 sums differ by rounding: R-hat by ranks would see more.

    Only values that are close together and apart from all others are made equal, never a dense run.
    """
    if values.dtype != np.float32 or not np.isfinite(values).all():
        return values.astype(float)
    distinct, where = np.unique(values, return_inverse=True)
    close = _ROUNDING_STEPS * np.spacing(np.abs(values).max())
    begins = np.flatnonzero(np.diff(distinct, prepend=-np.inf) > close)
    lengths = np.diff(begins, append=len(distinct))
    first, last = distinct[begins], distinct[begins + lengths - 1]
    merged = np.where(np.repeat(last - first <= close, lengths), np.repeat(first, lengths), distinct)
    return merged.astype(float)[where].reshape(values.shape)


@once
def summary(tree: "DataTree") -> "DataFrame":
    """A table of the scalars of `diagnostic_vars`, with intervals, effective sample sizes and R-hat.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).

    Returns
    -------
    pandas.DataFrame
        One row for each scalar, constant ones included. The columns are those of `az.summary` with equal-tailed 89% intervals:
        mean, sd, eti89_lb, eti89_ub, ess_bulk, ess_tail, r_hat (rank-normalised, split), mcse_mean and mcse_sd. The table
        prints significant digits, and below them its `sentences`, {subject: text}: the verdict on the chains, the guarantee,
        the modes, the number of occupied clusters if a sparse mixture leaves it open, how many rows keep their clusters
        together (`sure_rows`), what a `calibration` found, how many are in doubt at other inverse temperatures
        (`temperature_sensitivity`), and what fits better than squared distances if clusters are elongated or rows are far from
        all centres.

    Notes
    -----
    R-hat is NaN for a single chain and for constant variables. ess_tail is the smaller one of the 11% and the 89% quantile.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021).

    Examples
    --------
    >>> import bayesfair as bf
    >>> tree = bf.posterior.tree_from_labels([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]], [[0], [1], [8], [9]])
    >>> float(bf.posterior.summary(tree).loc["cluster_size_1", "mean"])
    2.25
    """
    from bayesfair.posterior.summary_table import with_sentences  # loads ArviZ

    table, agreed = scalar_table(tree), judge(tree)
    told = {"verdict": f"{agreed.headline} {agreed.evidence}", "guarantee": guarantee_sentence(tree)}
    told |= {name: tell(tree) for name, (_, tell) in FURTHER.items()}
    return with_sentences(table, {name: text for name, text in told.items() if text})


def is_guide(tree):
    """Are the draws those of a variational guide, which are stored as one chain?"""
    return tree.attrs.get("inference") == "svi"


@once
def scalar_table(tree: "DataTree") -> "DataFrame":
    """The figures of `summary` alone, by `arviz_stats.summary`."""
    load_arviz_stats()
    import arviz_stats

    with (
        own_settings(),
        np.errstate(invalid="ignore", divide="ignore"),
    ):  # one chain may be constant while another is not
        table = arviz_stats.summary(diagnostic_vars(tree, constant=True), ci_prob=0.89, ci_kind="eti")
    for name, sd in table["sd"][table["mcse_sd"] == 0].items():  # a coin's: ArviZ would print .5 as 1
        table._fmt_map["sd"][name] = f"{sd:.4g}"
    return table


def _pairs(flat):
    """Indicators (draws,) of a few pairs of rows: out of 200, those nearest to being together half of the time."""
    pairs = np.random.default_rng(0).integers(flat.shape[1], size=(_PAIRS_TRIED, 2))
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    together = flat.columns(pairs[:, 0]) == flat.columns(pairs[:, 1])
    undecided = np.argsort(np.abs(together.mean(axis=0) - 0.5), kind="stable")[:_PAIRS_SHOWN]
    return {f"together_{pairs[at, 0]}_{pairs[at, 1]}": together[:, at] for at in undecided}


def warn_of_disagreement(tree, remedy=""):
    """Warn unless chains agree and hold enough independent draws, or nothing moved; `remedy`: the method's own, if they differ.

    The limits are those of the verdict: R-hat below 1.01, 400 effective draws.
    """
    from sklearn.exceptions import ConvergenceWarning

    found, alone = _of_chains(tree), tree["posterior"].sizes["chain"] == 1  # a fit has already warned of its fairlets
    if alone or (found.kind != "good" and found not in (VERDICTS["nothing moved"], VERDICTS["of a guide"])):
        further = remedy if alone or found.kind == "bad" else ""
        text = " ".join([found.headline, found.evidence, found.advice, further]).rstrip()
        warnings.warn(text, ConvergenceWarning, stacklevel=2, skip_file_prefixes=tuple(bayesfair.__path__))


@once
def judge(tree: "DataTree") -> Verdict:
    """The verdict on the chains of a posterior, with its modes if they disagree, and what is not proved of the fairlets."""
    found, gap = _of_chains(tree), tree.attrs.get("fairlet_gap", "")
    return found._replace(evidence=f"{found.evidence} {sentences.of_fixed_fairlets(gap)}") if gap else found


@once
def _of_chains(tree):
    """The verdict by the limits of Vehtari et al. (2021)."""
    sizes = tree["posterior"].sizes
    if sizes["draw"] < FEWEST_DRAWS:
        return verdict("too few", draws=sizes["draw"])
    if is_guide(tree):
        return VERDICTS["of a guide"]
    table = scalar_table(tree)
    moving = table[_moves(table)]
    if moving.empty:
        return VERDICTS["nothing moved"]
    ess = float(np.nanmin(moving[["ess_bulk", "ess_tail"]].to_numpy(), initial=np.inf))
    few = sentences.of_few_draws(ess)
    if sizes["chain"] == 1:
        return verdict("one chain", few=few)
    r_hat = moving["r_hat"].fillna(np.inf).sort_values(ascending=False)  # no R-hat: each chain stands still
    worst, largest = sentences.of_r_hat(r_hat), r_hat.iloc[0]
    if largest >= R_HAT_BAD:
        if chains_apart(tree):
            return verdict("in modes", worst=worst, modes=modes_sentence(tree))
        return verdict("disagree", worst=worst)
    if largest >= R_HAT_GOOD:
        return verdict("nearly", worst=worst, few=few)
    return verdict("few independent", few=few.lstrip()) if ess < ENOUGH else verdict("agree", r_hat=largest, ess=ess)


def worst_first(summary):
    """The rows of the scalars that move: largest R-hat first, then smallest effective sample size."""
    moving = summary[_moves(summary)]
    doubt = np.lexsort([moving["ess_bulk"].fillna(0), -moving["r_hat"].fillna(np.inf)])
    return moving.iloc[doubt]


def _moves(row):
    """Does a scalar, or each of a table, change by more than the rounding of its mean?"""
    return row["sd"] > ROUNDING * abs(row["mean"])


def reading(row) -> str:
    """One row of the summary in a word or two."""
    if not _moves(row):
        return "constant"
    if row["r_hat"] >= R_HAT_GOOD:
        return "chains disagree" if row["r_hat"] >= R_HAT_BAD else "chains nearly agree"
    if np.isnan(row["ess_bulk"]):
        return "cannot be told"
    return "few independent draws" if min(row["ess_bulk"], row["ess_tail"]) < ENOUGH else "fine"


class Note(NamedTuple):
    """`kind`: "good", "caution", "bad" or "plain"."""

    kind: str
    headline: str
    text: str


def as_html(notes: list[Note]) -> str:
    """Statements as a table in a notebook, without a style sheet, for light and dark ground, every value escaped."""
    rows = ""
    for kind, headline, text in notes:
        border = f"border-left: 0.4em solid {COLOURS.get(kind, PLAIN)}"
        head = f'<th style="{CELL}; min-width: 11em; {border}">{escape(headline)}</th>'
        rows += f'<tr>{head}<td style="{CELL}">{escape(text)}</td></tr>'
    return f'<table style="{TABLE}">{rows}</table>'


@once
def brief(tree: "DataTree") -> list[Note]:
    """A posterior in short, fairness first; chains that do not agree come before memberships, which are averages over them."""
    found = judge(tree)
    doubtful = misclassification_probability(tree) > DOUBTFUL
    notes = [Note("plain", "How sure:", sentences.of_doubt(int(doubtful.sum()), len(doubtful), DOUBTFUL))]
    notes.insert(0 if found.kind == "bad" else 1, Note(found.kind, found.headline, found.evidence))
    further = ((headline, tell(tree)) for headline, tell in FURTHER.values())
    notes += [Note("plain", headline, text) for headline, text in further if text and text not in found.evidence]
    made = tree.attrs.get(UNFINISHED)
    unfinished = [Note("caution", "The run is not finished:", f"it has {made}. Resume it to make the rest.")]
    return [*unfinished * bool(made), *_of_balance(tree), *notes]


def _of_balance(tree):
    groups, promised = groups_of(tree), guarantee_sentence(tree)
    if not has_groups(tree):
        return [Note("caution", "No groups:", "this run knows no protected groups, so nothing here is about fairness.")]
    masses, given = masses_of(tree), guarantee_of(tree)
    of_all = float(cluster_balance(groups.sizes[None], groups)[0])
    said = [promised, sentences.of_balance(len(masses), balances(masses, groups).min(), of_all)]
    if given.kind != "exact":
        said = [sentences.of_shares(groups, farthest_counts(masses, groups)), *reversed(said)]
    ruled = tree.attrs.get("small_groups", "")
    return [Note("plain", "How balanced:", " ".join(said))] + [Note("caution", "Small groups:", ruled)] * bool(ruled)

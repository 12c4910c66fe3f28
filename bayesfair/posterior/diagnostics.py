"""Scalars of the posterior that show convergence; labels are never averaged."""

import numpy as np

from bayesfair._arviz import load_arviz_stats, own_settings
from bayesfair._draws import COMPARED
from bayesfair._names import DataFrame, Dataset, DataTree
from bayesfair._partitions import partition_distance
from bayesfair.fairness.metrics import cluster_balance
from bayesfair.posterior.guarantees import doubt_of_fairlets, guarantee, masses_of
from bayesfair.posterior.modes_in_words import chains_apart, modes_sentence
from bayesfair.posterior.number_of_clusters import occupied_sentence
from bayesfair.posterior.other_temperatures import temperature_sentence
from bayesfair.posterior.partitions import reference_partition
from bayesfair.posterior.saved import settings_of
from bayesfair.posterior.schema import flat_labels, groups_of, scalars_of
from bayesfair.posterior.view import once

_ROUNDING_STEPS = 16  # of float32, possible between sums of the same terms
_PAIRS_SHOWN, _PAIRS_TRIED = 3, 200
STANDSTILL = 1e6  # R-hat of chains that stand still at different values: infinite, but for rounding


def diagnostic_vars(tree: "DataTree", *, constant: bool = False) -> "Dataset":
    """The scalars of every draw on which R-hat, ESS and traces are read.

    None depends on the numbers of the clusters.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs), or a `View` of one.
    constant : bool, default False
        Whether to keep variables that never change, which break ArviZ's plots, and those of 0 and 1 only, whose ties
        `az.plot_rank` takes for disagreement.

    Returns
    -------
    xarray.Dataset
        float64 variables of shape (chain, draw): what the sampler declares (`lp`, losses, inverse temperatures, `gap`);
        `balance`; `cluster_size_1` and so on, from the largest down; `distance_to_reference`, the variation of information
        in bits from the reference partition; and `together_i_j`, whether rows i and j share a cluster, for the most
        undecided of a fixed sample of pairs.

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
    derived = {} if groups is None else {"balance": np.nanmin(cluster_balance(masses, groups), axis=1)}
    derived |= {f"cluster_size_{rank + 1}": of_rank for rank, of_rank in enumerate(sizes.T)}
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
        A posterior with `labels` of shape (chain, draw, obs), or a `View` of one.

    Returns
    -------
    pandas.DataFrame
        One row for each scalar, constant ones included, and for `lp` of each chain. The columns are mean, sd, eti89_lb and
        eti89_ub (equal-tailed interval), ess_bulk, ess_tail and r_hat (rank-normalised, split), as in `az.summary`.
        `attrs` says in words: "guarantee", what the method guarantees of every draw's balance; "modes", which modes there
        are; "chains_apart", whether chains stay in different ones; "fairlets", what is not proved of fairlets that all
        draws keep; "occupied", how many clusters are occupied if a sparse mixture leaves that open; "temperature", how many
        rows are in doubt at other inverse temperatures (`temperature_sensitivity`).

    Notes
    -----
    R-hat is NaN for a single chain. R-hat and ESS are NaN for constant variables and for fewer than four draws in a chain.
    ess_tail is the smaller one of the 11% and the 89% quantile.

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
    from bayesfair.posterior.printed import SummaryTable  # loads pandas

    table = SummaryTable(scalar_table(tree))
    told = {"guarantee": guarantee(tree), "modes": modes_sentence(tree), "chains_apart": chains_apart(tree)}
    told |= {"fairlets": doubt_of_fairlets(tree), "occupied": occupied_sentence(tree)}
    table.attrs.update(told, temperature=temperature_sentence(tree))
    return table


def is_guide(tree):
    """Are the draws those of a variational guide, which are stored as one chain?"""
    return settings_of(tree).get("parameters", {}).get("inference") == "svi"


@once
def scalar_table(tree: "DataTree") -> "DataFrame":
    """The figures of `summary` alone, without the search for modes."""
    return summarise(diagnostic_vars(tree, constant=True))


def summarise(scalars: "Dataset") -> "DataFrame":
    """`summary` of a Dataset of scalars (chain, draw), by `az.summary`."""
    load_arviz_stats()
    import arviz_stats
    import pandas as pd

    from bayesfair.posterior.printed import SummaryTable  # loads pandas

    parts = [scalars]
    if "lp" in scalars and scalars.sizes["chain"] > 1:
        lp = scalars[["lp"]]
        parts += [lp.isel(chain=[at]).rename(lp=f"lp, chain {chain}") for at, chain in enumerate(lp["chain"].values)]
    with (
        own_settings(),
        np.errstate(invalid="ignore", divide="ignore"),
    ):  # one chain may be constant while another is not
        tables = [arviz_stats.summary(part, ci_prob=0.89, ci_kind="eti", round_to="none") for part in parts]
    table = pd.concat(tables)[["mean", "sd", "eti89_lb", "eti89_ub", "ess_bulk", "ess_tail", "r_hat"]]
    still = [np.ptp(values.values) == 0 for part in parts for values in part.values()]
    table.loc[still, ["ess_bulk", "ess_tail"]] = np.nan
    table["r_hat"] = table["r_hat"].mask(table["r_hat"] > STANDSTILL, np.inf)
    return SummaryTable(table)


def _pairs(flat):
    """Indicators (draws,) of a few pairs of rows: out of 200, those nearest to being together half of the time."""
    pairs = np.random.default_rng(0).integers(flat.shape[1], size=(_PAIRS_TRIED, 2))
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    together = flat.columns(pairs[:, 0]) == flat.columns(pairs[:, 1])
    undecided = np.argsort(np.abs(together.mean(axis=0) - 0.5), kind="stable")[:_PAIRS_SHOWN]
    return {f"together_{pairs[at, 0]}_{pairs[at, 1]}": together[:, at] for at in undecided}

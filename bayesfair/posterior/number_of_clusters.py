"""The number of occupied clusters, if a sparse mixture leaves it open, and the posterior given such a number."""

import numpy as np

from bayesfair._check import check_integer, message, tell
from bayesfair._names import DataFrame, DataTree
from bayesfair._percent import percent
from bayesfair.posterior.contingency import count_labels
from bayesfair.posterior.schema import count_clusters, variable
from bayesfair.posterior.view import once

TOLD = 0.01  # least probability of a number that the sentence names
MOST = 0.5  # share of the draws with a number below which a warning says how few are kept


def occupied_clusters(tree: "DataTree") -> "DataFrame":
    """The posterior of the number of occupied clusters of a sparse mixture.

    Parameters
    ----------
    tree : xarray.DataTree
        The posterior of a `BayesianFairMixture` with a prior weight below 1.

    Returns
    -------
    pandas.DataFrame
        Its index `n_clusters` has the numbers that occur. The columns are probability, the share of all draws, and lowest and
        highest, the same of single chains, which should be near each other.

    Raises
    ------
    ValueError
        If the mixture is not sparse, or the run is of another kind: then every cluster is asked for.

    References
    ----------
    Malsiner-Walli, Frühwirth-Schnatter and Grün (2016).

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.posterior.occupied_clusters(est.posterior_)  # doctest: +SKIP
    """
    import pandas as pd

    occupied = _occupied(tree)
    numbers = np.unique(occupied)
    of_chains = np.stack([(occupied == k).mean(1) for k in numbers])
    columns = {"probability": of_chains.mean(1), "lowest": of_chains.min(1), "highest": of_chains.max(1)}
    return pd.DataFrame(columns, index=pd.Index(numbers, name="n_clusters"))


@once
def occupied_sentence(tree: "DataTree") -> str:
    """The number of occupied clusters in words.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior, or what `given_occupied` returns.

    Returns
    -------
    str
        Numbers with less than one draw in a hundred are left out. Empty if every cluster is asked for.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.posterior.occupied_sentence(est.posterior_)  # doctest: +SKIP
    """
    if variable(tree, "sample_stats", "occupied") is None:
        return ""
    if "share_of_draws" in tree.attrs:
        return _which_draws(tree)
    share = occupied_clusters(tree)["probability"].sort_values(ascending=False)
    told = [f"{k} in {percent(part)}" for k, part in share[share >= TOLD].items()]
    listed = " and ".join([", ".join(told[:-1]), told[-1]] if len(told) > 1 else told)
    return f"The number of occupied clusters is {listed} of the draws."


def _which_draws(tree):
    of_all, kept, k = tree.attrs["share_of_draws"], tree.attrs["share_kept"], count_clusters(tree)
    some = "whose components can be told apart" + (f", {percent(kept)} of them" if kept < 1 else "")
    return f"These are the draws with {k} occupied clusters, {percent(of_all)} of all, {some}."


def given_occupied(tree: "DataTree", n_clusters: int | None = None) -> "DataTree":
    """The draws with a given number of occupied clusters, as the posterior of that many clusters.

    Parameters
    ----------
    tree : xarray.DataTree
        The posterior of a `BayesianFairMixture` with a prior weight below 1.
    n_clusters : int, optional
        By default the most frequent number of `occupied_clusters`.

    Returns
    -------
    xarray.DataTree
        A tree of one chain, since each chain has another number of such draws. Clusters are numbered by size. Its attributes
        `share_of_draws` and `share_kept` say how many draws have that number and how many of those could be told apart.
        Below half of them, a warning is issued.

    Raises
    ------
    ValueError
        If the mixture is not sparse, no draw has that number, or the components of no draw can be told apart.

    Notes
    -----
    The components of all these draws, without empty ones, are points whose coordinates are their means and level
    probabilities. k-means finds `n_clusters` groups of them. Draws whose components are not one in each group are dropped.

    References
    ----------
    Malsiner-Walli, Frühwirth-Schnatter and Grün (2016), section 4.3.

    Examples
    --------
    >>> import bayesfair as bf
    >>> three = bf.posterior.given_occupied(est.posterior_, 3)  # doctest: +SKIP
    """
    occupied, share = _occupied(tree), occupied_clusters(tree)["probability"]
    k = int(share.idxmax()) if n_clusters is None else check_integer("n_clusters", n_clusters)
    if k not in share.index:
        remedy = "See bayesfair.posterior.occupied_clusters."
        raise ValueError(message("n_clusters", f"be one of {share.index.tolist()}", k, remedy))
    chosen = np.flatnonzero(occupied.ravel() == k)
    posterior = _joined(tree["posterior"], chosen)
    places = np.stack([np.unique(draw) for draw in posterior["labels"].values[0]])  # numbers of the occupied (draws, k)
    numbers, apart = _numbers(_coordinates(tree, posterior, places), k)
    if not apart.any():
        remedy = "They overlap: ask for another number, or look at occupied_clusters."
        raise ValueError(message("n_clusters", "have draws whose components can be told apart", k, remedy))
    kept = _of_places(posterior.isel(draw=apart), places[apart], numbers[apart])
    if apart.mean() < MOST:
        tell(
            f"Of the {len(apart):,} draws with {k} occupied clusters only {apart.sum():,} ({percent(apart.mean())}) have "
            "components that can be told apart, and the rest may differ from these. Remedy: ask for another number "
            "of occupied_clusters, or use a summary without cluster numbers, such as co_clustering of the whole run."
        )
    return _tree_of(tree, kept, chosen[apart], float(share[k]), float(apart.mean()))


def _occupied(tree):
    occupied = variable(tree, "sample_stats", "occupied")
    if occupied is None:
        remedy = "Fit BayesianFairMixture(10, prior=bayesfair.models.Prior(weight=0.01))."
        raise ValueError(message("tree", "be of a sparse mixture, which leaves components empty", "another", remedy))
    return occupied.values


def _joined(group, chosen):
    """The `chosen` draws of a group, of all chains, as one chain."""
    flat = (
        group.to_dataset().drop_vars(["chain", "draw"]).stack(at=("chain", "draw"), create_index=False).isel(at=chosen)
    )
    joined = flat.rename(at="draw").expand_dims(chain=[0]).transpose("chain", "draw", ...)
    return joined.assign_coords(draw=np.arange(len(chosen)))


def _coordinates(tree, posterior, places):
    """Means in standard deviations of their columns, and level probabilities, of components at `places`: (draws, k, ...)."""
    names = [name for name in posterior.data_vars if name == "means" or name.startswith("levels_")]
    parts = []
    for name in names:
        values = np.take_along_axis(posterior[name].values[0], places[:, :, None], 1)
        if name == "means":
            spread = tree["observed_data"]["X"].values[:, : values.shape[2]].std(0, dtype=np.float64)
            values = values / np.where(spread > 0, spread, 1.0)
        parts.append(values)
    return np.concatenate(parts, 2)


def _numbers(points, k):
    """(groups (draws, k) that k-means finds among the points (draws, k, dim), which draws have one point in each group)."""
    from sklearn.cluster import KMeans

    fit = KMeans(k, n_init=10, random_state=0).fit(points.reshape(-1, points.shape[2]))
    groups = fit.labels_.reshape(points.shape[:2])
    return groups, (np.sort(groups, 1) == np.arange(k)).all(1)


def _of_places(posterior, places, numbers):
    """Variables of the clusters at `places` (draws, k), in the order of `numbers`, the largest cluster first."""
    source = np.take_along_axis(places, np.argsort(numbers, 1), 1)
    labels = posterior["labels"].values[0]
    sizes = [(labels == clusters[:, None]).sum() for clusters in source.T]
    source = source[:, np.argsort(-np.array(sizes), kind="stable")]
    renumbered = (labels[:, :, None] == source[:, None, :]).argmax(2).astype(labels.dtype)
    moved = {"labels": (("chain", "draw", "obs"), renumbered[None])}
    for name, values in posterior.data_vars.items():
        if "cluster" in values.dims:
            index = source.reshape(source.shape + (1,) * (values.ndim - 3))
            moved[name] = (values.dims, np.take_along_axis(values.values[0], index, 1)[None], values.attrs)
    rest = posterior.drop_vars([*moved, "cluster"])
    return rest.assign(moved).assign_coords(cluster=np.arange(source.shape[1]))


def _tree_of(tree, posterior, chosen, share, kept):
    """The tree with these draws in place of its own, and their most frequent labels as the reference."""
    k, labels = posterior.sizes["cluster"], posterior["labels"].values[0]
    counts = count_labels(labels, k)
    constant = tree["constant_data"].to_dataset()
    reference = constant["reference_labels"].copy(data=counts.argmax(0).astype(constant["reference_labels"].dtype))
    groups = {"posterior": posterior, "constant_data": constant.assign(reference_labels=reference)}
    groups["observed_data"] = tree["observed_data"].to_dataset()
    groups["sample_stats"] = _joined(tree["sample_stats"], chosen)
    given = type(tree).from_dict(groups)
    given.attrs.update({**tree.attrs, "n_clusters": k, "share_of_draws": share, "share_kept": kept})
    return given

"""What else there is: the modes of a posterior, found in the draws if nobody searched, and other numbers of clusters."""

import numpy as np
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.spatial.distance import squareform

from bayesfair._arviz import load_arviz_stats
from bayesfair._check import message
from bayesfair._names import DataFrame, Dataset, DataTree
from bayesfair._partitions import partition_distance, tables_with
from bayesfair.posterior import sentences
from bayesfair.posterior.guarantees import balances
from bayesfair.posterior.point_estimates import reference_partition
from bayesfair.posterior.relabelling import number_modes
from bayesfair.posterior.schema import count_clusters, flat_labels, groups_of, holds_several_runs, variable
from bayesfair.posterior.sentences import AVOIDS, STAYS
from bayesfair.posterior.tables import evenly_spaced, variation_of_information
from bayesfair.posterior.view import once

_COMPARED = 256  # draws of which all pairs are compared
_SMALLEST, _MOST_DRAWS = 10, 0.9  # fewest of them in a mode; largest share of them in modes
_MOST_CUTS, _MOST_MODES = 40, 12
_APART = 1.1  # least ratio of a draw's distances to other modes and its own
_QUARTER, _TAIL = 0.25, 0.05  # shares of compared draws, and of draws, that may break this
_FEW_ROWS, _FEW_SHARE = 2, 0.01  # of the rows: clusterings that differ in no more are one mode
_ENOUGH = 10  # moves between modes, and independent draws, needed for a share to be known
MODE_FIGURES = ("log_mass", "lower", "upper", "se", "starts", "chains", "lp", "loss")
_LOCATED = 400  # draws, over all chains, whose modes are determined


@once
def modes(tree: "DataTree") -> "DataFrame":
    """A table of the modes of the posterior, the best first.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).

    Returns
    -------
    pandas.DataFrame
        Its index `mode` counts from 1. The columns are log_mass, the log of the posterior mass relative to that of the best
        mode, NaN if it is not known; lower and upper, its interval of about 95%, or bounds, infinite if nothing is known;
        se, its standard error, NaN if there are only bounds; starts, the number of short runs of the search that ended
        there; chains, the number that started there; lp and loss, means of the log density and of the clustering loss
        there; balance and sizes (largest first) of a representative clustering; and distance, its variation of information
        in bits from that of the best mode. `attrs` has num_starts of the search, and masses: "measured" by jumps between
        the modes, "shares of draws", or "not known".

    Notes
    -----
    A tree without the group `modes`, or with chains of several runs, has no search behind it. Its modes are found among up to
    256 evenly spaced draws of all chains. Average linkage joins draws by their variation of information. The tree of joins is
    cut into as many groups as possible, as long as two rules hold for 19 of 20 draws of each group. Their distance to three
    quarters of the draws of any other group is at least 1.1 times their median distance within the group. It is also more
    than moving two rows, or one row in a hundred, can make. A group has at least ten draws, and up to a tenth of all draws
    may be in none. Every draw then belongs to the mode with the nearest medoid. `chains` counts the chains that visited it.
    A mode that no chain visited often is not found.

    If chains moved between modes, as under tempering, masses are shares of draws. Their sample size is the smaller one of
    the effective sample size of being there and the number of times that chains came or left. Below 10 they are not known,
    and modes are in the order of lp.

    Examples
    --------
    >>> import numpy as np, bayesfair as bf
    >>> one, other = np.repeat([0, 1], 10), np.tile([0, 1], 10)
    >>> draws = np.stack([np.tile(one, (20, 1)), np.tile(other, (20, 1))])  # two chains that stay apart
    >>> tree = bf.posterior.tree_from_labels(draws, np.arange(20.0)[:, None])
    >>> len(bf.posterior.modes(tree))
    2
    """
    import pandas as pd

    found = modes_of(tree)
    labels, groups, n_clusters = found["labels"].values, groups_of(tree), count_clusters(tree)
    table = pd.DataFrame({name: found[name].values for name in MODE_FIGURES})
    table["balance"] = np.nan
    if groups is not None:
        masses = tables_with(labels, groups.code, len(groups.names), n_clusters).transpose(0, 2, 1)
        table["balance"] = balances(masses, groups)
    table["sizes"] = [tuple(np.sort(np.bincount(one, minlength=n_clusters))[::-1].tolist()) for one in labels]
    table["distance"] = partition_distance(labels, labels[0].astype(int))
    table.index = pd.RangeIndex(1, len(labels) + 1, name="mode")
    table.attrs.update({name: found.attrs[name] for name in ("num_starts", "masses")})
    return table


@once
def modes_of(tree: "DataTree") -> "Dataset":
    """The group `modes` of the tree as a Dataset; one of the same form from the draws without it, or of joined runs."""
    if "modes" not in tree.children or holds_several_runs(tree):
        return modes_of_draws(tree)
    return tree["modes"].to_dataset()


@once
def occupancy(tree: "DataTree") -> np.ndarray:
    """The share of each chain's draws nearest to each mode of `modes_of`, from up to 400 draws: float (chain, mode)."""
    labels, (num_chains, num_draws) = flat_labels(tree), tree["posterior"]["labels"].shape[:2]
    chosen = evenly_spaced(num_draws, max(1, _LOCATED // num_chains))
    chosen, found = num_draws * np.arange(num_chains)[:, None] + chosen, modes_of(tree)
    where = nearest_mode(labels[chosen.ravel()], found["labels"].values).reshape(chosen.shape)
    return (where[..., None] == np.arange(found.sizes["mode"])).mean(axis=1)


@once
def chains_apart(tree: "DataTree") -> bool:
    """Does some chain stay (four draws in five) in a mode that another one avoids (one in five)?"""
    held = occupancy(tree)
    return bool(((held.max(axis=0) > STAYS) & (held.min(axis=0) < AVOIDS)).any())


@once
def modes_sentence(tree: "DataTree") -> str:
    """The modes in words: how many, from how many starts, with what mass, and whether chains stay in different ones."""
    return sentences.of_modes(modes_of(tree), occupancy(tree), chains_apart(tree))


def modes_of_draws(tree):
    """The modes that the draws of the tree are in, as an xarray.Dataset in the form of the group `modes`."""
    labels = flat_labels(tree)
    medoids = _medoids(labels, count_clusters(tree))
    if len(medoids) == 1:
        return _dataset(tree, reference_partition(tree)[None], np.zeros(len(labels), int))
    representatives = np.asarray(labels[medoids])
    return _dataset(tree, representatives, nearest_mode(labels, representatives))


def nearest_mode(labels, modes):
    """Which of the clusterings `modes` (modes, obs) is nearest, in bits, to each draw of `labels` (draws, obs): (draws,)."""
    if len(modes) == 1:
        return np.zeros(len(labels), dtype=int)
    return np.argmin([partition_distance(labels, one.astype(int)) for one in modes], axis=0)


def _medoids(labels, n_clusters):
    """Positions (modes,) of the draws nearest to the other draws of their mode."""
    chosen = evenly_spaced(len(labels), _COMPARED)
    distance = variation_of_information(labels[chosen], n_clusters)
    groups = separated_groups(distance, labels.shape[1])
    return [chosen[draws[np.argmin(distance[np.ix_(draws, draws)].sum(axis=0))]] for draws in groups]


def separated_groups(distance, num_obs):
    """Positions of the draws of each mode, as many as distances (draws, draws) separate; excursions are left out."""
    best = [np.arange(len(distance))]
    if len(distance) < 2 * _SMALLEST:
        return best
    joins = linkage(squareform(distance, checks=False), "average")
    for cut in cut_tree(joins, n_clusters=range(2, min(_MOST_CUTS, len(distance)))).T:
        large = [np.flatnonzero(cut == group) for group in np.flatnonzero(np.bincount(cut) >= _SMALLEST)]
        if len(large) > _MOST_MODES:
            break
        is_most = sum(map(len, large)) >= _MOST_DRAWS * len(distance)
        if is_most and len(large) > len(best) and _are_separated(distance, large, num_obs):
            best = large
    return best


def _are_separated(distance, groups, num_obs):
    for own in groups:
        within = np.median(distance[np.ix_(own, own)], axis=1)
        reach = _APART * np.maximum(within, _few_rows_apart(num_obs))
        for other in groups:
            away = np.quantile(distance[np.ix_(own, other)], _QUARTER, axis=1)
            if other is not own and (away <= reach).mean() > _TAIL:
                return False
    return True


def _few_rows_apart(num_obs):
    """Approximate bits by which a few moved rows change a clustering."""
    share = max(_FEW_ROWS / num_obs, _FEW_SHARE)
    return max(-2 * share * np.log2(share), 0.0)


def _dataset(tree, labels, where):
    """The group `modes` for clusterings (modes, obs) and the mode of every draw (chains * draws,), sorted."""
    import xarray as xr

    shape = tree["posterior"]["labels"].shape[:2]
    inside = where.reshape(shape) == np.arange(len(labels))[:, None, None]
    sources = {"lp": "lp", "loss": "clustering_loss"}
    figures = {name: _means(variable(tree, "sample_stats", source), inside) for name, source in sources.items()}
    size = np.array([_sample_size(one) for one in inside])
    is_known = bool((size >= _ENOUGH).all()) and len(labels) > 1
    share = inside.mean(axis=(1, 2))
    by_density = -np.nan_to_num(figures["lp"], nan=-np.inf)
    order = np.argsort(-share) if is_known else np.lexsort([-share, by_density])
    figures = {name: values[order] for name, values in figures.items()}
    figures |= _masses(share[order], size.min()) if is_known else _unknown(len(labels))
    figures |= {"starts": np.zeros(len(labels), int), "chains": inside.any(axis=2).sum(axis=1)[order]}
    variables = {name: ("mode", values) for name, values in figures.items()}
    attributes = {"num_starts": 0, "masses": "shares of draws" if is_known else "not known"}
    found = xr.Dataset({**variables, "labels": (("mode", "obs"), labels[order])}, attrs=attributes)
    return number_modes(found, reference_partition(tree), count_clusters(tree))


def _means(values, inside):
    """The mean of a scalar (chain, draw) in each mode; NaN if the tree has no such scalar."""
    if values is None:
        return np.full(len(inside), np.nan)
    return np.array([values.values[one].astype(float).mean() if one.any() else np.nan for one in inside])


def _sample_size(inside):
    """Effective number of independent draws (chain, draw) for whether a chain is in a mode."""
    if inside.shape[1] < 4 or inside.all() or not inside.any():
        return 0.0
    load_arviz_stats()
    from arviz_stats.base import array_stats

    moves = np.count_nonzero(inside[:, 1:] != inside[:, :-1])
    return min(float(np.nan_to_num(array_stats.ess(inside.astype(float), method="mean"))), moves)


def _masses(share, size):
    """Log masses from shares of draws; of a multinomial, var(log p_j - log p_1) = (1 / p_j + 1 / p_1) / size."""
    log_mass = np.log(share / share[0])
    se = np.sqrt((1 / share + 1 / share[0]) / size)
    se[0] = 0.0
    return {"log_mass": log_mass, "lower": log_mass - 2 * se, "upper": log_mass + 2 * se, "se": se}


def _unknown(num_modes):
    best = np.arange(num_modes) == 0
    figures = {"log_mass": np.nan, "lower": -np.inf, "upper": np.inf, "se": np.nan}
    return {name: np.where(best, 0.0, value) for name, value in figures.items()}


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

    occupied = variable(tree, "sample_stats", "occupied")
    if occupied is None:
        remedy = "Fit BayesianFairMixture(10, prior=bayesfair.models.Prior(weight=0.01))."
        raise ValueError(message("tree", "be of a sparse mixture, which leaves components empty", "another", remedy))
    occupied = occupied.values
    numbers = np.unique(occupied)
    of_chains = np.stack([(occupied == k).mean(1) for k in numbers])
    columns = {"probability": of_chains.mean(1), "lowest": of_chains.min(1), "highest": of_chains.max(1)}
    return pd.DataFrame(columns, index=pd.Index(numbers, name="n_clusters"))


@once
def occupied_sentence(tree: "DataTree") -> str:
    """The number of occupied clusters; "" if every cluster is asked for."""
    if variable(tree, "sample_stats", "occupied") is None:
        return ""
    return sentences.of_occupied_clusters(occupied_clusters(tree)["probability"])

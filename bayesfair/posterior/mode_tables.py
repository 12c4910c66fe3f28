"""The modes of a posterior: how many there are, how much mass each has, and how far apart they are."""

import numpy as np

from bayesfair._names import DataFrame, Dataset, DataTree
from bayesfair._partitions import partition_distance
from bayesfair.posterior.contingency import balance_of, evenly_spaced
from bayesfair.posterior.modes_of_draws import modes_of_draws, nearest_mode
from bayesfair.posterior.schema import count_clusters, flat_labels, groups_of, holds_several_runs
from bayesfair.posterior.view import once

MODE_FIGURES = ("log_mass", "lower", "upper", "se", "starts", "chains", "lp", "loss")
_LOCATED = 400  # draws, of all chains, whose modes are looked up


@once
def modes(tree: "DataTree") -> "DataFrame":
    """A pandas DataFrame of the modes, the best first, its index `mode` from 1.

    Columns: log_mass, the log of the posterior mass relative to the best mode's, NaN where it is not known; lower and
    upper, its interval of about 95%, or bounds that hold all the same, infinite where nothing is known (an upper one alone
    may be an estimate and a wide margin); se, its standard error, NaN where there are bounds alone; starts, how many short
    runs of the search ended there; chains, that started there; lp and loss, means of the log density and of the clustering
    loss there; balance and sizes (largest first) of a representative clustering; distance, its variation of information
    from the best mode's in bits. `attrs`: num_starts, of the search, and masses: "measured" by jumps between the modes,
    "shares of draws", or "not known".

    A tree without the group `modes` (of `BayesianFairMixture`, of a run without a search, of an older file), or with chains of
    several runs, of which one made the group, has no starts to go by. Its modes are found among up to 256 draws of all chains,
    spaced evenly. They are joined by average linkage of their variation of information, and the tree of joins is cut into as
    many groups as are modes by this rule: 19 of 20 draws of a group are farther, by a tenth at least, from three quarters of
    the draws of any other group than from half of their own, and farther than some hundredth of the observations, or two of
    them, makes. A group has ten draws at least; a tenth may be excursions. Then every draw belongs to the mode whose medoid is
    nearest; `chains` counts those that visited.
    What keeps draws apart is thus who is with whom, and a mode that no chain visited, or seldom, is not found.
    Where chains moved between modes, as under tempering, masses are shares of draws, with the smaller one of the effective
    sample size of being there and the number of times that chains came or left for a sample size; below 10 they are not
    known, and modes stand in the order of lp.
    """
    import pandas as pd

    found = modes_of(tree)
    labels, groups, n_clusters = found["labels"].values, groups_of(tree), count_clusters(tree)
    table = pd.DataFrame({name: found[name].values for name in MODE_FIGURES})
    table["balance"] = np.nan if groups is None else balance_of(labels, groups, n_clusters)
    table["sizes"] = [tuple(np.sort(np.bincount(one, minlength=n_clusters))[::-1].tolist()) for one in labels]
    table["distance"] = partition_distance(labels, labels[0].astype(int))
    table.index = pd.RangeIndex(1, len(labels) + 1, name="mode")
    table.attrs.update({name: found.attrs[name] for name in ("num_starts", "masses")})
    return table


@once
def modes_of(tree: "DataTree") -> "Dataset":
    """The group `modes` of the tree as an xarray.Dataset; one of the same form from the draws where it has none, or
    has chains of several runs, for the group is of the first alone.

    Best first: log_mass, lower, upper, se, starts, chains, lp, loss (mode) as in `modes`, labels (mode, obs), numbered as
    the tree's reference partition. Attributes num_starts (0 where there was no search) and masses.
    """
    if "modes" not in tree.children or holds_several_runs(tree):
        return modes_of_draws(tree)
    return tree["modes"].to_dataset()


@once
def occupancy(tree: "DataTree") -> np.ndarray:
    """The share of each chain's draws in each of the modes of `modes_of`: float (chain, mode).

    A draw is in the mode whose representative clustering is nearest; of up to 400 draws, spaced evenly.
    """
    labels, (num_chains, num_draws) = flat_labels(tree), tree["posterior"]["labels"].shape[:2]
    chosen = evenly_spaced(num_draws, max(1, _LOCATED // num_chains))
    chosen, found = num_draws * np.arange(num_chains)[:, None] + chosen, modes_of(tree)
    where = nearest_mode(labels[chosen.ravel()], found["labels"].values).reshape(chosen.shape)
    return (where[..., None] == np.arange(found.sizes["mode"])).mean(axis=1)

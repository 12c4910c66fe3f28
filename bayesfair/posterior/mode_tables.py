"""The modes of a posterior: their number, the mass of each, and their distances."""

import numpy as np

from bayesfair._names import DataFrame, Dataset, DataTree
from bayesfair._partitions import partition_distance
from bayesfair.posterior.contingency import balance_of, evenly_spaced
from bayesfair.posterior.modes_of_draws import modes_of_draws, nearest_mode
from bayesfair.posterior.schema import count_clusters, flat_labels, groups_of, holds_several_runs
from bayesfair.posterior.view import once

MODE_FIGURES = ("log_mass", "lower", "upper", "se", "starts", "chains", "lp", "loss")
_LOCATED = 400  # draws, over all chains, whose modes are determined


@once
def modes(tree: "DataTree") -> "DataFrame":
    """A table of the modes of the posterior, the best first.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs), or a `View` of one.

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
    A tree without the group `modes`, or with chains of several runs, has no starts to go by. Its modes are then found among
    up to 256 evenly spaced draws of all chains. Draws are joined by average linkage of their variation of information, and
    the tree of joins is cut into as many groups as this rule allows: 19 of 20 draws of a group are farther, by a tenth at
    least, from three quarters of the draws of any other group than from half of their own, and farther than a hundredth of
    the rows, or two of them, makes. A group has at least ten draws; a tenth may be excursions. Every draw then belongs to
    the mode with the nearest medoid, and `chains` counts the chains that visited it. A mode that no chain visited, or
    seldom, is not found.

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
    table["balance"] = np.nan if groups is None else balance_of(labels, groups, n_clusters)
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

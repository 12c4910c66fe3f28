"""The number of occupied clusters, if a sparse mixture leaves it open."""

import numpy as np

from bayesfair._check import message
from bayesfair._names import DataFrame, DataTree
from bayesfair.posterior import sentences
from bayesfair.posterior.schema import variable
from bayesfair.posterior.view import once


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
    """The number of occupied clusters; "" if every cluster is asked for."""
    if variable(tree, "sample_stats", "occupied") is None:
        return ""
    return sentences.of_occupied_clusters(occupied_clusters(tree)["probability"])


def _occupied(tree):
    occupied = variable(tree, "sample_stats", "occupied")
    if occupied is None:
        remedy = "Fit BayesianFairMixture(10, prior=bayesfair.models.Prior(weight=0.01))."
        raise ValueError(message("tree", "be of a sparse mixture, which leaves components empty", "another", remedy))
    return occupied.values

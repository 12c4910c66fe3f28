"""Two groups of logs in a tree for ArviZ's power-scaling diagnostics, `az.psense` and `az.psense_summary`."""

import numpy as np

from bayesfair._names import DataTree
from bayesfair.posterior.energies import energies_of
from bayesfair.posterior.schema import variable

OWN = {"log_likelihood": "loss", "log_prior": "lambda"}  # groups made here, recognised by a variable of each


def add_log_groups(tree: "DataTree") -> None:
    """Add the groups to the tree of a Gibbs posterior, (chain, draw), up to constants; other trees stay unchanged.

    log_likelihood: `loss`, -lambda L, and `normalizer`, (N d / h) log lambda, 0 if lambda is fixed; their sum replaces
    the log-likelihood. There are two variables for all rows together, so that `az.loo`, for which they are not meant,
    refuses them. log_prior: `lambda`, the log of the gamma prior of a sampled lambda; a fixed one has no prior.
    """
    import xarray as xr

    energies = energies_of(tree)
    if energies is None:
        return
    lambdas, is_sampled = energies.lambdas, energies.is_sampled
    degrees = energies.degrees - energies.shape if is_sampled else 0.0
    likelihood = {"loss": -lambdas * energies.losses, "normalizer": degrees * np.log(lambdas)}
    groups = {"log_likelihood": likelihood}
    if is_sampled:
        groups["log_prior"] = {"lambda": (energies.shape - 1) * np.log(lambdas) - energies.rate * lambdas}
    coords = {dim: tree["posterior"][dim] for dim in ("chain", "draw")}
    for name, values in groups.items():
        tree[name] = xr.Dataset({one: (("chain", "draw"), v) for one, v in values.items()}, coords)


def is_own(tree: "DataTree", group) -> bool:
    """Was a group of the tree made here, from its other groups?"""
    return group in OWN and variable(tree, group, OWN[group]) is not None

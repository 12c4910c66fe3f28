"""Draws as a sampler would hand them over, from labels and scalars by name."""

import numpy as np
import xarray as xr

from bayesfair._draws import Draws
from bayesfair.gibbs import Statistic

KINDS = {
    "lambda_f": Statistic("parameter", -1),
    "lambda_c": Statistic("parameter", -1),
    "fairlet_loss": Statistic("quantity", 1),
    "clustering_loss": Statistic("quantity", 1),
    "swap_rate": Statistic("figure"),
    "reallocation_rate": Statistic("figure"),
}


def draws_of(labels, **scalars):
    """`Draws` whose scalars are what a run declares them as, quantities of the draw where no run has them."""
    return Draws(labels, scalars, {name: KINDS.get(name, Statistic("quantity")) for name in scalars})


def with_modes(tree, labels, *, num_starts=32, masses="measured", **figures):
    """The tree with a group `modes` as the sampler writes it: clusterings (modes, obs), figures (modes,) or their defaults."""
    total = len(labels)
    defaults = {
        "log_mass": 0.0,
        "lower": 0.0,
        "upper": 0.0,
        "se": 0.0,
        "starts": 1,
        "chains": 0,
        "lp": 0.0,
        "loss": 0.0,
    }
    arrays = {name: np.broadcast_to(figures.get(name, value), total) for name, value in defaults.items()}
    variables = {name: ("mode", values.copy()) for name, values in arrays.items()}
    group = xr.Dataset({**variables, "labels": (("mode", "obs"), np.asarray(labels, np.int8))})
    tree = tree.copy()
    tree["modes"] = xr.DataTree(group.assign_attrs(num_starts=num_starts, masses=masses, path_length=64))
    return tree

"""Draws as a sampler would hand them over, from labels and scalars by name."""

import numpy as np
import xarray as xr

from bayesfair._draws import Draws, Statistic
from bayesfair.posterior.schema import Column
from bayesfair.posterior.tree import build_tree

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


def tree_of_draws(n_obs=60, n_clusters=3, n_groups=2, dim=4, chains=2, draws=25, shift=0.0, facts=None, **names):
    """Draws around a truth, one observation in five unsure; `shift` moves the scalars of each chain apart."""
    rng = np.random.default_rng(0)
    truth = np.arange(n_obs) % n_clusters
    X = 4 * rng.normal(size=(n_clusters, dim))[truth] + rng.normal(size=(n_obs, dim))
    moved = (rng.random((chains, draws, n_obs)) < 0.4) & (rng.random(n_obs) < 0.2)
    labels = np.where(moved, (truth + 1) % n_clusters, truth).astype(np.int8)
    apart = shift * np.arange(chains)[:, None]
    scalars = {name: rng.normal(size=(chains, draws)) + apart for name in ("lp", *KINDS)}
    group_names = names.pop("group_names", [f"group {j}" for j in range(n_groups)])
    groups = [group_names[row] for row in rng.integers(n_groups, size=n_obs)] if n_groups else None
    features = names.pop("feature_names", [f"f{j}" for j in range(dim)])
    names = {"columns": [Column(name) for name in features]} | names
    return build_tree(draws_of(labels, **scalars), X, groups, facts=facts, n_clusters=n_clusters, **names)

"""Between the sites of a fair mixture and the variables of its tree, there and back."""

import numpy as np

__all__ = ["leaves_of", "parameters_of", "sites_of", "state_dataset"]

DIMENSIONS = {
    "weights": ("cluster",),
    "means": ("cluster", "column"),
    "scales": ("cluster", "column"),
    "correlation_cholesky": ("cluster", "column", "column_bis"),
}


def parameters_of(draws, units, middle):
    """{name: (dimensions after chain and draw, array)} of the tree, in the units of X, from sites (chain, draw, ...).

    middle (d,): what was subtracted from X. `scales` has no dimension where the covariance is isotropic.
    """
    values = {name: draws[name] for name in ("weights", "scales", "correlation_cholesky") if name in draws}
    if "means_base" in draws:
        values["means"] = _middle(units, middle) + np.asarray(units.spread, np.float64) * draws["means_base"]
    named = {name: (DIMENSIONS[name][: value.ndim - 2], value) for name, value in values.items()}
    levels = sorted(name for name in draws if name.startswith("levels_"))
    return {**named, **{name: (("cluster", name.replace("levels", "level")), draws[name]) for name in levels}}


def sites_of(tree, units, middle):
    """The sites (chain, draw, ...) that `parameters_of` made the tree's parameters from."""
    sites = {name: v.values for name, v in tree["posterior"].data_vars.items() if name not in ("labels", "centers")}
    if "means" in sites:
        spread = np.asarray(units.spread, np.float64)
        sites["means_base"] = (sites.pop("means") - _middle(units, middle)) / spread
    return sites


def _middle(units, middle):
    return middle + np.asarray(units.middle, np.float64)


def state_dataset(leaves):
    """The states of the chains as an xarray.Dataset, leaf by leaf."""
    import xarray as xr

    named = {f"leaf_{at}": np.asarray(leaf) for at, leaf in enumerate(leaves)}
    return xr.Dataset({name: ([f"{name}_{axis}" for axis in range(v.ndim)], v) for name, v in named.items()})


def leaves_of(dataset):
    """The leaves that `state_dataset` stored, in order."""
    return [dataset[f"leaf_{at}"].values for at in range(len(dataset.data_vars))]

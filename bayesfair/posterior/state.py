"""The state that a run goes on from, as a group of its tree."""

import numpy as np

STATE = "sampler_state"  # group of the tree


def state_dataset(arrays, axes=None):
    """Arrays by name as an xarray.Dataset, with the dimensions that `axes` names for them, or dimensions of their own."""
    import xarray as xr

    values = {name: np.asarray(array) for name, array in arrays.items()}
    own = {name: tuple(f"{name}_{axis}" for axis in range(v.ndim)) for name, v in values.items()}
    return xr.Dataset({name: ((axes or {}).get(name, own[name]), v) for name, v in values.items()})


def arrays_of(dataset):
    """What `state_dataset` was given."""
    return {name: v.values for name, v in dataset.data_vars.items()}

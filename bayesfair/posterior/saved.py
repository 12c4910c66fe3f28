"""The common part of the estimators' `save` and `load`: settings as JSON, and the sampler's state in the tree."""

import json
from importlib import import_module

import numpy as np

from bayesfair._check import Refusal
from bayesfair._memory import in_words
from bayesfair.posterior.schema import groups_of
from bayesfair.posterior.view import once

FORMAT = 3  # of the settings and state of a run; it grows with every form unknown to earlier versions
STATE = "sampler_state"  # group of the tree
_TYPE = "__type__"
_NAMED_TUPLES = {"Dispersion": "bayesfair.gibbs", "Prior": "bayesfair.models"}
_OBJECTS = (
    "Labels",
    "Joint",
    "Cut",
    "Optimal",
    "ModeSearch",
    "Minkowski",
)  # of `bayesfair.gibbs`, with settings of their own


def plain(value):
    """`value` for JSON in a form that `restored` reverses; a loss of the user's own and a RandomState become None."""
    if isinstance(value, dict):
        if _TYPE not in value and all(isinstance(key, str) for key in value):
            return {key: plain(part) for key, part in value.items()}
        return {_TYPE: "dict", "items": [plain(list(item)) for item in value.items()]}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, tuple):
        kind = type(value).__name__ if hasattr(value, "_fields") else "tuple"
        return {_TYPE: kind, "items": [plain(part) for part in value]}
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if type(value).__name__ in _OBJECTS:
        own = value.get_params(deep=False) if hasattr(value, "get_params") else vars(value)
        return {_TYPE: type(value).__name__, "settings": plain(own)}
    array = np.asarray(value)
    if array.ndim > 0:
        return {_TYPE: "array", "items": plain(array.tolist())}
    return array.item() if array.dtype.kind in "biuf" else None


def restored(value):
    """The value that `plain` turned into this. Raises a ValueError for anything else."""
    if isinstance(value, list):
        return [restored(part) for part in value]
    if not isinstance(value, dict):
        return value
    if _TYPE not in value:
        return {key: restored(part) for key, part in value.items()}
    kind, items = value[_TYPE], restored(value.get("items", []))
    if kind in _OBJECTS:
        return getattr(import_module("bayesfair.gibbs"), kind)(**restored(value["settings"]))
    if kind in _NAMED_TUPLES:
        return getattr(import_module(_NAMED_TUPLES[kind]), kind)(*items)  # loads JAX, which few settings need
    makers = {"tuple": tuple, "dict": dict, "array": np.array}
    if kind not in makers:
        raise ValueError(
            Refusal(f"Settings hold a {kind!r}, which this version does not know. Read them with a newer one.")
        )
    return makers[kind](items)


@once
def settings_of(tree):
    """The settings of the tree's run; {} if they are missing or unreadable."""
    try:
        settings = restored(json.loads(tree.attrs.get("settings", "{}")))
    except (TypeError, ValueError):
        settings = {}
    if not isinstance(settings, dict) or not isinstance(settings.get("parameters", {}), dict):
        return {}
    return settings


def about_unfinished(done, wanted):
    """The attribute `unfinished` of the root, of a run that was stopped before its last draw; none of a finished one."""
    return {"unfinished": f"{done} of {wanted} draws per chain"} if done < wanted else {}


def target_of(tree):
    """The target of the tree's run: its `name`, its settings, and `n_fairlets` if it has any; {} of other methods."""
    return settings_of(tree).get("target", {})


def promise_of(tree):
    """What the tree's run guarantees: "labels", "fairlets", or None."""
    return settings_of(tree).get("promise")


def unfinished_of(tree):
    """What an unfinished run has, as "12 of 100 draws per chain"; "" for a finished run, and for some draws of one."""
    if "unfinished" in tree.attrs:
        return tree.attrs["unfinished"]
    draws, wanted = tree["posterior"]["draw"].values, settings_of(tree).get("wanted")
    are_first = np.array_equal(draws, np.arange(len(draws))) and "share_kept" not in tree.attrs
    return f"{len(draws)} of {wanted} draws per chain" if are_first and wanted and len(draws) < wanted else ""


def cost_of(tree):
    """The time and memory of a fit, in words; "" if the tree has neither."""
    about = tree["sample_stats"].attrs if "sample_stats" in tree.children else {}
    if "sampling_time" not in about:
        return ""
    memory = f", at most {in_words(about['peak_memory'])} of memory" if about.get("peak_memory") else ""
    return f"{about['sampling_time']:,.3g} s{memory}"


def small_groups(tree):
    """A sentence on the effect of very small groups on the run's fairlets; "" without such groups."""
    from bayesfair.fairlets.compositions import rule_of_small_groups

    groups, composition = groups_of(tree), target_of(tree).get("composition")
    is_automatic = isinstance(composition, str) and composition == "auto"
    if groups is None or promise_of(tree) != "fairlets" or not is_automatic:
        return ""
    return rule_of_small_groups(groups.sizes, groups.names)


def state_dataset(arrays, axes=None):
    """Arrays by name as an xarray.Dataset, with the dimensions in `axes`, or with dimensions of their own."""
    import xarray as xr

    values = {name: np.asarray(array) for name, array in arrays.items()}
    own = {name: tuple(f"{name}_{axis}" for axis in range(v.ndim)) for name, v in values.items()}
    return xr.Dataset({name: ((axes or {}).get(name, own[name]), v) for name, v in values.items()})


def arrays_of(dataset):
    """The arrays that `state_dataset` was given."""
    return {name: v.values for name, v in dataset.data_vars.items()}

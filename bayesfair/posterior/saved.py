"""What the estimators' `save` and `load` have in common.

Settings as JSON, and the state that a run goes on from, in the tree of the posterior.
"""

import json
from importlib import import_module

import numpy as np

from bayesfair._memory import in_words
from bayesfair.posterior.schema import group_names, variable
from bayesfair.posterior.view import once

FORMAT = 2  # of the settings and the state of a run: a number for every form that earlier versions do not know
STATE = "sampler_state"  # group of the tree
_TYPE = "__type__"
_NAMED_TUPLES = {"Dispersion": "bayesfair.gibbs", "Prior": "bayesfair.models"}


def plain(value):
    """`value` as JSON holds it, so that `restored` brings it back: tuples, named ones too, arrays and nested parts.

    NumPy's scalars become Python's. Code and the state of a generator are not stored: a loss of the user's own and a
    RandomState become None.
    """
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
    array = np.asarray(value)
    if array.ndim > 0:
        return {_TYPE: "array", "items": plain(array.tolist())}
    return array.item() if array.dtype.kind in "biuf" else None


def restored(value):
    """What `plain` was given, from what it returned. ValueError where it returned no such thing."""
    if isinstance(value, list):
        return [restored(part) for part in value]
    if not isinstance(value, dict):
        return value
    if _TYPE not in value:
        return {key: restored(part) for key, part in value.items()}
    kind, items = value[_TYPE], restored(value.get("items", []))
    if kind in _NAMED_TUPLES:
        return getattr(import_module(_NAMED_TUPLES[kind]), kind)(*items)  # they load JAX, which few settings need
    makers = {"tuple": tuple, "dict": dict, "array": np.array}
    if kind not in makers:
        raise ValueError(f"Settings hold a {kind!r}, which this version does not know. Read them with a newer one.")
    return makers[kind](items)


@once
def settings_of(tree):
    """The settings of the run that made the tree; {} where it has none that can be read."""
    try:
        settings = restored(json.loads(tree.attrs.get("settings", "{}")))
    except (TypeError, ValueError):
        settings = {}
    if not isinstance(settings, dict) or not isinstance(settings.get("parameters", {}), dict):
        return {}
    return settings


def promise_of(tree):
    """What the target of the run that made the tree promises of every draw, as `gibbs.Target.promise` has it."""
    settings = settings_of(tree)
    name = settings.get("parameters", {}).get("target")  # all that older files say; None of a class
    return settings.get("promise", name if name in (None, "labels") else "fairlets")


def cost_of(tree):
    """The time and the memory that a fit took, in words; "" where the tree does not say."""
    about = tree["sample_stats"].attrs if "sample_stats" in tree.children else {}
    if "sampling_time" not in about:
        return ""
    memory = f", at most {in_words(about['peak_memory'])} of memory" if about.get("peak_memory") else ""
    return f"{about['sampling_time']:,.3g} s{memory}"


def small_groups(tree):
    """What groups of a few rows did to the fairlets of the run that made the tree, in a sentence; "" where nothing."""
    from bayesfair.fairlets.compositions import rule_of_small_groups

    group, names = variable(tree, "constant_data", "group"), group_names(tree)
    composition = settings_of(tree).get("parameters", {}).get("composition")
    is_automatic = isinstance(composition, str) and composition == "auto"
    if group is None or promise_of(tree) != "fairlets" or not is_automatic:
        return ""
    return rule_of_small_groups(np.bincount(group.values, minlength=len(names)), names)


def state_dataset(arrays, axes=None):
    """Arrays by name as an xarray.Dataset, with the dimensions that `axes` names for them, or dimensions of their own."""
    import xarray as xr

    values = {name: np.asarray(array) for name, array in arrays.items()}
    own = {name: tuple(f"{name}_{axis}" for axis in range(v.ndim)) for name, v in values.items()}
    return xr.Dataset({name: ((axes or {}).get(name, own[name]), v) for name, v in values.items()})


def arrays_of(dataset):
    """What `state_dataset` was given."""
    return {name: v.values for name, v in dataset.data_vars.items()}

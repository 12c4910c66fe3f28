"""Runs that are on disk while they go on: begun with their first draws, read as a tree at any time."""

import json

import numpy as np

from bayesfair._check import message
from bayesfair._draws import Draws
from bayesfair._files import check_destination
from bayesfair._journal import BEGINNING, Journal, Stored, read_journal, start_journal
from bayesfair.fairness import Groups
from bayesfair.posterior.saved import plain
from bayesfair.posterior.state import STATE, state_dataset
from bayesfair.posterior.tree import build_tree, names_for_file

__all__ = ["about_run", "begin_run", "check_store", "groups_of_run", "is_unfinished", "modes_of_run", "tree_of_run"]

_MODES = "modes/"  # before the names of what describes them


def check_store(path):
    """`path` as a place for a new run, where there is no file yet.

    Raises
    ------
    FileExistsError: there is one. ValueError, OSError: as `check_destination`.
    """
    path = check_destination(path)
    if path.exists():
        raise _taken(path)
    return path


def _taken(path):
    remedy = "A run there goes on with load(path).resume(); for a new one delete it, or choose another name."
    return FileExistsError(message("store", "name a file that is not there yet", repr(str(path)), remedy))


def is_unfinished(path):
    """Whether `path` is a run that is not finished: whose draws are still to be numbered, or made."""
    with open(path, "rb") as file:
        return file.read(len(BEGINNING)) == BEGINNING


def about_run(
    groups: Groups,
    *,
    settings,
    feature_names,
    obs_names,
    n_clusters,
    modes,
    state_dims,
    weight=None,
):
    """(JSON, {name: array}): what a stored run keeps of its table beside X.

    Of its groups, its rows' `weight`, its settings, with places for "sweep" and "wanted", the `modes` that were found (an
    xarray.Dataset or None), and how the axes of its state's arrays are named.
    """
    about = {
        "settings": plain(settings),
        "feature_names": feature_names,
        "n_clusters": n_clusters,
        "groups": groups.names,
        "attributes": [part.names for part in groups.attributes],
        "state_dims": state_dims,
    }
    codes = {f"attribute_{which}": part.code for which, part in enumerate(groups.attributes)}
    arrays = {"group": groups.code, **codes}
    if weight is not None:
        arrays["weight"] = weight
    if obs_names is not None:
        arrays["obs"] = names_for_file(obs_names)
    if modes is not None:
        about["modes"] = {"dims": {name: modes[name].dims for name in modes}, "attrs": plain(modes.attrs)}
        arrays |= {_MODES + name: modes[name].values for name in modes}
    return about, arrays


def begin_run(path, X, about, wanted, draws: Draws, sweep, state, *, is_new=False) -> Journal:
    """The file of a run that has made these draws of those `wanted` in each chain; `about` as `about_run` has it.

    Raises
    ------
    FileExistsError: an `is_new` run whose path was taken since `check_store`.
    """
    text, arrays = about
    arrays = {"X": np.asarray(X), **arrays}
    try:
        return start_journal(path, text, arrays, draws, wanted, sweep, state, is_new=is_new)
    except FileExistsError as error:
        raise _taken(path) from error


def tree_of_run(path):
    """The tree of a run that is not finished, of the draws made so far; they and the table stay on disk.

    The attribute `unfinished` says how far it came.
    """
    stored = read_journal(path)
    about, X = stored.about, stored.arrays["X"]
    tree = build_tree(
        stored.draws,
        X,
        groups_of_run(stored),
        settings={},
        feature_names=about["feature_names"],
        obs_names=stored.arrays.get("obs"),
        n_clusters=about["n_clusters"],
        modes=modes_of_run(stored),
        weight=stored.arrays.get("weight"),
    )
    tree.attrs["settings"] = json.dumps({**about["settings"], "sweep": stored.sweep, "wanted": stored.wanted})
    tree.attrs["unfinished"] = f"{stored.draws.labels.shape[1]} of {stored.wanted} draws a chain"
    tree[STATE] = state_dataset(stored.state, about["state_dims"])
    return tree


def groups_of_run(stored: Stored) -> Groups:
    """The groups that a run was begun with."""
    arrays = stored.arrays
    attributes = [
        Groups(arrays[f"attribute_{which}"], tuple(names)) for which, names in enumerate(stored.about["attributes"])
    ]
    return Groups(arrays["group"], tuple(stored.about["groups"]), tuple(attributes))


def modes_of_run(stored: Stored):
    """The modes that a run was begun with, an xarray.Dataset; None where there are none."""
    if "modes" not in stored.about:
        return None
    import xarray as xr

    dims, attrs = stored.about["modes"]["dims"], stored.about["modes"]["attrs"]
    return xr.Dataset({name: (dims[name], stored.arrays[_MODES + name]) for name in dims}, attrs=attrs)

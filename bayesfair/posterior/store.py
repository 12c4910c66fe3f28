"""Draws on disk: a zarr group in ArviZ's layout that grows by whole chunks of draws and is readable at any time.

A commit appends draws, and writes the sampler's state to that of two groups that the last commit does not use. Then it
replaces the `zarr.json` of the root, which holds the metadata of all arrays with their sizes. So readers see whole draws
and the state after them, whatever a killed process has left beside them.
"""

import os
import shutil
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import numpy as np

from bayesfair._arrays import row_blocks
from bayesfair._check import message
from bayesfair._draws import Draws
from bayesfair._files import ROOT_OF_STORE, at_home, beside, check_destination, unwritable, warn_of_leftovers
from bayesfair.posterior.draws import CHUNK, is_on_disk
from bayesfair.posterior.schema import KEPT, RUN_SIZES, STATE, UNFINISHED, WANTED, about_unfinished, variable
from bayesfair.posterior.settings import with_plain_attributes
from bayesfair.posterior.temperatures import PSEUDO
from bayesfair.posterior.tree import add_derived
from bayesfair.posterior.zarr_folder import (
    CHECKSUM,
    check_chunks,
    delete_chunks,
    lock_folder,
    metadata_of,
    read_root,
    replace_json,
    whole_chunks,
    with_other_names,
    write_root,
)

ROWS = 262_144  # rows in a chunk of labels or of the table
SCALARS = 1024  # draws in a chunk of a scalar
ENDING = ".zarr"
LABELS, FAIRLETS, MODES = "posterior/labels", "posterior/fairlet", "modes/labels"
LARGE = LABELS, FAIRLETS  # variables that stay on disk
NUMBERING = "constant_data/reference_labels"  # made anew whenever labels are renumbered
DERIVED = {
    NUMBERING,
    "posterior/centers",
    "posterior/cluster",
    "posterior/feature",
    "sample_stats/balance",
    *(f"{PSEUDO}/{name}" for name in ("loss", "normalizer", "chain", "draw")),
    *(f"log_prior/{name}" for name in ("lambda", "chain", "draw")),
}
_OWN = "draws", "state", CHECKSUM  # attributes of the root that a tree lacks


class StoredRun:
    """A stored run that only this process writes to. `wanted`: the number of draws per chain to reach."""

    def __init__(self, path, lock, wanted=None):
        self.path, self._lock, self.wanted = Path(path), lock, wanted

    def append(self, draws: Draws, state):
        """Append draws, and the state after them: all of it or, if interrupted, nothing."""
        with self._writing() as (root, nodes, attributes):
            last, slot = attributes["draws"] + draws.labels.shape[1], 1 - attributes["state"]
            number = np.arange(attributes["draws"], last)
            values = {LABELS: draws.labels, "posterior/draw": number, "sample_stats/draw": number}
            if draws.fairlets is not None:
                values[FAIRLETS] = draws.fairlets.fairlet
                values |= {} if draws.fairlets.number is None else {f"posterior/{KEPT}": draws.fairlets.number}
            of_draws = [name for name, node in nodes.items() if node.get("dimension_names") == ["chain", "draw"]]
            values |= {name: draws.scalars[name.split("/")[1]] for name in of_draws if name not in DERIVED}
            for name, one in values.items():
                nodes[name]["shape"] = _extend(root[name], one)
            for name, one in state.items():
                root[f"{STATE}_{slot}/{name}"][...] = one
            nodes = {name: node for name, node in nodes.items() if name not in DERIVED}
            attributes = {**attributes, "draws": last, "state": slot}
            write_root(self.path, nodes, _so_far(attributes, self.wanted))

    def finish(self, about):
        """Number the clusters of all draws alike and add derived results. `about`: attributes of sample_stats.

        The reference is chosen from all draws, so no label has its number before. Renumbered chunks have other names: all
        of them exist before the commit that shows them, and who reads an earlier commit gets an error, not other numbers.
        """
        import zarr

        tree = open_store(self.path)
        tree["sample_stats"].attrs.update(about)
        tree.attrs.pop(UNFINISHED)
        tree.attrs.update(about_unfinished(tree["posterior"].sizes["draw"], self.wanted))
        tree, _ = with_plain_attributes(tree)
        with self._writing() as (root, nodes, attributes):
            before, now = nodes[LABELS], with_other_names(nodes[LABELS])
            _fill(zarr.Array.from_dict(root.store_path / LABELS, now), tree["posterior"]["labels"])
            replace_json(self.path / LABELS / ROOT_OF_STORE, now)
            nodes = _write_small(root, tree, {**nodes, LABELS: now})
            own = {name: attributes[name] for name in ("draws", "state")}
            write_root(self.path, nodes, _plain(tree.attrs) | own)
            delete_chunks(self.path / LABELS, before)

    def keep(self, name, value):
        """Give the root an attribute."""
        self.check_place()
        nodes, attributes = read_root(self.path)
        write_root(self.path, nodes, {**attributes, name: value})

    def check_place(self):
        """Raise a FileNotFoundError if the folder is gone from its path: moved, deleted or replaced."""
        try:
            is_there = os.path.samestat(os.fstat(self._lock), os.stat(self.path))
        except FileNotFoundError:
            is_there = False
        if not is_there:
            rule = "stay in its place until the run is finished"
            got = f"{os.fspath(self.path)!r}, which is gone"
            remedy = "If it was moved, load it from there and resume; if it was deleted or overwritten, fit again."
            raise FileNotFoundError(message("store", rule, got, remedy))

    def close(self):
        os.close(self._lock)

    @contextmanager
    def _writing(self):
        """(the group, {name: metadata}, attributes of the root) at the last commit; disk errors have a remedy."""
        import zarr

        self.check_place()
        nodes, attributes = read_root(self.path)
        try:
            with whole_chunks():
                yield zarr.open_group(self.path, mode="r+", zarr_format=3, use_consolidated=True), nodes, attributes
        except OSError as error:
            remedy = "Make room, then continue the run with load(path).resume()."
            got = f"{os.fspath(self.path)!r} ({error.strerror}); it holds {attributes['draws']} draws per chain"
            raise type(error)(message("store", "be a folder that can be written", got, remedy)) from error


def check_store(path, argument="store"):
    """`path` as a place for a new run: a FileExistsError if something is there, a ValueError for another ending."""
    path = at_home(path)
    if path.suffix != ENDING:
        remedy = "A stored run is a folder, such as 'run.zarr'. save('run.nc') writes one file of a run in memory."
        raise ValueError(message(argument, f"end in {ENDING}", repr(os.fspath(path)), remedy))
    if os.path.lexists(path):
        raise _taken(path, argument)
    return check_destination(path)


def _taken(path, argument="store"):
    remedy = "Continue that run with load(path).resume(). For a new one delete it, or choose another name."
    return FileExistsError(message(argument, "name a folder that does not exist yet", repr(os.fspath(path)), remedy))


def is_stored(tree):
    """Are the labels of a tree on disk?"""
    labels = variable(tree, "posterior", "labels")
    return labels is not None and is_on_disk(labels)


def begin_run(path, tree, wanted) -> StoredRun:
    """A new stored run that has the draws and the sampler's state of `tree`, of those `wanted` in each chain."""
    return StoredRun(path, _create(path, with_plain_attributes(tree)[0], wanted), wanted)


def write_store(path, tree):
    """Write `tree` as a stored run to `path`, which must not exist yet; labels are copied block by block."""
    os.close(_create(check_store(path, "path"), tree))


def continue_run(path, wanted=None) -> StoredRun:
    """The stored run at `path`, to be appended to by this process alone, after its last commit; an OSError if it cannot be."""
    path = Path(path)
    if not os.access(path, os.W_OK | os.X_OK):
        remedy = "Copy it to a folder of your own."
        raise PermissionError(message("path", "be a run that you may write to", repr(os.fspath(path)), remedy))
    lock = lock_folder(path)
    try:
        nodes, _ = read_root(path)
        for left in path.rglob("*.partial"):  # left by killed writes
            left.unlink()
        delete_chunks(path / LABELS, with_other_names(nodes[LABELS]))
    except BaseException:
        os.close(lock)
        raise
    return StoredRun(path, lock, wanted)


def open_store(path):
    """The tree of the stored run at `path` at its last commit, every chunk checked: labels and fairlets stay on disk."""
    path = Path(path)
    nodes, attributes = read_root(path)
    try:
        check_chunks(path, nodes)
        groups = _groups(path, attributes)
    except Exception:
        if read_root(path)[1] != attributes:  # a writer made a commit meanwhile
            return open_store(path)
        raise
    from xarray import DataTree

    tree = DataTree.from_dict(groups)
    tree.attrs = {name: value for name, value in attributes.items() if name not in _OWN}
    return add_derived(tree).tree if UNFINISHED in tree.attrs else tree


def _groups(path, attributes):
    """{group: xarray.Dataset}, including the state of the last commit."""
    import xarray as xr

    from bayesfair.posterior.labels_on_disk import unchanged  # loads xarray

    groups, state, numbering = {}, f"/{STATE}_{attributes['state']}", path / NUMBERING / ROOT_OF_STORE
    with whole_chunks():
        tree = xr.open_datatree(path, engine="zarr", consolidated=True, cache=False, mask_and_scale=False)
        for node in tree.subtree:
            data = node.to_dataset(inherit=False)
            if node.path == state or not node.path.startswith(f"/{STATE}_"):
                for name, values in data.data_vars.items():
                    if f"{node.path[1:]}/{name}" in LARGE:
                        data[name] = values.dims, unchanged(values.variable, numbering), values.attrs
                    else:
                        values.load()
                groups[f"/{STATE}" if node.path == state else node.path] = data
    return groups


def _so_far(attributes, wanted):
    """Attributes of the root at a commit of a run that is to have so many draws."""
    done = attributes["draws"]
    return {**attributes, RUN_SIZES["draw"]: done, WANTED: wanted, UNFINISHED: f"{done} of {wanted} draws per chain"}


def _extend(array, values):
    """Append `values` to an array (chain, draw, ...) or (draw,) as of the last commit; return its new shape."""
    axis = min(1, array.ndim - 1)
    length = array.shape[axis] + values.shape[axis]
    array.resize(tuple(length if at == axis else size for at, size in enumerate(array.shape)))
    array[(slice(None),) * axis + (slice(length - values.shape[axis], length),)] = values
    return list(array.shape)


def _create(path, tree, wanted=None):
    """Make a store, unfinished if draws are `wanted`, beside `path` until it is whole; return the lock that is held on it."""
    import zarr

    attributes = {**_plain(tree.attrs), "draws": tree["posterior"].sizes["draw"], "state": 0}
    with _new_folder(path) as folder, whole_chunks():
        root = zarr.open_group(folder, mode="w", zarr_format=3)
        state = tree[STATE].to_dataset() if STATE in tree.children else None
        nodes = _write_small(root, tree, {})
        for slot in (0, 1) if state is not None else ():
            nodes |= _write_group(root, f"{STATE}_{slot}", state, nodes)
        for place in reversed(LARGE):
            values = variable(tree, *place.split("/"))
            if values is not None:
                _fill(_new_array(root, place, values), values)
                nodes = {place: metadata_of(folder, place), **nodes}
        write_root(folder, nodes, attributes if wanted is None else _so_far(attributes, wanted))
        lock = lock_folder(folder)
    warn_of_leftovers(path)
    return lock


@contextmanager
def _new_folder(path):
    """The name of a folder beside `path` that becomes `path` at the end of the block; FileExistsError if `path` was taken."""
    path = check_destination(path)
    temporary = beside(path)
    try:
        temporary.mkdir()
        yield temporary
        if os.path.lexists(path):
            raise _taken(path)
        temporary.rename(path)
    except FileExistsError:
        raise
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_small(root, tree, known):
    """Write all except large variables and the state of a tree that is not `known`; metadata by name, in the tree's order."""
    nodes = {}
    for name, node in tree.children.items():
        if name != STATE:
            nodes |= _write_group(root, name, node.to_dataset(), known)
    return nodes | {name: node for name, node in known.items() if name.startswith(STATE)}


def _write_group(root, group, data, known):
    folder, nodes = Path(root.store.root), {}
    if group not in known:
        root.create_group(group, overwrite=True)  # one may be left of a commit that was cut off
    nodes[group] = {**metadata_of(folder, group), "attributes": _plain(data.attrs)}
    replace_json(folder / group / ROOT_OF_STORE, nodes[group])
    for name, values in data.variables.items():
        place = f"{group}/{name}"
        if place in known:
            nodes[place] = known[place]
            if place == MODES:
                root[place][...] = values.values
        elif place not in LARGE:
            array = _new_array(root, place, values)
            array[...] = _text(values.values)
            nodes[place] = metadata_of(folder, place)
    return nodes


def _new_array(root, place, values):
    """An array with the shape and type of an xarray variable, replacing what no commit knows."""
    from zarr.codecs import Crc32cCodec, ZstdCodec

    large = place in LARGE
    kind = values.dtype if large else _text(values.values).dtype
    known = {"obs": ROWS if place != MODES else values.sizes["obs"]}
    of_draws = {**dict.fromkeys(("draw", KEPT), CHUNK if large else SCALARS), **({"chain": 1} if large else {})}
    chunks = [of_draws.get(dim, max(1, min(size, known.get(dim, size)))) for dim, size in values.sizes.items()]
    return root.create_array(
        place,
        shape=values.shape,
        chunks=tuple(chunks),
        dtype=kind,
        compressors=(ZstdCodec(level=1), Crc32cCodec()),
        fill_value=-1 if large else None,
        dimension_names=values.dims,
        attributes=_plain(values.attrs),
        overwrite=True,
    )


def _text(values):
    return values.astype(str) if values.dtype.kind in "OT" else values


def _plain(attrs):
    """Attributes as JSON holds them."""
    return {name: np.asarray(value).tolist() if hasattr(value, "dtype") else value for name, value in attrs.items()}


def _fill(array, labels):
    """Write a tree's labels or fairlets (chain, draw, obs), chunk by chunk."""
    blocks = (row_blocks(*sizes) for sizes in zip(labels.shape, (1, CHUNK, ROWS)))
    for part in product(*blocks):
        array[part] = np.asarray(labels[part])

"""Files: whole or not at all when written, and with a checksum that is checked before any library parses them.

Labels and a table that are on disk are neither made nor read in memory: they are copied, and mapped, block by block.
"""

import errno
import hashlib
import io
import json
import os
import shutil
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from bayesfair._check import message, tell
from bayesfair._files import check_destination, replacing, warn_of_leftovers, write_whole
from bayesfair._journal import write_at
from bayesfair.posterior.attributes import with_plain_attributes
from bayesfair.posterior.labels import Labels, is_on_disk
from bayesfair.posterior.mode_tables import check_modes
from bayesfair.posterior.saved import FORMAT, restored
from bayesfair.posterior.schema import ON_DISK, check_whole, variable
from bayesfair.posterior.stored import is_unfinished, tree_of_run

if TYPE_CHECKING:
    from xarray import DataTree

__all__ = ["finish_run", "is_stored", "opened", "read_run", "read_tree", "write_tree"]

_MARK = b"\nbayesfair sha256 "
_TRAILER_LENGTH = len(_MARK) + 2 * hashlib.sha256().digest_size + 1
_LARGE = ("posterior", "labels"), ("observed_data", "X")  # what may be on disk
_BLOCK_BYTES = 8_000_000
_OF_HDF5 = 1_000_000  # bytes that it may take to describe what is written by blocks


def write_tree(tree: "DataTree", path: str | PathLike[str]) -> None:
    """Write `tree` to the netCDF file `path`, all groups, with a checksum, whole or not at all.

    The earlier file stays until the new one is complete. A tree in memory is compressed, and its bytes are made in memory
    first, so that a full disk is an error like any other; that takes as much memory again as the file is large. Labels and
    a table that are on disk are copied as they are, block by block. The name of the tree is not stored. Attributes that
    netCDF has no type for (None, True, dictionaries, times) are stored as JSON text, or left out where they have none; a
    warning names them.

    Raises
    ------
    ValueError, OSError: a `path` that cannot be written, see `check_destination`; a full disk. Nothing is lost.
    """
    tree, changed = with_plain_attributes(tree)
    _write(tree, check_destination(path))
    if changed:
        remedy = "Make them numbers or text to keep them as they are."
        tell(f"All draws are written, but netCDF has no place for some attributes: {changed}. {remedy}")


def _write(tree, path):
    large = {place: tree[place[0]][place[1]] for place in _LARGE if _stays_on_disk(variable(tree, *place))}
    body = _netcdf(_without(tree, large))
    if not large:
        with body.getbuffer() as view:
            return write_whole([view, _trailer(hashlib.sha256(view))], path)
    with replacing(path) as temporary, body.getbuffer() as view:
        _place(view, large, temporary)
        _fill(large, temporary)
    warn_of_leftovers(path)


def finish_run(path, about=()):
    """The tree of a run whose draws are made, its clusters numbered, written in place of the run; draws stay on disk. `about`:
    attributes of its sample_stats."""
    tree = tree_of_run(path)
    tree["sample_stats"].attrs.update(about)
    del tree.attrs["unfinished"]
    write_tree(tree, path)
    return read_tree(path)


def is_stored(tree):
    """Whether the labels of a tree are on disk."""
    return _stays_on_disk(variable(tree, "posterior", "labels"))


def _stays_on_disk(array):
    return array is not None and (ON_DISK in array.attrs or is_on_disk(array.values))


def _netcdf(tree):
    """The bytes of a tree, io.BytesIO."""
    file = io.BytesIO()
    tree.to_netcdf(file, engine="h5netcdf", encoding=_encoding(tree))
    return file


def _without(tree, large):
    """The tree without some of its variables {(group, name): ...}, their coordinates kept."""
    if not large:
        return tree
    nodes = {node.path: node.to_dataset(inherit=False) for node in tree.subtree}
    for group, name in large:
        nodes[f"/{group}"] = nodes[f"/{group}"].drop_vars(name)
    return type(tree).from_dict(nodes)


def _place(body, large, path):
    """A netCDF file of the bytes `body`, in which there is room for `large`."""
    import h5netcdf

    room = len(body) + sum(array.nbytes for array in large.values()) + _OF_HDF5
    with open(path, "xb") as file:
        file.write(body)
        file.truncate(room)  # what refuses such a file is told here: HDF5 ends the process
        file.truncate(len(body))
    if shutil.disk_usage(path.parent).free < room - len(body):
        raise OSError(errno.ENOSPC, f"No space left on device for {room / 1e9:.2g} GB")
    with h5netcdf.File(path, "a", alignment_threshold=4096, alignment_interval=64) as file:
        for (group, name), array in large.items():
            for dim, size in array.sizes.items():
                if dim not in file[group].dimensions:
                    file[group].dimensions[dim] = size
            new = file[group].create_variable(name, array.dims, array.dtype)
            new[(0,) * array.ndim] = 0  # HDF5 finds a place for all of it now


def _fill(large, path):
    """Write the variables into their places, and the trailer after the end."""
    with open(path, "r+b", buffering=0) as file:
        offsets = {place: offset for place, (offset, *_) in _places(file).items()}
        for place, array in large.items():
            at = offsets[place]
            for block in _blocks(array):
                write_at(file, np.ascontiguousarray(block), at)
                at += block.nbytes
        checksum = _checksum(file, file.seek(0, os.SEEK_END))
        file.write(_trailer(checksum))
        os.fsync(file.fileno())


def _blocks(array):
    """A variable that is on disk, block by block."""
    if array.ndim == 3:
        return Labels(array if ON_DISK in array.attrs else array.values).blocks()
    rows = max(1, _BLOCK_BYTES // max(array[:1].nbytes, 1))
    return (array.values[first : first + rows] for first in range(0, len(array), rows))


def _places(file):
    """{(group, name): (offset, type, shape)} of those _LARGE variables of an open netCDF file that lie in one piece, none
    where the labels do not."""
    import h5py

    with h5py.File(file, "r") as hdf:
        found = {place: hdf["/".join(place)] for place in _LARGE if "/".join(place) in hdf}
        whole = {
            place: data for place, data in found.items() if data.chunks is None and data.id.get_offset() is not None
        }
        if _LARGE[0] not in whole:
            return {}
        return {place: (data.id.get_offset(), data.dtype, data.shape) for place, data in whole.items()}


def _checksum(file, length):
    """SHA-256 of the first `length` bytes of an open file."""
    checksum = hashlib.sha256()
    file.seek(0)
    while length > 0:
        block = file.read(min(length, _BLOCK_BYTES))
        if not block:
            break
        checksum.update(block)
        length -= len(block)
    return checksum


def _trailer(checksum):
    """What follows the netCDF bytes, which their readers ignore: a mark, and the SHA-256 of all before it."""
    return _MARK + checksum.hexdigest().encode() + b"\n"


def _encoding(tree):
    """Compression where it pays: of integers."""
    return {
        node.path: {
            name: {"zlib": True, "complevel": 4}
            for name, values in node.data_vars.items()
            if values.ndim and values.dtype.kind in "iu"
        }
        for node in tree.subtree
    }


def read_tree(path: str | PathLike[str]) -> "DataTree":
    """The tree that `write_tree` or a run with `store=` wrote to `path`; of a run that is not finished, the draws so far.

    The checksum of the whole file is checked before anything in it is read. A tree that was saved comes into memory. Of one
    that was stored, finished or not, labels and table stay on disk, where summaries read them block by block; a tree whose
    run is not finished says so in its attribute `unfinished`.

    Raises
    ------
    FileNotFoundError: no such file. ValueError: a file that is damaged, or that holds something else.
    """
    with opened(path) as file:
        tree = tree_of_run(path) if is_unfinished(path) else _read_netcdf(file, path)
    labels = variable(tree, "posterior", "labels")
    if labels is None or labels.dims != ("chain", "draw", "obs"):
        raise ValueError(
            f"{os.fspath(path)!r} is a netCDF file but not a saved posterior of bayesfair: it has no `labels` "
            "(chain, draw, obs) in a group 'posterior'. Pass a file that save or write_tree made."
        )
    if "modes" in tree.children:
        check_modes(tree["modes"].to_dataset(), labels.sizes["obs"])
    return tree


@contextmanager
def opened(path):
    """The file `path`, open for reading; OSError with a remedy where it cannot be read."""
    name = repr(os.fspath(path))
    try:
        file = open(path, "rb")  # noqa: SIM115
    except FileNotFoundError as error:
        raise FileNotFoundError(f"There is no file {name}. Check the name, or fit and save a model first.") from error
    except OSError as error:
        remedy = "Pass a file that save or write_tree made."
        raise type(error)(
            message("path", "be a file that can be read", f"{name} ({error.strerror})", remedy)
        ) from error
    with file:
        yield file


def _read_netcdf(file, path):
    """The tree in an open file: in memory, but for what lies there in one piece."""
    import xarray as xr

    _check_whole(file, path)
    try:
        places = _places(file)
        with xr.open_datatree(file, engine="h5netcdf") as lazy:
            for (group, name), (offset, kind, shape) in places.items():
                mapped = np.asarray(np.memmap(file, kind, "r", offset, shape))
                known = lazy[group].to_dataset()
                lazy[group] = known.assign({name: (known[name].dims, mapped, known[name].attrs)})
            return lazy.load()
    except Exception as error:  # HDF5, h5netcdf and xarray each raise types of their own
        raise ValueError(
            f"{os.fspath(path)!r} cannot be read as a saved posterior, though its checksum is right: "
            f"{type(error).__name__}: {error}. Read it with the versions of xarray and h5netcdf that wrote it, or newer."
        ) from error


def _check_whole(file, path):
    """ValueError where an open file does not hold the bytes that were written."""
    name, length = repr(os.fspath(path)), file.seek(0, os.SEEK_END) - _TRAILER_LENGTH
    file.seek(max(length, 0))
    trailer = file.read(_TRAILER_LENGTH)
    remedy = "Restore it from a copy, or fit and save again."
    if length < 0 or trailer[: len(_MARK)] != _MARK:
        raise ValueError(
            f"{name} cannot be read as a saved posterior: there is no checksum at its end, so that it is damaged (cut off, "
            f"or something was appended) or was written by another program or an older version. {remedy} What another "
            "program wrote is taken in by write_tree(xarray.open_datatree(path, engine='h5netcdf').load(), new_path)."
        )
    if trailer != _trailer(_checksum(file, length)):
        raise ValueError(f"{name} cannot be read as a saved posterior: it is damaged, its checksum is wrong. {remedy}")


def read_run(path, estimator_class, needed=()):
    """The tree, with the groups `needed`, and the settings that an estimator of this class saved to `path`.

    Raises
    ------
    FileNotFoundError: no such file. ValueError: a damaged file, one that holds something else, or a run of another version.
    """
    tree = read_tree(path)
    settings = restored(json.loads(tree.attrs.get("settings", "{}")))
    if settings.get("estimator") == estimator_class.__name__ and settings.get("format") != FORMAT:
        raise ValueError(
            f"{os.fspath(path)!r} holds a run in format {settings.get('format', 1)}, of another version of bayesfair; this one "
            f"goes on with format {FORMAT}. Read its posterior with bayesfair.posterior.read_tree, or fit and save again."
        )
    if settings.get("estimator") != estimator_class.__name__ or not set(needed) <= set(tree.children):
        raise ValueError(
            f"{os.fspath(path)!r} holds a posterior but not a run of {estimator_class.__name__}. "
            "Read it with bayesfair.posterior.read_tree, or fit and save again."
        )
    remedy = "Load the file that `save` wrote. Summaries of this one: bayesfair.posterior.read_tree(path)."
    check_whole(tree, repr(os.fspath(path)), remedy)
    return tree, settings

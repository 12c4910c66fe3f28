"""Files: written whole or not at all, with a checksum that is verified before any library parses them."""

import hashlib
import io
import mmap
import os
from os import PathLike
from pathlib import Path

from bayesfair._check import Refusal, message, tell
from bayesfair._files import at_home, check_destination, is_store, write_whole
from bayesfair._names import DataTree
from bayesfair.posterior.schema import check_whole, variable
from bayesfair.posterior.settings import FORMAT, with_plain_attributes
from bayesfair.posterior.store import ENDING, open_store, write_store

_MARK = b"\nbayesfair sha256 "
_TRAILER_LENGTH = len(_MARK) + 2 * hashlib.sha256().digest_size + 1


def write_tree(tree: "DataTree", path: str | PathLike[str]) -> None:
    """Write a posterior to a netCDF file with a checksum, or to a new zarr folder.

    Parameters
    ----------
    tree : xarray.DataTree
        What to write, with all its groups.
    path : str or os.PathLike
        A netCDF file, or a new folder that ends in .zarr.

    Raises
    ------
    FileExistsError
        If a .zarr folder is there already.
    ValueError
        If the path cannot be written.
    OSError
        If the folder cannot be written, or the disk is full. Nothing is lost then.

    Notes
    -----
    A netCDF file is whole or not there, and an earlier one stays until then. Its compressed bytes, and draws on disk, are in
    memory first; a zarr folder takes draws block by block. Attributes for which netCDF has no type (None, True, dictionaries,
    times) become JSON text. Those whose name it cannot hold are left out, with a warning.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.posterior.write_tree(est.posterior_, "run.nc")  # doctest: +SKIP
    """
    tree, changed = with_plain_attributes(tree)
    path = at_home(path) if os.fspath(path) else path  # an empty name is refused by name
    if Path(path).suffix == ENDING:
        write_store(path, tree)
    else:
        _write(tree, check_destination(path))
    if changed:
        remedy = "Make them numbers or text to keep them unchanged."
        tell(f"All draws are written, but files cannot hold some attributes: {changed}. {remedy}")


def _write(tree, path):
    file = io.BytesIO()
    nodes = {node.path: node.to_dataset(inherit=False).drop_encoding() for node in tree.subtree}
    encoding = {}
    for place, node in nodes.items():
        integers = [name for name, values in node.data_vars.items() if values.ndim and values.dtype.kind in "iu"]
        encoding[place] = {name: {"zlib": True, "complevel": 4} for name in integers}  # where it pays
    type(tree).from_dict(nodes).to_netcdf(file, engine="h5netcdf", encoding=encoding)
    with file.getbuffer() as view:
        write_whole([view, _trailer(hashlib.sha256(view))], path)


def _trailer(checksum):
    """The bytes after the netCDF content, which readers ignore: a mark, and the SHA-256 of all before it."""
    return _MARK + checksum.hexdigest().encode() + b"\n"


def read_tree(path: str | PathLike[str]) -> "DataTree":
    """Read the posterior that `write_tree`, `save` or a run with `store=` wrote.

    Checksums are checked first. A netCDF file is read into memory. The labels of a stored run stay on disk, where summaries
    read them block by block.

    Parameters
    ----------
    path : str or os.PathLike
        A file, or the folder of a stored run.

    Returns
    -------
    xarray.DataTree
        Of a run that is not finished, the draws so far. Its attribute `unfinished` says so.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is damaged or holds something else.

    Examples
    --------
    >>> import bayesfair as bf
    >>> tree = bf.posterior.read_tree("run.nc")  # doctest: +SKIP
    """
    path = os.path.expanduser(path)
    if is_store(path):
        tree = open_store(path)
    else:
        with _opened(path) as file:
            tree = _read_netcdf(file, path)
    labels = variable(tree, "posterior", "labels")
    if labels is None or labels.dims != ("chain", "draw", "obs"):
        raise ValueError(
            Refusal(
                f"{os.fspath(path)!r} holds data but not a saved posterior of bayesfair: it has no `labels` "
                "(chain, draw, obs) in a group 'posterior'. Pass a file made by save or write_tree."
            )
        )
    return tree


def _opened(path):
    """The file `path`, open for reading; raises an OSError with a remedy if it cannot be read."""
    name = repr(os.fspath(path))
    try:
        return open(path, "rb")
    except FileNotFoundError as error:
        raise FileNotFoundError(
            Refusal(f"There is no file {name}. Check the name, or fit and save a model first.")
        ) from error
    except OSError as error:
        remedy = "Pass a file made by save or write_tree."
        raise type(error)(
            message("path", "be a file that can be read", f"{name} ({error.strerror})", remedy)
        ) from error


def _read_netcdf(file, path):
    """The tree in an open file."""
    import xarray as xr

    _check_whole(file, path)
    try:
        with xr.open_datatree(file, engine="h5netcdf") as lazy:
            return lazy.load()
    except Exception as error:  # HDF5, h5netcdf and xarray each raise types of their own
        raise ValueError(
            Refusal(
                f"{os.fspath(path)!r} cannot be read as a saved posterior, though its checksum is right: "
                f"{type(error).__name__}: {error}. Read it with the versions of xarray and h5netcdf that wrote it, or newer."
            )
        ) from error


def _check_whole(file, path):
    """Raise a ValueError if an open file does not hold the bytes that were written."""
    name, length = repr(os.fspath(path)), file.seek(0, os.SEEK_END) - _TRAILER_LENGTH
    remedy = "Restore it from a copy, or fit and save again."
    file.seek(max(length, 0))
    trailer = file.read(_TRAILER_LENGTH)
    if length <= 0 or trailer[: len(_MARK)] != _MARK:
        raise ValueError(
            Refusal(
                f"{name} cannot be read as a saved posterior: it has no checksum at its end. It is damaged (cut off, "
                f"or something was appended), or was written by another program or an older version. {remedy} To import "
                "another program's file, use write_tree(xarray.open_datatree(path, engine='h5netcdf').load(), new_path). A run "
                "that an older version stored and did not finish can be finished by that version, with load(path).resume()."
            )
        )
    with mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ) as written:
        checksum = hashlib.sha256(written)
    if trailer != _trailer(checksum):
        raise ValueError(
            Refusal(f"{name} cannot be read as a saved posterior: it is damaged, its checksum is wrong. {remedy}")
        )


def read_run(path, estimator_class, needed=()):
    """The tree, with the groups `needed`, that an estimator of this class saved to `path`; or a ValueError."""
    tree = read_tree(path)
    is_older = "settings" in tree.attrs and estimator_class.__name__ in str(tree.attrs["settings"])
    if is_older or (tree.attrs.get("estimator") == estimator_class.__name__ and tree.attrs.get("format") != FORMAT):
        raise ValueError(
            Refusal(
                f"{os.fspath(path)!r} holds a run of another version of bayesfair; this one reads format {FORMAT}. Read its "
                "posterior with bayesfair.posterior.read_tree, or fit and save again."
            )
        )
    if tree.attrs.get("estimator") != estimator_class.__name__ or not set(needed) <= set(tree.children):
        raise ValueError(
            Refusal(
                f"{os.fspath(path)!r} holds a posterior but not a run of {estimator_class.__name__}. "
                "Read it with bayesfair.posterior.read_tree, or fit and save again."
            )
        )
    remedy = "Load the file that `save` wrote. To summarise this one, use bayesfair.posterior.read_tree(path)."
    check_whole(tree, repr(os.fspath(path)), remedy)
    return tree

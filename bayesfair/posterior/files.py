"""Files: whole or not at all when written, and with a checksum that is checked before any library parses them."""

import glob
import hashlib
import io
import os
import secrets
import shutil
import stat
import warnings
from pathlib import Path

import bayesfair
from bayesfair._check import message
from bayesfair.posterior.access import variable
from bayesfair.posterior.modes import check_modes

__all__ = ["check_destination", "read_tree", "write_tree", "write_whole"]

_MARK = b"\nbayesfair sha256 "
_TRAILER_LENGTH = len(_MARK) + 2 * hashlib.sha256().digest_size + 1
_NAME_SHOWN = 32  # letters of a file's name in that of its temporary file: names of files are limited in length


def check_destination(path):
    """`path` as a pathlib.Path at which a file can be written, as far as can be told without writing.

    Raises
    ------
    ValueError: an empty name. OSError: a folder that is not there or that may not be written to, a `path` that is a
    folder or a device.
    """
    if not os.fspath(path):
        raise ValueError(message("path", "name a file", "''", "Pass a name such as 'run.nc'."))
    path = Path(path)
    if not os.path.isdir(path.parent):
        raise FileNotFoundError(f"There is no folder {os.fspath(path.parent)!r}. Make it first, or choose another.")
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    except (OSError, ValueError) as error:  # a name that is too long, or no name at all
        raise _unwritable(path, error) from error
    if stat.S_ISDIR(mode):
        remedy = f"Name a file in it, such as {os.fspath(path / 'run.nc')!r}."
        raise IsADirectoryError(message("path", "name a file", f"the folder {os.fspath(path)!r}", remedy))
    if not stat.S_ISREG(mode):
        raise OSError(message("path", "name an ordinary file", repr(os.fspath(path)), "Choose another name."))
    if not os.access(path.parent, os.W_OK | os.X_OK):
        rule = "be in a folder that you may write to"
        raise PermissionError(message("path", rule, repr(os.fspath(path)), "Choose another folder."))
    return path


def write_whole(parts, path):
    """Write the buffers `parts` to `path`, one after the other, whole or not at all.

    The earlier file stays until the new one is complete and on disk. What a write that was killed left behind is named
    in a warning.

    Raises
    ------
    ValueError, OSError: as `check_destination`, and OSError where the disk is full or fails.
    """
    path = check_destination(path)
    temporary = path.with_name(f"{_temporary_prefix(path)}{secrets.token_hex(4)}.part")
    try:
        _write_through(parts, temporary)
        if path.exists():
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)
    _warn_of_leftovers(path)


def _temporary_prefix(path):
    return f".{path.name[:_NAME_SHOWN]}."


def _write_through(parts, path):
    with open(path, "xb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


def _unwritable(path, error):
    """An error of the type of `error`, where it is an OSError, with the user's path instead of a temporary name."""
    kind = type(error) if isinstance(error, OSError) else ValueError
    reason = getattr(error, "strerror", None) or str(error)
    remedy = "An earlier file there is as it was, and nothing in memory is lost: make room or choose another place."
    return kind(message("path", "be a file that can be written", f"{os.fspath(path)!r} ({reason})", remedy))


def _warn_of_leftovers(path):
    leftovers = sorted(path.parent.glob(f"{glob.escape(_temporary_prefix(path))}*.part"))
    if leftovers:
        warnings.warn(
            f"Beside {os.fspath(path)!r} lie parts of files whose writing was cut off: {', '.join(map(str, leftovers))}. "
            "Delete them, unless another process is saving there now.",
            stacklevel=2,
            skip_file_prefixes=tuple(bayesfair.__path__),
        )


def write_tree(tree, path):
    """Write `tree` to the netCDF file `path`, all groups, compressed and with a checksum, whole or not at all.

    The earlier file stays until the new one is complete. The bytes are made in memory first, so that a full disk is an
    error like any other; that takes as much memory again as the file is large. The name of the tree is not stored.

    Raises
    ------
    ValueError, OSError: a `path` that cannot be written, see `check_destination`; a full disk. Nothing is lost.
    """
    path = check_destination(path)
    file = io.BytesIO()
    tree.to_netcdf(file, engine="h5netcdf", encoding=_encoding(tree))
    with file.getbuffer() as body:
        write_whole([body, _trailer(body)], path)


def _trailer(body):
    """What follows the netCDF bytes `body`, which their readers ignore: a mark, and the SHA-256 of all before it."""
    return _MARK + hashlib.sha256(body).hexdigest().encode() + b"\n"


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


def read_tree(path):
    """The tree that `write_tree` wrote to `path`, in memory.

    The checksum of the whole file is checked before anything in it is read; that takes as much memory again as the file
    is large.

    Raises
    ------
    FileNotFoundError: no such file. ValueError: a file that is damaged, or that holds something else.
    """
    import xarray as xr

    whole = _checked_bytes(path)
    try:
        with xr.open_datatree(io.BytesIO(whole), engine="h5netcdf") as file:
            tree = file.load()
    except Exception as error:  # HDF5, h5netcdf and xarray each raise types of their own
        raise ValueError(
            f"{os.fspath(path)!r} cannot be read as a saved posterior, though its checksum is right: "
            f"{type(error).__name__}: {error}. Read it with the versions of xarray and h5netcdf that wrote it, or newer."
        ) from error
    labels = variable(tree, "posterior", "labels")
    if labels is None or labels.dims != ("chain", "draw", "obs"):
        raise ValueError(
            f"{os.fspath(path)!r} is a netCDF file but not a saved posterior of bayesfair: it has no `labels` "
            "(chain, draw, obs) in a group 'posterior'. Pass a file that save or write_tree made."
        )
    if "modes" in tree.children:
        check_modes(tree["modes"].to_dataset(), labels.sizes["obs"])
    return tree


def _checked_bytes(path):
    """The bytes of the file, once they are known to be those that were written."""
    name = repr(os.fspath(path))
    try:
        whole = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise FileNotFoundError(f"There is no file {name}. Check the name, or fit and save a model first.") from error
    except OSError as error:
        remedy = "Pass a file that save or write_tree made."
        raise type(error)(
            message("path", "be a file that can be read", f"{name} ({error.strerror})", remedy)
        ) from error
    view = memoryview(whole)
    body, trailer = view[:-_TRAILER_LENGTH], view[-_TRAILER_LENGTH:]
    remedy = "Restore it from a copy, or fit and save again."
    if trailer[: len(_MARK)] != _MARK:
        raise ValueError(
            f"{name} cannot be read as a saved posterior: there is no checksum at its end, so that it is damaged (cut off, "
            f"or something was appended) or was written by another program or an older version. {remedy} What another "
            "program wrote is taken in by write_tree(xarray.open_datatree(path, engine='h5netcdf').load(), new_path)."
        )
    if trailer != _trailer(body):
        raise ValueError(f"{name} cannot be read as a saved posterior: it is damaged, its checksum is wrong. {remedy}")
    return whole

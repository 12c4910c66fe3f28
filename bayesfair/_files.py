"""Files that are whole or absent: written beside their place, and moved there when they are complete and on disk."""

import glob
import os
import secrets
import shutil
import stat
from pathlib import Path

from bayesfair._check import Refusal, message, tell

COLUMNAR = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather"}  # endings of tables
ROOT_OF_STORE = "zarr.json"  # a file of the folder that every commit replaces
_NAME_SHOWN = 32  # letters of a file's name in its temporary file's name, whose length is limited


def at_home(path):
    """`path` as a pathlib.Path, with a leading ~ as the user's own folder."""
    return Path(os.path.expanduser(path))


def is_store(path):
    """Is there a stored run at `path`?"""
    return os.path.isfile(os.path.join(path, ROOT_OF_STORE))


def check_destination(path, argument="path"):
    """`path` as a pathlib.Path, behind symbolic links; a ValueError or OSError unless a file can be written there.

    As far as can be told before.
    """
    if not os.fspath(path):
        raise ValueError(message(argument, "name a file", "''", "Pass a name such as 'run.nc'."))
    path = at_home(path)
    path = Path(os.path.realpath(path)) if os.path.islink(path) else path
    if not os.path.isdir(path.parent):
        raise FileNotFoundError(
            Refusal(f"There is no folder {os.fspath(path.parent)!r}. Make it first, or choose another.")
        )
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    except (OSError, ValueError) as error:  # a name that is too long or invalid
        raise unwritable(path, error) from error
    if stat.S_ISDIR(mode) and not is_store(path):  # a stored run is replaced or refused like a file
        got = f"the folder {os.fspath(path)!r}"
        raise IsADirectoryError(message(argument, "name a file", got, "Name a file in it."))
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(message(argument, "name an ordinary file", repr(os.fspath(path)), "Choose another name."))
    if not os.access(path.parent, os.W_OK | os.X_OK):
        rule = "be in a folder that you may write to"
        raise PermissionError(message(argument, rule, repr(os.fspath(path)), "Choose another folder."))
    return path


def write_whole(parts, path):
    """Write the buffers `parts` to `path`, one after the other, whole or not at all; errors as of `check_destination`.

    The earlier file stays until the new one is complete and on disk. Parts of killed writes are named in a warning.
    """
    path = check_destination(path)
    temporary = beside(path)
    try:
        with open(temporary, "xb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)
    warn_of_leftovers(path)


def beside(path):
    """An unused name in the folder of `path` for a file that will become `path`."""
    return path.with_name(f"{_temporary_prefix(path)}{secrets.token_hex(4)}.part")


def _temporary_prefix(path):
    return f".{path.name[:_NAME_SHOWN]}."


def unwritable(path, error):
    """An error of the type of `error`, if it is an OSError, with the user's path instead of a temporary name."""
    kind = type(error) if isinstance(error, OSError) else ValueError
    reason = getattr(error, "strerror", None) or str(error)
    remedy = "An earlier file there is unchanged, and nothing in memory is lost. Make room or choose another place."
    return kind(message("path", "be a file that can be written", f"{os.fspath(path)!r} ({reason})", remedy))


def warn_of_leftovers(path):
    """Warn of files left by killed writes to `path`."""
    path = Path(path)
    leftovers = sorted(path.parent.glob(f"{glob.escape(_temporary_prefix(path))}*.part"))
    if leftovers:
        files = ", ".join(map(str, leftovers))
        what = f"Beside {os.fspath(path)!r} are parts of files whose writing was cut off: {files}"
        tell(f"{what}. Delete them, unless another process is saving there now.")

"""A zarr folder that is whole at every moment: its root is replaced at once, and every part has its checksum."""

import json
import os
import shutil

import numpy as np

from bayesfair._check import Refusal, message
from bayesfair._files import ROOT_OF_STORE

CHECKSUM = "crc32c"  # an attribute of the root


def read_root(path):
    """({name: metadata}, attributes) of the last commit."""
    try:
        whole = json.loads((path / ROOT_OF_STORE).read_bytes())
        checksum, nodes = whole["attributes"][CHECKSUM], whole["consolidated_metadata"]["metadata"]
    except (ValueError, KeyError, TypeError) as error:
        other = "or was written by another program, whose trees write_tree imports"
        raise _damaged(path, f"{ROOT_OF_STORE!r} has no checksum, {other}") from error
    if checksum != _checksum(whole):
        raise _damaged(path, f"the checksum of {ROOT_OF_STORE!r} is wrong")
    return nodes, whole["attributes"]


def write_root(path, nodes, attributes):
    """Make a commit."""
    consolidated = {"kind": "inline", "must_understand": False, "metadata": nodes}
    whole = {"zarr_format": 3, "node_type": "group", "attributes": attributes, "consolidated_metadata": consolidated}
    whole["attributes"] = {**attributes, CHECKSUM: _checksum(whole)}
    replace_json(path / ROOT_OF_STORE, whole)


def _checksum(whole):
    """Checksum of the root's metadata without the checksum itself."""
    attributes = {name: value for name, value in whole["attributes"].items() if name != CHECKSUM}
    return _crc(json.dumps({**whole, "attributes": attributes}, sort_keys=True).encode())


def _crc(whole):
    import google_crc32c

    return google_crc32c.value(whole)


def metadata_of(path, name):
    return json.loads((path / name / ROOT_OF_STORE).read_bytes())


def replace_json(path, content):
    """Replace a file, or make it: whole or not at all."""
    temporary = path.with_name(f"{path.name}.partial")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def check_chunks(path, nodes):
    """Raise a ValueError if a chunk differs from what was written."""
    for name, node in nodes.items():
        for file in _chunk_files(path, name, node):
            try:
                whole = file.read_bytes()
            except FileNotFoundError as error:
                raise _damaged(path, f"{str(file.relative_to(path))!r} is missing") from error
            if _crc(whole[:-4]).to_bytes(4, "little") != whole[-4:]:
                raise _damaged(path, f"the checksum of {str(file.relative_to(path))!r} is wrong")


def _chunk_files(path, name, node):
    """The files of an array's chunks."""
    if node["node_type"] != "array":
        return
    between, sizes = node["chunk_key_encoding"]["configuration"]["separator"], node["chunk_grid"]["configuration"]
    counts = [-(-length // size) for length, size in zip(node["shape"], sizes["chunk_shape"])]
    for index in np.ndindex(*counts):
        yield path / name / between.join(["c", *map(str, index)])


def with_other_names(node):
    """Metadata of an array whose chunks are named c.0.0.0 instead of c/0/0/0, or the reverse."""
    names = node["chunk_key_encoding"]
    other = {"separator": "/" if names["configuration"]["separator"] == "." else "."}
    return {**node, "chunk_key_encoding": {**names, "configuration": other}}


def delete_chunks(path, node):
    """Delete the chunks of the array in a folder that have names by this metadata."""
    if node["chunk_key_encoding"]["configuration"]["separator"] == "/":
        shutil.rmtree(path / "c", ignore_errors=True)
    else:
        for chunk in path.glob("c.*"):
            chunk.unlink()


def whole_chunks():
    """zarr's settings within the block: empty chunks are written too, so that a missing one is an error."""
    import zarr

    return zarr.config.set({"array.write_empty_chunks": True, "array.read_missing_chunks": False})


def lock_folder(path):
    """A descriptor of the folder that locks out other writers while it is open, if the system has locks."""
    lock = os.open(path, os.O_RDONLY)
    try:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        remedy = "Wait for it; meanwhile read_tree(path) reads the draws so far."
        got = f"{os.fspath(path)!r}, which another process is writing to"
        raise BlockingIOError(message("path", "be a run that no process is working on", got, remedy)) from error
    except (ImportError, OSError):  # a system, or a file system, without locks
        pass
    return lock


def _damaged(path, why):
    remedy = "Restore it from a copy, or fit again."
    return ValueError(
        Refusal(f"{os.fspath(path)!r} cannot be read as a saved posterior: it is damaged, {why}. {remedy}")
    )

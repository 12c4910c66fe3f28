"""A run on disk while it goes on: what it is of, its draws one after the other, and the state that it goes on from.

A journal is appended to, and nothing in it moves: a process that is killed leaves its whole draws, after them perhaps a part
of one, and at least one whole state. (HDF5 promises nothing of a file whose metadata were about to change.) In this order:

* a line that says what it is, the length of the head, the head (JSON) and its SHA-256;
* arrays that do not change, such as the table, their SHA-256 in the head;
* two places for the state, written in turn: number, draws so far and wanted, sweep, arrays, SHA-256. A state counts the
  draws that were on disk before it; what comes after them is not read;
* the draws: labels and scalars (float64) of all chains, SHA-256.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayesfair._check import message
from bayesfair._draws import Draws, Statistic
from bayesfair._files import check_destination, replacing, unwritable

__all__ = ["BEGINNING", "Journal", "Stored", "go_on", "read_journal", "start_journal", "write_at"]

BEGINNING = b"bayesfair run that is not finished, format 1\n"
_BLOCK_BYTES = 32_000_000
_ALIGNED = 64
_DIGEST = hashlib.sha256().digest_size
_TRIES = 5  # to read a state, while another process writes


class Stored(NamedTuple):
    """What a journal holds: `about` and `arrays` as they were given, the whole draws, labels mapped from the file, of how
    many that are `wanted` in each chain, and the last state: the sweep after which it stands and arrays by name."""

    about: dict
    arrays: dict[str, np.ndarray]
    draws: Draws
    wanted: int
    sweep: int
    state: dict[str, np.ndarray]


class _Layout(NamedTuple):
    """Where what is: {name: (dtype, shape, SHA-256, offset)} of the arrays, types and places of states and draws."""

    about: dict
    scalars: dict[str, tuple[np.dtype, Statistic]]
    arrays: dict[str, tuple]
    slot: np.dtype
    first_slot: int
    record: np.dtype
    first_record: int

    @property
    def slots(self):
        return [self.first_slot + which * _aligned(self.slot.itemsize) for which in (0, 1)]


def start_journal(path, about, arrays, draws: Draws, wanted, sweep, state, *, is_new=False) -> "Journal":
    """A journal at `path` that holds these draws, open to be gone on with; there is none before it holds them.

    `about`: JSON. `arrays`, `state`: by name. `draws`: the first, or all so far, in memory or on disk, of those that are
    `wanted` in each chain.

    Raises
    ------
    OSError: a file that cannot be written. FileExistsError: an `is_new` one whose path is taken by then.
    """
    head = _head(about, arrays, draws, state)
    with replacing(path, is_new=is_new) as temporary, open(temporary, "xb", buffering=0) as file:
        layout = _layout(head, len(_framed(head)))
        write_at(file, _framed(head), 0)
        for name, array in arrays.items():
            write_at(file, _bytes(array), layout.arrays[name][-1])
        Journal(path, file, layout, wanted).append(draws, sweep, state)
        os.fsync(file.fileno())
    return go_on(path)


def go_on(path) -> "Journal":
    """The journal at `path`, open to be appended to by this process alone, after its last state.

    Raises
    ------
    ValueError: a damaged file. OSError: one that cannot be written, or that another process is writing to.
    """
    path = check_destination(path)
    try:
        file = open(path, "r+b", buffering=0)  # noqa: SIM115
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        _lock(file, path)
        layout = _read_layout(file, path)
        slot = _last_slot(file, layout, path)
        end = layout.first_record + int(slot["draws"]) * layout.record.itemsize
        if file.seek(0, os.SEEK_END) > end:
            file.truncate(end)
    except BaseException:
        file.close()
        raise
    return Journal(path, file, layout, *(int(slot[name]) for name in ("wanted", "number", "draws")))


class Journal:
    """A journal that this process writes to. `draws`: how many it holds, `wanted`: how many it shall, in each chain."""

    def __init__(self, path, file, layout, wanted, number=0, draws=0):
        self._path, self._file, self._layout, self._number = path, file, layout, number
        self.wanted, self.draws = wanted, draws

    def append(self, draws: Draws, sweep, state):
        """Further draws, and the state after them: all of it or, should this be cut off, nothing."""
        try:
            self._append(draws, sweep, state)
        except OSError as error:
            remedy = "Make room; the run goes on from there with load(path).resume()."
            got = f"{os.fspath(self._path)!r} ({error.strerror}); it holds {self.draws} draws a chain"
            raise type(error)(message("store", "be a file that can be written", got, remedy)) from error

    def _append(self, draws, sweep, state):
        layout, file = self._layout, self._file
        at, total = layout.first_record + self.draws * layout.record.itemsize, draws.labels.shape[1]
        step = max(1, _BLOCK_BYTES // layout.record.itemsize)
        for first in range(0, total, step):
            block = _records(draws, slice(first, min(first + step, total)), layout.record)
            write_at(file, block, at)
            at += block.nbytes
        os.fsync(file.fileno())  # no state may be there before the draws that it counts
        slot = np.zeros((), layout.slot)
        slot["number"], slot["draws"] = self._number + 1, self.draws + total
        slot["wanted"], slot["sweep"] = self.wanted, sweep
        for name in slot["state"].dtype.names:
            slot["state"][name] = state[name]
        slot["digest"] = np.void(_digest(_bytes(slot)[:-_DIGEST]))
        write_at(file, _bytes(slot), layout.slots[(self._number + 1) % 2])
        self._number, self.draws = self._number + 1, self.draws + total

    def check_place(self):
        """FileNotFoundError where the file is not at its path any more: moved or deleted, or another is in its place."""
        try:
            is_there = os.path.samestat(os.fstat(self._file.fileno()), os.stat(self._path))
        except FileNotFoundError:
            is_there = False
        if not is_there:
            rule = "stay where it is until the run is finished"
            got = f"{os.fspath(self._path)!r}, where it is not any more"
            remedy = "If it was moved, load it from there and resume; if it was deleted or written over, fit again."
            raise FileNotFoundError(message("store", rule, got, remedy))

    def close(self):
        self._file.close()


def read_journal(path) -> Stored:
    """What the journal at `path` holds by now, whether or not a process is writing to it; its draws stay on disk.

    One pass checks every array and every draw.

    Raises
    ------
    ValueError: a damaged file.
    """
    with open(path, "rb", buffering=0) as file:
        layout = _read_layout(file, path)
        slot = _last_slot(file, layout, path)
        end = layout.first_record + int(slot["draws"]) * layout.record.itemsize
        if file.seek(0, os.SEEK_END) < end:
            raise _damaged(path, "it is cut off")
        arrays = {
            name: np.asarray(np.memmap(file, kind, "r", offset, shape)) if np.prod(shape) else np.empty(shape, kind)
            for name, (kind, shape, _, offset) in layout.arrays.items()
        }
        records = np.memmap(file, layout.record, "r", layout.first_record, (int(slot["draws"]),))
    for name, array in arrays.items():
        if _digest(_bytes(array)).hex() != layout.arrays[name][2]:
            raise _damaged(path, f"the checksum of {name!r} is wrong")
    for draw, record in enumerate(records.view(np.uint8).reshape(len(records), -1)):
        if _digest(record[:-_DIGEST]) != record[-_DIGEST:].tobytes():
            raise _damaged(path, f"the checksum of draw {draw} is wrong")
    scalars = {name: _narrow(records["scalars"][name].T, kind) for name, (kind, _) in layout.scalars.items()}
    statistics = {name: statistic for name, (_, statistic) in layout.scalars.items()}
    draws = Draws(np.asarray(records["labels"]).transpose(1, 0, 2), scalars, statistics)
    state = {name: np.array(slot["state"][name]) for name in slot["state"].dtype.names}
    return Stored(layout.about, arrays, draws, int(slot["wanted"]), int(slot["sweep"]), state)


def _narrow(values, kind):
    """`values` in the type in which they were made, or as they are where it cannot hold them in the units of the table."""
    narrow = values.astype(kind)
    return narrow if np.array_equal(narrow, values, equal_nan=True) else values.copy()


def write_at(file, buffer, offset):
    """All bytes of `buffer` into an open file without a buffer, from `offset` on."""
    view = memoryview(buffer).cast("B")
    file.seek(offset)
    while view:
        view = view[file.write(view) :]


def _head(about, arrays, draws, state):
    """The head as JSON holds it."""
    labels = draws.labels
    return {
        "about": about,
        "arrays": {
            name: [array.dtype.str, array.shape, _digest(_bytes(array)).hex()] for name, array in arrays.items()
        },
        "state": [[name, part.dtype.str, part.shape] for name, part in state.items()],
        "labels": [labels.dtype.str, [labels.shape[0], labels.shape[2]]],
        "scalars": {name: [values.dtype.str, *draws.statistics[name]] for name, values in draws.scalars.items()},
    }


def _framed(head):
    text = json.dumps(head).encode()
    return BEGINNING + len(text).to_bytes(8, "little") + text + _digest(text)


def _layout(head, end) -> _Layout:
    """The layout that a head describes, whose frame ends at `end`."""
    arrays, at = {}, _aligned(end)
    for name, (kind, shape, digest) in head["arrays"].items():
        arrays[name] = np.dtype(kind), tuple(shape), digest, at
        at = _aligned(at + np.dtype(kind).itemsize * int(np.prod(shape)))
    counts = [(name, "<u8") for name in ("number", "draws", "wanted", "sweep")]
    parts = [(name, kind, tuple(shape)) for name, kind, shape in head["state"]]
    slot = np.dtype([*counts, ("state", parts), ("digest", f"V{_DIGEST}")])
    kind, shape = head["labels"]
    scalars = [(name, "<f8", shape[:1]) for name in head["scalars"]]
    record = np.dtype([("labels", kind, tuple(shape)), ("scalars", scalars), ("digest", f"V{_DIGEST}")])
    made = {name: (np.dtype(made), Statistic(*declared)) for name, (made, *declared) in head["scalars"].items()}
    return _Layout(head["about"], made, arrays, slot, at, record, _aligned(at + 2 * _aligned(slot.itemsize)))


def _read_layout(file, path) -> _Layout:
    """The layout of an open journal."""
    file.seek(0)
    beginning = file.read(len(BEGINNING))
    if beginning != BEGINNING:
        raise _damaged(path, "it does not begin as a run that is not finished")
    length = int.from_bytes(file.read(8), "little")
    text = file.read(min(length, 2**30))
    if _digest(text) != file.read(_DIGEST):
        raise _damaged(path, "the checksum of its head is wrong")
    return _layout(json.loads(text), file.tell())


def _last_slot(file, layout, path):
    """The last whole state; a writer may be at one of the two."""
    for _ in range(_TRIES):
        whole = [slot for slot in _slots(file, layout) if slot is not None]
        if whole:
            return max(whole, key=lambda slot: int(slot["number"]))
    raise _damaged(path, "neither of its states is whole")


def _slots(file, layout):
    """Both places for the state, None where it is not whole."""
    return [_slot(file, layout, offset) for offset in layout.slots]


def _slot(file, layout, offset):
    """The state at `offset`; None where it is not whole."""
    file.seek(offset)
    whole = file.read(layout.slot.itemsize)
    if len(whole) < layout.slot.itemsize or _digest(whole[:-_DIGEST]) != whole[-_DIGEST:]:
        return None
    return np.frombuffer(whole, layout.slot)[0]


def _records(draws, which, kind):
    """Some of the draws as they are on disk."""
    records = np.zeros(which.stop - which.start, kind)
    records["labels"] = draws.labels[:, which].transpose(1, 0, 2)
    for name, values in draws.scalars.items():
        records["scalars"][name] = values[:, which].T
    as_bytes = records.view(np.uint8).reshape(len(records), -1)
    for row in as_bytes:
        row[-_DIGEST:] = np.frombuffer(_digest(row[:-_DIGEST]), np.uint8)
    return as_bytes


def _bytes(array):
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _digest(buffer):
    return hashlib.sha256(buffer).digest()


def _aligned(offset):
    return -(-offset // _ALIGNED) * _ALIGNED


def _lock(file, path):
    """Nobody else may write to the file from now on, where the system has locks."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        remedy = "Wait for it; read_tree(path) reads what is there meanwhile."
        got = f"{os.fspath(path)!r}, to which another process is writing"
        raise BlockingIOError(message("path", "be a run that no process is working on", got, remedy)) from error


def _damaged(path, why):
    remedy = "Restore it from a copy, or fit again."
    return ValueError(f"{os.fspath(Path(path))!r} cannot be read as a saved posterior: it is damaged, {why}. {remedy}")

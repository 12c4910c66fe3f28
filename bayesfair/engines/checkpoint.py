"""The file from which a fit goes on that was cut off: how far each of its stages was.

Given its seed a fit comes to the same stages again, calls of `minimize` or loops that tell `KeptStages` where they are, each of
which goes on from what is stored of it; one that had ended is over at once. What lies over processes is stored in the order of
all rows, so that any number goes on.
"""

import json
import os
import time
from contextlib import contextmanager
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pandas as pd

import bayesfair
from bayesfair._arrays import row_blocks
from bayesfair._check import message, tell
from bayesfair._files import check_destination, replacing, warn_of_leftovers
from bayesfair._stages import Stages
from bayesfair.distributed import agreed, leads
from bayesfair.engines.shares import StepInShares

__all__ = ["Checkpoint", "KeptMinimization", "KeptStages", "WithinAStage", "kept_at"]

FORMAT = 3
EVERY = 30.0  # seconds from one writing to the next
NOT_COMPARED = "mesh", "progress_bar"  # settings in which the fit that goes on may differ
ANEW = "Delete the file to begin anew, or name another."


@contextmanager
def kept_at(path, estimator, data):
    """A context in which the stages of `estimator` are kept in a file, which is removed at a good end, and go on from what was
    there; its value is the data with the seed of the fit that goes on. None: nothing is kept.

    Raises
    ------
    ValueError: an engine that keeps nothing, a file that is no checkpoint, or that of another fit. OSError: no place for one.
    """
    if path is None:
        yield data
        return
    if not estimator.resumable:
        rule, remedy = f"be None for {type(estimator).__name__}", "It goes on from nothing: leave it out."
        raise ValueError(message("checkpoint", rule, repr(os.fspath(path)), remedy))
    stored = _stored(path)
    identity = _identity(estimator, data)
    if stored is None:
        checkpoint = Checkpoint(path, identity, data.seed, data.share, {})
    else:
        _check_same_fit(path, stored[0], identity)
        checkpoint = Checkpoint(path, *stored[:2], data.share, stored[2])
        if leads():
            _tell_where(path, estimator, checkpoint.stages)
    estimator._checkpoint = checkpoint
    try:
        yield data._replace(seed=checkpoint.seed)
    finally:
        del estimator._checkpoint
    checkpoint.remove()


class Checkpoint:
    """Of a fit: its `identity`, its seed, what of all rows is here, and of each of its `stages`, by number, the leaves of where
    it was and how many rounds it had made. Process 0 writes, where several share rows; the others know what the file had."""

    def __init__(self, path, identity, seed, share, stages):
        self.path, self.identity, self.seed, self.share, self.stages = Path(path), identity, seed, share, stages
        self._at, self._stopped = -1, False
        self._began = self._written = time.monotonic()

    def begin(self):
        """The leaves of where the next stage was, None at its start."""
        self._at, self._began = self._at + 1, time.monotonic()
        return self.stages[self._at][:-1] if self._at in self.stages else None

    def look(self, leaves, made, *, ended, together):
        """Keeps where the stage is after `made` rounds, of which `leaves()` are asked, if it has ended, and writes the file, if
        it is time to; at the end of a long stage too. `together`: all processes are at this place."""
        due = time.monotonic() - (self._began if ended else self._written) > EVERY
        due = due or time.monotonic() - self._written > EVERY
        if together:
            due = agreed(due)
        if (ended or due) and not self._stopped:
            self._keep(leaves, made)
            if due:
                self._write()

    def stop(self, leaves, made):
        """Writes the file, for the last time: what comes after an interrupted stage is no part of the whole fit."""
        if not self._stopped:
            self._keep(leaves, made)
        self.leave()

    def leave(self):
        """As `stop`, of a stage that is kept as a whole alone."""
        if not self._stopped:
            self._write()
        self._stopped = True

    def remove(self):
        """At the end of a fit; the file of an interrupted one stays."""
        agreed(None)  # all of them have ended
        if leads() and not self._stopped:
            self.path.unlink(missing_ok=True)

    def _keep(self, leaves, made):
        leaves = leaves()  # which all processes have to ask for
        if leads():
            self.stages[self._at] = [*(np.array(leaf) for leaf in leaves), np.array(made)]

    def _write(self):
        if not leads():
            return
        about = json.dumps({"fit": self.identity, "seed": self.seed})
        arrays = {f"{at}.{i}": leaf for at, leaves in self.stages.items() for i, leaf in enumerate(leaves)}
        with replacing(self.path) as temporary, open(temporary, "xb") as file:
            np.savez(file, about=about, **arrays)
            file.flush()
            os.fsync(file.fileno())
        self._written = time.monotonic()


class KeptMinimization:
    """A call of `minimize` as a stage of a `Checkpoint`: what `step` has made of a `_Progress`, and the losses so far."""

    def __init__(self, checkpoint: Checkpoint, step):
        self._checkpoint, self._step, self._together = checkpoint, step, isinstance(step, StepInShares)

    def begin(self, start):
        """Where it goes on, or its `start`, which has the same form."""
        leaves = self._checkpoint.begin()
        if leaves is None:
            return start
        progress, trace = jax.tree.unflatten(jax.tree.structure(start), leaves)
        if self._together:
            dealt = self._step.dealt(progress.state, start[0].state, self._checkpoint.share)
            progress = progress._replace(state=dealt)
        return progress, trace

    def look(self, progress, trace, *, ended):
        leaves = partial(self._leaves, progress, trace)
        self._checkpoint.look(leaves, trace.shape[1], ended=ended, together=self._together)

    def stop(self, progress, trace):
        self._checkpoint.stop(partial(self._leaves, progress, trace), trace.shape[1])

    def _leaves(self, progress, trace):
        if self._together:
            progress = progress._replace(state=self._step.gathered(progress.state, self._checkpoint.share))
        return jax.tree.leaves((progress, trace))


class WithinAStage(NamedTuple):
    """A `Checkpoint` for calls of `minimize` that are parts of a stage: of where they are it keeps nothing."""

    checkpoint: Checkpoint

    def begin(self):
        return None

    def look(self, leaves, made, *, ended, together):
        pass

    def stop(self, leaves, made):
        self.checkpoint.leave()


class KeptStages(Stages):
    """Loops in NumPy as stages of a `Checkpoint`. Labels of rows come back as int, from the smallest type that holds them."""

    def __init__(self, checkpoint: Checkpoint):
        self._checkpoint = checkpoint

    def begin(self, kind):
        leaves = self._checkpoint.begin()
        if leaves is None:
            return None
        state, share = kind(*(leaf if leaf.ndim else leaf.item() for leaf in leaves)), self._checkpoint.share
        own = slice(share.first, share.first + share.sizes[share.place])
        return state._replace(**{name: getattr(state, name)[own].astype(int) for name in _of_rows(kind)})

    def reached(self, state, made, *, ended=False, alone=False):
        self._checkpoint.look(partial(self._leaves, state), made, ended=ended, together=not alone)

    def _leaves(self, state):
        labels = {name: self._checkpoint.share.of_all(_narrow(getattr(state, name))) for name in _of_rows(state)}
        return state._replace(**labels)


def _of_rows(kind):
    return getattr(kind, "of_rows", ())


def _narrow(labels):
    return labels.astype(np.min_scalar_type(labels.max(initial=0)))


def _stored(path):
    """(identity, seed, stages) of the file, as process 0 reads it; None where there is none."""
    try:
        stored = _read(path) if leads() else None
    except (OSError, ValueError) as error:
        stored = error  # which all of them raise
    stored = agreed(stored)
    if isinstance(stored, Exception):
        raise stored
    return stored


def _read(path):
    path = check_destination(path)
    warn_of_leftovers(path)
    if not path.exists():
        return None
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about, stages = json.loads(str(arrays.pop("about"))), {}
        for name, leaf in arrays.items():  # in the order in which they were written
            stages.setdefault(int(name.split(".")[0]), []).append(leaf)
        return about["fit"], about["seed"], stages
    except Exception as error:  # there is no telling how a damaged file is found to be one
        got = f"{os.fspath(path)!r}, which cannot be read ({error})"
        raise ValueError(message("checkpoint", "be one that `fit` has written", got, ANEW)) from error


def _check_same_fit(path, there, here):
    for name in here | there:
        was, now = there.get(name, "nothing"), here.get(name, "nothing")
        if was != now:
            got = f"{os.fspath(path)!r}, in whose fit {name} was {was}, where it is {now}"
            raise ValueError(message("checkpoint", "be one of the same fit", got, ANEW))


def _tell_where(path, estimator, stages):
    at = max(stages)
    where = f"iteration {stages[at][-1]} of its stage {at + 1}"
    tell(f"{type(estimator).__name__}: going on from {os.fspath(path)!r}, {where}.", RuntimeWarning)


def _identity(estimator, data) -> dict[str, str]:
    """What has to be the same where a fit goes on; of tables their rows in order, however they are cut into processes."""
    settings = {name: repr(value) for name, value in estimator.get_params().items() if name not in NOT_COMPARED}
    if not isinstance(estimator.random_state, Integral):
        settings["random_state"] = "drawn"  # the seed is in the file
    columns, share = data.columns, data.share
    tables = {"X": columns.continuous, "categories of X": columns.categorical}
    tables |= {"sensitive_features": data.groups.code[:, None], "sample_weight": data.weight[:, None]}
    return {
        "format": f"{FORMAT} of bayesfair {bayesfair.__version__}",
        "engine": type(estimator).__name__,
        **settings,
        "mesh": "None" if share.mesh is None else "given",  # some engines take another way then, in one process too
        "names of the groups": repr([*map(str, data.groups.names)]),
        **{name: _told(table, share) for name, table in tables.items()},
    }


def _told(table, share):
    """What can be told of a table (obs, columns) of which processes have parts."""
    checksum = 0
    for block in row_blocks(len(table)):
        rows = pd.DataFrame(table[block])
        rows.insert(0, "place", share.first + block.start + np.arange(len(rows)))
        checksum += int(pd.util.hash_pandas_object(rows, index=False, categorize=False).to_numpy().sum())
    checksum = sum(share.everybody(checksum)) % 2**64
    return f"{share.n_obs} rows of {table.shape[1]} columns, {table.dtype}, checksum {checksum:016x}"

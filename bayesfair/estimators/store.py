"""The file that a run's draws go to as they are made."""

import os
from functools import partial
from pathlib import Path

from bayesfair._check import message
from bayesfair._journal import go_on
from bayesfair.posterior import begin_run, is_unfinished

__all__ = ["Store", "Unwritten"]


class Store:
    """The file of a run, which is begun with its first draws, gone on with after those that it has, and finished.

    `seen` whenever it holds what an estimator has: what was done to it since, by others or by a resume that failed on its way,
    is told, and not written over.
    """

    def __init__(self, path):
        self.path, self._stamp = Path(path).absolute(), None

    def seen(self):
        self._stamp = _stamp(self.path)
        return self

    def saved(self, path):
        """After an estimator has saved what it has to `path`, which may be this file."""
        if os.path.realpath(path) == os.path.realpath(self.path):
            self.seen()

    def writer(self, X, about, wanted, tell, before=None):
        """A `Writer` for draws up to `wanted` in each chain, after those `before`, if any.

        `X`, `about`: as `begin_run` takes them. `tell(run, draws)`: what the file keeps of a chunk, (draws, the sweep and the
        state after them). `before()`: the same of all draws so far, asked for where a run that was finished goes on.
        """
        begin = partial(begin_run, self.path, X, about, wanted, is_new=before is None)
        if before is None:
            return Writer(None, begin, tell)
        if _stamp(self.path) != self._stamp:
            rule, remedy = "be as it was when it was read", "Load it again: it was written to since."
            raise ValueError(message("store", rule, f"a changed {os.fspath(self.path)!r}", remedy))
        journal = go_on(self.path) if is_unfinished(self.path) else begin(*before())
        journal.wanted = wanted
        self.seen()
        return Writer(journal, begin, tell)


class Writer:
    """Where `gibbs.draw` puts draws: on disk, chunk by chunk. `done`: how many since it was opened."""

    def __init__(self, journal, begin, tell):
        self._journal, self._begin, self._tell, self.done = journal, begin, tell, 0

    def append(self, run, draws):
        told = self._tell(run, draws)
        if self._journal is None:
            self._journal = self._begin(*told)
        else:
            self._journal.append(*told)
        self.done += draws.labels.shape[1]

    def check_place(self):
        """FileNotFoundError where the file that draws went to is not at its path any more."""
        self._journal.check_place()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._journal is not None:
            self._journal.close()


class Unwritten:
    """In the place of a `Writer` where another process writes."""

    done = 0

    def append(self, run, draws):
        self.done += draws.labels.shape[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Nothing was opened."""


def _stamp(path):
    """What changes when somebody writes to a file."""
    stat = os.stat(path)
    return stat.st_ino, stat.st_size, stat.st_mtime_ns

"""The folder that a run's draws go to as they are made."""

import os
from pathlib import Path

from bayesfair._check import message
from bayesfair._files import ROOT_OF_STORE
from bayesfair.posterior.store import continue_run


class Store:
    """The place of a stored run.

    `seen` whenever it holds what an estimator has: what was done to it since, by others or by a resume that failed on its way,
    is told, and not written over.
    """

    def __init__(self, path):
        self.path, self._stamp = Path(path).absolute(), None

    def seen(self):
        stat = os.stat(self.path / ROOT_OF_STORE)
        self._stamp = stat.st_ino, stat.st_size, stat.st_mtime_ns
        return self

    def go_on(self, wanted):
        """The run, open to be appended to until it has `wanted` draws a chain."""
        known, run = self._stamp, continue_run(self.path, wanted)
        if self.seen()._stamp != known:
            run.close()
            self._stamp = known
            rule, remedy = "be as it was when it was read", "Load it again: it was written to since."
            raise ValueError(message("store", rule, f"a changed {os.fspath(self.path)!r}", remedy))
        return run


class Writer:
    """Where `gibbs.draw` puts draws: on disk, chunk by chunk. `done`: how many since it was opened.

    `add(stored, run, draws)` gives the stored run that has the draws too: a new one where `stored` is None, and None where
    another process writes.
    """

    def __init__(self, add, stored=None):
        self._add, self.stored, self.done = add, stored, 0

    def append(self, run, draws):
        self.stored = self._add(self.stored, run, draws)
        self.done += draws.labels.shape[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.stored is not None:
            self.stored.close()

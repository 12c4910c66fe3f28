"""The folder that receives a run's draws as they are made."""

import os
from pathlib import Path

from bayesfair._check import message
from bayesfair._files import ROOT_OF_STORE
from bayesfair.posterior.store import continue_run


class Store:
    """The place of a stored run.

    `seen` notes that its content is the estimator's. Changes since, by others or by a failed resume, are not overwritten.
    """

    def __init__(self, path):
        self.path, self._stamp = Path(path).absolute(), None

    def seen(self):
        stat = os.stat(self.path / ROOT_OF_STORE)
        self._stamp = stat.st_ino, stat.st_size, stat.st_mtime_ns
        return self

    def go_on(self, wanted):
        """The run, open for appending until it has `wanted` draws per chain."""
        known, run = self._stamp, continue_run(self.path, wanted)
        if self.seen()._stamp != known:
            run.close()
            self._stamp = known
            rule, remedy = "be unchanged since it was read", "Load it again."
            raise ValueError(message("store", rule, f"a changed {os.fspath(self.path)!r}", remedy))
        return run


class Writer:
    """Receives the draws of `gibbs.draw`, on disk, chunk by chunk. `done`: how many since it was opened.

    `add(stored, run, draws)` returns the stored run with the draws added: a new one for None, and None if another writes.
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

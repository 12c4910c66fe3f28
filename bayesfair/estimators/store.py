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

    def go_on(self):
        """The run, open to be appended to."""
        known, run = self._stamp, continue_run(self.path)
        if self.seen()._stamp != known:
            run.close()
            self._stamp = known
            rule, remedy = "be as it was when it was read", "Load it again: it was written to since."
            raise ValueError(message("store", rule, f"a changed {os.fspath(self.path)!r}", remedy))
        return run


class Writer:
    """Where `gibbs.draw` puts draws: on disk, chunk by chunk. `done`: how many since it was opened.

    `begin(run, draws)` makes the stored run of the first chunk, where there is no `stored` one; `tell(run, draws)` is what
    it keeps of a further one.
    """

    def __init__(self, begin, tell, stored=None):
        self._begin, self._tell, self._stored, self.done = begin, tell, stored, 0

    def append(self, run, draws):
        if self._stored is None:
            self._stored = self._begin(run, draws)
        else:
            self._stored.append(*self._tell(run, draws))
        self.done += draws.labels.shape[1]

    def finish(self, about):
        self._stored.finish(about)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._stored is not None:
            self._stored.close()


class Unwritten:
    """In the place of a `Writer` where another process writes."""

    done = 0

    def append(self, run, draws):
        self.done += draws.labels.shape[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Nothing was opened."""

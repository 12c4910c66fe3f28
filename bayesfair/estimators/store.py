"""The file that a run's draws go to as they are made; of processes with rows of their own, each has one."""

import os
import platform
from functools import partial
from pathlib import Path

from bayesfair._check import message
from bayesfair._journal import go_back, go_on, states
from bayesfair.distributed import everybody
from bayesfair.posterior import begin_run, is_unfinished

__all__ = ["Store", "Unwritten", "check_files_differ", "go_back_together"]


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


def check_files_differ(store: Store | None):
    """ValueError where processes that have rows of their own were not all given, or all spared, a file of their own."""
    places = everybody(None if store is None else (platform.node(), os.fspath(store.path)))
    n_without = places.count(None)
    if n_without == len(places) or (n_without == 0 and len(set(places)) == len(places)):
        return
    got = " and ".join(dict.fromkeys("no file" if place is None else repr(place[1]) for place in places))
    remedy = "Put its number into the name: store=f'run-{jax.process_index()}.nc'."
    raise ValueError(message("store", "name a file of each process's own where mesh gives processes rows", got, remedy))


def go_back_together(store: Store | None, draws: int, numbered: int | None) -> bool:
    """Make the last draws that all processes have the last ones of this one's file; was there something to forget?

    A process that is killed may be a chunk behind the others, which are never further ahead. `draws`: how many this process
    has; `numbered`: of how many clusters have the numbers that a finished run gave them, None where this one is finished.

    Raises
    ------
    ValueError: draws that do not go together.
    """
    unfinished = store is not None and is_unfinished(store.path)
    has = states(store.path) if unfinished else [draws]
    told = everybody(has)
    last = max(set.intersection(*map(set, told)), default=None)
    are_numbered = everybody(not unfinished or numbered == last)
    if last is None or len(set(are_numbered)) > 1:
        of_all = zip(told, are_numbered)
        got = " and ".join(f"{max(each)} draws{' of a finished run' * known}" for each, known in of_all)
        raise ValueError(message("posterior_", "be of one run in all processes", got, "Load the files of one run."))
    if max(has) == last:
        return False
    go_back(store.path, last)
    store.seen()
    return True


def _stamp(path):
    """What changes when somebody writes to a file."""
    stat = os.stat(path)
    return stat.st_ino, stat.st_size, stat.st_mtime_ns

"""Rows of which other processes may have more: what is summed over all of them, and what the first process decides."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["HERE", "OverRows", "dealt"]


def _as_it_is(value):
    return value


def _alone(value):
    return [value]


class OverRows(NamedTuple):
    """total: of sums over the rows of this process, an array or a tree of them, those over the rows of all. of_first: the first
    one's value. everybody: a list of the values of all `n_processes`, in which `place` is this one's."""

    total: Callable[[Any], Any] = _as_it_is
    of_first: Callable[[Any], Any] = _as_it_is
    everybody: Callable[[Any], list] = _alone
    place: int = 0
    n_processes: int = 1

    def joined(self, arrays):
        """(which rows of them are this process's, arrays of the rows of all) of some arrays (rows, ..) of each process."""
        parts = self.everybody(arrays)
        first = sum(len(part[0]) for part in parts[: self.place])
        return slice(first, first + len(arrays[0])), [np.concatenate(each) for each in zip(*parts)]

    def dealt(self, of, tasks):
        """`of` every task, each of which one process does and tells the others."""
        return dealt(of, tasks, self.everybody, self.place, self.n_processes)


def dealt(of, tasks, everybody, place, n_processes) -> list:
    """`of` every task, of which this process, the one of that `place`, does its share."""
    found = [None] * len(tasks)
    for at, told in enumerate(everybody([*map(of, tasks[place::n_processes])])):
        found[at::n_processes] = told
    return found


HERE = OverRows()  # this process has all rows

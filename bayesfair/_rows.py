"""Rows of which other processes may have more: what is summed over all of them, and what the first process decides."""

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["HERE", "OverRows"]


def _as_it_is(value):
    return value


class OverRows(NamedTuple):
    """total: of an array of sums over the rows of this process those over the rows of all. of_first: the first one's value."""

    total: Callable[[Any], Any] = _as_it_is
    of_first: Callable[[Any], Any] = _as_it_is


HERE = OverRows()  # this process has all rows

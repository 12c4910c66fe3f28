"""Processes that have some of the rows each, as threads of one: quick, and in any number."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from bayesfair._rows import OverRows

LIMIT = 600  # seconds: the last guard against threads that wait for each other for ever


def in_threads(program, shares):
    """[program(over, *share)] of every share of the rows, all at once."""
    told, barrier = [None] * len(shares), threading.Barrier(len(shares), timeout=LIMIT)

    def everybody(place, value):
        told[place] = pickle.dumps(value)
        barrier.wait()
        values = list(map(pickle.loads, told))  # copies, as of other processes
        barrier.wait()
        return values

    def total(place, part):
        if isinstance(part, tuple):
            return tuple(total(place, one) for one in part)
        return np.sum(everybody(place, part), 0)

    def one(place):
        own = partial(everybody, place)
        over = OverRows(partial(total, place), lambda value: own(value)[0], own, place, len(shares))
        return program(over, *shares[place])

    with ThreadPoolExecutor(len(shares)) as pool:
        return list(pool.map(one, range(len(shares))))

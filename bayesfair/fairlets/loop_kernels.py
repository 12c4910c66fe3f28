"""The steps of the rectangular loop, compiled; `bayesfair.fairlets.fixed_margins` has what they are and why they are right.

A matrix holds 1, 0, and CLOSED where it must stay 0. A proposal is an alternating cycle: the ones (rows[t], columns[t])
become zeros and the zeros (rows[t + 1], columns[t]) become ones, t + 1 modulo its length. A rectangle is one of length 2.
"""

from math import exp

import numpy as np
from numba import njit

from bayesfair._chance import bernoulli, integer

CLOSED = -1


@njit(nogil=True, cache=True)
def run(s, H, log_weights, num_steps, metropolis, with_cycles):
    """Make so many steps in place; returns the numbers of proposals and of changes."""
    longest = max(2, min(H.shape))
    rows, columns = np.empty(longest, np.int64), np.empty(longest, np.int64)
    row_met, column_met = np.empty(H.shape[0], np.bool_), np.empty(H.shape[1], np.bool_)
    proposed = accepted = 0
    for _ in range(num_steps):
        if with_cycles and bernoulli(s, 0.5):
            length = cycle(s, H, rows, columns, row_met, column_met)
        else:
            length = rectangle(s, H, rows, columns)
        if length > 0:
            proposed += 1
            if bernoulli(s, chance(log_weights, rows, columns, length, metropolis)):
                swap(H, rows, columns, length)
                accepted += 1
    return proposed, accepted


@njit(nogil=True, cache=True)
def rectangle(s, H, rows, columns):
    """Propose the checkerboard of a random cell; returns its length, or 0 if there is none."""
    row, column = integer(s, H.shape[0]), integer(s, H.shape[1])
    if H[row, column] == 1:
        other_column = pick(s, H[row], 0)
        other_row = pick(s, H[:, other_column], 1) if other_column >= 0 else -1
        if other_row < 0 or H[other_row, column] != 0:
            return 0
        columns[0], columns[1] = column, other_column
    elif H[row, column] == 0:
        other_row = pick(s, H[:, column], 1)
        other_column = pick(s, H[other_row], 0) if other_row >= 0 else -1
        if other_column < 0 or H[row, other_column] != 1:
            return 0
        columns[0], columns[1] = other_column, column
    else:
        return 0
    rows[0], rows[1] = row, other_row
    return 2


@njit(nogil=True, cache=True)
def cycle(s, H, rows, columns, row_met, column_met):
    """Propose the alternating cycle of a random walk; returns its length, or 0 if the walk meets itself or ends."""
    row_met[:] = False
    column_met[:] = False
    first = row = integer(s, H.shape[0])
    for at in range(min(H.shape)):
        column = pick(s, H[row], 1)
        if column < 0 or column_met[column]:
            return 0
        following = pick(s, H[:, column], 0)
        if following < 0 or row_met[following]:
            return 0
        rows[at], columns[at] = row, column
        if following == first:
            return at + 1
        row_met[following] = True
        column_met[column] = True
        row = following
    return 0


@njit(nogil=True, cache=True)
def pick(s, line, wanted):
    """A random place of a row or column that holds `wanted`, -1 if there is none."""
    count = 0
    for value in line:
        if value == wanted:
            count += 1
    if count == 0:
        return -1
    rank = integer(s, count)
    for at in range(len(line)):
        if line[at] == wanted:
            if rank == 0:
                return at
            rank -= 1
    return -1


@njit(nogil=True, cache=True)
def chance(log_weights, rows, columns, length, metropolis):
    """The probability of a proposal: min(1, w' / w), or w' / (w + w')."""
    log_ratio = 0.0
    for t in range(length):
        following = rows[t + 1] if t + 1 < length else rows[0]
        log_ratio += log_weights[following, columns[t]] - log_weights[rows[t], columns[t]]
    if metropolis:
        return exp(min(log_ratio, 0.0))
    small = exp(-abs(log_ratio))
    return 1.0 / (1.0 + small) if log_ratio >= 0 else small / (1.0 + small)


@njit(nogil=True, cache=True)
def swap(H, rows, columns, length):
    """Make a proposal the matrix."""
    for t in range(length):
        H[rows[t], columns[t]] = 0
        H[rows[t + 1] if t + 1 < length else rows[0], columns[t]] = 1

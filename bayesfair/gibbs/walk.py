"""A chain of units: visits, pair draws and swaps pass by pass, watched on S; what "labels" and "optimal" share."""

from typing import NamedTuple

import numpy as np

from bayesfair._compiled import inner, kernel
from bayesfair.gibbs.chance import gamma, integer
from bayesfair.gibbs.losses import has_conjugate_centers
from bayesfair.gibbs.pair_draws import draw_pair, make_tables
from bayesfair.gibbs.units import (
    FAILED,
    LAMBDA,
    LOSS,
    PASS,
    ROW,
    VISITS,
    WAITED,
    look,
    make_scratch,
    raise_strength,
    refresh,
    sum_up,
    swap,
    visits,
)

ANEW = 64  # passes after which sums are made from scratch
LOOK = 16  # visits between looks at the counts in the warm-up


class Schedule(NamedTuple):
    """What a pass does beside visiting every unit, and the law of lambda: Gamma(shape, rate + scale * loss), times `scale`.

    pairs: pair draws before a pass. swaps: after every visit. shape 0: lambda is fixed.
    """

    pairs: int
    swaps: int
    shape: float
    rate: float
    scale: float


@inner
def begin_pass(s, units, loss, balance, schedule, state, scratch, tables):
    """What comes before the first unit: sums from scratch now and then, lambda, and draws of pairs."""
    state.step[PASS] += 1
    if state.step[PASS] % ANEW == 0:
        sum_up(units, loss, balance, state, scratch)
    if schedule.shape > 0.0:
        drawn = gamma(s, schedule.shape) / (schedule.rate + schedule.scale * state.number[LOSS])
        state.number[LAMBDA] = schedule.scale * drawn
    if len(state.size) > 1 and has_conjugate_centers(loss):
        for _ in range(schedule.pairs):
            draw_pair(s, units, loss, balance, state, scratch, tables)


@inner
def go_on(s, units, loss, balance, schedule, state, scratch, tables, per, limit):
    """Visit units in turn, and swap them, until a draw is due, the pass ends, or `limit` visits are made."""
    row, n_obs = state.step[ROW] + 1, len(state.label)
    if row == n_obs:
        row = 0
        state.step[ROW] = -1
        begin_pass(s, units, loss, balance, schedule, state, scratch, tables)
    visits(s, units, loss, balance, state, scratch, min(n_obs, row + limit), per)
    for _ in range(schedule.swaps * (state.step[ROW] + 1 - row)):
        swap(s, units, loss, balance, state, scratch, integer(s, n_obs))


@inner
def ready(units, state, scratch):
    """Tables for pair draws; `scratch` is made to suit the state."""
    refresh(state, scratch)
    largest = 0
    for c in range(len(units.first) - 1):
        largest = max(largest, units.first[c + 1] - units.first[c])
    return make_tables(len(state.label), len(units.first) - 1, largest, len(state.size), units.x.shape[1])


@kernel
def walk(units, loss, balance, schedule, state, per, visits, labels, numbers, first):
    """Fill draws from `first` on, one for every `per` visits in S, within `visits`: the number of the next draw."""
    scratch = make_scratch(units.x.shape[1], len(state.size), len(balance.of_cell))
    tables = ready(units, state, scratch)
    draw, last = first, state.step[VISITS] + visits
    while draw < len(labels) and state.step[VISITS] < last and state.step[FAILED] == 0:
        go_on(state.words, units, loss, balance, schedule, state, scratch, tables, per, last - state.step[VISITS])
        if state.step[WAITED] == per:
            state.step[WAITED] = 0
            labels[draw] = state.label
            numbers[draw, 0] = state.number[LAMBDA]
            numbers[draw, 1] = state.number[LOSS]
            draw += 1
    return draw


@kernel
def learn(units, loss, balance, schedule, state, passes):
    """A warm-up that learns a penalty for every count of every cluster, pass by pass."""
    scratch = make_scratch(units.x.shape[1], len(state.size), len(balance.of_cell))
    tables = ready(units, state, scratch)
    outside = np.empty(state.strength.shape)
    for _ in range(passes):
        outside[:] = 0.0
        n_looks = 0
        for _ in range((len(state.label) + LOOK - 1) // LOOK):
            if state.step[FAILED] > 0:
                return
            go_on(state.words, units, loss, balance, schedule, state, scratch, tables, -1, LOOK)
            look(balance, state, outside)
            n_looks += 1
        raise_strength(balance, state, outside, n_looks)
        sum_up(units, loss, balance, state, scratch)
    state.step[WAITED] = 0

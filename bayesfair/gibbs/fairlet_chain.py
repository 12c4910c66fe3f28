"""A chain of fairlets and clusters: sweeps in parts, so that any cut into calls gives the same draws."""

from numpy import int64

from bayesfair._compiled import inner, kernel
from bayesfair.gibbs.chance import gamma
from bayesfair.gibbs.fairlet_moves import exchanges, reallocations
from bayesfair.gibbs.fairlets import (
    FAILED,
    LAMBDA,
    LAMBDA_F,
    LOSS_C,
    LOSS_F,
    MOVED,
    NOBODY,
    PLACE,
    SINCE,
    SWAPPED,
    SWEEP,
    TRIED,
    VISITED,
    make_scratch,
    sum_up,
)
from bayesfair.gibbs.losses import PAIRS

ANEW = 64  # sweeps after which sums are made from scratch
PAIRS_PER_VISIT = 16  # dissimilarities that take as long as a visit of a loss with centres


def go_on(data, loss, plan, state, thinning, visits, labels, fairlets, numbers, first):
    """Fill draws from `first` on, one for every `thinning` sweeps, in about `visits` visits: the number of the next draw."""
    scratch, draw, left = make_scratch(data.x.shape[1], len(state.number)), first, visits
    while draw < len(numbers) and left > 0 and state.step[FAILED] == 0:
        if state.step[PLACE] == 0 and state.step[SWEEP] % ANEW == 0:
            sum_up(data, loss, state)
        last_sweep = (state.step[SWEEP] // ANEW + 1) * ANEW
        args = data, loss, plan, state, scratch, thinning, left, last_sweep, labels, fairlets, numbers
        draw, left = sweeps(state.words, *args, draw)
    return draw


@kernel
def sweeps(s, data, loss, plan, state, scratch, thinning, left, last_sweep, labels, fairlets, numbers, draw):
    """Sweeps until all draws are made, `left` visits are, or sweep `last_sweep` ends: the next draw, and what is left.

    A sweep is cut into steps, moves of B or visits of fairlets, so that any cut into calls gives the same draws.
    """
    step, value = state.step, state.value
    n_fairlets, n_moves, each = len(state.cluster), plan.near + plan.random + plan.extra + plan.steps, 1
    if loss.kind >= PAIRS:
        each += n_fairlets // PAIRS_PER_VISIT
    while draw < len(numbers) and left > 0 and step[FAILED] == 0 and step[SWEEP] < last_sweep:
        at, most = step[PLACE], max(left // each, 1)
        if at < n_moves:
            last = min(n_moves, at + most)
            exchanges(s, data, loss, plan, state, scratch, at, last)
        else:
            f = (at - n_moves) % n_fairlets
            last = at + min(n_fairlets - f, most)
            reallocations(s, loss, state, scratch, f, f + last - at)
            if f + last - at == n_fairlets and plan.shape > 0.0:
                drawn = gamma(s, plan.shape) / (plan.rate + plan.factor * value[LOSS_F] + value[LOSS_C])
                value[LAMBDA] = drawn
                if plan.joint:
                    value[LAMBDA_F] = plan.factor * drawn
        step[PLACE] = last % (n_moves + plan.visits * n_fairlets)
        left -= each * (last - at)
        if step[PLACE] == 0 and step[FAILED] == 0:
            step[SWEEP] += 1
            step[SINCE] += 1
            if step[SINCE] == thinning:
                write(state.fairlet, state.cluster, value, step, labels, numbers, draw)
                if draw < len(fairlets):
                    write_fairlets(data, state.fairlet, state.members, state.size, fairlets, draw)
                draw += 1
    return draw, left


@inner
def write(fairlet, cluster, value, step, labels, numbers, draw):
    """A draw: labels and scalars. Rates are counted anew."""
    for i in range(len(fairlet)):
        labels[draw, i] = cluster[fairlet[i]]
    numbers[draw, 0] = value[LOSS_F]
    numbers[draw, 1] = value[LOSS_C]
    numbers[draw, 2] = value[LAMBDA_F]
    numbers[draw, 3] = value[LAMBDA]
    numbers[draw, 4] = step[SWAPPED] / max(step[TRIED], 1)
    numbers[draw, 5] = step[MOVED] / max(step[VISITED], 1)
    for at in (SINCE, TRIED, SWAPPED, VISITED, MOVED):
        step[at] = 0


@inner
def write_fairlets(data, fairlet, members, size, fairlets, draw):
    """The fairlets of a draw, in the order of their anchors, which change places; with hubs as they are."""
    for f in range(len(size)):
        own = int64(f if data.anchor == NOBODY else fairlet[data.order[data.first[data.anchor] + f]])
        for t in range(size[own]):
            fairlets[draw, members[own, t]] = f

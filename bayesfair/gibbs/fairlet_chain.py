"""A chain of fairlets and clusters: sweeps in parts, so that any cut into calls gives the same draws."""

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
from bayesfair.gibbs.losses import has_centers

ANEW = 64  # sweeps after which sums are made from scratch
PAIRS_PER_VISIT = 16  # dissimilarities that take as long as a visit of a loss with centres


@inner
def draw_lambda(s, plan, state):
    """The conjugate step of lambda; lambda_f follows in the joint target only."""
    drawn = gamma(s, plan.shape) / (plan.rate + plan.factor * state.value[LOSS_F] + state.value[LOSS_C])
    state.value[LAMBDA] = drawn
    if plan.joint:
        state.value[LAMBDA_F] = plan.factor * drawn


@inner
def part_of_sweep(s, data, loss, plan, state, scratch, most):
    """Go on with a sweep by at most `most` steps, moves of B or visits of fairlets, and lambda; returns the number of steps."""
    n_fairlets, n_moves = len(state.cluster), plan.near + plan.random + plan.extra + plan.steps
    at = state.step[PLACE]
    if at < n_moves:
        last = min(n_moves, at + most)
        exchanges(s, data, loss, plan, state, scratch, at, last)
    else:
        f = (at - n_moves) % n_fairlets
        last = at + min(n_fairlets - f, most)
        reallocations(s, loss, state, scratch, f, f + last - at)
        if f + last - at == n_fairlets and plan.shape > 0.0:
            draw_lambda(s, plan, state)
    state.step[PLACE] = last % (n_moves + plan.visits * n_fairlets)
    return last - at


@kernel
def go_on(data, loss, plan, state, thinning, visits, labels, fairlets, numbers, first):
    """Fill draws from `first` on, one for every `thinning` sweeps, in about `visits` visits: the number of the next draw."""
    scratch = make_scratch(data.x.shape[1], len(state.number))
    draw, done, each = first, 0, 1
    if not has_centers(loss):
        each += len(state.cluster) // PAIRS_PER_VISIT
    while draw < len(numbers) and done < visits and state.step[FAILED] == 0:
        most = max((visits - done) // each, 1)
        done += each * part_of_sweep(state.words, data, loss, plan, state, scratch, most)
        if state.step[PLACE] == 0 and state.step[FAILED] == 0:
            state.step[SWEEP] += 1
            state.step[SINCE] += 1
            if state.step[SWEEP] % ANEW == 0:
                sum_up(data, loss, state, scratch)
            if state.step[SINCE] == thinning:
                write(data, state, labels, fairlets, numbers, draw)
                draw += 1
    return draw


@inner
def write(data, state, labels, fairlets, numbers, draw):
    """A draw: labels, fairlets if wanted, numbered by their anchors, and scalars. Rates are counted anew."""
    for i in range(len(state.fairlet)):
        f = state.fairlet[i]
        labels[draw, i] = state.cluster[f]
        if draw < len(fairlets):
            fairlets[draw, i] = f if data.anchor == NOBODY else data.rank[state.anchor[f]]
    numbers[draw, 0] = state.value[LOSS_F]
    numbers[draw, 1] = state.value[LOSS_C]
    numbers[draw, 2] = state.value[LAMBDA_F]
    numbers[draw, 3] = state.value[LAMBDA]
    numbers[draw, 4] = state.step[SWAPPED] / max(state.step[TRIED], 1)
    numbers[draw, 5] = state.step[MOVED] / max(state.step[VISITED], 1)
    for at in (SINCE, TRIED, SWAPPED, VISITED, MOVED):
        state.step[at] = 0

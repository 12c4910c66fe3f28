"""A path from one mode to another for fairlets: the centres move in small steps, and rows and fairlets follow, given these."""

from math import exp, inf

from bayesfair._compiled import inner, kernel
from bayesfair.gibbs.chance import bernoulli, category
from bayesfair.gibbs.fairlet_costs import copy_center
from bayesfair.gibbs.fairlet_moves import exchanges, join
from bayesfair.gibbs.fairlets import FAILED, LAMBDA, LAMBDA_F, LOSS_C, LOSS_F, make_scratch, sum_up
from bayesfair.gibbs.losses import paid_at
from bayesfair.gibbs.modes.places import choose_way, log_density, log_gain, make_way, place_at, pull


def fairlet_path(data, loss, plan, places, state, length):
    """(the mode of origin, log of exp(w) |dT|) of a path to another mode, at whose end the state is left; -inf: refused."""
    n_clusters, dim = state.sums.shape
    way = make_way(n_clusters, dim)
    scratch = make_scratch(dim, n_clusters)._replace(given=way.center)
    origin, log_ratio = along(state.words, data, loss, plan, places, state, scratch, way, length)
    sum_up(data, loss, state)
    return origin, log_ratio if state.step[FAILED] == 0 else -inf


@kernel
def along(s, data, loss, plan, places, state, scratch, way, length):
    """(the mode of origin, log of exp(w) |dT|) of the path."""
    start = state.value[LAMBDA]
    origin, there, log_ratio = choose_way(s, loss, places, way, start, state.weight, state.sums, plan.shape > 0.0)
    if log_ratio == -inf:
        return origin, log_ratio
    place_at(loss, way, 0.0)
    for t in range(1, length + 1):
        before = density(loss, plan, way, state, scratch.x)
        if plan.shape > 0.0:
            state.value[LAMBDA] = start * (there / start) ** (t / length)
            if plan.joint:
                state.value[LAMBDA_F] = plan.factor * state.value[LAMBDA]
        place_at(loss, way, t / length)
        log_ratio += density(loss, plan, way, state, scratch.x) - before
        if t < length:
            follow(s, data, loss, plan, state, scratch, way, bernoulli(s, 0.5))
    return origin, log_ratio


@inner
def density(loss, plan, way, state, mean):
    """log pi(z, theta) of the state, at the place on the way."""
    spent = plan.factor * state.value[LOSS_F] + state.value[LOSS_C]
    return log_density(loss, way, state.value[LAMBDA], state.weight, state.sums, spent, plan.shape, plan.rate, mean)


@inner
def follow(s, data, loss, plan, state, scratch, way, backwards):
    """A sweep given centres: moves of B, then fairlets in turn, or all of it backwards, which makes it reversible."""
    if backwards:
        reallocate(s, loss, state, scratch, way, True)
    random, extra = plan.near, plan.near + plan.random
    steps, last = extra + plan.extra, extra + plan.extra + plan.steps
    for turn in range(4):
        kind = 3 - turn if backwards else turn
        first = 0 if kind == 0 else random if kind == 1 else extra if kind == 2 else steps
        end = random if kind == 0 else extra if kind == 1 else steps if kind == 2 else last
        exchanges(s, data, loss, plan, state, scratch, first, end)
    if not backwards:
        reallocate(s, loss, state, scratch, way, False)


@inner
def reallocate(s, loss, state, scratch, way, backwards):
    """Every fairlet once, in turn or `backwards`; the loss follows from what they pay for the centres."""
    before = pull(loss, way, state.weight, state.sums, scratch.old)
    paid = reallocations_given(s, loss, state, scratch, backwards)
    state.value[LOSS_C] += paid - (pull(loss, way, state.weight, state.sums, scratch.old) - before)


@kernel
def reallocations_given(s, loss, state, scratch, backwards):
    """Fairlets take clusters by their full conditionals given centres; what they pay more for these. A lone one stays."""
    cluster, mass, total, number = state.cluster, state.mass, state.total, state.number
    heavy, sums, given, lam = state.weight, state.sums, scratch.given, state.value[LAMBDA]
    cost, p, center, after = scratch.cost, scratch.p, scratch.x, scratch.new
    n_fairlets, n_clusters, paid = len(cluster), len(number), 0.0
    for turn in range(n_fairlets):
        f = n_fairlets - 1 - turn if backwards else turn
        a, w = int(cluster[f]), mass[f]
        if number[a] == 1:
            continue
        copy_center(total, mass, f, center)
        least = inf
        for k in range(n_clusters):
            more = -1.0 if k == a else 1.0
            cost[k] = paid_at(loss.paid, center, given[k])
            p[k] = lam * w * cost[k] + more * log_gain(loss, lam, heavy[k], sums[k], w, center, more, after)
            least = min(least, p[k])
        for k in range(n_clusters):
            p[k] = exp(least - p[k])
        b = category(s, p, n_clusters)
        if b != a:
            paid += w * (cost[b] - cost[a])
            join(cluster, mass, total, number, heavy, sums, f, a, b)
    return paid

"""Masses of the modes: jumps between the best mode and every other, longer and longer until the ratio is known."""

from typing import Any, NamedTuple

import numpy as np
from joblib import delayed

from bayesfair.gibbs.modes.bennett import ITSELF, UNKNOWN, LogRatio, both, log_mass_ratio, relative
from bayesfair.gibbs.modes.find import Mode, Search, places_of
from bayesfair.gibbs.modes.places import Places
from bayesfair.gibbs.run import copied
from bayesfair.gibbs.target import Room

NEGLIGIBLE = -10.0  # log of a mass below which a mode gets no chain
LIGHT = -5.0  # likewise if only bounds are known: a chain there would stay
FIRST_LENGTH = 16
LONGER = 2  # times as many steps if masses are not known
JUMPS = 8  # in each direction in a round; fewer, but two at least, if there are many modes
APART = 8  # sweeps between starts of jumps
ENOUGH_SE = 0.3
ROUNDS = 16  # rounds of jumps at one length, if works overlap


class Masses(NamedTuple):
    """Masses of the modes relative to the mode `best`, and states of chains in each, numbered alike."""

    best: int
    ratio: list[LogRatio]
    gone: set[int]  # modes that their own chains left: they are none
    pools: list[list[Any]]
    places: Places
    length: int  # of the longest paths


def middle(ratio: LogRatio) -> float:
    """The estimate, or the bounds' middle (near equilibrium both directions lose equally); -inf without either."""
    if ratio.known:
        return ratio.estimate
    return (ratio.lower + ratio.upper) / 2 if np.isfinite(ratio.lower) and np.isfinite(ratio.upper) else -np.inf


def is_alive(ratio: LogRatio) -> bool:
    """Does the mode get chains?"""
    return ratio == UNKNOWN or bool(middle(ratio) >= (NEGLIGIBLE if ratio.known else LIGHT))


def is_settled(ratio: LogRatio) -> bool:
    """Is enough known of this mode?"""
    return ratio.se <= ENOUGH_SE or bool(ratio.upper < NEGLIGIBLE)


def weigh(search: Search, modes: list[Mode], size: int, budget: float, longest: int | None = None) -> Masses:
    """Weigh the modes from `size` chains in each, until the search has spent its budget, or up to paths of length `longest`."""
    places, pools = ready(search, modes, size)
    best, ratio, gone = 0, [ITSELF, *[UNKNOWN] * (len(modes) - 1)], set()
    length, n_jumps = min(FIRST_LENGTH, longest or FIRST_LENGTH), JUMPS
    if longest is None:
        n_jumps = int(np.clip(budget // (4 * (FIRST_LENGTH + APART) * (len(modes) - 1)), 2, JUMPS))
    while True:
        for j in range(len(modes)):
            if j != best and j not in gone and not is_settled(ratio[j]):
                rounds = 1 + max(0, budget - search.spent) // (2 * n_jumps * (length + APART))
                measured, stayed = measure(search, places, pools, (best, j), length, n_jumps, min(rounds, ROUNDS))
                ratio[j] = both(ratio[j], measured) if both(ratio[j], measured) != UNKNOWN else measured
                gone |= {number for number, has_stayed in zip((best, j), stayed) if not has_stayed}
        left = [j for j in range(len(modes)) if j not in gone]
        if best in gone:  # what its works told is of another mode
            if not left:
                return Masses(
                    0, [ITSELF, *[UNKNOWN] * (len(modes) - 1)], set(range(1, len(modes))), pools, places, length
                )
            best, ratio = left[0], [UNKNOWN] * len(modes)
            ratio[best] = ITSELF
        heaviest = max(left, key=lambda j: middle(ratio[j]))
        if heaviest != best:
            ratio = [relative(one, ratio[heaviest]) for one in ratio]
            best, ratio[heaviest] = heaviest, ITSELF
        unsettled = [j for j in left if not is_settled(ratio[j])]
        then = LONGER * length
        cost = 2 * n_jumps * (then + APART) * len(unsettled)
        is_affordable = search.spent + cost <= budget if longest is None else length < longest
        if not unsettled or not is_affordable:
            return Masses(best, ratio, gone, pools, places, length)
        length = then if longest is None else min(then, longest)


def ready(search: Search, modes: list[Mode], size: int):
    """(where the modes are, `size` chains in each, with clusters numbered alike and the largest penalties of any mode)."""
    places, numbers = places_of(modes)
    paths = search.paths
    asked = [
        paths.strength(run.state)[number] for mode, own in zip(modes, numbers) for run, number in zip(mode.runs, own)
    ]
    strength, pools = np.max(asked, axis=0), []
    for mode, own in zip(modes, numbers):
        chosen = [at % len(mode.runs) for at in range(size)]
        pools.append([paths.numbered(mode.runs[at].state, own[at], search.words(), strength) for at in chosen])
    return places, pools


def measure(search: Search, places: Places, pools, pair, length: int, n_jumps: int, most: int):
    """(log mass(b) / mass(a) of a pair (a, b) by jumps of this length, did most chains of each stay there?).

    Rounds of jumps are repeated, at `most` so often, as long as works overlap and tell too little.
    """
    between = Places(*(part[list(pair)] for part in places))
    works, ratio, rounds, made = [np.zeros(0), np.zeros(0)], UNKNOWN, 0, [0, 0]
    while rounds == 0 or (rounds < most and ratio.known and ratio.se > ENOUGH_SE):
        for way, number in enumerate(pair):
            pool, each = pools[number], -(-n_jumps // len(pools[number]))
            task = delayed(jumps)
            ends = search.tasks(task(search.law, search.paths, state, between, length, each) for state in pool)
            pools[number] = [state for state, _ in ends]
            found = np.concatenate([one for _, one in ends])
            works[way] = np.append(works[way], found[found[:, 0] == way, 1])
            made[way] += len(found)
            search.spend(len(found) * (length + APART))
        ratio, rounds = log_mass_ratio(*works), rounds + 1
    return ratio, [2 * len(own) > n for own, n in zip(works, made)]


def jumps(law, paths, state, places: Places, length: int, number: int):
    """One task: (the state some sweeps later, (mode of origin, log of exp(w) |dT|) of `number` paths from there)."""
    n_obs, found, state = len(law.table.X), np.empty((number, 2)), copied(state)
    room = Room(np.empty((1, n_obs), np.int32), np.empty((0, n_obs), np.int32), np.empty((1, len(law.statistics))))
    for at in range(number):
        law.advance(state, APART, np.iinfo(np.int64).max, room, 0)
        end = copied(state)
        found[at] = paths.path(end, places, length)
        state.words[:] = end.words
    return state, found

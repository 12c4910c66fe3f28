"""Masses of the modes: jumps between the best mode and every other, longer and longer until the ratio is known."""

from typing import Any, NamedTuple

import numpy as np
from joblib import delayed

from bayesfair.gibbs.modes.bennett import ITSELF, UNKNOWN, LogRatio, both, log_mass_ratio, relative
from bayesfair.gibbs.modes.find import Mode, Search, places_of, sweeps_later
from bayesfair.gibbs.modes.places import Places
from bayesfair.gibbs.run import copied

NEGLIGIBLE = -10.0  # log of a mass below which a mode gets no chain
LIGHT = -5.0  # likewise if only bounds are known: a chain there would stay
FIRST_LENGTH = 16
LONGER = 2  # times as many steps if masses are not known
JUMPS = 8  # in each direction in a round; with many modes one from every chain
APART = 8  # sweeps between starts of jumps
ENOUGH_SE = 0.3
ROUNDS = 16  # rounds of jumps at one length, if works overlap


class Masses(NamedTuple):
    """Masses of the modes relative to the mode `best`, and states of chains in each, numbered alike."""

    best: int
    ratio: list[LogRatio]
    gone: set[int]  # modes that their own chains left: they are none
    tried: set[int]  # modes for which the budget had jumps
    pools: list[list[Any]]
    places: Places
    length: int  # of the longest paths on which works overlapped, or else of the first


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
    """Weigh the modes from `size` chains in each, until the search has spent its budget, or up to paths of length `longest`.

    After a first try of all modes, each further one is of the mode that seems to hold most, by paths LONGER times as long.
    """
    places, pools = ready(search, modes, size)
    best, ratio, gone, known = 0, [ITSELF, *[UNKNOWN] * (len(modes) - 1)], set(), 1
    lengths = [min(FIRST_LENGTH, longest or FIRST_LENGTH)] * len(modes)
    each = 2 * (lengths[0] + APART) * (len(modes) - 1) * size  # sweeps of one jump from every chain to every mode
    each = int(np.clip((budget - search.spent) // (2 * each), 1, max(1, JUMPS // size)))
    tried: set[int] = set()
    while True:
        asked = [j for j in range(len(modes)) if j != best and j not in gone and not is_settled(ratio[j])]
        asked = [j for j in asked if longest is None or lengths[j] <= longest]
        j = max(asked, key=lambda j: (j not in tried, middle(ratio[j])), default=None)
        cost = 0 if j is None else 2 * each * size * (lengths[j] + APART)
        if j is None or (longest is None and search.spent + cost > budget):
            return Masses(best, ratio, gone, tried, pools, places, known)
        rounds = int(np.clip((budget - search.spent) // cost, 1, ROUNDS))
        measured, stayed = measure(search, places, pools, (best, j), lengths[j], each, rounds)
        merged = both(ratio[j], measured)
        ratio[j] = measured if merged == UNKNOWN else merged
        tried.add(j)
        known = max(known, lengths[j] if measured.known or known == 1 else 1)
        gone |= {number for number, has_stayed in zip((best, j), stayed) if not has_stayed}
        lengths[j] = (
            lengths[j] * LONGER if longest is None or lengths[j] == longest else min(LONGER * lengths[j], longest)
        )
        if best in gone:  # what its works told is of another mode
            tried, gone = set(), gone if len(gone) < len(modes) else gone - {best}
        best, ratio = referred(best, ratio, gone)


def referred(best: int, ratio: list[LogRatio], gone: set[int]) -> tuple[int, list[LogRatio]]:
    """(the mode that seems to hold most, the masses over its own); masses over a mode that is `gone` are forgotten."""
    left = [j for j in range(len(ratio)) if j not in gone]
    if best in gone:
        return left[0], [ITSELF if j == left[0] else UNKNOWN for j in range(len(ratio))]
    heaviest = max(left, key=lambda j: middle(ratio[j]))
    if heaviest != best:
        ratio = [ITSELF if j == heaviest else relative(one, ratio[heaviest]) for j, one in enumerate(ratio)]
    return heaviest, ratio


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
    paths.path(copied(pools[0][0]), places, 1)  # compile in this thread alone, before several would
    return places, pools


def measure(search: Search, places: Places, pools, pair, length: int, each: int, most: int):
    """(log mass(b) / mass(a) of a pair (a, b) by jumps of this length, did most chains of each stay there?).

    Rounds of jumps are repeated, at `most` so often, as long as works overlap and tell too little.
    """
    between = Places(*(part[list(pair)] for part in places))
    works, ratio, rounds, made = [np.zeros(0), np.zeros(0)], UNKNOWN, 0, [0, 0]
    while rounds == 0 or (rounds < most and ratio.known and ratio.se > ENOUGH_SE):
        for way, number in enumerate(pair):
            task = delayed(jumps)
            ends = search.tasks(task(search.law, search.paths, one, between, length, each) for one in pools[number])
            pools[number] = [state for state, _ in ends]
            found = np.concatenate([one for _, one in ends])
            works[way] = np.append(works[way], found[found[:, 0] == way, 1])
            made[way] += len(found)
            search.spend(len(found) * (length + APART))
        ratio, rounds = log_mass_ratio(*works), rounds + 1
    return ratio, [2 * len(own) > n for own, n in zip(works, made)]


def jumps(law, paths, state, places: Places, length: int, number: int):
    """One task: (the state some sweeps later, (mode of origin, log of exp(w) |dT|) of `number` paths from there)."""
    found, state = np.full((number, 2), [-1, -np.inf]), copied(state)
    for at in range(number):
        if sweeps_later(law, state, APART) is not None:
            end = copied(state)
            found[at] = paths.path(end, places, length)
            state.words[:] = end.words
    return state, found

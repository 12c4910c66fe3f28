"""Masses of the modes: jumps between the best mode and every other, longer and longer until the ratio is known.

Modes of balanced labels have a mean-field estimate before any jump. Jumps are made if affordable lengths improve on it.
"""

from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from bayesfair._arrays import MANY
from bayesfair._jit import jit
from bayesfair._progress import progress
from bayesfair.gibbs import mean_field
from bayesfair.gibbs.bennett import ITSELF, UNKNOWN, LogRatio, both, log_mass_ratio, relative
from bayesfair.gibbs.capabilities import HasLabels
from bayesfair.gibbs.modes import Mode, modes_table
from bayesfair.gibbs.moves.mode_jumps import Modes, jump
from bayesfair.gibbs.run import Chains, advance
from bayesfair.gibbs.threads import compile_once, in_threads, of_every_chain

NEGLIGIBLE = -10.0  # log of a mass below which a mode gets no chain
LIGHT = -5.0  # likewise if only bounds are known: a chain there would stay
DEARER = 10.0  # nats by which the loss of a mode that few starts found is higher than the best one's if it is set aside
MARGIN = 2.0  # possible error of a mean-field estimate, in nats per coordinate of the centres
GAP_POWER = 0.85  # the gap between the bounds shrinks with this power of a path's length
FIRST_LENGTH = 17
LONGEST = 1 << 15
# Most steps of jumps, of all chains, per sweep of the warm-up: jumps stop at the length that exceeds it. In tables with
# many rows, works of no affordable length overlap, and bounds decide.
BUDGET, BUDGET_OF_MANY = 4, 1
ENOUGH_SE = 0.3
ROUNDS = 16  # rounds of jumps at one length, if works overlap
APART = 8  # sweeps between starts of jumps
FIRST_KEY = 1 << 21  # number of the first chain used for weighing
REFERENCES = 3  # how often a heavier mode may become the reference


class Masses(NamedTuple):
    """Masses of the modes relative to the mode `best`."""

    best: int
    left: set[int]  # modes that their own chains left for another one: they are none
    aside: set[int]  # modes that get neither jumps nor chains: `set_aside`
    ratio: list[LogRatio]
    pools: list  # states of chains in each mode, stacked
    length: int  # of the longest paths on which works overlapped, or else of the longest tried


def middle(ratio: LogRatio) -> float:
    """The estimate, or the bounds' middle (near equilibrium both directions lose equally); -inf without either."""
    if ratio.known:
        return ratio.estimate
    return (ratio.lower + ratio.upper) / 2 if np.isfinite(ratio.lower) and np.isfinite(ratio.upper) else -np.inf


def is_alive(ratio: LogRatio) -> bool:
    """Does the mode get chains? A mode without any estimate or bound does."""
    return ratio == UNKNOWN or bool(middle(ratio) >= (NEGLIGIBLE if ratio.known else LIGHT))


def set_aside(modes: list[Mode], best, ratio) -> set[int]:
    """Modes that get neither jumps nor chains, although only bounds of their masses are known.

    Their losses are far higher than that of the best mode, where most starts ended.
    """
    bounded = [j for j, one in enumerate(ratio) if not one.known and np.isfinite(middle(one))]
    if not bounded or 2 * modes[best].starts <= sum(mode.starts for mode in modes):
        return set()
    loss = [mode.best.loss.mean() for mode in modes]
    return {j for j in bounded if modes[best].dispersion * (loss[j] - loss[best]) > DEARER}


def cannot_cross(ratios, target) -> bool:
    """Are jumps between these modes useless: many rows, and no works that overlapped?"""
    return target.n_obs >= MANY and not any(one.known and one != ITSELF for one in ratios)


class Pool:
    """Chains in one mode, from which jumps start."""

    def __init__(self, mode: Mode, number, chains: Chains):
        self.mode, self.target = mode, chains.target
        self.run = chains.run(mode.pool(chains.number), FIRST_KEY + number * chains.number)

    def fresh(self):
        """States some sweeps later, and a key for each."""
        self.run, _, _ = advance(self.run, self.target, 1, APART)
        return self.run.states, jax.vmap(partial(jax.random.fold_in, data=self.run.sweep))(self.run.keys)


def weigh(modes: list[Mode], chains: Chains, n_sweeps, longest=None, progress_bar=False) -> Masses:
    """Weigh the modes against the heaviest, within a budget by the warm-up's `n_sweeps` or up to paths of length `longest`."""
    pools = [Pool(mode, number, chains) for number, mode in enumerate(modes)]
    budget = BUDGET if chains.target.n_obs < MANY else BUDGET_OF_MANY
    left = chains.number * n_sweeps * budget if longest is None else np.inf
    about, told, gone = estimates(modes, chains.target), [], set()
    best, ratio = without_jumps(about, chains.target, gone)
    most = n_sweeps * budget // 2 if longest is None else None  # a chain makes half of the steps in each direction
    with progress(most, "masses", progress_bar, at_most=True) as bar:
        while len(told) < REFERENCES:
            aside = set_aside(modes, best, ratio) if longest is None else set()
            ratio, none, length, spent = _against(best, pools, ratio, gone | aside, left, longest or LONGEST, bar)
            gone, left = gone | none, left - spent
            if best in gone:
                best, ratio = without_jumps(about, chains.target, gone)
                continue
            told.append(length)
            heaviest = max(set(range(len(modes))) - gone, key=lambda j: middle(ratio[j]))
            if heaviest == best:
                break
            best, ratio = heaviest, _over(ratio, heaviest)
        bar.total = bar.n
    return Masses(best, gone, aside, ratio, [pool.run.states for pool in pools], max(told))


def estimates(modes: list[Mode], target) -> mean_field.Estimates:
    """Mean-field estimates of the masses; equal ones of infinite error where there are none."""
    if isinstance(target, HasLabels):
        found = mean_field.log_masses(modes, target)
        if np.isfinite(found.value).all():
            return found
    return mean_field.Estimates(np.zeros(len(modes)), np.full(len(modes), np.inf))


def without_jumps(about: mean_field.Estimates, target, gone) -> tuple[int, list[LogRatio]]:
    """(the mode with the largest estimate that is not `gone`, as the reference; bounds of all masses over its own)."""
    value, se = about
    best = max(set(range(len(value))) - gone, key=lambda j: value[j])
    margin = MARGIN * target.n_clusters * target.x.shape[1] + 3 * np.hypot(se, se[best])
    bounds = [LogRatio(np.nan, np.nan, one - more, one + more) for one, more in zip(value - value[best], margin)]
    bounds[best] = ITSELF
    return best, bounds


def _over(ratio, best):
    """The masses over that of the mode `best`."""
    over = [relative(one, ratio[best]) for one in ratio]
    over[best] = ITSELF
    return over


def _against(best, pools, ratio, out, budget, longest, bar):
    """(log masses over that of `best`, modes that are none, length of the longest useful paths, steps).

    Modes that are `out` are not weighed. It ends when `best` turns out to be none: its chains left it, and those of another
    mode stayed.
    """
    found, gone, spent, told = list(ratio), set(), 0, 0
    unsettled = [j for j, one in enumerate(found) if j not in out | {best} and not _is_settled(one)]
    one_step = pools[best].target.clusters_are_independent
    # Paths have odd lengths.
    tried = length = first = 1 if one_step else min(FIRST_LENGTH, longest - (longest + 1) % 2)
    while unsettled and (length == first or (spent < budget and length <= longest)):
        for j in list(unsettled):
            measured, (stayed, stayed_there), steps = _measured(pools[best], pools[j], length)
            before, n_chains = found[j], len(pools[j].run.keys)
            found[j] = both(before, measured)
            if found[j] == UNKNOWN:  # contradictory: keep the jumps, which are exact
                found[j] = measured
            spent += 2 * n_chains * steps
            bar.update(steps)
            if stayed_there and not stayed:  # works from the reference tell nothing
                return found, gone | {best}, length, spent
            if not stayed_there:
                gone.add(j)
            affordable = min(longest, (budget - spent) / (4 * n_chains))
            if j in gone or _is_settled(found[j]) or _in_vain(before, measured, length, affordable):
                told = length if found[j].known else told
                unsettled.remove(j)
        if one_step:
            return found, gone, 1, spent
        tried, length = length, max(2 * length - 1, 3)
    return found, gone, told or tried, spent


def _in_vain(known: LogRatio, measured: LogRatio, length, affordable) -> bool:
    """Would jumps of affordable lengths give wider bounds than are known without them?

    Jumps that were refused give no bounds, and longer ones are refused as often.
    """
    shrunk = (measured.upper - measured.lower) * min(1.0, length / max(affordable, 1)) ** GAP_POWER
    return bool(shrunk > known.upper - known.lower)


def _is_settled(ratio: LogRatio) -> bool:
    return ratio.known or bool(ratio.upper < NEGLIGIBLE)


def _measured(here: Pool, there: Pool, length) -> tuple[LogRatio, list[bool], int]:
    """(log mass(there) / mass(here) by jumps of this length, did most chains of either stay there, steps per chain)."""
    table = modes_table([here.mode, there.mode], here.target.x.dtype)
    works, ratio, rounds = [np.zeros(0), np.zeros(0)], UNKNOWN, 0
    while rounds == 0 or (rounds < ROUNDS and ratio.known and ratio.se > ENOUGH_SE):
        for way, pool in enumerate((here, there)):
            states, keys = pool.fresh()
            log_ratio, origin = map(np.asarray, _jumps(keys, pool.target, table, states, length))
            # A chain that has left its mode carries no information about it.
            works[way] = np.append(works[way], log_ratio[origin == way])
        ratio, rounds = log_mass_ratio(*works), rounds + 1
    return ratio, [2 * len(own) > rounds * len(there.run.keys) for own in works], rounds * length


def _jumps(keys, target, modes: Modes, states, length):
    """(log ratios, modes of origin) of one jump per chain."""
    jumps = partial(_jumps_of, target, modes)

    def compile_first(one):
        compile_once(partial(jumps, FIRST_LENGTH, one), "jumps", (target, modes, one))

    return in_threads(partial(jumps, length), (keys, states), compile_first)


@jit
def _jumps_of(target, modes: Modes, length, chains):
    def one(key, state):
        made = jump(key, target, modes, target.open(state), lambda origin: 1 - origin, length)
        return made.log_ratio, made.origin

    return of_every_chain(one, *chains)

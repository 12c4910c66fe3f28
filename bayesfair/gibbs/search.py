"""Where chains start: in the modes that hold mass, with jumps between them if there are several."""

from dataclasses import replace
from typing import Literal, NamedTuple

import jax
import numpy as np

from bayesfair._arrays import stack
from bayesfair._check import message, tell
from bayesfair._progress import one_step
from bayesfair.gibbs.bennett import ITSELF, UNKNOWN
from bayesfair.gibbs.masses import Masses, cannot_cross, is_alive, middle, weigh
from bayesfair.gibbs.modes import Mode, can_jump, find_modes, modes_table, n_search_starts
from bayesfair.gibbs.moves.mode_jumps import ModeJumps, Modes
from bayesfair.gibbs.problem import Problem
from bayesfair.gibbs.replicas import FEWEST_SWEEPS, temper
from bayesfair.gibbs.run import Chains, start_run

FEW_ROWS = 100  # rows up to which replicas are tried unasked: beyond, they cost minutes and rarely make round trips
NO_TRIPS = (
    "tempering: replicas at 16 inverse temperatures made too few round trips between the hottest and the coldest one in "
    "the trial before the warm-up, so sampling continues without tempering. A longer warm-up makes a longer trial; "
    "tables of more than some hundreds of rows rarely make any."
)
NO_TRIAL = (
    f"tempering: the trial before the warm-up takes num_warmup of at least {FEWEST_SWEEPS} sweeps, so sampling continues "
    "without tempering. Remedy: raise num_warmup."
)
PERIOD = 4  # a jump of T steps is tried every T / PERIOD sweeps


class FoundModes(NamedTuple):
    """The modes that were found, best first, one row each, and how they were found."""

    log_mass: np.ndarray  # relative to the first one's, as are its se and bounds; NaN and infinite if unknown
    se: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    starts: np.ndarray  # how many ended there
    chains: np.ndarray  # how many begin there
    lp: np.ndarray  # a mean, in the sampler's units, as is the loss
    loss: np.ndarray
    labels: np.ndarray  # of one clustering there
    num_starts: int
    weighed: bool  # were jumps tried?
    length: int  # of their longest paths


def start_in_modes(
    problem: Problem,
    num_chains,
    num_warmup,
    num_starts=32,
    mode_jumps: int | Literal["auto"] = "auto",
    tempering: bool | Literal["auto"] = "auto",
    progress_bar=False,
):
    """(the problem, with modes to jump between or replicas; a run whose chains start in modes that hold mass; the modes).

    The modes are None without a search, and if replicas cross modes, so that draws tell more. Without sweeps for two
    batches of starts, chains begin at the target's own. mode_jumps: "auto", the number of steps of the longest path, or
    False for no jumps. tempering: True for replicas and no jumps; "auto" for replicas if there are few rows, several
    modes and no jumps. Replicas are used only if they make round trips.
    """
    target = problem.target
    if tempering is True and "lp" not in target.statistics:
        rule, remedy = "be left out for a target without a density", "States of replicas cannot be compared."
        raise ValueError(message("tempering", rule, "True", remedy))
    jumps = mode_jumps if tempering is not True else False
    problem, run, found = _in_modes(problem, num_chains, num_warmup, num_starts, jumps, progress_bar)
    if tempering is True or (tempering == "auto" and _asks_for_replicas(target, found)):
        tempered = temper(problem, run.states, num_warmup, progress_bar)
        if tempered is not None:
            return *tempered, None
        if tempering is True:
            tell(NO_TRIPS if num_warmup >= FEWEST_SWEEPS else NO_TRIAL, RuntimeWarning)
    return problem, run, found


def _in_modes(problem: Problem, num_chains, num_warmup, num_starts, mode_jumps, progress_bar):
    """`start_in_modes` without replicas."""
    target, masses = problem.target, None
    n_starts = n_search_starts(num_starts, num_chains, num_warmup)
    if n_starts == 0:
        with one_step("starts", progress_bar):
            return problem, start_run(problem, num_chains), None
    modes, chains = find_modes(problem, num_chains, n_starts, num_warmup, progress_bar), Chains.of(problem, num_chains)
    if len(modes) > 1 and mode_jumps is not False and can_jump(target):
        longest = None if mode_jumps == "auto" else mode_jumps
        masses = weigh(modes, chains, num_warmup, longest, progress_bar)
        modes[masses.best].starts += sum(modes[j].starts for j in masses.left)
    order, alive = _order(modes, masses)
    homes = [alive[chain % len(alive)] for chain in range(num_chains)]
    if masses and len(alive) > 1 and not cannot_cross([masses.ratio[j] for j in alive], target):
        places = modes_table([modes[j] for j in alive], target.x.dtype)
        target, moves = with_jumps(target, chains.moves, places, masses.length)
        chains = chains._replace(target=target, moves=moves)
    found = _found(modes, masses, order, homes, n_starts)
    return problem._replace(target=target), chains.run(_states(modes, masses, homes)), found


def _asks_for_replicas(target, found: FoundModes | None) -> bool:
    """Are there few rows and several modes between which no chain can jump?"""
    several = found is not None and len(found.starts) > 1
    return several and not can_jump(target) and "lp" in target.statistics and target.n_obs <= FEW_ROWS


def with_jumps(target, moves, places: Modes, length=1):
    """The target with these modes, and its moves with jumps between them."""
    jumps = ModeJumps(length, max(1, length // PERIOD))
    return replace(target, modes=places), (*moves, jumps)


def _order(modes: list[Mode], masses: Masses | None):
    """(all modes, the heaviest first; the modes that get chains)."""
    if masses is None:
        return list(range(len(modes))), list(range(len(modes)))
    weight = [middle(one) for one in masses.ratio]
    weight[masses.best] = np.inf
    order = sorted(set(range(len(modes))) - masses.left, key=lambda j: -weight[j])
    return order, [j for j in order if j not in masses.aside and is_alive(masses.ratio[j])]


def _states(modes, masses, homes):
    """A state for every chain, in its home mode."""
    pools = masses.pools if masses else [mode.pool(len(homes)) for mode in modes]
    states = [
        jax.tree.map(lambda part: np.asarray(part)[homes[:chain].count(home)], pools[home])  # noqa: B023
        for chain, home in enumerate(homes)
    ]
    return stack(states)


def _found(modes, masses, order, homes, n_starts) -> FoundModes:
    """The modes as a table. Without masses only the first, the best by density, has a known one: its own."""
    ratios = masses.ratio if masses else [ITSELF, *[UNKNOWN] * (len(modes) - 1)]
    log_mass, se, lower, upper = np.array([ratios[j] for j in order]).T
    modes, chains = [modes[j] for j in order], [homes.count(j) for j in order]
    starts, lp, loss = zip(*((mode.starts, mode.best.lp.mean(), mode.best.loss.mean()) for mode in modes))
    columns = (np.array(one) for one in (starts, chains, lp, loss))
    labels = np.stack([mode.best.labels for mode in modes])
    length = masses.length if masses else 0
    return FoundModes(log_mass, se, lower, upper, *columns, labels, n_starts, masses is not None, length)

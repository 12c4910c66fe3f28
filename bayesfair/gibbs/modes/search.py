"""Where chains start: in the modes that hold mass, with jumps between them if there are several."""

from typing import Literal, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from bayesfair._check import message
from bayesfair._progress import one_step, progress
from bayesfair._settings import Count, check_settings
from bayesfair.gibbs.chance import seeded
from bayesfair.gibbs.modes.bennett import ITSELF, UNKNOWN
from bayesfair.gibbs.modes.find import FEWEST_SWEEPS, MOST_SWEEPS, Mode, Search, find_modes
from bayesfair.gibbs.modes.jump import JumpingLaw
from bayesfair.gibbs.modes.places import Places
from bayesfair.gibbs.modes.weigh import Masses, is_alive, middle, weigh
from bayesfair.gibbs.run import copied, tasks


class ModeSearch(BaseEstimator):
    """How modes of the posterior are looked for before the warm-up, weighed, and crossed.

    Parameters
    ----------
    num_starts : int, at least 1, default 32
        Short runs from different starts that look for modes. Half of them, but at least 16, are enough if all end in one.
    jumps : "auto", int or None, default "auto"
        The steps of the longest jumps between modes, by which they are weighed and crossed. "auto" makes jumps longer until
        masses or their bounds decide, within a budget of sweeps. None makes none: masses are not known then.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.gibbs.ModeSearch(num_starts=64)
    ModeSearch(num_starts=64)
    """

    def __init__(self, num_starts: Count = 32, jumps: Count | Literal["auto"] | None = "auto"):
        self.num_starts = num_starts
        self.jumps = jumps


class FoundModes(NamedTuple):
    """The modes that were found, best first, one row each, and how they were found."""

    log_mass: np.ndarray  # relative to the first one's, as are its se and bounds; NaN and infinite if unknown
    se: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    starts: np.ndarray  # how many ended there
    chains: np.ndarray  # how many begin there
    lp: np.ndarray  # a mean, as is the loss
    loss: np.ndarray
    labels: np.ndarray  # of one clustering there
    num_starts: int
    weighed: bool  # were jumps tried?
    length: int  # of their longest paths


def resolve_modes(modes) -> ModeSearch | None:
    """The search that was asked for."""
    if modes is None or isinstance(modes, ModeSearch):
        if modes is not None:
            check_settings(modes)
        return modes
    if isinstance(modes, str) and modes == "auto":
        return ModeSearch()
    rule, remedy = "be 'auto', None or a bf.gibbs.ModeSearch", "None leaves the search for modes out."
    raise ValueError(message("modes", rule, repr(modes), remedy))


def starts_of(law, search: ModeSearch | None, num_chains: int, num_warmup: int, n_jobs=None, progress_bar=False):
    """(the law, with jumps between the modes that hold mass; states of the chains there; the modes, None without a search).

    The search takes at most twice the sweeps of the warm-up. Without sweeps for two starts chains begin at the law's own.
    """
    n_starts = 0 if search is None else min(search.num_starts, num_chains * num_warmup // FEWEST_SWEEPS)
    if n_starts < 2:
        with one_step("starts", progress_bar):
            return law, law.starts(num_chains), None
    budget = num_chains * num_warmup
    with progress(2 * budget, "modes", progress_bar, at_most=True) as bar:
        looking = Search(law, tasks(n_jobs), bar)
        modes, n_starts = find_modes(looking, n_starts, min(budget // n_starts, MOST_SWEEPS), num_chains)
        if not modes:
            return law, law.starts(num_chains), None
        masses = None
        if len(modes) > 1 and search.jumps is not None and looking.paths is not None:
            longest = None if search.jumps == "auto" else search.jumps
            masses = weigh(looking, modes, num_chains, 2 * budget, longest)
        bar.total = bar.n
    return begun(looking, modes, masses, num_chains, n_starts)


def begun(search: Search, modes: list[Mode], masses: Masses | None, num_chains: int, n_starts: int):
    """What `starts_of` returns."""
    order, alive = ranked(modes, masses)
    homes = [alive[chain % len(alive)] for chain in range(num_chains)]
    pools = masses.pools if masses else [[run.state for run in mode.runs] for mode in modes]
    states = []
    for chain, home in enumerate(homes):
        state = copied(pools[home][homes[:chain].count(home) % len(pools[home])])
        state.words[:] = seeded(search.law.table.seed, chain)
        states.append(state)
    law, between = search.law, crossed(masses, alive) if masses else []
    if between:
        law = JumpingLaw(law, Places(*(part[between] for part in masses.places)), masses.length)
    return law, states, as_columns(search.law, modes, masses, order, homes, n_starts)


def crossed(masses: Masses, alive: list[int]) -> list[int]:
    """The modes between which chains jump: those whose masses are known, if they are several."""
    between = [j for j in alive if masses.ratio[j].known]
    return between if len(between) > 1 else []


def ranked(modes: list[Mode], masses: Masses | None) -> tuple[list[int], list[int]]:
    """(all modes, the heaviest first; the modes that get chains)."""
    if masses is None:
        return list(range(len(modes))), list(range(len(modes)))
    for j in masses.gone:
        modes[masses.best].starts += modes[j].starts
    order = sorted(set(range(len(modes))) - masses.gone, key=lambda j: (j != masses.best, -middle(masses.ratio[j])))
    return order, [j for j in order if j == masses.best or (j in masses.tried and is_alive(masses.ratio[j]))]


def as_columns(law, modes: list[Mode], masses: Masses | None, order, homes, n_starts: int) -> FoundModes:
    """The modes as a table. Without masses only the first, the best by density, has a known one: its own."""
    ratio = masses.ratio if masses else [ITSELF, *[UNKNOWN] * (len(modes) - 1)]
    log_mass, se, lower, upper = np.array([ratio[j] for j in order]).T
    best = [modes[j].best for j in order]
    return FoundModes(
        log_mass=log_mass,
        se=se,
        lower=lower,
        upper=upper,
        starts=np.array([modes[j].starts for j in order]),
        chains=np.array([homes.count(j) for j in order]),
        lp=np.array([run.lp for run in best]),
        loss=np.array([run.loss for run in best]),
        labels=np.stack([run.labels for run in best]),
        num_starts=n_starts,
        weighed=masses is not None,
        length=masses.length if masses else 0,
    )

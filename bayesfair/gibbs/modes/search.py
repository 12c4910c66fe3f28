"""Where chains start: in the modes that hold mass, with jumps between them if there are several."""

from typing import Literal, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from bayesfair._check import message
from bayesfair._progress import one_step
from bayesfair._settings import Count, check_settings


class ModeSearch(BaseEstimator):
    """How modes of the posterior are looked for before the warm-up, weighed, and crossed.

    Parameters
    ----------
    num_starts : int, at least 1, default 32
        Short runs from different starts that look for modes.
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
    """(the law, with jumps between the modes that hold mass; states of the chains there; the modes, None without a search)."""
    with one_step("starts", progress_bar):
        return law, law.starts(num_chains), None

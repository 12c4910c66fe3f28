"""The ratio of two modes' masses, from the work of jumps in both directions (Bennett 1976)."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

OVERLAP = 8.0  # dissipation both ways, in nats, above which a few works need not overlap
LARGEST_SE = 1.0
WIDTH = 2.0  # half-width of intervals, in standard errors


class LogRatio(NamedTuple):
    """Log of a ratio of masses: Bennett's estimate with its standard error (NaN unless works overlap), and an interval."""

    estimate: float
    se: float
    lower: float
    upper: float

    @property
    def known(self) -> bool:
        return bool(np.isfinite(self.estimate))


UNKNOWN = LogRatio(np.nan, np.nan, -np.inf, np.inf)
ITSELF = LogRatio(0.0, 0.0, 0.0, 0.0)


def relative(ratio: LogRatio, reference: LogRatio) -> LogRatio:
    """log mass(b) / mass(c), from the log ratios of b and of c to the same mode."""
    estimate, se = ratio.estimate - reference.estimate, np.hypot(ratio.se, reference.se)
    if np.isfinite(estimate):
        return _estimated(estimate, se)
    return LogRatio(np.nan, np.nan, ratio.lower - reference.upper, ratio.upper - reference.lower)


def _estimated(estimate, se) -> LogRatio:
    return LogRatio(estimate, se, estimate - WIDTH * se, estimate + WIDTH * se)


def both(ratio: LogRatio, other: LogRatio) -> LogRatio:
    """The better estimate of one ratio, or the tighter bounds; bounds that contradict each other are both dropped."""
    known = [one for one in (ratio, other) if one.known]
    if known:
        return min(known, key=lambda one: one.se)
    lower, upper = max(ratio.lower, other.lower), min(ratio.upper, other.upper)
    return LogRatio(np.nan, np.nan, lower, upper) if lower <= upper else UNKNOWN


def log_mass_ratio(forward, backward) -> LogRatio:
    """log mass(b) / mass(a) from logs of exp(w) |dT| of jumps from a to b (n,) and from b to a (m,), -inf where refused.

    By Jensen's inequality the mean work forward is at most the log ratio, which is at most minus the mean work
    backward, among jumps that were not refused; the shares refused turn this into the ratio of the modes. The bounds are
    two standard errors wider.
    """
    forward, backward = (np.asarray(part, float) for part in (forward, backward))
    there, back = (part[np.isfinite(part)] for part in (forward, backward))
    if min(len(there), len(back)) < 2:
        return UNKNOWN
    refused = np.log(len(there) / len(forward)) - np.log(len(back) / len(backward))
    if -back.mean() - there.mean() <= OVERLAP:
        estimate, se = bennett(there, back)
        if se <= LARGEST_SE:
            return _estimated(estimate + refused, se)
    wider, wider_back = (WIDTH * part.std(ddof=1) / np.sqrt(len(part)) for part in (there, back))
    lower, upper = there.mean() - wider, -back.mean() + wider_back
    return LogRatio(np.nan, np.nan, lower + refused, max(lower, upper) + refused)


def bennett(forward, backward) -> tuple[float, float]:
    """Bennett's acceptance ratio: the log ratio and its standard error (Shirts, Bair, Hooker and Pande 2003, eq. 8 and 10)."""
    n, m = len(forward), len(backward)
    shift = np.log(n / m)

    def imbalance(log_ratio):
        return expit(forward - log_ratio - shift).sum() - expit(backward + log_ratio + shift).sum()

    ends = np.concatenate([forward, -backward])
    reach = np.ptp(ends) + abs(shift) + 50.0
    log_ratio = brentq(imbalance, ends.min() - reach, ends.max() + reach, xtol=1e-10)
    accepted = expit(np.concatenate([forward - log_ratio - shift, -backward - log_ratio - shift]))
    information = (accepted * (1 - accepted)).sum()
    variance = 1 / information - 1 / n - 1 / m if information > 0 else np.inf
    return float(log_ratio), float(np.sqrt(max(variance, 0.0)))

"""Rows in units near their spread, so that the size of numbers does not matter; errors at the limits of floats."""

from typing import NamedTuple

import numpy as np

from bayesfair._arrays import BLOCK, aligned_empty, row_blocks
from bayesfair._check import message, place, tell

ROUNDING = 4 * np.finfo(np.float64).eps
NEGLIGIBLE = 1e-3  # spread of a column relative to the largest one
FEW_ROWS = 1_000
UNEQUAL = 100  # ratio of standard deviations: the smaller column has 1e-4 of squared distances
LARGEST_LOG, SMALLEST_LOG = 1023, -1022  # of normal float64 numbers, to base 2
FAST_LOG = 60  # of units, to base 2, in which differences of float32 numbers fit float32
HEADROOM = 8  # between an expected cost and the limits of float64
NOTE = "bayesfair_scaling"  # in the `attrs` of a data frame that the shell scaled


class Scaling(NamedTuple):
    """X = middle + 2**exponent Z: converts results from Z to the units of X without rounding."""

    middle: np.ndarray
    exponent: int

    def rows(self, X, dtype=np.float64):
        """Rows of X (N, d) as rows of Z, computed in float64."""
        Z = aligned_empty(np.shape(X), dtype)
        single = Z.dtype == X.dtype == np.float32 and abs(self.exponent) <= FAST_LOG
        for block in row_blocks(len(X)):
            if single:  # the same numbers, faster
                np.subtract(X[block], self.middle, out=Z[block], casting="same_kind")
                Z[block] *= np.float32(2.0**-self.exponent)
            else:
                Z[block] = np.ldexp(X[block] - self.middle, -self.exponent)
        return Z

    def points(self, Z):
        """Points of Z (.., d), such as centres, among the rows of X."""
        return self.middle + np.ldexp(np.asarray(Z, np.float64), self.exponent)

    def cost(self, cost, degree=2):
        """Sums of distances to the power `degree`, in the units of X; a negative degree is the reverse."""
        return np.ldexp(np.asarray(cost, np.float64), degree * self.exponent)[()]


class ScaledRows:
    """The scaled rows of X (N, d), made on access: `rows[some]` and `np.asarray(rows)` are arrays."""

    def __init__(self, X, scaling: Scaling, dtype):
        self.X, self.scaling, self.dtype = X, scaling, np.dtype(dtype)

    @property
    def shape(self):
        return self.X.shape

    def __len__(self):
        return len(self.X)

    def __getitem__(self, some):
        return self.scaling.rows(self.X[some], self.dtype)

    def __array__(self, dtype=None, copy=None):
        return self.scaling.rows(self.X, self.dtype).astype(self.dtype if dtype is None else dtype, copy=False)


def here_alone(value):
    """The values of all processes, if this is the only one."""
    return [value]


def center_and_spread(X, everybody=here_alone, weight=None):
    """Means (d,), standard deviations (d,), exactly 0 for a constant column, and the root of the mean variance.

    No number is squared before a power of two is taken out. `everybody(value)`: those of all processes; `weight`: of rows.
    """
    if not any(everybody(weight is not None and bool((weight != 1).any()))):
        weight = None  # rounds as without weights
    lowest = np.min(everybody(X.min(0).astype(np.float64)), 0)
    highest = np.max(everybody(X.max(0).astype(np.float64)), 0)
    n_obs = sum(everybody(len(X) if weight is None else weight.sum()))
    exponent = np.frexp(np.maximum(np.abs(lowest), np.abs(highest)))[1]

    def mean(of):
        """Mean of a function of the rows less the power of two, in float64."""
        total = 0.0
        for block in row_blocks(len(X)):
            rows = of(np.ldexp(np.ascontiguousarray(X[block], np.float64), -exponent))
            total = total + (rows.sum(0) if weight is None else weight[block] @ rows)
        return sum(everybody(total)) / n_obs

    moderate = mean(lambda rows: rows)
    same = lowest == highest
    middle = np.where(same, lowest, np.ldexp(moderate, exponent))
    variance = np.where(same, 0.0, mean(lambda rows: np.square(rows - moderate)))
    spread = np.ldexp(np.sqrt(variance), exponent)
    top = int(np.frexp(spread.max())[1])
    pooled = np.ldexp(np.sqrt(np.ldexp(variance, 2 * (exponent - top)).mean()), top)
    return middle, spread, float(pooled)


def noted_scaling(X):
    """The note {"mean": {column: number}, "deviation": ...} of a data frame; None without one."""
    return getattr(X, "attrs", {}).get(NOTE)


def standardise(X, *, dtype=np.float64, **settings):
    """(Z, Scaling): scaled rows of X, of this `dtype`; `settings`: of `scaling_of`."""
    scaling = scaling_of(X, **settings)
    return scaling.rows(X, dtype), scaling


def scaling_of(X, *, names=None, degree=2, center=True, precision=np.float64, everybody=here_alone, weight=None):
    """`Scaling` of X (N, d): less its column means, divided by ONE power of two near its standard deviation.

    For methods whose answer is equivariant: nothing over- or underflows, and no bit of ordinary numbers changes. `degree`:
    of the costs, for which `check_costs` answers; `center`: false for costs that know more than differences; `precision`:
    in which differences will be raised to `degree` (`check_resolution`); `everybody`, `weight`: of `center_and_spread`.
    """
    middle, spread, pooled = center_and_spread(X, everybody, weight)
    check_resolution(X, middle, spread, names=names, degree=max(degree, 1), precision=precision)
    check_costs(spread, names=names, degree=max(degree, 1), terms=X.size)
    return Scaling(middle if center else np.zeros_like(middle), int(np.round(np.log2(pooled))) if pooled > 0 else 0)


def check_costs(spread, *, names=None, degree=2, terms=1):
    """Can a float64 hold a sum of so many `terms`, powers `degree` of the columns' standard deviations `spread` (d,)?

    A ValueError names the column where they overflow. A warning says that all are too small, and read 0.
    """
    column = int(spread.argmax())
    largest = f"{spread[column]:.3g} in column {place(names, column)}"
    log_cost = np.log2(spread[column]) * degree + np.log2(terms) if spread[column] > 0 else 0.0
    if log_cost > LARGEST_LOG - HEADROOM:
        rule = "have costs that fit float64"
        raise ValueError(message("X", rule, f"a spread of {largest}", "Rescale: divide every column by it."))
    if log_cost < SMALLEST_LOG + HEADROOM:
        what = f"`X` spreads by no more than {largest}: costs in its units are too small for float64 and become 0"
        tell(f"{what}. Labels are not affected. Remedy: divide every column by it.", RuntimeWarning)


def warn_of_scales(X, names=None):
    """Warn of columns of X (N, d) that distances hardly see, judged by at most a block of rows; constant ones do not count."""
    middle, spread, _ = center_and_spread(X[:: -(-len(X) // BLOCK)])
    varies = np.flatnonzero(spread > ROUNDING * np.abs(middle))
    if len(varies) == 0:
        return
    least, most = varies[spread[varies].argmin()], varies[spread[varies].argmax()]
    if spread[most] > UNEQUAL * spread[least]:
        pair = " and ".join(f"{spread[at]:.3g} in column {place(names, at)}" for at in (least, most))
        remedy = "standardise columns of different units, with sklearn.preprocessing.StandardScaler"
        tell(f"`X` has standard deviations from {pair}: distances hardly see the first. Remedy: {remedy}.")


def warn_of_other_units(X, known, names=None):
    """Warn if the median of new rows X (N, d) is beyond all rows `known` in half of the columns, as in other units."""
    middle, low, high = np.median(X, 0), known.min(0), known.max(0)
    beyond = (middle < low) | (middle > high)
    if beyond.any() and 2 * beyond.sum() >= len(beyond):
        at = int(beyond.argmax())
        what = f"The new rows of `X` have the median {middle[at]:.3g} in column {place(names, at)}"
        reach = f"those of the fit reach from {low[at]:.3g} to {high[at]:.3g}"
        tell(f"{what}; {reach}. Remedy: give new rows the units and the scaling of the fit.")


def check_float32(X, *, names):
    """Raise a ValueError, with the column's name, for an entry of X (N, d) that overflows float32 or becomes 0 in it."""
    with np.errstate(over="ignore", under="ignore"):
        single = X.astype(np.float32)
    lost = np.isinf(single) | ((single == 0) & (X != 0))
    if lost.any():
        row, column = np.argwhere(lost)[0]
        rule, bad = "hold numbers within float32", f"{X[row, column]:.3g} at row {row}, column {place(names, column)}"
        raise ValueError(message("X", rule, bad, "Rescale that column."))


def check_resolution(X, middle, spread, *, names=None, degree=2, precision=np.float64):
    """Raise a ValueError if differences within a column are lost beside its largest entry or in float64 rounding.

    Rows less `middle`, their mean, are raised to `degree` in `precision`. That separates rows that differ by `typical`
    (the median distance from the median, of rows off it) only if the mean is no further from the median than `typical`
    over that root of the precision's epsilon: one entry of 1e10 among hundreds of order 1 fails in float32.
    """
    _check_rounding(middle, spread, names)
    reach = np.finfo(precision).eps ** (-1 / degree)
    few = np.asarray(X[:: max(1, len(X) // FEW_ROWS)], np.float64)
    for column in range(X.shape[1]):
        # A few rows show that ordinary columns are far from the limit; the medians of all rows cost more.
        if abs(middle[column] - np.median(few[:, column])) / reach <= _typical(few[:, column]) / 2:
            continue
        values = np.asarray(X[:, column], np.float64)
        typical = _typical(values)
        if abs(middle[column] - np.median(values)) / reach > typical > 0:
            largest = values[np.abs(values - middle[column]).argmax()]
            bad = f"{largest:.3g} in column {place(names, column)}, while others differ by {typical:.3g}"
            rule = f"have differences that {np.dtype(precision)} can resolve beside its largest entry"
            raise ValueError(message("X", rule, bad, "Correct, clip or transform that entry (logarithm, ranks)."))


def _check_rounding(middle, spread, names):
    """Raise a ValueError if a column varies by rounding alone (around 1e17, say), but as much as the others."""
    lost = (spread > 0) & (spread <= ROUNDING * np.abs(middle)) & (spread > NEGLIGIBLE * spread.max())
    if lost.any():
        column = int(lost.argmax())
        got = f"a spread of {spread[column]:.3g} around {middle[column]:.3g} in column {place(names, column)}"
        remedy = "Subtract an offset from the original numbers before converting them to floats."
        raise ValueError(message("X", "have differences that float64 can resolve", got, remedy))


def _typical(values):
    """The median distance from the median of the values that are off it by more than rounding; 0 if none is."""
    median = np.median(values)
    off = np.abs(values - median)
    off = off[off > ROUNDING * abs(median)]
    return np.median(off) if len(off) else 0.0

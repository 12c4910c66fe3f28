"""Fairlet dissimilarities D: the cost of a member to its anchor, and of a fairlet to its own centre.

All are small hashable objects that compare by value and take NumPy and JAX arrays alike. The Bregman family (Banerjee
et al. 2005) measures members to the fairlet's mean by d_phi, and a member x to its anchor a by twice the Jensen gap, 2
(phi(x) + phi(a) - 2 phi((x + a) / 2)): symmetric, finite on the boundary of the domain, and ||x - a||^2 for phi =
||.||^2. It equals 2 (d_phi(x, c) + d_phi(a, c)), c = (x + a) / 2: both forms are sums of d_phi to a mean.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from bayesfair._arrays import inner_sum, namespace
from bayesfair._check import check_number, message
from bayesfair._settings import Power

NEAR = 1e-2  # |x/y - 1| below which divergences are series, as the closed forms cancel
EDGE = 1e-6  # share of a column's mean: least distance of a centre from the edge of the domain, for other rows
WIDEST = 1e30  # ratio of the largest to the least entry of a column that float32 can hold


class Dissimilarity(ABC):
    """What members of a fairlet pay. Subclass it as a frozen dataclass and write `between` and `to_center`.

    Attributes
    ----------
    name : str
        What messages call it.
    lowest : float
        Least coordinate of a centre, for data divided by their `scale`. It keeps centres off the edge of the domain.
    highest : float
        Largest coordinate of a centre, likewise.

    Notes
    -----
    These have defaults, which a subclass may replace; arrays are NumPy's or JAX's, of features last:

    * hub(x, mask): the loss (...,) of fairlets to their own means, for members (..., n_slots, n_features), of whom the
      mask (..., n_slots) says which slots are filled;
    * pairwise(x, y): D of every row of x (n, n_features) to every row of y (k, n_features), float64 (n, k);
    * interior(centers): centres off the edge of the domain, where rows would pay without end;
    * scale(X): the number, or one for each column, that brings X near 1, and the unit of losses then;
    * check(X): raises a ValueError if an entry is outside the domain of D.

    Examples
    --------
    >>> import numpy as np, bayesfair as bf
    >>> float(bf.fairlets.Minkowski(1.0).between(np.array([1.0, 2.0]), np.array([0.0, 0.0])))
    3.0
    """

    name = "custom"
    lowest, highest = -np.inf, np.inf

    @abstractmethod
    def between(self, x, y):
        """D(x, y): what a member x pays for an anchor y.

        Parameters
        ----------
        x : array of shape (..., n_features)
            Members.
        y : array of shape (..., n_features)
            Anchors, of a shape that broadcasts with that of the members.

        Returns
        -------
        array of shape (...)
        """

    @abstractmethod
    def to_center(self, x, center):
        """What a member pays for the mean of its fairlet.

        Parameters
        ----------
        x : array of shape (..., n_features)
            Members.
        center : array of shape (..., n_features)
            Means of their fairlets.

        Returns
        -------
        array of shape (...)
        """

    def hub(self, x, mask):
        xp = namespace(x, mask)
        held = mask[..., None]
        count = xp.maximum(mask.sum(-1), 1)[..., None]
        center = (inner_sum(xp.where(held, x, 0.0), -2) / count)[..., None, :]
        # Put empty slots at the centre: their content may lie outside the domain of D.
        return inner_sum(xp.where(mask, self.to_center(xp.where(held, x, center), center), 0.0))

    def pairwise(self, x, y):
        table = np.empty((len(x), len(y)))
        step = max(1, 2**20 // max(y.size, 1))
        for start in range(0, len(x), step):
            table[start : start + step] = self.between(x[start : start + step, None], y[None])
        return table

    def interior(self, centers):
        return centers

    def scale(self, X):
        return 1.0, 1.0

    def check(self, X):
        return None


@dataclass(frozen=True)
class Bregman(Dissimilarity):
    """D from a Bregman divergence d_phi(x, y) = phi(x) - phi(y) - <grad phi(y), x - y> of a convex function phi.

    A member x pays d_phi(x, c) to a centre c, and 2 (phi(x) + phi(a) - 2 phi((x + a) / 2)) to an anchor a, which is finite
    on the edge of the domain and alike in x and a.

    Subclass it as a frozen dataclass and write `divergence`. potential(x), which is phi (...,), and gradient(y) (...,
    n_features) are needed for balanced labels (target="labels"). curvature(y) (..., n_features), the diagonal of the
    second derivative, or 0 at the edge of the domain, is needed for inverse temperatures by "holmes-walker" and by the
    loss-likelihood bootstrap.

    References
    ----------
    Banerjee, Merugu, Dhillon and Ghosh (2005), Clustering with Bregman Divergences.
    """

    @abstractmethod
    def divergence(self, x, y):
        """d_phi(x, y) over the last axis, without the cancellation of its three terms.

        Parameters
        ----------
        x : array of shape (..., n_features)
            Points.
        y : array of shape (..., n_features)
            Points, of a shape that broadcasts.

        Returns
        -------
        array of shape (...)
        """

    def potential(self, x):
        raise NotImplementedError

    def gradient(self, y):
        raise NotImplementedError

    def curvature(self, y):
        raise NotImplementedError

    def between(self, x, y):
        middle = (x + y) / 2
        return 2 * (self.divergence(x, middle) + self.divergence(y, middle))

    def to_center(self, x, center):
        return self.divergence(x, center)


@dataclass(frozen=True)
class SquaredEuclidean(Bregman):
    """phi = ||x||^2, so D(x, a) = ||x - a||^2 and a hub pays its within-fairlet sum of squares."""

    name = "kmeans"

    def divergence(self, x, y):
        return inner_sum((x - y) ** 2)

    def potential(self, x):
        return (x * x).sum(-1)

    def gradient(self, y):
        return 2 * y

    def curvature(self, y):
        return namespace(y).full_like(y, 2.0)

    def between(self, x, y):
        return self.divergence(x, y)

    def pairwise(self, x, y):
        from scipy.spatial.distance import cdist

        return cdist(x, y, "sqeuclidean")


@dataclass(frozen=True)
class KullbackLeibler(Bregman):
    """phi = sum x log x - x on x >= 0: the generalised Kullback-Leibler divergence of counts (Poisson)."""

    name = "kl"
    lowest = EDGE

    def divergence(self, x, y):
        return inner_sum(_kl(x, y))

    def potential(self, x):
        return (_x_log_x(x) - x).sum(-1)

    def gradient(self, y):
        return namespace(y).log(y)

    def curvature(self, y):
        return _inverse(y)

    def scale(self, X):
        """The mean."""
        mean = X.sum() / X.size or 1.0
        return mean, mean

    def interior(self, centers):
        mean = centers[~np.isnan(centers).any(1)].mean(0)
        typical = np.where(mean > 0, mean, mean.mean() or 1.0)  # columns of zeros cost every cluster the same
        return np.maximum(centers, EDGE * typical)

    def check(self, X):
        _check_domain(self.name, "be at least 0", X, X >= 0)


@dataclass(frozen=True)
class ItakuraSaito(Bregman):
    """phi = -sum log x on x > 0: scale-free, x/y - log(x/y) - 1."""

    name = "itakura-saito"
    lowest = EDGE

    def divergence(self, x, y):
        xp = namespace(x, y)
        ratio = xp.where(y > 0, x / xp.where(y > 0, y, 1.0), 1.0)
        r = ratio - 1
        series = r**2 * (1 / 2 - r / 3 + r**2 / 4 - r**3 / 5)
        return inner_sum(xp.where(abs(r) < NEAR, series, r - xp.log(ratio)))

    def potential(self, x):
        return -namespace(x).log(x).sum(-1)

    def gradient(self, y):
        return -1 / y

    def curvature(self, y):
        return 1 / namespace(y).square(y)

    def scale(self, X):
        """The least entry of every column: centres, which are above it, never meet the edge."""
        return np.maximum(X.min(0), X.max(0) / WIDEST), 1.0

    def check(self, X):
        _check_domain(self.name, "be above 0", X, X > 0)


@dataclass(frozen=True)
class Bernoulli(Bregman):
    """phi = sum x log x + (1 - x) log(1 - x) on [0, 1]: the logistic divergence of zeros, ones and shares."""

    name = "binary"
    lowest, highest = EDGE, 1 - EDGE

    def divergence(self, x, y):
        return inner_sum(_kl(x, y) + _kl(1 - x, 1 - y))

    def potential(self, x):
        return (_x_log_x(x) + _x_log_x(1 - x)).sum(-1)

    def gradient(self, y):
        xp = namespace(y)
        return xp.log(y) - xp.log1p(-y)

    def curvature(self, y):
        return _inverse(y * (1 - y))

    def interior(self, centers):
        return np.clip(centers, self.lowest, self.highest)

    def check(self, X):
        _check_domain(self.name, "lie in [0, 1]", X, (X >= 0) & (X <= 1))


@dataclass(frozen=True)
class Minkowski(Dissimilarity):
    """The norm of x - y of a given power, itself and not its power-th power. Power 1 is Manhattan.

    Parameters
    ----------
    power : float, default 1.0
        At least 1 for a norm.

    Examples
    --------
    >>> import numpy as np, bayesfair as bf
    >>> float(bf.fairlets.Minkowski(2.0).between(np.array([3.0, 4.0]), np.array([0.0, 0.0])))
    5.0
    """

    power: Power = 1.0

    @property
    def name(self):
        return "manhattan" if self.power == 1 else "minkowski"

    def between(self, x, y):
        difference = abs(x - y)
        if self.power == 1:
            return inner_sum(difference)
        xp = namespace(difference)
        largest = difference.max(-1, keepdims=True)
        share = difference / xp.where(largest > 0, largest, 1.0)  # large powers of large numbers overflow
        return largest[..., 0] * inner_sum(share**self.power) ** (1 / self.power)

    def to_center(self, x, center):
        return self.between(x, center)

    def pairwise(self, x, y):
        from scipy.spatial.distance import cdist

        return cdist(x, y, "cityblock") if self.power == 1 else super().pairwise(x, y)


@dataclass(frozen=True)
class Weighted(Dissimilarity):
    """D between rows whose last column is their weight.

    A member of weight w pays w D(x, c) to its fairlet's centre, the weighted mean. A member and an anchor of weights w,
    v pay 2 w v / (w + v) D(x, a), which is w D(x, a) if both are equal. For squared distances a pair pays twice its
    weighted sum of squares, as without weights.
    """

    own: Dissimilarity

    @property
    def name(self):
        return self.own.name

    def between(self, x, y):
        w, v = x[..., -1], y[..., -1]
        return 2 * w * v / (w + v) * self.own.between(x[..., :-1], y[..., :-1])

    def to_center(self, x, center):
        return x[..., -1] * self.own.to_center(x[..., :-1], center[..., :-1])

    def hub(self, x, mask):
        xp = namespace(x, mask)
        weight = xp.where(mask, x[..., -1], 0.0)
        mass = xp.where(mask.any(-1), weight.sum(-1), 1.0)[..., None]
        center = (inner_sum(xp.where(mask[..., None], weight[..., None] * x[..., :-1], 0.0), -2) / mass)[..., None, :]
        held = xp.where(mask[..., None], x[..., :-1], center)
        return inner_sum(weight * self.own.to_center(held, center))

    def pairwise(self, x, y):
        w, v = x[:, None, -1].astype(np.float64), y[None, :, -1].astype(np.float64)
        return 2 * w * v / (w + v) * self.own.pairwise(x[:, :-1], y[:, :-1])


def resolve_dissimilarity(dissimilarity, power=1.0, *, argument="dissimilarity", own="fairlets.Dissimilarity"):
    """The dissimilarity with this name, or the `Dissimilarity` itself; the one list of names, also of clustering losses.

    `argument` and `own`: the argument's name in errors, and the class to subclass instead.
    """
    if isinstance(dissimilarity, Dissimilarity):
        return dissimilarity
    if isinstance(dissimilarity, str) and dissimilarity in NAMED:
        return NAMED[dissimilarity](power)
    names = ", ".join(map(repr, NAMED))
    rule = f"be one of {names}, or a {own.split('.')[1]}"
    raise ValueError(message(argument, rule, repr(dissimilarity), f"Subclass bayesfair.{own} for one of your own."))


BREGMAN = SquaredEuclidean, KullbackLeibler, ItakuraSaito, Bernoulli
NAMED = {
    **{kind.name: lambda power, kind=kind: kind() for kind in BREGMAN},
    "manhattan": lambda power: Minkowski(1.0),
    "minkowski": lambda power: Minkowski(check_number("power", power)),
}


def _x_log_x(x):
    """Elementwise, with 0 log 0 = 0."""
    xp = namespace(x)
    return x * xp.log(xp.where(x > 0, x, 1.0))


def _inverse(y):
    """1 / y elementwise, 0 where y is not above 0."""
    xp = namespace(y)
    return xp.where(y > 0, 1 / xp.where(y > 0, y, 1.0), 0.0)


def _kl(x, y):
    """x log(x/y) - x + y elementwise, with 0 log 0 = 0 and 0 where both are 0."""
    xp = namespace(x, y)
    ratio = x / xp.where(y > 0, y, 1.0)
    r = xp.where(y > 0, ratio - 1, 0.0)
    series = r**2 * (1 / 2 - r / 6 + r**2 / 12 - r**3 / 20)
    closed = ratio * xp.log(xp.where(ratio > 0, ratio, 1.0)) - r
    return y * xp.where(abs(r) < NEAR, series, closed)


def _check_domain(name, rule, X, inside):
    if not inside.all():
        row, column = np.argwhere(~inside)[0]
        bad = f"{X[row, column]} at row {row}, column {column} ({np.count_nonzero(~inside)} such entries in all)"
        remedy = "Rescale that column, or use 'kmeans' or 'manhattan', which take any number."
        raise ValueError(message("X", f"{rule} for '{name}'", bad, remedy))

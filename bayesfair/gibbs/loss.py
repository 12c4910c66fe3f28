"""The clustering losses that a user can name or write."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayesfair._check import Refusal, check_number, message
from bayesfair.fairlets.dissimilarity import Bregman, Dissimilarity, Minkowski, resolve_dissimilarity
from bayesfair.gibbs import losses as code
from bayesfair.gibbs.own_functions import compiled

NAMES = *code.CONJUGATE, "manhattan"


@dataclass(frozen=True)
class Loss:
    """A loss of your own: a plain Python function that Numba compiles.

    Parameters
    ----------
    divergence : callable, optional
        d(x, m): what a row x pays for the mean m of its cluster, a Bregman divergence. Both are float64 arrays.
    pair : callable, optional
        D(x, y): what two rows of a cluster pay, L_k = sum of w_i w_j D(x_i, x_j) / (2 W_k). Give one of the two.
    degree : float, optional
        h: the normaliser of exp(-lambda L) over N rows of d columns falls as lambda^(-N d / h). 2 for squared distances, 1
        for norms. Without it inverse temperatures are fixed numbers.
    translation_invariant : bool, default False
        Whether the loss stays the same if all rows move alike.

    References
    ----------
    Banerjee, Merugu, Dhillon and Ghosh (2005). Rigon, Herring and Dunson (2023).

    Examples
    --------
    >>> import bayesfair as bf
    >>> loss = bf.gibbs.Loss(divergence=lambda x, m: ((x - m) ** 2).sum(), degree=2)
    """

    divergence: Callable | None = None
    pair: Callable | None = None
    degree: float | None = None
    translation_invariant: bool = False

    def __post_init__(self):
        if (self.divergence is None) == (self.pair is None):
            raise ValueError(Refusal("Give bf.gibbs.Loss either divergence= or pair=, a function of two rows."))

    @property
    def dissimilarity(self) -> Dissimilarity:
        """The same function over arrays, for fairlets, starts and new rows."""
        return OwnPair(self.pair) if self.divergence is None else OwnDivergence(self.divergence)

    @property
    def has_centers(self) -> bool:
        """Whether clusters have centres: the Bregman family."""
        return self.divergence is not None

    has_conjugate_centers = False

    def code(self) -> code.LossCode:
        """Compile the function, for kernels.

        Returns
        -------
        LossCode
        """
        kind = code.OWN_DIVERGENCE if self.has_centers else code.OWN_PAIR
        return code.without_centers_law(kind, compiled(self.divergence or self.pair))


@dataclass(frozen=True)
class NamedLoss:
    """A loss of the package, by its dissimilarity; it has what `Loss` has."""

    dissimilarity: Dissimilarity

    @property
    def has_centers(self) -> bool:
        return isinstance(self.dissimilarity, Bregman)

    has_conjugate_centers = has_centers

    @property
    def degree(self) -> float:
        """2 is exact for squared distances, and of second order for other divergences; 1 is exact for norms."""
        return 2.0 if self.has_centers else 1.0

    @property
    def translation_invariant(self) -> bool:
        return self.dissimilarity.name in ("kmeans", "manhattan", "minkowski")

    def code(self) -> code.LossCode:
        return code.loss_code(self.dissimilarity.name, float(getattr(self.dissimilarity, "power", 1.0)))


@dataclass(frozen=True)
class OwnDivergence(Bregman):
    """A divergence of the user's own over arrays."""

    function: Callable

    def divergence(self, x, y):
        return finite_costs(self.function, x, y)

    def check(self, X):
        check_rows(over_rows(self.function, X, X.mean(0)), "paid for the mean of all rows")


@dataclass(frozen=True)
class OwnPair(Dissimilarity):
    """A dissimilarity of the user's own over arrays; a member pays it for the mean of its fairlet too."""

    function: Callable

    def between(self, x, y):
        return finite_costs(self.function, x, y)

    def to_center(self, x, center):
        return finite_costs(self.function, x, center)

    def check(self, X):
        check_rows(over_rows(self.function, X, np.roll(X, 1, axis=0)), "paid for the row before it")


def over_rows(function, x, y):
    """`function` of every pair of rows of two arrays (..., d) that broadcast."""
    x, y = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(y, np.float64))
    paid = np.empty(x.shape[:-1])
    code.of_rows(
        compiled(function), *(np.ascontiguousarray(part.reshape(-1, x.shape[-1])) for part in (x, y)), paid.ravel()
    )
    return paid


def finite_costs(function, x, y):
    """`over_rows`, or a ValueError that shows two rows whose cost is not a finite number."""
    paid = over_rows(function, x, y)
    if not np.isfinite(paid).all():
        at = tuple(np.argwhere(~np.isfinite(paid))[0])
        x, y = np.broadcast_arrays(x, y)
        refuse_value(paid[at], f"the rows {x[at]} and {y[at]}")
    return paid


def check_rows(paid, where: str):
    """Raise a ValueError for the first row whose cost is not a finite number."""
    wrong = np.flatnonzero(~np.isfinite(paid))
    if len(wrong):
        refuse_value(paid[wrong[0]], f"row {wrong[0]}, {where}")


def refuse_start(loss, points, labels, rows):
    """Raise a ValueError for the first point, with its row of the table, that makes the loss of these clusters not finite."""
    function = loss.divergence if loss.has_centers else loss.pair
    for i, k in enumerate(labels):
        others = points[labels == k]
        paid = over_rows(function, points[i], others.mean(0, keepdims=True) if loss.has_centers else others)
        check_rows(np.where(np.arange(len(rows)) == rows[i], np.abs(paid).sum(), 0.0), "in its cluster at the start")


def refuse_value(value, whom: str):
    """Raise the ValueError that stops a run: the function of `loss` gave this value, NaN or infinite."""
    remedy = "Check it with bf.gibbs.check_loss: guard logarithms, roots and quotients."
    raise ValueError(message("loss", "give finite numbers for all rows and means", f"{value} for {whom}", remedy))


def resolve_loss(loss) -> Loss | NamedLoss:
    """The loss of that name or object."""
    if isinstance(loss, Loss | NamedLoss):
        return loss
    if isinstance(loss, Minkowski):
        return NamedLoss(
            Minkowski(check_number("loss.power", loss.power, minimum=1, remedy="A norm has a power of at least 1."))
        )
    if isinstance(loss, str) and loss in NAMES:
        return NamedLoss(resolve_dissimilarity(loss))
    rule = f"be one of {', '.join(map(repr, NAMES))}, bf.gibbs.Minkowski(power) or bf.gibbs.Loss(...)"
    raise ValueError(message("loss", rule, repr(loss), "A function of your own goes into bf.gibbs.Loss."))

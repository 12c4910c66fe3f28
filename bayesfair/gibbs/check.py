"""A loss compared with its definition on rows of a table."""

import numpy as np

from bayesfair._check import check_features, generator_of, message
from bayesfair.gibbs.loss import resolve_loss

FEWEST_ROWS, MOST_ROWS = 8, 24
ROUNDING = 1e-8  # relative to the largest cost
NEARER, OFF_DEGREE = 16.0, 0.2  # how far rows shrink towards their mean, and how far a power may be from its degree


def check_loss(loss, X, *, random_state=0):
    """Compare a loss with its definition on a few rows of your data: silent if all is well.

    Parameters
    ----------
    loss : Loss or str
        The loss.
    X : array-like of shape (n_obs, n_features)
        Numbers like those of your data: at least eight rows in the domain of the loss, not all the same.
    random_state : int, default 0
        Seed of the choice of at most 24 rows.

    Raises
    ------
    AssertionError
        If the loss breaks a rule. The message says which, what was found, and what to do.
    ValueError
        If Numba cannot compile the function, it gives NaN or an infinite number, or X has fewer than eight rows.

    Notes
    -----
    All costs must be finite and not negative, and 0 for equal rows. A divergence must be a Bregman divergence: for any
    point z, sum_i d(x_i, z) = sum_i d(x_i, m) + n d(m, z) with the mean m, so that the mean is the best centre. A function
    of pairs must be symmetric. `degree` and `translation_invariant` must be true.

    References
    ----------
    Banerjee, Merugu, Dhillon and Ghosh (2005), theorem 4.

    Examples
    --------
    >>> import bayesfair as bf
    >>> loss = bf.gibbs.Loss(divergence=lambda x, m: ((x - m) ** 2).sum(), degree=2, translation_invariant=True)
    >>> bf.gibbs.check_loss(loss, bf.datasets.load_diabetes().features)
    """
    loss, X = resolve_loss(loss), check_features(X)
    if len(X) < FEWEST_ROWS:
        raise ValueError(message("X", f"have at least {FEWEST_ROWS} rows", len(X), "Pass more of your data."))
    rows = X[generator_of(random_state).choice(len(X), min(len(X), MOST_ROWS), replace=False)].astype(float)
    costs = _costs(loss, rows, rows)
    _is_a_cost(costs)
    if loss.has_centers:
        _has_the_mean_as_best_center(loss, rows, costs)
    else:
        remedy = "Return the same for (x, y) and (y, x)."
        _require_same(costs.T, costs, "pay for (y, x) what it pays for (x, y)", remedy)
    _tells_the_truth(loss, rows, costs)


def _costs(loss, x, y):
    """d(x, m) or D(x, y) of every row of x (n, d) with every row of y (k, d)."""
    pays = loss.dissimilarity.to_center if loss.has_centers else loss.dissimilarity.between
    return np.asarray(pays(x[:, None], y[None]), float)


def _require(holds, rule, got, remedy):
    if not holds:
        raise AssertionError(message("loss", rule, got, remedy))


def _require_same(values, expected, rule, remedy):
    """Require that two arrays agree up to rounding."""
    scale = max(np.abs(expected).max(), np.finfo(float).tiny)
    off = np.abs(values - expected).max() / scale  # NaN if either is
    _require(off <= ROUNDING, rule, f"numbers that are off by {off:.2g} of {scale:.3g}", remedy)


def _is_a_cost(costs):
    finite = np.isfinite(costs)
    remedy = "Guard logarithms, roots and quotients, or drop rows outside the domain."
    _require(finite.all(), "be finite for all pairs of rows", costs[~finite][:1], remedy)
    _require(
        costs.max() > 0, "be above zero for some rows that differ", "0 for all", "Pass distinct rows, or correct it."
    )
    rounding = ROUNDING * costs.max()
    _require(costs.min() >= -rounding, "not be negative", f"{costs.min():.3g}", "Correct a sign, or take a square.")
    own = np.abs(np.diagonal(costs)).max()
    _require(own <= rounding, "be 0 for equal rows", f"{own:.3g}", "Pay for differences only.")


def _has_the_mean_as_best_center(loss, rows, costs):
    mean = rows.mean(0, keepdims=True)
    excess = costs.sum(0) - _costs(loss, rows, mean).sum()
    remedy = "Pass pair= if it is not a Bregman divergence: clusters then need no centre."
    rule = "be a Bregman divergence, sum d(x, z) = sum d(x, mean) + n d(mean, z)"
    _require_same(excess, len(rows) * _costs(loss, mean, rows)[0], rule, remedy)


def _tells_the_truth(loss, rows, costs):
    """`degree` is the power by which costs fall as rows shrink to their mean; shifts change nothing if it says so."""
    if loss.degree is not None:
        mean = rows.mean(0)
        near, nearer = (mean + (rows - mean) / far for far in (NEARER, 2 * NEARER))
        power = np.log2(_costs(loss, near, near).sum() / _costs(loss, nearer, nearer).sum())
        remedy = f"Give degree={round(float(power), 1):g}, or None if there is no such power."
        rule = f"fall by 2^-{loss.degree:g}, as its degree says, if rows come twice as near to their mean"
        _require(abs(power - loss.degree) <= OFF_DEGREE, rule, f"2^-{power:.2f}", remedy)
    if loss.translation_invariant:
        moved = rows + rows.std(0)
        rule = "stay the same if all rows move alike, as it is `translation_invariant`"
        _require_same(_costs(loss, moved, moved), costs, rule, "Leave translation_invariant out.")

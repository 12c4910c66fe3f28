"""Inverse temperatures: what users may ask for, and choices by residuals around given clusters."""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaincinv

from bayesfair._check import check_number, message, tell
from bayesfair.balanced.centroids import medians
from bayesfair.gibbs.losses import BregmanLoss

NAMES = "dispersion", "holmes-walker", "loss-likelihood-bootstrap"
FLAT = 1e-10  # relative to a covariance's largest eigenvalue: less counts as 0
MUCH = 10  # times the lambda of 'dispersion': more is warned of


class Dispersion(NamedTuple):
    """The prior of lambda, Gamma(shape, rate).

    The default, p(lambda) proportional to 1 / lambda, does not depend on the units of the data.

    Parameters
    ----------
    shape : float, at least 0, default 0.0
        Shape of the gamma law.
    rate : float, at least 0, default 0.0
        Rate of the gamma law, in units of the loss.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.gibbs.Dispersion(shape=2.0, rate=1.0).shape
    2.0
    """

    shape: float = 0.0
    rate: float = 0.0


def holmes_walker(loss, X, labels, *, dim=None, weight=None) -> float:
    """The lambda of Holmes and Walker (2017, Biometrika 104, eq. 5) for residuals around given clusters.

    They choose the power w of a likelihood f so that an experiment informs about theta, in Fisher's distance, as much
    as if f were true: w^2 = E_f |grad log f|^2 / E_data |grad log f|^2. Here f(x) is proportional to
    exp(-lambda_0 D(x, theta)), theta the cluster's mean, with the scale lambda_0 from the *median* of D (under f,
    lambda_0 D ~ Gamma(d / h, 1): exact for homogeneous D, to second order for a Bregman divergence), and
    lambda = w lambda_0. It assumes that the bulk of the residuals follows f; tails heavier than f's then lower lambda.
    For norms the score is bounded, so w = 1.

    Shapes: X (N, d), labels (N,), weight (N,): of the rows, 1 unless given. dim: dimensions that the rows span, d unless given.
    Returns a float above zero.
    """
    weight, dim = np.ones(len(X)) if weight is None else weight, X.shape[1] if dim is None else dim
    own = [labels == k for k in range(labels.max() + 1)]
    means = np.stack([np.average(X[rows], 0, weight[rows]) for rows in own])[labels]
    is_bregman = isinstance(loss, BregmanLoss)
    distance = np.asarray((loss.divergence if is_bregman else loss.dissimilarity.between)(X, means), dtype=float)
    typical = medians(distance[:, None], weight)[0]
    if not typical > 0:
        rule = "not be 'holmes-walker' if more than half of the rows lie on their cluster's mean"
        raise ValueError(
            message("inverse_temperature", rule, "a median loss of 0", "Use 'dispersion', or give numbers.")
        )
    scale = gammaincinv(dim / loss.degree, 0.5) / typical
    if not is_bregman:
        return float(scale)
    curvature = np.asarray(loss.dissimilarity.curvature(means), dtype=float)
    expected = weight @ (curvature / scale).sum(1)
    observed = weight @ (np.square(curvature * (X - means))).sum(1)
    return float(scale * np.sqrt(expected / observed))


def loss_likelihood_bootstrap(loss, X, labels, *, weight=None) -> float:
    """The lambda of Lyddon, Holmes and Walker (2019, Biometrika 106, section 3), with the centres of given clusters as theta.

    Their bootstrap draws argmin_theta sum_i w_i l(theta, x_i), w from a flat Dirichlet law. With J the mean Hessian of l and I
    the mean square of its gradient, both at the minimum theta_0, it tends to N(theta_0, J^-1 I J^-1 / N), whatever law the rows
    have. The Gibbs posterior tends to N(theta_0, J^-1 / (lambda N)). Lambda makes the precisions equal in their traces:
    lambda = tr(J I^-1 J) / tr J, which is 1 where exp(-l) is the rows' own density.

    Here theta is the centres m_1, ..., m_K *given* the clusters z, and l = d_phi(x, m_z); the sampler's own law of m given z is
    that Gibbs posterior. A row tells of one centre, so that both matrices are block-diagonal: with p_k the share of cluster k
    and S_k the covariance of its rows, J_k = p_k diag(phi''(m_k)), and I_k = p_k diag(phi'') S_k diag(phi''). So
    lambda = sum_k p_k tr(S_k^-1) / sum_k p_k sum_j phi''(m_kj); for squared distances, phi'' = 2, it is the mean of
    tr(S_k^-1) / (2 d), and 1 / (2 sigma^2) where S_k = sigma^2 I.

    It assumes that the clusters are known: what J loses at borders, where a moved centre takes rows from another
    one, is left out, and so is what balance forbids. For squared distances it is never below the mean of the dispersion's
    law, N d / (2 L), and far above it, which a warning tells, where features nearly follow from each other.

    Shapes: X (N, d), labels (N,), weight (N,): of the rows, 1 unless given. Returns a float above zero.

    Raises
    ------
    ValueError: a loss that is no Bregman divergence, whose Hessian is not known; a cluster whose rows do not vary in all
    directions, as in one of too few rows, or where columns are indicators of categories.
    """
    if not isinstance(loss, BregmanLoss):
        rule = "not be 'loss-likelihood-bootstrap' for a loss without second derivatives"
        remedy = "Use 'dispersion' or 'holmes-walker', or give numbers."
        raise ValueError(message("inverse_temperature", rule, type(loss).__name__, remedy))
    weight, sums = np.ones(len(X)) if weight is None else weight, np.zeros(3)
    for k in range(labels.max() + 1):
        rows, mass = X[labels == k], weight[labels == k]
        mean = np.average(rows, 0, mass)
        residuals = (rows - mean) * np.sqrt(mass / mass.sum())[:, None]
        curvature = np.asarray(loss.dissimilarity.curvature(mean), dtype=float)
        spread = np.linalg.eigvalsh(residuals.T @ residuals)
        _refuse_flat(spread, len(rows))
        sums += mass.sum() * np.array([(1 / spread).sum(), curvature.sum(), (np.square(residuals) @ curvature).sum()])
    found, of_dispersion = sums[0] / sums[1], X.shape[1] * weight.sum() / sums[2]
    if found > MUCH * of_dispersion:
        what = f"gives a lambda {found / of_dispersion:,.0f} times that of 'dispersion', as rows hardly vary in some direction"
        remedy = "drop features that nearly follow from others, or use 'dispersion'"
        result = "all memberships will look certain"
        tell(f"inverse_temperature='loss-likelihood-bootstrap' {what}: {result}. Remedy: {remedy}.")
    return float(found)


def _refuse_flat(spread, n_rows):
    """Raise a ValueError if the sorted eigenvalues of a cluster's covariance show that its rows lie in a subspace."""
    if not spread[0] > FLAT * spread[-1]:
        rule = "not be 'loss-likelihood-bootstrap' if the rows of a cluster do not vary in all directions"
        remedy = (
            "Use 'dispersion' or 'holmes-walker', drop features that follow from others, or ask for fewer clusters."
        )
        got = f"a cluster of {n_rows} rows and {len(spread)} columns"
        raise ValueError(message("inverse_temperature", rule, got, remedy))


def resolve_temperature(value):
    """A `Dispersion`, one of the other NAMES, or positive floats: (lambda,) or (lambda_f, lambda_c)."""
    if isinstance(value, Dispersion):
        remedy = "Dispersion(0, 0) is the default prior."
        names = (f"inverse_temperature.{name}" for name in Dispersion._fields)
        return Dispersion(*(check_number(*part, minimum=0, remedy=remedy) for part in zip(names, value)))
    if isinstance(value, str) and value in NAMES:
        return Dispersion() if value == "dispersion" else value
    remedy = "A pair (lambda_f, lambda_c) fixes both, one number that of target='labels'."
    given = (value,) if np.isscalar(value) or np.ndim(value) == 0 else tuple(value)
    if isinstance(value, str) or value is None or len(given) not in (1, 2):
        rule = f"be {str(NAMES)[1:-1]}, a pair of numbers above zero, or one for target='labels'"
        raise ValueError(message("inverse_temperature", rule, repr(value), remedy))
    return tuple(check_number("inverse_temperature", part, remedy=remedy) for part in given)


def check_how_many(inverse_temperature, fixed):
    """Raise a ValueError if the number of fixed inverse temperatures differs from `fixed`, their names."""
    given = isinstance(inverse_temperature, tuple) and not isinstance(inverse_temperature, Dispersion)
    if given and len(inverse_temperature) != len(fixed):
        rule, remedy = (
            "be one number for target='labels'",
            "Give lambda alone: there are no fairlets.",
        )
        if len(fixed) == 2:
            rule, remedy = (
                "be a pair for targets over fairlets",
                "Pass (lambda_f, lambda_c).",
            )
        got = "one number" if len(fixed) == 2 else "a pair"  # not the numbers, which are in the sampler's units
        raise ValueError(message("inverse_temperature", rule, got, remedy))


def refuse_without_degree(inverse_temperature, fixed="a pair (lambda_f, lambda_c)"):
    """Raise a ValueError: a loss without a degree needs `fixed` inverse temperatures."""
    rule = f"be {fixed} for a loss without a degree"
    remedy = "Give the loss its degree (2 for squared distances, 1 for norms) to let the data choose."
    raise ValueError(message("inverse_temperature", rule, repr(inverse_temperature), remedy))

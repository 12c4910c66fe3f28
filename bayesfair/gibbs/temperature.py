"""Inverse temperatures: what users may ask for, and choices by residuals around given clusters."""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaincinv

from bayesfair._check import check_number, message, tell
from bayesfair.balanced.centroids import medians
from bayesfair.gibbs.loss import BregmanLoss

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

    They choose the power w of a likelihood f by w^2 = E_f |grad log f|^2 / E_data |grad log f|^2. Here f(x) is
    proportional to exp(-lambda_0 D(x, theta)), theta the cluster's mean, and lambda = w lambda_0, with lambda_0 from the
    *median* of D: under f, lambda_0 D ~ Gamma(d / h, 1). So tails heavier than f's make lambda lower than the median rule's
    lambda_0. For norms the score is bounded, so w = 1. X (N, columns), labels and weight (N,); dim: d, the dimensions that
    count, as many as columns unless given.
    """
    weight, dim = np.ones(len(X)) if weight is None else weight, X.shape[1] if dim is None else dim
    own = [labels == k for k in range(labels.max() + 1)]
    means = np.stack([np.average(X[rows], 0, weight[rows]) for rows in own])[labels]
    is_bregman = isinstance(loss, BregmanLoss)
    distance = np.asarray((loss.divergence if is_bregman else loss.dissimilarity.between)(X, means), dtype=float)
    typical = medians(distance[:, None], weight)[0]
    if not typical > 0:
        rule = "not be 'holmes-walker' if more than half of the rows lie on their cluster's mean"
        remedy = "Use 'dispersion', or give numbers."
        raise ValueError(message("inverse_temperature", rule, "a median loss of 0", remedy))
    scale = gammaincinv(dim / loss.degree, 0.5) / typical
    if not is_bregman:
        return float(scale)
    curvature = np.asarray(loss.dissimilarity.curvature(means), dtype=float)
    expected = weight @ (curvature / scale).mean(1) * dim
    observed = weight @ (np.square(curvature * (X - means))).sum(1)
    return float(scale * np.sqrt(expected / observed))


def loss_likelihood_bootstrap(loss, X, labels, *, weight=None) -> float:
    """The lambda of Lyddon, Holmes and Walker (2019, Biometrika 106, section 3), with the centres of given clusters as theta.

    With J the mean Hessian of the loss l and I the mean square of its gradient, both at its minimum theta_0, their bootstrap
    tends to N(theta_0, J^-1 I J^-1 / N) and the Gibbs posterior to N(theta_0, J^-1 / (lambda N)). Lambda makes the precisions
    equal in their traces: lambda = tr(J I^-1 J) / tr J.

    Here theta is the centres m_1, ..., m_K given the clusters, and l = d_phi(x, m_z). A row tells of one centre: with p_k the
    share of cluster k and S_k its rows' covariance, J_k = p_k diag(phi''(m_k)), and I_k = p_k diag(phi'') S_k diag(phi'').
    So lambda = sum_k p_k tr(S_k^-1) / sum_k p_k sum_j phi''(m_kj). What borders and balance forbid is left out. For squared
    distances it is never below the mean of the dispersion's law, N d / (2 L). X (N, d), labels and weight (N,).
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


def check_fixed(settings, pair: bool):
    """Raise a ValueError if inverse temperatures are fixed, but not a pair or not one number, or if the loss needs that."""
    given = settings.inverse_temperature
    if settings.has_fixed_pair and len(given) != 1 + pair:
        rule, remedy = "be one number for target='labels'", "Give lambda alone: there are no fairlets."
        if pair:
            rule, remedy = "be a pair for targets over fairlets", "Pass (lambda_f, lambda_c)."
        got = "one number" if pair else "a pair"  # not the numbers, which are in the sampler's units
        raise ValueError(message("inverse_temperature", rule, got, remedy))
    if settings.loss.degree is None and not settings.has_fixed_pair:
        rule = f"be {'a pair (lambda_f, lambda_c)' if pair else 'one number, lambda,'} for a loss without a degree"
        remedy = "Give the loss its degree (2 for squared distances, 1 for norms) to let the data choose."
        raise ValueError(message("inverse_temperature", rule, repr(given), remedy))

"""Inverse temperatures: what a user may ask for, and the choice of Holmes and Walker."""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaincinv

from bayesfair._check import check_number, message
from bayesfair.balanced.centroids import medians
from bayesfair.gibbs.losses import BregmanLoss


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
        rule = "not be 'holmes-walker' where more than half of the observations sit on their cluster's mean"
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


def resolve_temperature(value):
    """A `Dispersion`, "holmes-walker", or positive floats: (lambda,) or (lambda_f, lambda_c)."""
    if isinstance(value, Dispersion):
        remedy = "Dispersion(0, 0) is the default prior."
        names = (f"inverse_temperature.{name}" for name in Dispersion._fields)
        return Dispersion(*(check_number(*part, minimum=0, remedy=remedy) for part in zip(names, value)))
    if isinstance(value, str) and value in ("dispersion", "holmes-walker"):
        return Dispersion() if value == "dispersion" else value
    remedy = "A pair (lambda_f, lambda_c) fixes both, one number that of target='labels'."
    given = (value,) if np.isscalar(value) or np.ndim(value) == 0 else tuple(value)
    if isinstance(value, str) or value is None or len(given) not in (1, 2):
        rule = "be 'dispersion', 'holmes-walker', a pair of numbers above zero, or one for target='labels'"
        raise ValueError(message("inverse_temperature", rule, repr(value), remedy))
    return tuple(check_number("inverse_temperature", part, remedy=remedy) for part in given)


def check_how_many(inverse_temperature, fixed):
    """ValueError where fixed inverse temperatures are not as many as those that are `fixed`, by their names."""
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
        got = "one number" if len(fixed) == 2 else "a pair"  # not the numbers, which are in the sampler's units here
        raise ValueError(message("inverse_temperature", rule, got, remedy))


def refuse_without_degree(inverse_temperature, fixed="a pair (lambda_f, lambda_c)"):
    """ValueError: nothing but what is `fixed` suits a loss without a degree."""
    rule = f"be {fixed} for a loss without a degree"
    remedy = "Give the loss its degree (2 for squared distances, 1 for norms) to let the data choose."
    raise ValueError(message("inverse_temperature", rule, repr(inverse_temperature), remedy))

"""Inverse temperatures: one lambda on the scale of the observations, and what it means for the two losses.

The within-cluster loss of the observations splits into a fairlet part and a clustering part. With hubs it does so
exactly, SSE = L_f + (mean size) L_c, so lambda_f = lambda and lambda_c = (mean size) lambda. Anchored fairlets measure
D to a member instead of to the mean, twice as far (exactly for 1:1, on average for 1:t): lambda_f = lambda / 2. Two
lambdas, each with its own conjugate step, would degenerate: fairlets of distant members have centres in one place.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaincinv

from bayesfair._check import check_number, message
from bayesfair.gibbs.losses import BregmanLoss
from bayesfair.gibbs.target import InverseTemperatures, Target

__all__ = ["Dispersion", "from_dispersion", "holmes_walker", "resolve_temperature"]


class Dispersion(NamedTuple):
    """Prior of lambda: Gamma(shape, rate). The default, p(lambda) proportional to 1 / lambda, is scale-equivariant."""

    shape: float = 0.0
    rate: float = 0.0


def fairlet_factor(target: Target) -> float:
    """lambda_f / lambda: 1 with hubs, 1/2 with anchors."""
    return 1.0 if target.anchor is None else 0.5


def from_dispersion(target: Target, inverse_dispersion) -> InverseTemperatures:
    """(lambda_f, lambda_c) of one lambda = 1 / (2 sigma^2), sigma the within-cluster standard deviation."""
    return InverseTemperatures(fairlet_factor(target) * inverse_dispersion, target.mean_size * inverse_dispersion)


def total_loss(target: Target, fairlet_loss, clustering_loss):
    """The loss of the observations, of which lambda is the inverse temperature."""
    return fairlet_factor(target) * fairlet_loss + target.mean_size * clustering_loss


def degrees(target: Target) -> float:
    """Power of lambda in the normaliser of exp(-lambda loss), N d / h for a loss of degree h (Rigon et al. 2023).

    Exact for homogeneous losses, to second order for the other Bregman divergences (see `BregmanLoss`). Either way it is
    part of the target as lambda^(N d / h), which the conjugate step samples exactly.
    """
    return target.n_obs * target.x.shape[1] / target.loss.degree


def draw_inverse_dispersion(key, target: Target, prior: Dispersion, fairlet_loss, clustering_loss):
    """The conjugate step: lambda | B, C ~ Gamma(a + N d / h, rate b + loss)."""
    rate = prior.rate + total_loss(target, fairlet_loss, clustering_loss)
    return jax.random.gamma(key, prior.shape + degrees(target), dtype=target.x.dtype) / rate


def log_prior(target: Target, prior: Dispersion, temperatures: InverseTemperatures):
    """Log of everything in p(B, C, lambda) but the losses: (a + N d / h - 1) log lambda - b lambda."""
    inverse_dispersion = temperatures.clustering / target.mean_size
    return (prior.shape + degrees(target) - 1) * jnp.log(inverse_dispersion) - prior.rate * inverse_dispersion


def holmes_walker(loss, X, labels) -> float:
    """The lambda of Holmes and Walker (2017, Biometrika 104, eq. 5) for residuals around given clusters.

    They choose the power w of a likelihood f so that an experiment informs about theta, in Fisher's distance, as much
    as if f were true: w^2 = E_f |grad log f|^2 / E_data |grad log f|^2. Here f(x) is proportional to
    exp(-lambda_0 D(x, theta)), theta the cluster's mean, with the scale lambda_0 from the *median* of D (under f,
    lambda_0 D ~ Gamma(d / h, 1): exact for homogeneous D, to second order for a Bregman divergence), and
    lambda = w lambda_0. It assumes that the bulk of the residuals follows f; tails heavier than f's then lower lambda.
    For norms the score is bounded, so w = 1.

    Shapes: X (N, d), labels (N,). Returns a float above zero.
    """
    means = np.stack([X[labels == k].mean(0) for k in range(labels.max() + 1)])[labels]
    is_bregman = isinstance(loss, BregmanLoss)
    distance = np.asarray((loss.divergence if is_bregman else loss.dissimilarity.between)(X, means), dtype=float)
    typical = np.median(distance)
    if not typical > 0:
        rule = "not be 'holmes-walker' where more than half of the observations sit on their cluster's mean"
        raise ValueError(message("inverse_temperature", rule, "a median loss of 0", "Use 'dispersion' or a pair."))
    scale = gammaincinv(X.shape[1] / loss.degree, 0.5) / typical
    if not is_bregman:
        return float(scale)
    curvature = np.asarray(loss.curvature(means), dtype=float)
    expected = (curvature / scale).sum(1).mean()
    observed = (np.square(curvature * (X - means))).sum(1).mean()
    return float(scale * np.sqrt(expected / observed))


def resolve_temperature(value):
    """`Dispersion()`, "holmes-walker" or a pair of positive floats."""
    if isinstance(value, Dispersion):
        return value
    if isinstance(value, str) and value in ("dispersion", "holmes-walker"):
        return Dispersion() if value == "dispersion" else value
    remedy = "A pair (lambda_f, lambda_c) fixes both."
    if isinstance(value, str) or not np.iterable(value) or len(tuple(value)) != 2:
        rule = "be 'dispersion', 'holmes-walker' or a pair of numbers above zero"
        raise ValueError(message("inverse_temperature", rule, repr(value), remedy))
    return tuple(check_number("inverse_temperature", part, remedy=remedy) for part in value)

"""The losses of a Gibbs posterior's draws and the law of lambda in it."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bayesfair._names import DataTree
from bayesfair.posterior.saved import settings_of
from bayesfair.posterior.schema import variable
from bayesfair.posterior.view import once

KNOWN = "joint", "optimal", "labels"  # targets with densities of the form given here


class Energies(NamedTuple):
    """Draws of p(z) proportional to exp(-lambda L(z)), or with a sampled lambda.

    With a sampled lambda, of p(z, lambda) proportional to lambda^(degrees - 1) exp(-lambda (rate + L(z))). `lambdas` is
    lambda_c, and `losses` are in units of 1 / lambda_c, so that their product is lambda_f L_f + lambda_c L_c over
    fairlets. `shape`, `rate`: of the gamma prior of lambda_c; None if lambda is fixed.
    """

    lambdas: Float[np.ndarray, "chains draws"]
    losses: Float[np.ndarray, "chains draws"]
    shape: float | None = None
    rate: float | None = None

    @property
    def is_sampled(self) -> bool:
        return self.shape is not None

    @property
    def degrees(self) -> float:
        """a + N d / h.

        lambda (b + L) has the law Gamma(a + N d / h, 1) whatever z is. So its mean over draws equals this, up to a
        relative error of one over the root of N d / h times the number of draws.
        """
        return float((self.lambdas * (self.rate + self.losses)).mean())

    @property
    def log_density(self) -> Float[np.ndarray, "chains draws"]:
        """log p(z) of every draw, with a sampled lambda integrated out, up to a constant."""
        if not self.is_sampled:
            return -self.lambdas * self.losses
        return -self.degrees * np.log(self.rate + self.losses)


@once
def energies_of(tree: "DataTree") -> Energies | None:
    """The energies of a tree of `GibbsFairClustering` under one of the KNOWN targets; None for other trees."""
    parameters = settings_of(tree).get("parameters", {})
    lambda_c, loss = variable(tree, "posterior", "lambda_c"), variable(tree, "sample_stats", "clustering_loss")
    if parameters.get("target") not in KNOWN or lambda_c is None or loss is None:
        return None
    lambdas, losses = lambda_c.values.astype(float), loss.values.astype(float)
    lambda_f, of_fairlets = variable(tree, "posterior", "lambda_f"), variable(tree, "sample_stats", "fairlet_loss")
    if lambda_f is not None and of_fairlets is not None:
        losses = losses + lambda_f.values / lambdas * of_fairlets.values
    shape, rate = _prior(parameters.get("inverse_temperature"))
    if rate:
        members = variable(tree, "sampler_state", "members")
        if members is None and parameters["target"] != "labels":  # the mean size of a fairlet is unknown
            return None
        rate /= 1.0 if members is None else tree["posterior"].sizes["obs"] / members.sizes["fairlet"]
    least = losses.min() + (rate or 0.0)
    has_law = lambdas.min() > 0 and (least > 0 or (least == 0 and shape is None))
    return Energies(lambdas, losses, shape, rate) if has_law else None


def _prior(asked):
    """(shape, rate) of the prior of a sampled lambda; None if it is fixed."""
    if isinstance(asked, str):
        return (0.0, 0.0) if asked == "dispersion" else (None, None)
    return (asked.shape, asked.rate) if hasattr(asked, "rate") else (None, None)  # a `Dispersion`

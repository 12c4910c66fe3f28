"""The losses of a Gibbs posterior's draws, the law of lambda in it, and their logs for ArviZ's power scaling, `az.psense`."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bayesfair._names import DataTree
from bayesfair.posterior.saved import settings_of, target_of
from bayesfair.posterior.schema import variable
from bayesfair.posterior.view import once

KNOWN = "joint", "optimal", "labels"  # targets with densities of the form given here
PSEUDO = "log_pseudo_likelihood"
OWN = {PSEUDO: "loss", "log_prior": "lambda"}  # groups made here, recognised by a variable of each


class Energies(NamedTuple):
    """Draws of p(z, lambda) proportional to lambda^(degrees - 1) exp(-lambda (rate + L(z))), or of a fixed lambda's p(z).

    `lambdas` is lambda_c, and `losses` are in units of 1 / lambda_c. `shape`, `rate`: of the gamma prior; None if fixed.
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
        """a + N d / h: the mean of lambda (b + L), which has the law Gamma(a + N d / h, 1) whatever z is."""
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
    target = target_of(tree)
    if target.get("name") not in KNOWN or lambda_c is None or loss is None:
        return None
    lambdas, losses = lambda_c.values.astype(float), loss.values.astype(float)
    lambda_f, of_fairlets = variable(tree, "posterior", "lambda_f"), variable(tree, "sample_stats", "fairlet_loss")
    if lambda_f is not None and of_fairlets is not None:
        losses = losses + lambda_f.values / lambdas * of_fairlets.values
    shape, rate = _prior(parameters.get("inverse_temperature"))
    if rate:
        n_obs = tree["posterior"].sizes["obs"]
        rate /= n_obs / target.get("n_fairlets", n_obs)  # the mean size of a fairlet
    least = losses.min() + (rate or 0.0)
    has_law = lambdas.min() > 0 and (least > 0 or (least == 0 and shape is None))
    return Energies(lambdas, losses, shape, rate) if has_law else None


def _prior(asked):
    """(shape, rate) of the prior of a sampled lambda; None if it is fixed."""
    if isinstance(asked, str):
        return (0.0, 0.0) if asked == "dispersion" else (None, None)
    return (asked.shape, asked.rate) if hasattr(asked, "rate") else (None, None)  # a `Dispersion`


def add_log_groups(tree: "DataTree") -> None:
    """Add the groups to the tree of a Gibbs posterior, (chain, draw), up to constants; other trees stay unchanged.

    log_pseudo_likelihood: `loss`, -lambda L, and `normalizer`, (N d / h) log lambda, each of all rows together: no row has a
    likelihood that `az.loo` could leave out. log_prior: `lambda`, the log of its gamma prior, if sampled.
    """
    import xarray as xr

    energies = energies_of(tree)
    if energies is None:
        return
    lambdas, is_sampled = energies.lambdas, energies.is_sampled
    degrees = energies.degrees - energies.shape if is_sampled else 0.0
    likelihood = {"loss": -lambdas * energies.losses, "normalizer": degrees * np.log(lambdas)}
    groups = {PSEUDO: likelihood}
    if is_sampled:
        groups["log_prior"] = {"lambda": (energies.shape - 1) * np.log(lambdas) - energies.rate * lambdas}
    coords = {dim: tree["posterior"][dim] for dim in ("chain", "draw")}
    for name, values in groups.items():
        tree[name] = xr.Dataset({one: (("chain", "draw"), v) for one, v in values.items()}, coords)


def is_own(tree: "DataTree", group) -> bool:
    """Was a group of the tree made here, from its other groups?"""
    return group in OWN and variable(tree, group, OWN[group]) is not None

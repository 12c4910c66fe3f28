"""The parameters of a mixture: their sites, and the form that densities read."""

from typing import NamedTuple

import jax.numpy as jnp
import numpyro
from jaxtyping import Array, Float
from numpyro.infer.util import compute_log_probs

from bayesfair._check import check_integer, message
from bayesfair.engines.families import Components, Family, pack_factor
from bayesfair.models.factor import SMOOTHING, check_smoothing
from bayesfair.models.priors import (
    Prior,
    check_prior,
    law_of_correlations,
    law_of_levels,
    law_of_means,
    law_of_scales,
    law_of_weights,
)
from bayesfair.models.rows import MixtureRow
from bayesfair.models.sparse import SparseScores, log_weights, scores_of
from bayesfair.models.units import ColumnUnits


def mixture_of(family: Family, n_components, prior, smoothing=SMOOTHING):
    """The mixture with these settings of a user, checked."""
    check_integer("n_components", n_components)
    check_prior(prior)
    check_smoothing(smoothing)
    return Mixture(family, n_components, prior or Prior(), smoothing)


class Mixture(NamedTuple):
    """A mixture without data: hashable; with the shapes of `Observed` it determines its program."""

    family: Family
    n_components: int
    prior: Prior = Prior()
    smoothing: float = SMOOTHING

    def row(self, units: ColumnUnits, sites) -> MixtureRow:
        """The law of a row, given the sites' values."""
        return MixtureRow(self.components(units, sites), units, self.family)

    def components(self, units: ColumnUnits, sites) -> Components:
        """The parameters, from the values of sampled sites or of those that follow from them."""
        if "weight_scores" in sites:
            log_mixing = log_weights(sites["weight_scores"], self.prior.typical_weight)
        else:
            log_mixing = jnp.log(sites["weights"])
        return assemble(self.family, units, log_mixing, sites)

    def weight_sites(self, weights):
        """The sites for these weights (..., K), with e0 at its typical value."""
        if not self.prior.is_sparse:
            return {"weights": weights}
        typical = self.prior.typical_weight
        sites = {"weight_scores": scores_of(weights, typical)}
        if self.prior.samples_concentration:
            sites["concentration"] = jnp.full(weights.shape[:-1], typical)
        return sites


def sample_parameters(mixture: Mixture, units: ColumnUnits):
    """Sample the parameter sites from their prior; {name: value}."""
    family, n_components, prior, _ = mixture
    dim, laws = len(units.middle), {}
    sites = _sample_weights(n_components, prior)
    if dim:
        laws["means"] = law_of_means(prior, units)
        laws["scales"] = law_of_scales(prior, units, shared=family.covariance_type == "isotropic")
    if family.covariance_type == "full" and dim > 1:
        laws["correlation_cholesky"] = law_of_correlations(prior, dim)
    laws |= {f"levels_{j}": law_of_levels(prior, n) for j, n in enumerate(family.n_levels)}
    if family.covariance_type == "isotropic" and dim:
        sites["scales"] = _sample("scales", laws.pop("scales"))
    with numpyro.plate("components", n_components):
        return sites | {name: _sample(name, law, n_components) for name, law in laws.items()}


def _sample(name, law, *plates):
    """A site's value; a ValueError if values from elsewhere, such as draws, do not suit the model."""
    value, shape = numpyro.sample(name, law), (*plates, *law.shape())
    if jnp.shape(value) != shape:
        rule = f"have the shape {shape} in this model"
        remedy = (
            "Pass the n_components, n_levels and covariance_type, and a table with the columns, that the draws have."
        )
        raise ValueError(message(name, rule, f"values of shape {jnp.shape(value)}", remedy))
    return value


def log_prior(mixture: Mixture, units: ColumnUnits, sites) -> Float[Array, ""]:
    """log p(Theta) of these values of the parameter sites, of which none may be missing; the fairness factor is no prior."""
    return sum(compute_log_probs(sample_parameters, (mixture, units), {}, sites)[0].values())


def _sample_weights(n_components, prior: Prior):
    """Sample `weights`, or the scores that determine them, and e0 if it has a prior."""
    if not prior.is_sparse:
        return {"weights": _sample("weights", law_of_weights(prior, n_components))}
    sites, concentration = {}, prior.weight
    if prior.samples_concentration:
        concentration = sites["concentration"] = numpyro.sample("concentration", prior.weight)
    scores = SparseScores(concentration, n_components, prior.typical_weight)
    sites["weight_scores"] = _sample("weight_scores", scores)
    numpyro.deterministic("weights", jnp.exp(log_weights(sites["weight_scores"], prior.typical_weight)))
    return sites


def assemble(family: Family, units: ColumnUnits, log_mixing, sites) -> Components:
    """The unconstrained form of `engines.families`, in units of `units.scale`; log_mixing: log pi (K,)."""
    n_components, dim = len(log_mixing), len(units.middle)
    mean, spread = jnp.zeros((n_components, 0)), jnp.zeros(())
    if dim:
        mean = (sites["means"] - units.middle) / units.scale
        relative = sites["scales"] / (units.scale[0] if family.covariance_type == "isotropic" else units.scale)
        spread = 2 * jnp.log(relative)
        if family.covariance_type == "full":
            correlation = sites.get("correlation_cholesky", jnp.ones((n_components, 1, 1)))
            spread = pack_factor(relative[:, :, None] * correlation)
    logits = [jnp.log(sites[f"levels_{j}"]) for j in range(len(family.n_levels))]
    return Components(log_mixing, mean, spread, jnp.concatenate([jnp.zeros((n_components, 0)), *logits], 1))

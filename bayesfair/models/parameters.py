"""The parameters of a mixture: their prior, their sites, and the form that densities read."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Float

from bayesfair._check import check_integer, check_number, message
from bayesfair.engines.families import Components, Family, pack_factor
from bayesfair.models.factor import SMOOTHING, check_smoothing
from bayesfair.models.rows import MixtureRow
from bayesfair.models.sparse import SparseScores, log_weights, scores_of
from bayesfair.models.units import ColumnUnits, MeansLaw


class Prior(NamedTuple):
    """A weakly informative prior of a mixture, in units of the columns.

    m_j and s_j are the mean and the standard deviation of column j, by `column_scaling`.

    Parameters
    ----------
    weight : float above zero or pair of float, default 2.0
        e0 of the weights, which are Dirichlet(e0, ..., e0). Below 1 the mixture is sparse: take more components than
        clusters are expected, such as 10 with 0.01. Components that are not needed stay empty, and the number of occupied
        clusters has a posterior. A pair (shape, rate) is a gamma prior of e0, such as (1, 200); e0 is then a parameter of
        the posterior, `concentration`.
    mean : float, default 1.5
        The mean of component k in column j is N(m_j, (mean s_j)^2).
    sd : pair of float, default (0.5, 0.7)
        Standard deviations are LogNormal(log(sd[0] s), sd[1]). s is s_j, or the root of the mean variance if one standard
        deviation is shared.
    correlation : float, default 2.0
        Correlations are LKJ(correlation).
    level : float, default 1.0
        The levels of a categorical column in each component are Dirichlet(level, ..., level).

    References
    ----------
    Malsiner-Walli, Frühwirth-Schnatter and Grün (2016) and Frühwirth-Schnatter and Malsiner-Walli (2019), for sparse
    mixtures.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.models.Prior(weight=0.01).is_sparse
    True
    """

    weight: float | tuple[float, float] = 2.0
    mean: float = 1.5
    sd: tuple[float, float] = (0.5, 0.7)
    correlation: float = 2.0
    level: float = 1.0

    @property
    def is_sparse(self):
        """Whether components may stay empty."""
        return not np.isscalar(self.weight) or self.weight < 1

    @property
    def typical_weight(self):
        """The weight e0, or the mean of its prior."""
        return float(self.weight) if np.isscalar(self.weight) else self.weight[0] / self.weight[1]


def check_prior(prior, inference="nuts"):
    """Raise a TypeError or ValueError if `prior` is not a `Prior` or None, or its weight does not suit `inference`."""
    if prior is None:
        return
    if not isinstance(prior, Prior):
        rule, remedy = "be a bayesfair.models.Prior or None", "Its fields are numbers; Prior() is the default."
        raise TypeError(message("prior", rule, type(prior).__name__, remedy))
    parts = prior.weight if isinstance(prior.weight, (tuple, list)) else (prior.weight,) * 2
    if len(parts) != 2:
        rule, remedy = "have a weight that is a number or a pair (shape, rate)", "0.01 makes a sparse mixture."
        raise ValueError(message("prior", rule, prior.weight, remedy))
    if not (isinstance(prior.sd, (tuple, list)) and len(prior.sd) == 2):
        rule, remedy = "have an sd that is a pair (median, sd of its logarithm)", "(0.5, 0.7) is the default."
        raise ValueError(message("prior", rule, prior.sd, remedy))
    for part in parts:
        check_number("prior.weight", part, remedy="0.01 makes a sparse mixture, 2 is the default.")
    for part in prior.sd:
        check_number("prior.sd", part, remedy="(0.5, 0.7) is the default.")
    for name in ("mean", "correlation", "level"):
        check_number(f"prior.{name}", getattr(prior, name), remedy=f"{getattr(Prior(), name)} is the default.")
    if prior.is_sparse and inference == "svi":
        rule, remedy = "have a weight of at least 1 if inference is 'svi'", "Use inference='nuts'."
        raise ValueError(message("prior", rule, prior.weight, f"A normal guide has no empty components. {remedy}"))


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
        if not np.isscalar(self.prior.weight):
            sites["concentration"] = jnp.full(weights.shape[:-1], typical)
        return sites


def sample_parameters(mixture: Mixture, units: ColumnUnits):
    """Sample the parameter sites from their prior; {name: value}."""
    family, n_components, prior, _ = mixture
    dim = len(units.middle)
    sites = _sample_weights(n_components, prior)
    if dim:
        sites["means"] = _sample("means", MeansLaw(units, n_components, prior.mean))
        sites["scales"] = _sample("scales", _prior_of_scales(family, units, n_components, prior))
    if family.covariance_type == "full" and dim > 1:
        law = dist.LKJCholesky(dim, prior.correlation).expand([n_components]).to_event(1)
        sites["correlation_cholesky"] = _sample("correlation_cholesky", law)
    for j, n in enumerate(family.n_levels):
        law = dist.Dirichlet(jnp.full((n_components, n), float(prior.level))).to_event(1)
        sites[f"levels_{j}"] = _sample(f"levels_{j}", law)
    return sites


def _sample(name, law):
    """A site's value; a ValueError if values from elsewhere, such as draws, do not suit the model."""
    value = numpyro.sample(name, law)
    if jnp.shape(value) != law.shape():
        rule = f"have the shape {law.shape()} in this model"
        remedy = (
            "Pass the n_components, n_levels and covariance_type, and a table with the columns, that the draws have."
        )
        raise ValueError(message(name, rule, f"values of shape {jnp.shape(value)}", remedy))
    return value


def log_prior(mixture: Mixture, units: ColumnUnits, sites) -> Float[Array, ""]:
    """log p(Theta) of these values of the parameter sites, of which none may be missing; the fairness factor is no prior."""
    with numpyro.handlers.trace() as named, numpyro.handlers.substitute(data=sites):
        sample_parameters(mixture, units)
    return sum(site["fn"].log_prob(site["value"]).sum() for site in named.values() if site["type"] == "sample")


def _sample_weights(n_components, prior: Prior):
    """Sample `weights`, or the scores that determine them, and e0 if it has a prior."""
    if not prior.is_sparse:
        return {"weights": _sample("weights", dist.Dirichlet(jnp.full(n_components, float(prior.weight))))}
    sites, concentration = {}, prior.weight
    if not np.isscalar(concentration):
        concentration = sites["concentration"] = numpyro.sample("concentration", dist.Gamma(*concentration))
    scores = SparseScores(concentration, n_components, prior.typical_weight)
    sites["weight_scores"] = _sample("weight_scores", scores)
    numpyro.deterministic("weights", jnp.exp(log_weights(sites["weight_scores"], prior.typical_weight)))
    return sites


def _prior_of_scales(family, units, n_components, prior):
    median, spread = prior.sd
    if family.covariance_type == "isotropic":
        return dist.LogNormal(jnp.log(median * units.scale[0]), spread)
    law = dist.LogNormal(jnp.log(median * units.scale), spread)
    return law.expand([n_components, len(units.middle)]).to_event(2)


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

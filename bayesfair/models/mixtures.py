"""Fair mixtures as plain NumPyro model functions, labels marginalised so that NUTS works.

    log p(Theta | X) = log p(Theta) + sum_i log sum_k pi_k f(x_i; theta_k) - lambda N Delta_tau(Theta) + const

Delta_tau is `smooth_gap` of the assignment map psi (FMC, eq. 2). DESIGN section 4.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from bayesfair._check import check_integer, check_number, message
from bayesfair.engines.families import Components, Family, pack_factor
from bayesfair.models.observed import Observed, cluster_gaps, observe
from bayesfair.models.rows import ColumnScaling, LabelledRow, MixtureRow
from bayesfair.models.sparse import SparseScores, log_weights, scores_of

SMOOTHING = 0.01  # tau: gaps are told apart down to about this size


class Prior(NamedTuple):
    """Weakly informative, in units of the columns: m_j and s_j are mean and standard deviation of column j.

    pi ~ Dirichlet(weight, ..., weight);  mu_kj ~ N(m_j, (mean s_j)^2);  sigma ~ LogNormal(log(sd[0] s), sd[1]), s being
    s_j, or the root of the mean variance where sigma is shared; correlations ~ LKJ(correlation); the levels of a
    categorical column, in each component, ~ Dirichlet(level, ..., level).

    weight: e0 of the weights. Below 1 the mixture is sparse and overfitted (Malsiner-Walli, Frühwirth-Schnatter and Grün
        2016): take more components than clusters are expected, 10 say, and 0.01; those that are not needed stay empty, and the
        number of occupied ones has a posterior. A pair (shape, rate) is a gamma prior of e0, such as (1, 200) of Frühwirth-
        Schnatter and Malsiner-Walli (2019); e0 is then a parameter of the posterior, `concentration`.
    """

    weight: float | tuple[float, float] = 2.0
    mean: float = 1.5
    sd: tuple[float, float] = (0.5, 0.7)
    correlation: float = 2.0
    level: float = 1.0

    @property
    def is_sparse(self):
        return not np.isscalar(self.weight) or self.weight < 1

    @property
    def typical_weight(self):
        """e0, or the mean of its prior."""
        return float(self.weight) if np.isscalar(self.weight) else self.weight[0] / self.weight[1]


def fair_gaussian_mixture(
    X,
    groups=None,
    *,
    n_components=3,
    covariance_type="isotropic",
    fairness_weight: ArrayLike = 0.0,
    smoothing=SMOOTHING,
    prior=None,
    scaling=None,
):
    """A Gaussian mixture with the fairness factor exp(-lambda N Delta_tau).

    Parameters
    ----------
    X: continuous features (N, d). groups: N values, as `bayesfair.fairness.encode_groups` takes them, or None.
    n_components: K. covariance_type: "isotropic" (one variance for all, FMC's), "diag", "full" (LKJ).
    fairness_weight: lambda, per observation; 0 is the ordinary mixture. It may be traced. smoothing: tau of `smooth_gap`.
    prior: `Prior`, whose docstring has the formulas. scaling: `ColumnScaling` the prior is relative to; those of X where None.

    Sites
    -----
    `weights` (K,), `means` (K, d) (from `means_base`, in standard deviations), `scales`, standard deviations () or (K, d),
    `correlation_cholesky` (K, d, d) ("full" only); `x` (N, d), the observed rows, with pointwise
    log-likelihood; `gap`, Delta of psi (FMC eq. 6 and 14). float32: centre columns that are far from 0.

    Raises
    ------
    TypeError, ValueError: bad tables or settings; the message names the argument, the rule and the remedy.

    Examples
    --------
    >>> import jax, bayesfair as bf
    >>> from numpyro.infer import MCMC, NUTS
    >>> data = bf.datasets.make_well_specified()
    >>> mcmc = MCMC(NUTS(bf.models.fair_gaussian_mixture), num_warmup=50, num_samples=50, progress_bar=False)
    >>> mcmc.run(jax.random.key(0), data.features, data.sensitive, n_components=2, fairness_weight=1.0)
    >>> mcmc.get_samples()["means"].shape
    (50, 2, 2)
    """
    settings = {"covariance_type": covariance_type, "prior": prior, "scaling": scaling}
    fair_mixed_mixture(
        X, None, groups, n_components=n_components, fairness_weight=fairness_weight, smoothing=smoothing, **settings
    )


def fair_categorical_mixture(
    X, groups=None, *, n_components=3, n_levels=None, fairness_weight: ArrayLike = 0.0, smoothing=SMOOTHING, prior=None
):
    """A mixture of independent categorical columns (FMC, eq. 84): X (N, c) holds codes 0, 1, ... of the levels.

    `n_levels`: how many levels each column has; one more than its largest code where None. Sites: `weights`,
    `levels_0` (K, levels), ..., `x`, `gap`. The rest is as in `fair_gaussian_mixture`.
    """
    settings = {"n_levels": n_levels, "fairness_weight": fairness_weight, "smoothing": smoothing, "prior": prior}
    fair_mixed_mixture(None, X, groups, n_components=n_components, **settings)


def fair_mixed_mixture(
    X,
    codes,
    groups=None,
    *,
    n_components=3,
    n_levels=None,
    covariance_type="diag",
    fairness_weight: ArrayLike = 0.0,
    smoothing=SMOOTHING,
    prior=None,
    scaling=None,
):
    """Continuous columns X (N, d) and categorical ones `codes` (N, c), independent within a component (FMC, eq. 86).

    Either may be None: the general form of the two models above. The site `x` (N, d + c) has the continuous columns first.
    """
    settings = {"covariance_type": covariance_type, "fairness_weight": fairness_weight, "scaling": scaling}
    observed, family = observe(X, codes, groups, n_levels=n_levels, **settings)
    marginal(Mixture(family, n_components, prior or Prior(), smoothing), observed)


def labelled_mixture(
    X,
    codes=None,
    groups=None,
    *,
    n_components=3,
    n_levels=None,
    covariance_type="isotropic",
    fairness_weight: ArrayLike = 0.0,
    prior=None,
    scaling=None,
):
    """The hard-label counterpart: labels z are sampled, and the factor is exp(-lambda N Delta(z)).

    Delta(z) is the gap of the labels themselves (FMC eq. 4), without smoothing. With lambda = 0 its parameters have the
    law of the marginalised models. With lambda > 0 it is another target: there the fair thing is the map psi
    from features to clusters, which has to be fair on average and whose labels, drawn row by row, are fair up to
    sampling noise; here the labels are fair together and rows may be moved one by one against their densities, so that
    the parameters are hardly bent. Its labels cannot be enumerated (the factor couples them): sample it with
    `bayesfair.models.labelled_kernel`. Sites: those of `fair_mixed_mixture`, and `labels` (N,).
    """
    settings = {"covariance_type": covariance_type, "fairness_weight": fairness_weight, "scaling": scaling}
    observed, family = observe(X, codes, groups, n_levels=n_levels, **settings)
    labelled(Mixture(family, n_components, prior or Prior()), observed)


def smooth_gap(psi, member, smoothing=SMOOTHING) -> Float[Array, ""]:
    """Delta_tau = tau log((1/K) sum_k exp(d_k / tau)), d_k the mean over pairs of groups of sqrt(diff^2 + tau^2) - tau.

    A smooth form of Delta (FMC, eq. 6 and 14), whose maximum and corners NUTS would stumble over: 0 for a fair map,
    Delta - tau (1 + log K) <= Delta_tau <= Delta, tau = `smoothing`. psi: (N, K). member: (N, J),
    the groups' indicators over their sizes.
    """
    gaps = cluster_gaps(psi.T, member.T, corner=smoothing**2) - smoothing
    return smoothing * (jax.nn.logsumexp(gaps / smoothing) - jnp.log(psi.shape[1]))


def check_prior(prior, inference="nuts"):
    """TypeError, ValueError where `prior` is no `Prior` (or None), or its weight no concentration that `inference` can use."""
    if prior is None:
        return
    if not isinstance(prior, Prior):
        rule, remedy = "be a bayesfair.models.Prior or None", "Its fields are numbers; Prior() is the default."
        raise TypeError(message("prior", rule, type(prior).__name__, remedy))
    parts = prior.weight if isinstance(prior.weight, (tuple, list)) else (prior.weight,)
    if len(parts) > 2:
        rule, remedy = "have a weight that is a number or a pair (shape, rate)", "0.01 makes a sparse mixture."
        raise ValueError(message("prior", rule, prior.weight, remedy))
    for part in parts:
        check_number("prior.weight", part, remedy="0.01 makes a sparse mixture, 2 is the default.")
    if prior.is_sparse and inference == "svi":
        rule, remedy = "have a weight of at least 1 where inference is 'svi'", "Take inference='nuts'."
        raise ValueError(message("prior", rule, prior.weight, f"A normal guide has no empty components. {remedy}"))


class Mixture(NamedTuple):
    """A mixture before it has seen a table: hashable, and with the shapes of `Observed` all that its program depends on."""

    family: Family
    n_components: int
    prior: Prior = Prior()
    smoothing: float = SMOOTHING

    def row(self, scaling: ColumnScaling, sites) -> MixtureRow:
        """The law of a row, from the sites' values."""
        return MixtureRow(self.components(scaling, sites), scaling, self.family)

    def components(self, scaling: ColumnScaling, sites) -> Components:
        """The parameters, from the sites' values: those that are sampled, or those that follow from them."""
        if "weight_scores" in sites:
            log_mixing = log_weights(sites["weight_scores"], self.prior.typical_weight)
        else:
            log_mixing = jnp.log(sites["weights"])
        return assemble(self.family, scaling, log_mixing, sites)

    def weight_sites(self, weights):
        """The sites that say these weights (..., K), e0 being typical."""
        if not self.prior.is_sparse:
            return {"weights": weights}
        typical = self.prior.typical_weight
        sites = {"weight_scores": scores_of(weights, typical)}
        if not np.isscalar(self.prior.weight):
            sites["concentration"] = jnp.full(weights.shape[:-1], typical)
        return sites


def marginal(mixture: Mixture, observed: Observed):
    """The model of `fair_mixed_mixture`, of arrays that may be traced."""
    row = mixture.row(observed.scaling, sample_parameters(mixture, observed.scaling))
    row = row.prepared_for(observed.rows, observed.table)
    with numpyro.plate("obs", len(observed.rows)):
        numpyro.sample("x", row, obs=observed.rows)
    if observed.member is not None:
        psi = jax.nn.softmax(row.log_joint(observed.rows), 0)
        numpyro.deterministic("gap", cluster_gaps(psi, observed.member).max())
        numpyro.factor("fairness", -observed.penalty * smooth_gap(psi.T, observed.member.T, mixture.smoothing))


def labelled(mixture: Mixture, observed: Observed):
    """The model of `labelled_mixture`, of arrays that may be traced."""
    components = mixture.components(observed.scaling, sample_parameters(mixture, observed.scaling))
    with numpyro.plate("obs", len(observed.rows)):
        labels = numpyro.sample("labels", dist.Categorical(logits=components.log_mixing))
        row = LabelledRow(components, observed.scaling, mixture.family, labels)
        numpyro.sample("x", row.prepared_for(observed.rows, observed.table), obs=observed.rows)
    if observed.member is not None:
        psi = jax.nn.one_hot(labels, mixture.n_components, axis=0)
        gap = cluster_gaps(psi, observed.member).max()
        numpyro.deterministic("gap", gap)
        numpyro.factor("fairness", -observed.penalty * gap)


def sample_parameters(mixture: Mixture, scaling: ColumnScaling):
    """The parameter sites, by name, drawn from their prior."""
    family, n_components, prior, _ = mixture
    check_integer("n_components", n_components)
    dim = len(scaling.middle)
    sites = _sample_weights(n_components, prior)
    if dim:
        base = dist.Normal(0, prior.mean).expand([n_components, dim]).to_event(2)
        sites["means_base"] = numpyro.sample("means_base", base)
        numpyro.deterministic("means", scaling.middle + scaling.spread * sites["means_base"])
        sites["scales"] = numpyro.sample("scales", _prior_of_scales(family, scaling, n_components, prior))
    if family.covariance_type == "full" and dim > 1:
        law = dist.LKJCholesky(dim, prior.correlation).expand([n_components]).to_event(1)
        sites["correlation_cholesky"] = numpyro.sample("correlation_cholesky", law)
    for j, n in enumerate(family.n_levels):
        law = dist.Dirichlet(jnp.full((n_components, n), float(prior.level))).to_event(1)
        sites[f"levels_{j}"] = numpyro.sample(f"levels_{j}", law)
    return sites


def _sample_weights(n_components, prior: Prior):
    """`weights`, or the scores that they follow from, and e0 where it has a prior."""
    if not prior.is_sparse:
        return {"weights": numpyro.sample("weights", dist.Dirichlet(jnp.full(n_components, float(prior.weight))))}
    sites, concentration = {}, prior.weight
    if not np.isscalar(concentration):
        concentration = sites["concentration"] = numpyro.sample("concentration", dist.Gamma(*concentration))
    scores = SparseScores(concentration, n_components, prior.typical_weight)
    sites["weight_scores"] = numpyro.sample("weight_scores", scores)
    numpyro.deterministic("weights", jnp.exp(log_weights(sites["weight_scores"], prior.typical_weight)))
    return sites


def _prior_of_scales(family, scaling, n_components, prior):
    median, spread = prior.sd
    if family.covariance_type == "isotropic":
        return dist.LogNormal(jnp.log(median * scaling.scale[0]), spread)
    law = dist.LogNormal(jnp.log(median * scaling.scale), spread)
    return law.expand([n_components, len(scaling.middle)]).to_event(2)


def assemble(family: Family, scaling: ColumnScaling, log_mixing, sites) -> Components:
    """The unconstrained form of `engines.families`, in units of `scaling.scale`: log pi (K,), and the sites' values."""
    n_components, dim = len(log_mixing), len(scaling.middle)
    mean, spread = jnp.zeros((n_components, 0)), jnp.zeros(())
    if dim:
        mean = sites["means_base"] * (scaling.spread / scaling.scale)
        relative = sites["scales"] / (scaling.scale[0] if family.covariance_type == "isotropic" else scaling.scale)
        spread = 2 * jnp.log(relative)
        if family.covariance_type == "full":
            spread = pack_factor(
                relative[:, :, None] * sites.get("correlation_cholesky", jnp.ones((n_components, 1, 1)))
            )
    logits = [jnp.log(sites[f"levels_{j}"]) for j in range(len(family.n_levels))]
    return Components(log_mixing, mean, spread, jnp.concatenate([jnp.zeros((n_components, 0)), *logits], 1))

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

from bayesfair._check import check_features, check_integer, check_number, check_same_length, message
from bayesfair.engines.families import COVARIANCE_TYPES, Components, Family, pack_factor
from bayesfair.engines.fmc import cluster_gaps, membership
from bayesfair.fairness import encode_groups
from bayesfair.models.rows import LabelledRows, Rows, Units, units_of

__all__ = [
    "Prior",
    "fair_categorical_mixture",
    "fair_gaussian_mixture",
    "fair_mixed_mixture",
    "labelled_mixture",
    "smooth_gap",
]

SMOOTHING = 0.01  # tau: gaps are told apart down to about this size
FARTHEST = 1e4  # a column's mean in standard deviations, above which float32 no longer resolves the column


class Prior(NamedTuple):
    """Weakly informative, in units of the columns: m_j and s_j are mean and standard deviation of column j.

    pi ~ Dirichlet(weight, ..., weight);  mu_kj ~ N(m_j, (mean s_j)^2);  sigma ~ LogNormal(log(sd[0] s), sd[1]), s being
    s_j, or the root of the mean variance where sigma is shared; correlations ~ LKJ(correlation); the levels of a
    categorical column, in each component, ~ Dirichlet(level, ..., level).
    """

    weight: float = 2.0
    mean: float = 1.5
    sd: tuple[float, float] = (0.5, 0.7)
    correlation: float = 2.0
    level: float = 1.0


def fair_gaussian_mixture(
    X,
    groups=None,
    *,
    n_components=3,
    covariance_type="isotropic",
    fairness_weight=0.0,
    smoothing=SMOOTHING,
    prior=None,
    units=None,
):
    """A Gaussian mixture with the fairness factor exp(-lambda N Delta_tau).

    Parameters
    ----------
    X: continuous features (N, d). groups: N values, as `bayesfair.fairness.encode_groups` takes them, or None.
    n_components: K. covariance_type: "isotropic" (one variance for all, FMC's), "diag", "full" (LKJ).
    fairness_weight: lambda, per observation; 0 is the ordinary mixture. It may be traced. smoothing: tau of `smooth_gap`.
    prior: `Prior`, whose docstring has the formulas. units: `Units` the prior is relative to; those of X where None.

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
    settings = {"covariance_type": covariance_type, "prior": prior, "units": units}
    fair_mixed_mixture(
        X, None, groups, n_components=n_components, fairness_weight=fairness_weight, smoothing=smoothing, **settings
    )


def fair_categorical_mixture(
    X, groups=None, *, n_components=3, n_levels=None, fairness_weight=0.0, smoothing=SMOOTHING, prior=None
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
    fairness_weight=0.0,
    smoothing=SMOOTHING,
    prior=None,
    units=None,
):
    """Continuous columns X (N, d) and categorical ones `codes` (N, c), independent within a component (FMC, eq. 86).

    Either may be None: the general form of the two models above. The site `x` (N, d + c) has the continuous columns first.
    """
    settings = n_components, n_levels, covariance_type, fairness_weight, prior, units
    family, units, components, table, member = _drawn(X, codes, groups, *settings)
    row = Rows(components, units, family).prepared_for(table)
    with numpyro.plate("obs", len(table)):
        numpyro.sample("x", row, obs=table)
    if member is not None:
        psi = jax.nn.softmax(row.log_joint(table), 0)
        numpyro.deterministic("gap", cluster_gaps(psi, member).max())
        numpyro.factor("fairness", -fairness_weight * len(table) * smooth_gap(psi.T, member.T, smoothing))


def labelled_mixture(
    X,
    codes=None,
    groups=None,
    *,
    n_components=3,
    n_levels=None,
    covariance_type="isotropic",
    fairness_weight=0.0,
    prior=None,
    units=None,
):
    """The hard-label counterpart: labels z are sampled, and the factor is exp(-lambda N Delta(z)).

    Delta(z) is the gap of the labels themselves (FMC eq. 4), without smoothing. With lambda = 0 its parameters have the
    law of the marginalised models. With lambda > 0 it is another target: there the fair thing is the map psi
    from features to clusters, which has to be fair on average and whose labels, drawn row by row, are fair up to
    sampling noise; here the labels are fair together and rows may be moved one by one against their densities, so that
    the parameters are hardly bent. Its labels cannot be enumerated (the factor couples them): sample it with
    `bayesfair.models.labelled_kernel`. Sites: those of `fair_mixed_mixture`, and `labels` (N,).
    """
    settings = n_components, n_levels, covariance_type, fairness_weight, prior, units
    family, units, components, table, member = _drawn(X, codes, groups, *settings)
    with numpyro.plate("obs", len(table)):
        labels = numpyro.sample("labels", dist.Categorical(logits=components.weight))
        numpyro.sample("x", LabelledRows(components, units, family, labels), obs=table)
    if member is not None:
        gap = cluster_gaps(jax.nn.one_hot(labels, n_components, axis=0), member, corner=0.0).max()
        numpyro.deterministic("gap", gap)
        numpyro.factor("fairness", -fairness_weight * len(table) * gap)


def _drawn(X, codes, groups, n_components, n_levels, covariance_type, fairness_weight, prior, units):
    """What both label treatments share: the checked table, and components drawn from their prior."""
    family, units, table = checked(X, codes, n_components, n_levels, covariance_type, units)
    member = _member(groups, len(table), fairness_weight)
    components = assemble(family, units, sample_parameters(family, units, n_components, prior or Prior()))
    return family, units, components, table, member


def checked(X, codes, n_components, n_levels, covariance_type, units):
    """Family, units (those of the table where None) and rows (N, d + c) of a table that a model is given."""
    x, codes, n_levels = tables(X, codes, n_levels)
    family = family_of(covariance_type, n_levels, n_components)
    return family, units_of(x, covariance_type) if units is None else units, rows_of(x, codes)


def rows_of(x, codes) -> Float[Array, "obs columns"]:
    """One table: continuous columns, then codes."""
    return jnp.concatenate([jnp.asarray(x, jnp.float32), jnp.asarray(codes, jnp.float32)], 1)


def smooth_gap(psi, member, smoothing=SMOOTHING) -> Float[Array, ""]:
    """Delta_tau = tau log((1/K) sum_k exp(d_k / tau)), d_k the mean over pairs of groups of sqrt(diff^2 + tau^2) - tau.

    A smooth form of Delta (FMC, eq. 6 and 14), whose maximum and corners NUTS would stumble over: 0 for a fair map,
    Delta - tau (1 + log K) <= Delta_tau <= Delta, tau = `smoothing`. psi: (N, K). member: (N, J),
    the groups' indicators over their sizes.
    """
    gaps = cluster_gaps(psi.T, member.T, corner=smoothing**2) - smoothing
    return smoothing * (jax.nn.logsumexp(gaps / smoothing) - jnp.log(psi.shape[1]))


def sample_parameters(family: Family, units: Units, n_components, prior: Prior):
    """The parameter sites, by name."""
    dim = len(units.middle)
    sites = {"weights": numpyro.sample("weights", dist.Dirichlet(jnp.full(n_components, float(prior.weight))))}
    if dim:
        base = dist.Normal(0, prior.mean).expand([n_components, dim]).to_event(2)
        sites["means_base"] = numpyro.sample("means_base", base)
        numpyro.deterministic("means", units.middle + units.spread * sites["means_base"])
        sites["scales"] = numpyro.sample("scales", _prior_of_scales(family, units, n_components, prior))
    if family.covariance_type == "full" and dim > 1:
        law = dist.LKJCholesky(dim, prior.correlation).expand([n_components]).to_event(1)
        sites["correlation_cholesky"] = numpyro.sample("correlation_cholesky", law)
    for j, n in enumerate(family.n_levels):
        law = dist.Dirichlet(jnp.full((n_components, n), float(prior.level))).to_event(1)
        sites[f"levels_{j}"] = numpyro.sample(f"levels_{j}", law)
    return sites


def _prior_of_scales(family, units, n_components, prior):
    median, spread = prior.sd
    if family.covariance_type == "isotropic":
        return dist.LogNormal(jnp.log(median * units.scale[0]), spread)
    return dist.LogNormal(jnp.log(median * units.scale), spread).expand([n_components, len(units.middle)]).to_event(2)


def assemble(family: Family, units: Units, sites) -> Components:
    """The unconstrained form of `engines.families`, in units of `units.scale`, from the sites' values."""
    n_components, dim = sites["weights"].shape[-1], len(units.middle)
    mean, spread = jnp.zeros((n_components, 0)), jnp.zeros(())
    if dim:
        mean = sites["means_base"] * (units.spread / units.scale)
        relative = sites["scales"] / (units.scale[0] if family.covariance_type == "isotropic" else units.scale)
        spread = 2 * jnp.log(relative)
        if family.covariance_type == "full":
            spread = pack_factor(
                relative[:, :, None] * sites.get("correlation_cholesky", jnp.ones((n_components, 1, 1)))
            )
    logits = [jnp.log(sites[f"levels_{j}"]) for j in range(len(family.n_levels))]
    return Components(
        jnp.log(sites["weights"]), mean, spread, jnp.concatenate([jnp.zeros((n_components, 0)), *logits], 1)
    )


def tables(X, codes=None, n_levels=None):
    """Continuous columns (N, d), codes (N, c) and the numbers of levels (c,), checked; either table may be None.

    Traced arrays pass unchecked, and traced codes want `n_levels`.
    """
    if codes is None:
        x = _numbers(X)
        return x, np.zeros((len(x), 0), np.int32), ()
    codes, n_levels = _codes(codes, n_levels)
    if X is None:
        return np.zeros((len(codes), 0), np.float32), codes, n_levels
    x = _numbers(X)
    check_same_length("codes", len(codes), "X", len(x))
    return x, codes, n_levels


def _numbers(X):
    if isinstance(X, jax.core.Tracer):
        return X
    x = check_features(X)
    far = np.abs(x.mean(0)) > FARTHEST * np.where(x.std(0) > 0, x.std(0), np.inf)
    if far.any():
        column = int(np.argmax(far))
        rule = f"have means within {FARTHEST:g} standard deviations of 0, as float32 resolves no more"
        got = f"a mean of {x[:, column].mean():.6g} in column {column} with standard deviation {x[:, column].std():.6g}"
        raise ValueError(message("X", rule, got, "Subtract the columns' means; BayesianFairMixture does it for you."))
    return x


def _codes(codes, n_levels):
    if isinstance(codes, jax.core.Tracer):
        if n_levels is None:
            remedy = "Pass the number of levels of each column."
            raise ValueError(message("n_levels", "be given where codes are traced", "None", remedy))
        return codes, tuple(n_levels)
    table = check_features(codes, argument="codes")
    if (table != np.floor(table)).any() or table.min() < 0:
        remedy = "Encode the levels, e.g. by sklearn.preprocessing.OrdinalEncoder."
        raise ValueError(message("codes", "be whole numbers from 0 on", f"an entry {table.min()}", remedy))
    largest = tuple(int(most) + 1 for most in table.max(0))
    n_levels = largest if n_levels is None else tuple(n_levels)
    if len(n_levels) != len(largest) or any(few > n for few, n in zip(largest, n_levels)):
        rule = "have one number for each column of codes, above its largest code"
        raise ValueError(message("n_levels", rule, f"{n_levels} for {largest}", "Leave it out to count the levels."))
    return table.astype(np.int32), n_levels


def family_of(covariance_type, n_levels, n_components) -> Family:
    if covariance_type not in COVARIANCE_TYPES:
        rule = f"be one of {COVARIANCE_TYPES}"
        raise ValueError(message("covariance_type", rule, repr(covariance_type), "See the docstring."))
    check_integer("n_components", n_components)
    return Family(covariance_type, n_levels)


def _member(groups, n_obs, weight):
    """The membership (J, N) of `groups`, or None without groups, which only lambda = 0 allows."""
    positive = isinstance(weight, jax.Array) or check_number("fairness_weight", weight, minimum=0) > 0
    if groups is None and positive:
        rule, remedy = "be given where fairness_weight is above 0", "Pass one value per row, or fairness_weight=0."
        raise ValueError(message("groups", rule, "None", remedy))
    if groups is None:
        return None
    groups = encode_groups(groups, argument="groups")
    check_same_length("groups", len(groups.code), "X", n_obs)
    if len(groups.names) == 1 and positive:
        remedy = "Check the column, or pass fairness_weight=0 for a mixture without fairness."
        raise ValueError(message("groups", "have at least two groups", repr(groups.names[0]), remedy))
    return membership(groups.code, len(groups.names))

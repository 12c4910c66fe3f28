"""The label block of the hard-label model: one Gibbs sweep in O(K) per row, with group-by-cluster counts as state."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike
from numpyro.infer import NUTS
from numpyro.infer.gibbs import CustomGibbs, Gibbs

from bayesfair.fairness.metrics import gaps_of_shares
from bayesfair.models.mixtures import labelled_mixture
from bayesfair.models.observed import Observed, observe
from bayesfair.models.parameters import Mixture, mixture_of


def labelled_kernel(
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
    **nuts,
):
    """A NumPyro kernel for `labelled_mixture`: a sweep over the labels, then NUTS on the parameters.

    Give the arguments of the model here, as the sweep needs them, and again to `run`.

    Parameters
    ----------
    X : array-like of shape (n_obs, n_features) or None
        Continuous columns.
    codes : array-like of int of shape (n_obs, n_categorical), optional
        Codes 0, 1, ... of the levels of categorical columns.
    groups : array-like of shape (n_obs,), optional
        The groups of the rows.
    n_components : int, at least 1, default 3
        Number of components.
    n_levels : sequence of int, optional
        How many levels each categorical column has. By default one more than its largest code.
    covariance_type : {"isotropic", "diag", "full"}, default "isotropic"
        Covariances of the continuous columns.
    fairness_weight : float, at least 0, default 0.0
        lambda, per row. 0 is the ordinary mixture.
    prior : Prior, optional
        The prior. By default `Prior()`.
    scaling : ColumnScaling, optional
        The means and standard deviations that the prior is relative to, see `column_scaling`. By default those of X.
    **nuts
        Settings of `numpyro.infer.NUTS`.

    Returns
    -------
    numpyro.infer.HMCGibbs

    Raises
    ------
    TypeError
        If the table or a setting has the wrong type.
    ValueError
        If the tables, the prior or a setting are not valid.

    Examples
    --------
    >>> import jax, bayesfair as bf
    >>> from numpyro.infer import MCMC
    >>> data, settings = bf.datasets.make_well_specified(), {"fairness_weight": 1.0}
    >>> kernel = bf.models.labelled_kernel(data.features, None, data.sensitive, **settings)
    >>> mcmc = MCMC(kernel, num_warmup=20, num_samples=20, progress_bar=False)
    >>> mcmc.run(jax.random.key(0), data.features, None, data.sensitive, **settings)
    >>> mcmc.get_samples()["labels"].shape
    (20, 100)
    """
    settings = {"covariance_type": covariance_type, "fairness_weight": fairness_weight, "scaling": scaling}
    observed, family = observe(X, codes, groups, n_levels=n_levels, **settings)
    return sweeping_kernel(labelled_mixture, mixture_of(family, n_components, prior), observed, **nuts)


def sweeping_kernel(model, mixture: Mixture, observed: Observed, **nuts):
    """A label sweep, then NUTS with these settings on the parameters of `model`, a form of `labelled`."""
    member = jnp.ones((1, len(observed.rows))) if observed.member is None else observed.member
    group, sizes = member.argmax(0), (member > 0).sum(1).astype(jnp.float32)

    def update(rng_key, gibbs_sites, hmc_sites):
        log_joint = mixture.row(observed.units, hmc_sites).log_joint_of(observed.table).T
        return {"labels": label_sweep(rng_key, gibbs_sites["labels"], log_joint, group, sizes, observed.penalty)}

    return Gibbs([(CustomGibbs(update), ["labels"]), (NUTS(model, **nuts), None)])


def label_sweep(key, labels, log_joint, group, group_size, penalty) -> Int[Array, " obs"]:
    """Visit every label once, in random order, and draw it from its law given all others and the parameters.

    log_joint (N, K): log pi_k + log f(x_i; theta_k). penalty: lambda N. group_size (J,).
    """
    n_clusters = log_joint.shape[1]
    key_order, key_draws = jax.random.split(key)
    order = jax.random.permutation(key_order, len(labels))
    noise = jax.random.gumbel(key_draws, log_joint.shape)
    counts = jnp.zeros((n_clusters, len(group_size))).at[labels, group].add(1.0)

    def visit(state, i):
        counts, labels = state
        counts = counts.at[labels[i], group[i]].add(-1.0)
        law = conditional_law(counts, log_joint[i], group[i], group_size, penalty)
        chosen = jnp.argmax(law + noise[i]).astype(labels.dtype)
        return (counts.at[chosen, group[i]].add(1.0), labels.at[i].set(chosen)), None

    return jax.lax.scan(visit, (counts, labels), order)[0][1]


def conditional_law(counts, log_joint, group, group_size, penalty) -> Float[Array, " clusters"]:
    """Log law, up to a constant, of the label of a row of `group` that was removed from `counts` (K, J).

    Delta is a maximum over clusters of which joining changes one: the two largest of the others suffice.
    """
    member = jax.nn.one_hot(group, counts.shape[1])
    without, with_it = (gaps_of_shares(now / group_size, corner=0.0) for now in (counts, counts + member))
    best = jnp.argmax(without)
    second = jnp.max(jnp.where(jnp.arange(len(without)) == best, -jnp.inf, without), initial=0.0)
    others = jnp.where(jnp.arange(len(without)) == best, second, without[best])
    return log_joint - penalty * jnp.maximum(others, with_it)

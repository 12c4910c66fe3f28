"""Fair mixtures as plain NumPyro model functions, labels marginalised so that NUTS works.

log p(Theta | X) = log p(Theta) + sum_i log sum_k pi_k f(x_i; theta_k) - lambda N Delta_tau(Theta) + const
"""

import jax
import numpyro
import numpyro.distributions as dist
from numpy.typing import ArrayLike

from bayesfair._check import message
from bayesfair.models.factor import SMOOTHING, add_factor
from bayesfair.models.observed import Observed, observe
from bayesfair.models.parameters import Mixture, mixture_of, sample_parameters
from bayesfair.models.rows import LabelledRow


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
    n_groups=None,
    n_obs=None,
):
    """A NumPyro model: a Gaussian mixture with the fairness factor exp(-lambda N Delta_tau), labels summed out.

    Parameters
    ----------
    X : array-like of shape (n_obs, n_features) or None
        Features. Centre columns that are far from 0: the model computes in float32. None simulates them, given `scaling`.
    groups : array-like of shape (n_obs,), optional
        The groups of the rows, see `bayesfair.fairness.encode_groups`. By default the ordinary mixture.
    n_components : int, at least 1, default 3
        Number of components.
    covariance_type : {"isotropic", "diag", "full"}, default "isotropic"
        "isotropic" is one variance for all components and columns. "full" has an LKJ prior.
    fairness_weight : float, at least 0, default 0.0
        lambda, per row. 0 is the ordinary mixture. It may be a traced array.
    smoothing : float above zero, default 0.01
        tau of `smooth_gap`.
    prior : Prior, optional
        By default `Prior()`.
    scaling : ColumnScaling, optional
        The means and standard deviations that the prior is relative to, see `column_scaling`. By default those of X.
    n_groups : int, at least 2, optional
        How many groups there are. By default those of the rows. Give it for traced groups, which are codes 0, 1, ..., and for
        new rows that may be of one group alone.
    n_obs : int, at least 1, optional
        How many rows to simulate if there is no table. By default as many as there are groups.

    Raises
    ------
    TypeError
        If the table, the prior or a setting has the wrong type.
    ValueError
        If the table or a setting is not valid. The message names the argument, the rule and the remedy.

    Notes
    -----
    The sites are `weights` (n_components,); `means` (n_components, n_features); `scales`, standard deviations, a scalar or
    (n_components, n_features); `correlation_cholesky` (n_components, n_features, n_features), for "full" only; `x` (n_obs,
    n_features), the rows, with pointwise log-likelihood; `psi` (n_obs, n_components), the soft assignments; `gap`, Delta of
    them; and `fairness`, the log of the factor, which is no likelihood: `az.loo` reads `x` alone. Leave `psi` of large tables
    out by `numpyro.handlers.block(model, hide=["psi"])`; `bayesfair.models.memberships` computes it afterwards.

    Means and scales are in the units of X. So draws describe rows of any table in these units: `log_likelihood` and
    `Predictive` take other rows than those of the fit. Only the prior depends on the table, through `scaling`.

    References
    ----------
    FMC, eq. (6) and (14), for Delta.

    Examples
    --------
    >>> import jax, bayesfair as bf
    >>> from numpyro.infer import MCMC, NUTS
    >>> data = bf.datasets.make_well_specified()
    >>> mcmc = MCMC(NUTS(bf.models.fair_gaussian_mixture), num_warmup=50, num_samples=50, progress_bar=False)
    >>> mcmc.run(jax.random.key(0), data.features, data.sensitive, fairness_weight=1.0)
    >>> draws = mcmc.get_samples()
    >>> draws["means"].shape
    (50, 3, 2)

    The densities of other rows, for each draw:

    >>> from numpyro.infer import log_likelihood
    >>> log_likelihood(bf.models.fair_gaussian_mixture, draws, data.features[:5])["x"].shape
    (50, 5)
    """
    settings = {"covariance_type": covariance_type, "fairness_weight": fairness_weight, "smoothing": smoothing}
    settings |= {"n_groups": n_groups, "n_obs": n_obs}
    fair_mixed_mixture(X, None, groups, n_components=n_components, prior=prior, scaling=scaling, **settings)


def fair_categorical_mixture(
    X,
    groups=None,
    *,
    n_components=3,
    n_levels=None,
    fairness_weight: ArrayLike = 0.0,
    smoothing=SMOOTHING,
    prior=None,
    n_groups=None,
    n_obs=None,
):
    """A NumPyro model: a mixture of independent categorical columns with the fairness factor.

    Parameters
    ----------
    X : array-like of int of shape (n_obs, n_features) or None
        Codes 0, 1, ... of the levels. None simulates them, given `n_levels`.
    groups : array-like of shape (n_obs,), optional
        The groups of the rows. By default the ordinary mixture.
    n_components : int, at least 1, default 3
        Number of components.
    n_levels : sequence of int, optional
        How many levels each column has. By default one more than its largest code.
    fairness_weight : float, at least 0, default 0.0
        lambda, per row. 0 is the ordinary mixture.
    smoothing : float above zero, default 0.01
        tau of `smooth_gap`.
    prior : Prior, optional
        By default `Prior()`.
    n_groups : int, at least 2, optional
        How many groups there are. By default those of the rows. Give it for traced groups, which are codes 0, 1, ..., and for
        new rows that may be of one group alone.
    n_obs : int, at least 1, optional
        How many rows to simulate if there is no table. By default as many as there are groups.

    Raises
    ------
    ValueError
        If the codes or a setting are not valid.

    Notes
    -----
    The sites are `weights`, `levels_0` (n_components, n_levels), `levels_1`, ..., `x`, `psi`, `gap` and `fairness`, as in
    `fair_gaussian_mixture`. For other rows than those of the fit give `n_levels`: a small table may not have every level.

    References
    ----------
    FMC, eq. (84).

    Examples
    --------
    >>> import jax, numpy as np, bayesfair as bf
    >>> from numpyro.infer import Predictive
    >>> codes, groups = np.array([[0], [1], [0], [1]]), ["a", "a", "b", "b"]
    >>> prior = Predictive(bf.models.fair_categorical_mixture, num_samples=50)
    >>> prior(jax.random.key(0), codes, groups)["levels_0"].shape
    (50, 3, 2)
    """
    settings = {"n_levels": n_levels, "fairness_weight": fairness_weight, "smoothing": smoothing, "prior": prior}
    fair_mixed_mixture(None, X, groups, n_components=n_components, n_groups=n_groups, n_obs=n_obs, **settings)


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
    n_groups=None,
    n_obs=None,
):
    """A NumPyro model: continuous and categorical columns, independent within a component, with the fairness factor.

    This is the general form of `fair_gaussian_mixture` and `fair_categorical_mixture`.

    Parameters
    ----------
    X : array-like of shape (n_obs, n_features) or None
        Continuous columns. Without any table rows are simulated, given `scaling`, `n_levels` or both.
    codes : array-like of int of shape (n_obs, n_categorical) or None
        Codes 0, 1, ... of the levels of categorical columns.
    groups : array-like of shape (n_obs,), optional
        The groups of the rows. By default the ordinary mixture.
    n_components : int, at least 1, default 3
        Number of components.
    n_levels : sequence of int, optional
        How many levels each categorical column has. By default one more than its largest code.
    covariance_type : {"isotropic", "diag", "full"}, default "diag"
        Covariances of the continuous columns.
    fairness_weight : float, at least 0, default 0.0
        lambda, per row. 0 is the ordinary mixture.
    smoothing : float above zero, default 0.01
        tau of `smooth_gap`.
    prior : Prior, optional
        By default `Prior()`.
    scaling : ColumnScaling, optional
        The means and standard deviations that the prior is relative to, see `column_scaling`. By default those of X.
    n_groups : int, at least 2, optional
        How many groups there are. By default those of the rows. Give it for traced groups, which are codes 0, 1, ..., and for
        new rows that may be of one group alone.
    n_obs : int, at least 1, optional
        How many rows to simulate if there is no table. By default as many as there are groups.

    Raises
    ------
    TypeError
        If the table, the prior or a setting has the wrong type.
    ValueError
        If the tables or a setting are not valid.

    Notes
    -----
    The sites are those of the two other models. The site `x` has the continuous columns first. For other rows than those
    of the fit give `n_levels`: a small table may not have every level.

    References
    ----------
    FMC, eq. (86).

    Examples
    --------
    >>> import jax, bayesfair as bf
    >>> from numpyro.infer import Predictive
    >>> data, codes = bf.datasets.make_well_specified(), [[0], [1]] * 50
    >>> prior = Predictive(bf.models.fair_mixed_mixture, num_samples=50)
    >>> prior(jax.random.key(0), data.features, codes, data.sensitive)["scales"].shape
    (50, 3, 2)
    """
    settings = {"covariance_type": covariance_type, "fairness_weight": fairness_weight, "scaling": scaling}
    observed, family = observe(X, codes, groups, n_levels=n_levels, n_groups=n_groups, n_obs=n_obs, **settings)
    marginal(mixture_of(family, n_components, prior, smoothing), observed, n_obs)


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
    n_groups=None,
    n_obs=None,
):
    """A NumPyro model whose labels are sampled, with the fairness factor exp(-lambda N Delta(z)).

    Delta(z) is the gap of the labels themselves, without smoothing. The factor couples the labels, so that they cannot be
    enumerated: sample the model with `bayesfair.models.labelled_kernel`.

    Parameters
    ----------
    X : array-like of shape (n_obs, n_features) or None
        Continuous columns. Without any table rows are simulated, given `scaling`, `n_levels` or both.
    codes : array-like of int of shape (n_obs, n_categorical), optional
        Codes 0, 1, ... of the levels of categorical columns.
    groups : array-like of shape (n_obs,), optional
        The groups of the rows. By default the ordinary mixture.
    n_components : int, at least 1, default 3
        Number of components.
    n_levels : sequence of int, optional
        How many levels each categorical column has. By default one more than its largest code.
    covariance_type : {"isotropic", "diag", "full"}, default "isotropic"
        Covariances of the continuous columns.
    fairness_weight : float, at least 0, default 0.0
        lambda, per row. 0 is the ordinary mixture.
    prior : Prior, optional
        By default `Prior()`.
    scaling : ColumnScaling, optional
        The means and standard deviations that the prior is relative to, see `column_scaling`. By default those of X.
    n_groups : int, at least 2, optional
        How many groups there are. By default those of the rows. Give it for traced groups, which are codes 0, 1, ..., and for
        new rows that may be of one group alone.
    n_obs : int, at least 1, optional
        How many rows to simulate if there is no table. By default as many as there are groups.

    Raises
    ------
    TypeError
        If the table, the prior or a setting has the wrong type.
    ValueError
        If the tables or a setting are not valid.

    Notes
    -----
    With lambda = 0 the parameters have the law of the models whose labels are summed out. With lambda above 0 the target
    differs. In those models the map from features to clusters has to be fair on average, and labels drawn from it are fair
    up to sampling noise. Here the labels are fair together: rows may be moved one by one against their densities, so that
    the parameters hardly change.

    The sites are those of `fair_mixed_mixture` without `psi`, and `labels` (n_obs,).

    References
    ----------
    FMC, eq. (4).

    Examples
    --------
    >>> import jax, bayesfair as bf
    >>> from numpyro.infer import Predictive
    >>> data = bf.datasets.make_well_specified()
    >>> prior = Predictive(bf.models.labelled_mixture, num_samples=50)
    >>> prior(jax.random.key(0), data.features, None, data.sensitive)["labels"].shape
    (50, 100)
    """
    settings = {"covariance_type": covariance_type, "fairness_weight": fairness_weight, "scaling": scaling}
    settings |= {"n_levels": n_levels, "n_groups": n_groups, "n_obs": n_obs}
    labelled(*table_and_mixture(X, codes, groups, n_components=n_components, prior=prior, **settings), n_obs)


def table_and_mixture(
    X,
    codes=None,
    groups=None,
    *,
    n_components=3,
    covariance_type="isotropic",
    fairness_weight=0.0,
    prior=None,
    **settings,
):
    """The mixture and the table that the arguments of `labelled_mixture` describe."""
    settings |= {"covariance_type": covariance_type, "fairness_weight": fairness_weight}
    observed, family = observe(X, codes, groups, **settings)
    return mixture_of(family, n_components, prior), observed


def marginal(mixture: Mixture, observed: Observed, n_obs=None):
    """The model of `fair_mixed_mixture` for arrays that may be traced."""
    row = mixture.row(observed.units, sample_parameters(mixture, observed.units))
    if observed.rows is not None:
        row = row.prepared_for(observed.rows, observed.table)
    with numpyro.plate("obs", _length(observed, n_obs)):
        rows = numpyro.sample("x", row, obs=observed.rows)
    psi = jax.nn.softmax(row.log_joint(rows), 0)
    numpyro.deterministic("psi", psi.T)
    if observed.member is not None:
        add_factor(psi, observed.member, observed.penalty, mixture.smoothing)


def labelled(mixture: Mixture, observed: Observed, n_obs=None):
    """The model of `labelled_mixture` for arrays that may be traced."""
    components = mixture.components(observed.units, sample_parameters(mixture, observed.units))
    n_obs = _length(observed, n_obs)
    with numpyro.plate("obs", n_obs):
        labels = numpyro.sample("labels", dist.Categorical(logits=components.log_mixing))
        _check_labels(labels, n_obs)
        row = LabelledRow(components, observed.units, mixture.family, labels)
        if observed.rows is not None:
            row = row.prepared_for(observed.rows, observed.table)
        numpyro.sample("x", row, obs=observed.rows)
    if observed.member is not None:
        psi = jax.nn.one_hot(labels, mixture.n_components, axis=0)
        add_factor(psi, observed.member, observed.penalty)


def _length(observed, n_obs):
    """How many rows there are, or are simulated."""
    if observed.rows is not None:
        return len(observed.rows)
    return observed.member.shape[1] if n_obs is None else n_obs


def _check_labels(labels, n_obs):
    """Raise a ValueError if labels from elsewhere, such as draws, belong to other rows."""
    if labels.shape != (n_obs,):
        rule = f"have the shape {(n_obs,)}, one label for each row of the table"
        remedy = "Labels belong to the rows of the fit. Leave them out of the draws, and give the rest to fair_mixed_mixture."
        raise ValueError(message("labels", rule, f"values of shape {labels.shape}", remedy))

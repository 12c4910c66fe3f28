"""Predictions from draws of a mixture's parameters: labels, psi, and simulated rows. Sites have a leading axis."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jaxtyping import Array, Float

from bayesfair._arrays import on_device
from bayesfair._check import check_same_rows, generator_of, message
from bayesfair._jit import jit
from bayesfair._rows import sum_of_terms
from bayesfair.engines.mixture import check_has_density
from bayesfair.models.factor import cluster_gaps
from bayesfair.models.observed import Observed, family_of, rows_of, tables
from bayesfair.models.parameters import Mixture, log_prior, sample_parameters
from bayesfair.models.rows import scaled_table
from bayesfair.models.units import ColumnScaling, units_of


class Memberships(NamedTuple):
    """Soft assignments `psi` (..., n_obs, n_components) and `labels` (..., n_obs) drawn from them, draw by draw."""

    psi: np.ndarray
    labels: np.ndarray


def memberships(samples, X, codes=None, *, random_state=None) -> Memberships:
    """Soft assignments and labels of any rows, for each draw of `fair_mixed_mixture` and its sisters.

    Parameters
    ----------
    samples : mapping of str to array
        Draws of the parameters, as of `MCMC.get_samples()`, by chain or not.
    X : array-like of shape (n_obs, n_features) or None
        Continuous columns of these rows, in the units of the fit. New rows are welcome.
    codes : array-like of int of shape (n_obs, n_categorical), optional
        Codes of the levels of categorical columns.
    random_state : int, optional
        Seed of the labels.

    Returns
    -------
    Memberships
        `psi` (chains, draws, n_obs, n_components) or (draws, n_obs, n_components), and `labels` without the last axis. Draws
        may number the components differently, so that averages over draws mean nothing: give the labels to
        `bayesfair.posterior.tree_from_labels`.

    Raises
    ------
    ValueError
        If the samples do not have the sites or the columns of the table, or a row has no density.

    Examples
    --------
    >>> import numpy as np, bayesfair as bf
    >>> samples = {"weights": np.full((5, 2), 0.5), "means": np.tile([[0.0], [4.0]], (5, 1, 1)), "scales": np.ones(5)}
    >>> bf.models.memberships(samples, [[0.1], [3.8]], random_state=0).labels.tolist()[0]
    [0, 1]
    """
    check_same_rows(X=X, codes=codes)
    x, codes, _ = tables(X, codes)
    sites = {name: np.asarray(value, float) for name, value in samples.items() if name in _read(samples, x, codes)}
    shape = sites["weights"].shape[:-1]
    sites = {name: value.reshape(-1, *value.shape[len(shape) :]) for name, value in sites.items()}
    mixture, middle = _mixture_of_draws(sites), 0.0
    if x.shape[1]:
        middle = sites["means"].mean((0, 1))
        sites["means"] = sites["means"] - middle
    spread = np.broadcast_to(sites["scales"].mean() if x.shape[1] else 1.0, x.shape[1])
    units = units_of(ColumnScaling(np.zeros(x.shape[1]), spread), mixture.family.covariance_type)
    keys = jax.random.split(jax.random.PRNGKey(generator_of(random_state).integers(2**31)), len(sites["weights"]))
    on_devices = {name: on_device(value, np.float32) for name, value in sites.items()}
    psi, labels = map(np.asarray, _assign(mixture, units, rows_of(x - middle, codes), keys, on_devices))
    check_has_density(np.isfinite(psi).all((0, 2)))
    return Memberships(psi.reshape(*shape, *psi.shape[1:]), labels.reshape(*shape, -1))


def _read(samples, x, codes):
    """The names of the sites that densities read; a ValueError if one is missing or is of other columns."""
    levels = [f"levels_{j}" for j in range(codes.shape[1])]
    names = ["weights", *(["means", "scales"] if x.shape[1] else []), *levels]
    missing = [name for name in names if name not in samples]
    if missing:
        remedy = "Pass the draws of fair_mixed_mixture or its sisters, and the columns of the fit."
        raise ValueError(message("samples", f"have the sites {names}", f"none of the name {missing[0]!r}", remedy))
    if x.shape[1] and np.shape(samples["means"])[-1] != x.shape[1]:
        got = f"means of {np.shape(samples['means'])[-1]} columns"
        raise ValueError(
            message("samples", f"be of the {x.shape[1]} columns of `X`", got, "Pass the columns of the fit.")
        )
    short = [j for j, name in enumerate(levels) if np.shape(samples[name])[-1] <= codes[:, j].max()]
    if short:
        rule, got = "be codes of the levels of the draws", f"{codes[:, short[0]].max()} in column {short[0]}"
        raise ValueError(message("codes", rule, got, "Encode the levels as for the fit."))
    return {*names, "correlation_cholesky"}


def _mixture_of_draws(sites) -> Mixture:
    """The mixture that has these sites (draws, ...)."""
    kind = "isotropic" if np.ndim(sites.get("scales", 0)) < 2 else "diag"
    kind = "full" if "correlation_cholesky" in sites else kind
    levels = sorted((name for name in sites if name.startswith("levels_")), key=lambda name: int(name[7:]))
    family = family_of(kind, tuple(sites[name].shape[-1] for name in levels))
    return Mixture(family, sites["weights"].shape[-1])


@jit(static_argnums=0)
def _assign(mixture: Mixture, units, rows, keys, sites):
    """psi (draws, N, K) of rows, and labels drawn from it."""
    table = scaled_table(rows, units, mixture.family)

    def one(part):
        key, sites = part
        log_joint = mixture.row(units, sites).log_joint_of(table)
        return jax.nn.softmax(log_joint, 0).T, jax.random.categorical(key, log_joint, axis=0).astype(jnp.int16)

    return jax.lax.map(one, (keys, sites))


@jit(static_argnums=0)
def allocate(mixture: Mixture, observed: Observed, member, keys, sites):
    """Labels (draws, N) drawn from psi, its Delta, the log-likelihood (draws, N) and log prior (draws,), 0 if sparse."""

    def one(part):
        key, sites = part
        log_joint = mixture.row(observed.units, sites).log_joint_of(observed.table)
        labels = jax.random.categorical(key, log_joint, axis=0).astype(jnp.int16)
        gap = cluster_gaps(jax.nn.softmax(log_joint, 0), member).max()
        prior = 0.0 if mixture.prior.is_sparse else log_prior(mixture, observed.units, sites)
        return labels, gap, jax.nn.logsumexp(log_joint, 0), prior

    return jax.lax.map(one, (keys, sites))


@jit(static_argnums=0)
def mean_psi(mixture: Mixture, units, rows, sites) -> Float[Array, "obs clusters"]:
    """psi of rows (N, columns), averaged over the draws; a plain float32 sum drifts in proportion to their number."""
    table, num_draws = scaled_table(rows, units, mixture.family), len(sites["weights"])

    def of_draw(i):
        row = mixture.row(units, jax.tree.map(lambda values: values[i], sites))
        return jax.nn.softmax(row.log_joint_of(table), 0)

    return sum_of_terms(of_draw, num_draws).T / num_draws


@jit(static_argnames=("mixture", "num_obs"))
def replicate_rows(mixture: Mixture, units, num_obs, keys, sites):
    """`num_obs` rows (draws, num_obs, columns) simulated from each draw."""
    return jax.lax.map(lambda part: mixture.row(units, part[1]).sample(part[0], (num_obs,)), (keys, sites))


@jit(static_argnums=0)
def prior_sites(mixture: Mixture, units, keys):
    """A draw of the parameters from their prior, without the fairness factor, for each key."""

    def one(key):
        with numpyro.handlers.seed(rng_seed=key):
            return sample_parameters(mixture, units)

    return jax.vmap(one)(keys)

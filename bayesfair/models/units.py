"""What the prior of a mixture is relative to, and the law of means whose unconstrained form has no units."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpy.typing import ArrayLike
from numpyro.distributions import biject_to, constraints
from numpyro.distributions.transforms import AffineTransform

from bayesfair._arrays import on_device
from bayesfair._check import check_features, message

FARTHEST = 1e4  # largest mean of a column, in standard deviations, that float32 resolves


class ColumnScaling(NamedTuple):
    """Means and standard deviations of the continuous columns of a table: the prior of a mixture is relative to them.

    Parameters
    ----------
    middle : array of shape (n_features,)
        The mean of every column.
    spread : array of shape (n_features,)
        The standard deviation of every column, 0 for a constant one.

    Examples
    --------
    >>> import bayesfair as bf
    >>> standardised = bf.models.ColumnScaling([0.0, 0.0], [1.0, 1.0])  # whatever the table
    """

    middle: ArrayLike
    spread: ArrayLike


def column_scaling(X) -> ColumnScaling:
    """Means and standard deviations of a table's columns, for the argument `scaling` of the models.

    A model without `scaling` takes those of its own table. Give those of one table wherever several tables must have one
    prior: in folds, in batches, or where a run goes on with more rows. The density of rows and the draws of parameters
    never depend on them.

    Parameters
    ----------
    X : array-like of shape (n_obs, n_features)
        Continuous columns of the table.

    Returns
    -------
    ColumnScaling

    Raises
    ------
    TypeError
        If the table does not hold numbers.
    ValueError
        If the table is not valid.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.models.column_scaling([[1.0, 5.0], [3.0, 5.0]])
    ColumnScaling(middle=array([2., 5.]), spread=array([1., 0.]))
    """
    return scaling_of(X if isinstance(X, jax.core.Tracer) else check_features(X))


def scaling_of(x) -> ColumnScaling:
    """`column_scaling` of a checked table."""
    return ColumnScaling(x.mean(0), x.std(0)) if x.shape[1] else ColumnScaling(np.zeros(0), np.zeros(0))


def check_scaling(scaling, dim):
    """A TypeError or ValueError if this is no scaling of `dim` columns, or one that float32 cannot resolve."""
    remedy = "Pass bayesfair.models.column_scaling(X) of the table that the prior is relative to."
    if not isinstance(scaling, ColumnScaling):
        rule = "be a bayesfair.models.ColumnScaling or None"
        raise TypeError(message("scaling", rule, type(scaling).__name__, remedy))
    if any(np.shape(part) != (dim,) for part in scaling):
        got = f"middle of shape {np.shape(scaling.middle)}, spread of shape {np.shape(scaling.spread)}"
        raise ValueError(message("scaling", f"have one number for each of the {dim} continuous columns", got, remedy))
    if any(isinstance(part, jax.core.Tracer) for part in scaling):
        return
    middle, spread = (np.asarray(part, float) for part in scaling)
    if not (np.isfinite(middle).all() and np.isfinite(spread).all() and (spread >= 0).all()):
        rule = "have finite means and standard deviations of at least 0"
        raise ValueError(message("scaling", rule, f"means {middle}, standard deviations {spread}", remedy))
    far = np.abs(middle) > FARTHEST * np.where(spread > 0, spread, np.inf)
    if far.any():
        column = int(np.argmax(far))
        rule = f"have means within {FARTHEST:g} standard deviations of 0, the resolution of float32"
        got = f"a mean of {middle[column]:.6g} in column {column} with standard deviation {spread[column]:.6g}"
        raise ValueError(message("X", rule, got, "Subtract the columns' means; BayesianFairMixture does this for you."))


class ColumnUnits(NamedTuple):
    """In what a model computes: middle and standard deviation (d,) of each continuous column.

    `scale` (d,), for computing densities, is one number for all columns if the covariance is isotropic.
    """

    middle: Float[Array, " dim"]
    spread: Float[Array, " dim"]
    scale: Float[Array, " dim"]


def units_of(scaling: ColumnScaling, covariance_type) -> ColumnUnits:
    """The units of a scaling; a constant column has spread 1, or that of all if one scale is shared."""
    known = not any(isinstance(part, jax.Array) for part in scaling)
    xp, array = (np, on_device) if known else (jnp, jnp.asarray)
    middle, spread = xp.asarray(scaling.middle), xp.asarray(scaling.spread)
    if not len(middle):
        return ColumnUnits(*[on_device(np.zeros(0, np.float32))] * 3)
    variance = xp.square(spread)
    pooled = xp.where(variance.mean() > 0, variance.mean(), 1.0)
    safe = xp.where(variance > 0, variance, pooled if covariance_type == "isotropic" else 1.0)
    scale = xp.full_like(safe, pooled) if covariance_type == "isotropic" else safe
    return ColumnUnits(*(array(part, np.float32) for part in (middle, xp.sqrt(safe), xp.sqrt(scale))))


class MeansLaw(dist.Distribution):
    """A law (d,) of a component's means, in the units of the table, on whose support samplers walk in standard deviations."""

    pytree_data_fields = ("units", "law")

    def __init__(self, units: ColumnUnits, law):
        self.units, self.law = units, law
        super().__init__(event_shape=law.event_shape)

    @property
    def support(self):
        return _Places(self.units.middle, self.units.spread)  # as they are: NumPyro keeps them beyond a trace

    def log_prob(self, value, intermediates=None):
        return self.law.log_prob(value)

    def sample(self, key, sample_shape=()):
        return self.law.sample(key, sample_shape)


class _Places(constraints.Constraint):
    """Real vectors whose unconstrained form is in standard deviations from the middle."""

    event_dim = 1

    def __init__(self, middle, spread):
        self.middle, self.spread = middle, spread

    def __call__(self, x):
        return jnp.isfinite(x).all(-1)

    def feasible_like(self, prototype):
        return jnp.broadcast_to(self.middle, jnp.shape(prototype))

    def tree_flatten(self):
        return (self.middle, self.spread), (("middle", "spread"), {})


@biject_to.register(_Places)
def _to_places(support):
    return AffineTransform(support.middle, support.spread)

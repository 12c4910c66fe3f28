"""The prior of a mixture: numbers, distributions of NumPyro, or functions of one's own."""

from dataclasses import dataclass, fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.transforms import AffineTransform, ExpTransform

from bayesfair._check import check_number, message
from bayesfair.models.units import ColumnScaling, ColumnUnits, MeansLaw


@dataclass(frozen=True, eq=False)
class Prior:
    """A weakly informative prior of a mixture, in units of the columns.

    m_j and s_j are the mean and the standard deviation of column j, by `column_scaling`. Every field is a number, a
    distribution of NumPyro, or a function of your own that returns one. Functions may sample sites of their own, such as a
    common scale.

    Parameters
    ----------
    weight : float above zero, sequence of float, distribution or function, default 2.0
        e0 of the weights, which are Dirichlet(e0, ..., e0). Below 1 the mixture is sparse: take more components than clusters
        are expected, such as 10 with 0.01. Components that are not needed stay empty, and the number of occupied clusters has
        a posterior. A sequence has one e0 for each component. A distribution of one positive number, such as
        `Gamma(1, 200)`, is a prior of e0, which is then a parameter of the posterior, `concentration`. A distribution of a
        vector is that of the weights. A function takes the number of components and returns that of the weights.
    mean : float above zero, distribution or function, default 1.5
        The mean of component k in column j is N(m_j, (mean s_j)^2). A distribution is that of its distance from m_j in units
        of s_j. A function takes a `ColumnScaling` and returns the distribution of a component's means, in the units of X.
    sd : pair of float, distribution or function, default (0.5, 0.7)
        Standard deviations are LogNormal(log(sd[0] s), sd[1]). s is s_j, or the root of the mean variance if one standard
        deviation is shared. A distribution is that of the standard deviation in units of s. A function takes a
        `ColumnScaling` and returns the distribution of a component's standard deviations, in the units of X.
    correlation : float above zero, distribution or function, default 2.0
        Correlations are LKJ(correlation). A distribution, or what a function of the number of columns returns, is that of
        the Cholesky factor of a component's correlations.
    level : float above zero, distribution or function, default 1.0
        The levels of a categorical column in each component are Dirichlet(level, ..., level). A distribution, or what a
        function of the number of levels returns, is that of a component's probabilities.

    Raises
    ------
    TypeError, ValueError
        If a field is none of these.

    References
    ----------
    Malsiner-Walli, Frühwirth-Schnatter and Grün (2016) and Frühwirth-Schnatter and Malsiner-Walli (2019), for sparse
    mixtures.

    Examples
    --------
    >>> import bayesfair as bf, numpyro.distributions as dist
    >>> bf.models.Prior(weight=0.01).is_sparse
    True
    >>> prior = bf.models.Prior(mean=dist.Laplace(0.0, 1.0), weight=[1.0, 1.0, 5.0])
    """

    weight: Any = 2.0
    mean: Any = 1.5
    sd: Any = (0.5, 0.7)
    correlation: Any = 2.0
    level: Any = 1.0

    def __post_init__(self):
        for one in fields(self):
            object.__setattr__(self, one.name, _checked(one.name, getattr(self, one.name), one.default))

    def __eq__(self, other):
        return isinstance(other, Prior) and self._key == other._key

    def __hash__(self):
        return hash(self._key)

    @property
    def _key(self):
        return tuple(_as_data(getattr(self, one.name)) for one in fields(self))

    @property
    def is_sparse(self):
        """Whether components may stay empty."""
        return self.samples_concentration or (isinstance(self.weight, float) and self.weight < 1)

    @property
    def samples_concentration(self):
        """Whether e0 has a prior."""
        return _is_law(self.weight) and self.weight.shape() == ()

    @property
    def typical_weight(self):
        """The weight e0, or the mean of its prior."""
        if not self.samples_concentration:
            return float(self.weight)
        with jax.ensure_compile_time_eval():  # also within a program
            return float(self.weight.mean)


def law_of_weights(prior: Prior, n_components):
    if isinstance(prior.weight, float):
        return dist.Dirichlet(jnp.full(n_components, prior.weight))
    law = (
        dist.Dirichlet(np.float32(prior.weight))
        if isinstance(prior.weight, tuple)
        else _law(prior.weight, n_components)
    )
    return _of_shape(
        "prior.weight", law, (n_components,), "one number for each component; Gamma(1, 200) is a prior of e0"
    )


def law_of_means(prior: Prior, units: ColumnUnits) -> MeansLaw:
    """The law (d,) of a component's means, in the units of the table."""
    scaling, shape = ColumnScaling(units.middle, units.spread), (len(units.middle),)
    if isinstance(prior.mean, float):
        return MeansLaw(units, dist.Normal(units.middle, prior.mean * units.spread).to_event(1))
    if _is_law(prior.mean):
        law = dist.TransformedDistribution(prior.mean.expand(shape), AffineTransform(units.middle, units.spread))
        return MeansLaw(units, law.to_event(1))
    law = _columns(_law(prior.mean, scaling), shape)
    if not _is_real(law.support):
        raise ValueError(message("prior.mean", "return a distribution on all numbers", law.support, "Normal is one."))
    return MeansLaw(units, _of_shape("prior.mean", law, shape, "one mean for each column"))


def law_of_scales(prior: Prior, units: ColumnUnits, shared):
    """The law of a component's standard deviations (d,), or of that of all, in the units of the table."""
    scale, shape = (units.scale[0], ()) if shared else (units.scale, (len(units.scale),))
    if isinstance(prior.sd, tuple):
        law = dist.LogNormal(jnp.log(prior.sd[0] * scale), prior.sd[1])
    elif _is_law(prior.sd):
        by_scale = [
            ExpTransform().inv,
            AffineTransform(jnp.log(scale), 1.0),
            ExpTransform(),
        ]  # positive for any scale
        law = dist.TransformedDistribution(prior.sd.expand(shape), by_scale)
    else:
        law = _law(prior.sd, ColumnScaling(units.middle, units.spread))
    return _of_shape("prior.sd", _columns(law, shape), shape, "one for each column, or one if all share it")


def law_of_correlations(prior: Prior, dim):
    """The law of the Cholesky factor (d, d) of a component's correlations."""
    law = (
        dist.LKJCholesky(dim, prior.correlation)
        if isinstance(prior.correlation, float)
        else _law(prior.correlation, dim)
    )
    return _of_shape("prior.correlation", law, (dim, dim), "the shape of a Cholesky factor")


def law_of_levels(prior: Prior, n_levels):
    """The law (n_levels,) of the probabilities of a column's levels in a component."""
    flat = isinstance(prior.level, float)
    law = dist.Dirichlet(jnp.full(n_levels, prior.level)) if flat else _law(prior.level, n_levels)
    return _of_shape("prior.level", law, (n_levels,), "one probability for each level")


def check_prior(prior):
    """Raise a TypeError if `prior` is not a `Prior` or None."""
    if prior is not None and not isinstance(prior, Prior):
        rule, remedy = "be a bayesfair.models.Prior or None", "Prior() is the default."
        raise TypeError(message("prior", rule, type(prior).__name__, remedy))


def _checked(name, value, default):
    """The value of a field as a float, a tuple of floats, a distribution or a function."""
    argument, remedy = (
        f"prior.{name}",
        f"{default} is the default. A distribution of NumPyro or a function is welcome too.",
    )
    if _is_law(value):
        return _checked_law(argument, name, value)
    if _is_function(value):
        return value
    if name == "sd" and not (isinstance(value, (tuple, list)) and len(value) == 2):
        rule = "be a pair (median, sd of its logarithm)"
        raise ValueError(message(argument, rule, value, remedy))
    if name in ("sd", "weight") and isinstance(value, (tuple, list, np.ndarray)) and len(value):
        return tuple(check_number(argument, part, remedy=remedy) for part in value)
    return check_number(argument, value, remedy=remedy)


def _checked_law(argument, name, law):
    shape, lower = law.shape(), getattr(law.support, "lower_bound", None)
    is_positive = shape == () and lower is not None and np.min(lower) >= 0
    is_vector = len(shape) == 1 and law.event_dim == 1
    is_half_line = is_positive and isinstance(law.support, type(constraints.positive)) and np.max(lower) == 0
    rule, is_right = {
        "weight": ("one positive number, e0, or of the vector of the weights", is_positive or is_vector),
        "mean": ("one number of any sign", shape == () and _is_real(law.support)),
        "sd": ("one number, any above zero", is_half_line),
        "correlation": ("a Cholesky factor of correlations", len(shape) == 2),
        "level": ("a vector of probabilities", is_vector),
    }[name]
    if not is_right:
        got = f"{type(law).__name__} of shape {shape}"
        raise ValueError(message(argument, f"be a distribution of {rule}", got, "A function can return any other."))
    return law


def _is_law(value):
    return isinstance(value, dist.Distribution)


def _is_function(value):
    return callable(value) and not _is_law(value)


def _is_real(support):
    return getattr(support, "base_constraint", support) in (constraints.real, constraints.real_vector)


def _law(value, *arguments):
    """The distribution, or what the function returns for these arguments."""
    law = value if _is_law(value) else value(*arguments)
    if not _is_law(law):
        rule, remedy = "return a distribution of NumPyro", "Return it before it is sampled: the model samples it."
        raise TypeError(message("prior", f"have functions that {rule}", type(law).__name__, remedy))
    return law


def _columns(law, shape):
    """The law as one of a vector of columns; one number's law is every column's."""
    return law.expand(shape).to_event(len(shape)) if law.event_dim == 0 and law.shape() in ((), shape) else law


def _of_shape(argument, law, shape, what):
    if law.shape() != shape:
        raise ValueError(message(argument, f"be of shape {shape}", f"the shape {law.shape()}", f"It takes {what}."))
    return law


def _as_data(value):
    """A field in hashable form: distributions of equal parameters are equal."""
    if not _is_law(value):
        return value
    leaves, structure = jax.tree.flatten(value)
    arrays = [np.asarray(leaf, np.float32) for leaf in leaves]
    return structure, tuple((one.shape, one.tobytes()) for one in arrays)

"""A row of a mixture as a NumPyro distribution: labels are summed out; densities are those of `engines.families`."""

from copy import copy
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpyro.distributions import constraints

from bayesfair._arrays import on_device
from bayesfair.engines.families import Components, EncodedTable, Family, encoded_table, sample_rows


class ColumnScaling(NamedTuple):
    """The reference of the priors: middle and standard deviation (d,) of each continuous column.

    `scale` (d,), for computing densities, is one number for all columns if the covariance is isotropic.
    """

    middle: Float[Array, " dim"]
    spread: Float[Array, " dim"]
    scale: Float[Array, " dim"]


def column_scaling(x, covariance_type) -> ColumnScaling:
    """The scaling for the columns of x (N, d); a constant column has spread 1, or that of all if one scale is shared."""
    xp, array = (np, on_device) if isinstance(x, np.ndarray) else (jnp, jnp.asarray)
    if x.shape[1] == 0:
        return ColumnScaling(*[on_device(np.zeros(0, np.float32))] * 3)
    variance = x.var(0)
    pooled = xp.where(variance.mean() > 0, variance.mean(), 1.0)
    safe = xp.where(variance > 0, variance, pooled if covariance_type == "isotropic" else 1.0)
    scale = xp.full_like(safe, pooled) if covariance_type == "isotropic" else safe
    return ColumnScaling(*(array(part, np.float32) for part in (x.mean(0), xp.sqrt(safe), xp.sqrt(scale))))


class MixtureRow(dist.Distribution):
    """One row of a mixture: d continuous columns, then the codes of the levels of the categorical ones.

    log p(x) = log sum_k pi_k f(x; theta_k). `components` are in units of `scaling.scale` around `scaling.middle`.
    """

    pytree_data_fields = ("components", "scaling")
    pytree_aux_fields = ("family",)
    support = constraints.real_vector
    _prepared = None, None

    def __init__(self, components: Components, scaling: ColumnScaling, family: Family, batch_shape=()):
        self.components, self.scaling, self.family = components, scaling, family
        n_columns = components.mean.shape[-1] + len(family.n_levels)
        super().__init__(batch_shape, event_shape=(n_columns,))

    def prepared_for(self, value, table: EncodedTable):
        """The same law with `log_joint` of `value` computed from its `scaled_table`: density, psi and gradients share it."""
        row = copy(self)
        row._prepared = value, self.log_joint_of(table)
        return row

    def log_joint(self, value) -> Float[Array, "clusters obs"]:
        """log pi_k + log f(x_i; theta_k), in the units of X."""
        known, log_joint = self._prepared
        if value is known:
            return log_joint
        return self.log_joint_of(scaled_table(value, self.scaling, self.family))

    def log_joint_of(self, table: EncodedTable) -> Float[Array, "clusters obs"]:
        """`log_joint` of rows given their `scaled_table`."""
        return self.family.log_joint(self.components, table) - jnp.log(self.scaling.scale).sum()

    def log_prob(self, value, intermediates=None):
        rows = value if value.ndim == 2 else value.reshape(-1, value.shape[-1])
        return jax.nn.logsumexp(self.log_joint(rows), 0).reshape(value.shape[:-1])

    def sample(self, key, sample_shape=()):
        key_label, key_row = jax.random.split(key)
        label = jax.random.categorical(key_label, self.components.log_mixing, shape=sample_shape)
        return self.sample_given(key_row, label)

    def sample_given(self, key, label):
        """A row for each label, in the units of X."""
        x, levels = sample_rows(self.family, key, self.components, label.reshape(-1))
        x = self.scaling.middle + self.scaling.scale * x
        return jnp.concatenate([x, levels.astype(x.dtype)], 1).reshape(*label.shape, -1)


class LabelledRow(MixtureRow):
    """Rows with given labels (N,): log p(x_i | z_i) = log f(x_i; theta_{z_i})."""

    pytree_data_fields = ("components", "scaling", "label")

    def __init__(self, components, scaling, family, label):
        self.label = label
        super().__init__(components, scaling, family, label.shape)

    def log_prob(self, value, intermediates=None):
        density = self.log_joint(value) - jax.nn.log_softmax(self.components.log_mixing)[:, None]
        return jnp.take_along_axis(density, self.label[None], 0)[0]

    def sample(self, key, sample_shape=()):
        return self.sample_given(key, jnp.broadcast_to(self.label, (*sample_shape, *self.label.shape)))


def scaled_table(rows, scaling: ColumnScaling, family: Family) -> EncodedTable:
    """Rows (N, d + c) in the form of densities: continuous columns scaled by `scaling`, indicators of the levels."""
    dim = len(scaling.middle)
    x = (rows[..., :dim] - scaling.middle) / scaling.scale
    return encoded_table(x, rows[..., dim:], family.n_levels)

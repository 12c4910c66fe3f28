"""A row of a mixture as a NumPyro distribution: labels are summed out; densities are those of `engines.families`."""

from copy import copy

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpyro.distributions import constraints

from bayesfair._tables import EncodedTable, encoded_table
from bayesfair.engines.families import Components, Family, sample_rows
from bayesfair.models.units import ColumnUnits


class MixtureRow(dist.Distribution):
    """One row of a mixture: d continuous columns, then the codes of the levels of the categorical ones.

    log p(x) = log sum_k pi_k f(x; theta_k). `components` are in units of `units.scale` around `units.middle`.
    """

    pytree_data_fields = ("components", "units")
    pytree_aux_fields = ("family",)
    support = constraints.real_vector
    _prepared = None, None

    def __init__(self, components: Components, units: ColumnUnits, family: Family, batch_shape=()):
        self.components, self.units, self.family = components, units, family
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
        return self.log_joint_of(scaled_table(value, self.units, self.family))

    def log_joint_of(self, table: EncodedTable) -> Float[Array, "clusters obs"]:
        """`log_joint` of rows given their `scaled_table`."""
        return self.family.log_joint(self.components, table) - jnp.log(self.units.scale).sum()

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
        x = self.units.middle + self.units.scale * x
        return jnp.concatenate([x, levels.astype(x.dtype)], 1).reshape(*label.shape, -1)


class LabelledRow(MixtureRow):
    """Rows with given labels (N,): log p(x_i | z_i) = log f(x_i; theta_{z_i})."""

    pytree_data_fields = ("components", "units", "label")

    def __init__(self, components, units, family, label):
        self.label = label
        super().__init__(components, units, family, label.shape)

    def log_prob(self, value, intermediates=None):
        density = self.log_joint(value) - jax.nn.log_softmax(self.components.log_mixing)[:, None]
        return jnp.take_along_axis(density, self.label[None], 0)[0]

    def sample(self, key, sample_shape=()):
        return self.sample_given(key, jnp.broadcast_to(self.label, (*sample_shape, *self.label.shape)))


def scaled_table(rows, units: ColumnUnits, family: Family) -> EncodedTable:
    """Rows (N, d + c) in the form of densities: continuous columns scaled by `units`, indicators of the levels."""
    dim = len(units.middle)
    x = (rows[..., :dim] - units.middle) / units.scale
    return encoded_table(x, rows[..., dim:], family.n_levels)

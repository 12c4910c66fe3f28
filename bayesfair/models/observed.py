"""The checked data of a mixture: a table and its groups become arrays of one shape and a hashable family."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesfair._arrays import on_device
from bayesfair._check import check_features, check_integer, check_same_length, check_same_rows, message
from bayesfair._tables import EncodedTable
from bayesfair.engines.families import COVARIANCE_TYPES, Family
from bayesfair.fairness.groups import encode_groups
from bayesfair.models.factor import membership_of, penalty_of
from bayesfair.models.rows import scaled_table
from bayesfair.models.units import ColumnScaling, ColumnUnits, check_scaling, scaling_of, units_of


class Observed(NamedTuple):
    """A table, its groups and lambda N, as arrays alone: data of one shape share compiled programs.

    `rows`: continuous columns, then codes of the levels; None if they are simulated. `table`: the same as densities read
    them. `member`: `membership_of`, None without fairness. `penalty`: lambda N.
    """

    rows: Float[Array, "obs columns"] | None
    table: EncodedTable | None
    units: ColumnUnits
    member: Float[Array, "groups obs"] | None
    penalty: Float[Array, ""]


def observe(
    X, codes, groups, *, n_levels=None, covariance_type, fairness_weight, scaling=None, n_groups=None, n_obs=None
):
    """`Observed` and `Family` of a model's table; the scaling is by default that of the table."""
    if X is None and codes is None:
        return _unobserved(groups, n_levels, covariance_type, fairness_weight, scaling, n_groups, n_obs)
    if n_obs is not None:
        raise ValueError(message("n_obs", "be left out if there is a table", n_obs, "The table has its own rows."))
    check_same_rows(X=X, codes=codes, groups=groups)
    x, codes, n_levels = tables(X, codes, n_levels)
    family = family_of(covariance_type, n_levels)
    scaling = scaling_of(x) if scaling is None else scaling
    check_scaling(scaling, x.shape[1])
    units = units_of(scaling, covariance_type)
    rows = rows_of(x, codes)
    member = membership_of(groups, len(rows), fairness_weight, n_groups)
    penalty = penalty_of(fairness_weight, len(rows))
    return Observed(rows, scaled_table(rows, units, family), units, member, penalty), family


def _unobserved(groups, n_levels, covariance_type, fairness_weight, scaling, n_groups, n_obs):
    """The same of rows that the model simulates: as many as groups, or `n_obs`."""
    if scaling is None and n_levels is None:
        remedy = "Pass `scaling` for continuous columns and `n_levels` for categorical ones, to simulate rows."
        raise ValueError(message("X", "be given, or what its columns are like", "None", remedy))
    if n_obs is None and groups is None:
        raise ValueError(
            message("n_obs", "be given if there is neither a table nor groups", "None", "Pass a number of rows.")
        )
    n_obs = _length(groups) if n_obs is None else check_integer("n_obs", n_obs)
    scaling = ColumnScaling(np.zeros(0), np.zeros(0)) if scaling is None else scaling
    check_scaling(scaling, len(scaling.middle))
    family, units = family_of(covariance_type, tuple(n_levels or ())), units_of(scaling, covariance_type)
    member = membership_of(groups, n_obs, fairness_weight, n_groups)
    return Observed(None, None, units, member, penalty_of(fairness_weight, n_obs)), family


def _length(groups):
    return len(groups) if isinstance(groups, jax.core.Tracer) else len(encode_groups(groups, argument="groups").code)


def rows_of(x, codes) -> Float[Array, "obs columns"]:
    """One table: continuous columns, then codes."""
    if isinstance(x, np.ndarray) and isinstance(codes, np.ndarray):
        return on_device(np.concatenate([x, codes], 1), np.float32)
    return jnp.concatenate([jnp.asarray(x, jnp.float32), jnp.asarray(codes, jnp.float32)], 1)


def tables(X, codes=None, n_levels=None):
    """Continuous columns (N, d), codes (N, c) and the numbers of levels (c,), checked unless traced; a table may be None."""
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
    return X if isinstance(X, jax.core.Tracer) else check_features(X)


def _codes(codes, n_levels):
    if isinstance(codes, jax.core.Tracer):
        if n_levels is None:
            remedy = "Pass the number of levels of each column."
            raise ValueError(message("n_levels", "be given if codes are traced", "None", remedy))
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


def family_of(covariance_type, n_levels) -> Family:
    if covariance_type not in COVARIANCE_TYPES:
        rule = f"be one of {COVARIANCE_TYPES}"
        raise ValueError(message("covariance_type", rule, repr(covariance_type), "See the docstring."))
    return Family(covariance_type, n_levels)

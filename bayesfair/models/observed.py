"""The checked data of a mixture: a table and its groups become arrays of one shape and a hashable family."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesfair._arrays import on_device
from bayesfair._check import check_features, check_number, check_same_length, check_same_rows, message
from bayesfair._tables import EncodedTable
from bayesfair.engines.families import COVARIANCE_TYPES, Family
from bayesfair.fairness.groups import encode_groups
from bayesfair.fairness.metrics import gaps_of_shares
from bayesfair.models.rows import scaled_table
from bayesfair.models.units import ColumnUnits, check_scaling, scaling_of, units_of


class Observed(NamedTuple):
    """A table, its groups and lambda N, as arrays alone: data of one shape share compiled programs.

    `rows`: continuous columns, then codes of the levels. `table`: the same as densities read them. `member`: `membership`,
    None without fairness. `penalty`: lambda N.
    """

    rows: Float[Array, "obs columns"]
    table: EncodedTable
    units: ColumnUnits
    member: Float[Array, "groups obs"] | None
    penalty: Float[Array, ""]


def observe(X, codes, groups, *, n_levels=None, covariance_type, fairness_weight, scaling=None):
    """`Observed` and `Family` of a model's table; the scaling is by default that of the table."""
    check_same_rows(X=X, codes=codes, groups=groups)
    x, codes, n_levels = tables(X, codes, n_levels)
    family = family_of(covariance_type, n_levels)
    scaling = scaling_of(x) if scaling is None else scaling
    check_scaling(scaling, x.shape[1])
    units = units_of(scaling, covariance_type)
    rows = rows_of(x, codes)
    member = _member(groups, len(rows), fairness_weight)
    penalty = jnp.asarray(fairness_weight * len(rows), jnp.float32)
    return Observed(rows, scaled_table(rows, units, family), units, member, penalty), family


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


def _member(groups, n_obs, fairness_weight):
    """The membership (J, N) of `groups`, or None without groups, which requires lambda = 0."""
    positive = isinstance(fairness_weight, jax.Array) or check_number("fairness_weight", fairness_weight, minimum=0) > 0
    if groups is None and positive:
        rule, remedy = "be given if fairness_weight is above 0", "Pass one value per row, or fairness_weight=0."
        raise ValueError(message("groups", rule, "None", remedy))
    if groups is None:
        return None
    groups = encode_groups(groups, argument="groups")
    check_same_length("groups", len(groups.code), "X", n_obs)
    if len(groups.names) == 1 and positive:
        remedy = "Check the column, or pass fairness_weight=0 for a mixture without fairness."
        raise ValueError(message("groups", "have at least two groups", repr(groups.names[0]), remedy))
    return membership(groups.code, len(groups.names))


def membership(code, n_groups) -> Float[Array, "groups obs"]:
    """Indicators of the groups' members over their numbers: each row sums to one, so that shares are a matrix product."""
    indicator = np.equal.outer(np.arange(n_groups), code).astype(np.float32)
    return on_device(indicator / indicator.sum(1, keepdims=True))


def cluster_gaps(psi, member, corner=0.0) -> Float[Array, " clusters"]:
    """Mean over pairs of groups of the difference of their shares in cluster k: FMC, eq. (6) and (14)."""
    return gaps_of_shares(psi @ member.T, corner)

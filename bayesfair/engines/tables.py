"""Tables of continuous and categorical columns, encoded for mixtures: chosen by name, position, mask or dtype."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from sklearn.preprocessing import OrdinalEncoder
from sklearn.utils.validation import validate_data

from bayesfair._check import message
from bayesfair.engines.families import Table

__all__ = ["Encoder", "categorical_positions", "encoder_of", "fit_encoder", "read_columns"]


class Columns(NamedTuple):
    """A checked table, split: continuous columns (N, d) float64 and categorical ones (N, c) as objects."""

    continuous: np.ndarray
    categorical: np.ndarray


class Encoder(NamedTuple):
    """How raw columns become a `Table`: `middle` and `scale` (d,) of the continuous ones, levels of the others."""

    middle: np.ndarray
    scale: np.ndarray
    levels: OrdinalEncoder | None

    @property
    def n_levels(self):
        return () if self.levels is None else tuple(map(len, self.levels.categories_))

    def table(self, columns: Columns) -> Table:
        x = (columns.continuous - self.middle) / self.scale
        square = jnp.asarray((x**2).sum(1), jnp.float32)
        return Table(jnp.asarray(x, jnp.float32), square, jnp.asarray(self.indicators(columns.categorical)))

    def codes(self, categorical) -> np.ndarray:
        """int32 (N, features), the level of every cell. ValueError where a level was not seen in `fit`."""
        if self.levels is None:
            return np.zeros((len(categorical), 0), np.int32)
        try:
            return self.levels.transform(categorical).astype(np.int32)
        except ValueError as error:
            remedy = "Drop those rows, or give rare levels a common name before fitting."
            raise ValueError(message("X", "hold categories seen in fit", str(error), remedy)) from error

    def indicators(self, categorical) -> np.ndarray:
        """float32 (N, levels of all features), 1 where `codes` name the level."""
        code, nothing = self.codes(categorical), np.zeros((len(categorical), 0), np.float32)
        parts = [np.eye(n, dtype=np.float32)[code[:, j]] for j, n in enumerate(self.n_levels)]
        return np.concatenate([nothing, *parts], 1)


def fit_encoder(columns: Columns, one_scale: bool) -> Encoder:
    """Centre, scale (one number for all columns, or one each; 1 for a constant column) and levels of a training table."""
    x = columns.continuous
    variance = x.var(0)
    if one_scale and x.shape[1]:
        variance = np.full_like(variance, variance.mean())
    scale = np.sqrt(np.where(variance > 0, variance, 1.0))
    levels = OrdinalEncoder().fit(columns.categorical) if columns.categorical.shape[1] else None
    return Encoder(x.mean(0), scale, levels)


def encoder_of(levels) -> OrdinalEncoder | None:
    """The encoder of categorical columns whose levels are known, a list for each."""
    if not levels:
        return None
    categories = [np.array(part, dtype=object) for part in levels]
    return OrdinalEncoder(categories=categories).fit(np.array([[part[0] for part in levels]], dtype=object))


def read_columns(estimator, X, categorical_features, *, reset) -> Columns:
    """X checked and split; `categorical_features`: names, positions, a mask, or None for columns whose dtype says so."""
    where = categorical_positions(X, categorical_features)
    if len(where) == 0:
        X = validate_data(estimator, X, dtype=np.float64, order="C", reset=reset)
        return Columns(X, np.empty((len(X), 0), object))
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    table = np.asarray(X, dtype=object)
    rest = np.setdiff1d(np.arange(table.shape[1]), where)
    return Columns(_numbers(table[:, rest]), _levels(table[:, where]))


def categorical_positions(X, categorical_features):
    names = list(getattr(X, "columns", []))
    if categorical_features is None:
        return np.flatnonzero([not _is_numeric(X[name].dtype) for name in names]) if names else np.array([], int)
    wanted = np.asarray(categorical_features)
    n_columns = np.shape(X)[1]
    if wanted.dtype == bool and wanted.shape == (n_columns,):
        return np.flatnonzero(wanted)
    if wanted.dtype.kind in "iu" and ((wanted >= 0) & (wanted < n_columns)).all():
        return np.unique(wanted)
    if names and set(wanted.tolist()) <= set(names):
        return np.sort([names.index(name) for name in wanted.tolist()])
    rule = f"be names, positions or a mask of the columns {names or f'0 to {n_columns - 1}'}"
    raise ValueError(message("categorical_features", rule, repr(categorical_features), "None goes by dtype."))


def _is_numeric(dtype):
    """pandas and polars alike; booleans count as levels."""
    if hasattr(dtype, "is_numeric"):
        return dtype.is_numeric()
    return getattr(dtype, "kind", "O") in "iuf"


def _numbers(values):
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        rule, remedy = "hold numbers in its continuous columns", "Name that column in categorical_features."
        raise ValueError(message("X", rule, str(error), remedy)) from error
    if not np.isfinite(numbers).all():
        row, column = np.argwhere(~np.isfinite(numbers))[0]
        got = f"{numbers[row, column]} at row {row} of continuous column {column}"
        raise ValueError(message("X", "be finite", got, "Impute or drop rows that contain NaN or infinity."))
    return numbers


def _levels(values):
    missing = np.argwhere(values != values)
    if len(missing) or any(value is None for value in values.ravel()):
        rule, remedy = "have a level in every categorical cell", "Give missing levels a name, e.g. .fillna('unknown')."
        raise ValueError(message("X", rule, "a missing value", remedy))
    return values

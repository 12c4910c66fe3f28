"""Tables of continuous and categorical columns, encoded for mixtures: chosen by name, position, mask or dtype."""

from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from sklearn.preprocessing import OrdinalEncoder
from sklearn.utils.validation import validate_data

from bayesfair._arrays import distinct_places, namespace
from bayesfair._check import (
    check_columns,
    check_finite,
    check_storable,
    column_names,
    is_date,
    message,
    place,
)
from bayesfair._scaling import center_and_spread, check_costs, check_resolution, here_alone

NAMES_OF_ROWS = 0.9  # levels per row above which a column is taken to name the rows
FEW_ROWS = 20  # number of rows up to which a level per row is plausible
TEXT_OR_OBJECTS = {"object", "str", "string", "large_string", "string_view"}  # dtypes whose values say what they are
TIMES = "period", "time", "date", "duration"  # how dtypes of pandas and Arrow begin


class Columns(NamedTuple):
    """A checked table: continuous columns (N, d), float32 or float64, with their names; categorical ones as objects."""

    continuous: np.ndarray
    categorical: np.ndarray
    names: list | None = None

    def take(self, rows, split=None):
        """Some of the rows; with a `RowSplit` by their numbers in the whole table."""
        pick = (lambda part: part[rows]) if split is None else (lambda part: split.take(part, rows))
        return self._replace(continuous=pick(self.continuous), categorical=pick(self.categorical))


class EncodedTable(NamedTuple):
    """Rows: centred and scaled continuous features, their squared norms, and level indicators, of NumPy or JAX."""

    x: Float[Any, "obs dim"]
    square: Float[Any, " obs"]
    levels: Float[Any, "obs levels"]


def encoded_table(x, codes, n_levels) -> EncodedTable:
    """Of scaled rows (obs, dim) and the codes of their levels (obs, features)."""
    return EncodedTable(x, (x**2).sum(-1), indicators(codes, n_levels))


def indicators(codes, n_levels) -> Float[Any, "obs levels"]:
    """One column per level of each feature, 1 where `codes` (obs, features) name it."""
    xp = namespace(codes)
    parts = [(codes[..., j, None] == np.arange(n)).astype(np.float32) for j, n in enumerate(n_levels)]
    return xp.concatenate([xp.zeros((*codes.shape[:-1], 0), np.float32), *parts], -1)


class Encoder(NamedTuple):
    """How raw columns become an `EncodedTable`: `middle` and `scale` (d,) of the continuous ones, levels of the others."""

    middle: np.ndarray
    scale: np.ndarray
    levels: OrdinalEncoder | None

    @property
    def n_levels(self):
        return () if self.levels is None else tuple(map(len, self.levels.categories_))

    def table(self, columns: Columns) -> EncodedTable:
        x, codes = self.scaled(columns.continuous), self.codes(columns.categorical)
        with np.errstate(over="ignore"):  # rows that overflow float32 have no density: an error
            return EncodedTable(*(part.astype(np.float32) for part in encoded_table(x, codes, self.n_levels)))

    def scaled(self, X) -> np.ndarray:
        """Continuous columns, float64."""
        return (X - self.middle) / self.scale

    def codes(self, categorical) -> np.ndarray:
        """The level of every cell, int32 (N, features). Raises a ValueError for a level not seen in `fit`."""
        if self.levels is None:
            return np.zeros((len(categorical), 0), np.int32)
        try:
            return self.levels.transform(np.frompyfunc(as_level, 1, 1)(categorical)).astype(np.int32)
        except ValueError as error:
            remedy = "Drop those rows, or give rare levels a common name before fitting."
            raise ValueError(message("X", "hold categories seen in fit", str(error), remedy)) from error


def fit_encoder(columns: Columns, one_scale: bool = False, everybody=here_alone, weight=None) -> Encoder:
    """Centre, scale (one for all columns, or one each; 1 for a constant column) and levels of a training table.

    `everybody(value)` gathers a value over the processes, which may have other rows.
    """
    x = columns.continuous
    levels = encoder_of([_in_order(set().union(*everybody(set(column)))) for column in columns.categorical.T])
    if x.shape[1] == 0:
        return Encoder(np.zeros(0), np.zeros(0), levels)
    middle, spread, pooled = center_and_spread(x, everybody, weight)
    check_resolution(x, middle, spread, names=columns.names, precision=np.float32)
    if one_scale:
        spread = np.full_like(spread, pooled)
    scale = np.where(spread > 0, spread, 1.0)
    check_costs(scale, names=columns.names)
    return Encoder(middle, scale, levels)


def as_level(value):
    """A cell of a categorical column in a form that files hold: text, numbers and booleans unchanged, all else as text."""
    if isinstance(value, (str, int, float, np.bool_, np.integer, np.floating)):
        return value
    if isinstance(value, Decimal):  # equal ones have one text
        text = f"{value if value else 0:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return str(value)


def _in_order(values):
    """The levels of these cells, in the cells' own order: bands and dates are not sorted as text."""
    try:
        values = sorted(values)
    except TypeError:  # cells without an order
        values = sorted(values, key=str)
    return list(dict.fromkeys(map(as_level, values)))


def encoder_of(levels) -> OrdinalEncoder | None:
    """An encoder for categorical columns with known levels, a list for each column."""
    if not levels:
        return None
    categories = [np.array(part, dtype=object) for part in levels]
    return OrdinalEncoder(categories=categories).fit(np.array([[part[0] for part in levels]], dtype=object))


def read_columns(estimator, X, categorical_features, *, reset, allow_nan=False) -> Columns:
    """The columns of an estimator's fit (`reset`, which records names and number) or predict (which compares them).

    `categorical_features`: names, positions, a mask, () for none, or None to go by dtype in the fit. Our checks, which name
    the column, come before scikit-learn's. float32 stays float32, all else becomes float64.
    """
    if not reset and column_names(X) is not None:  # check names and order of columns before their content
        validate_data(estimator, X, reset=False, skip_check_array=True)
    of_fit = None if reset or len(np.shape(X)) != 2 else getattr(estimator, "_categorical", None)
    where = categorical_positions(X, categorical_features) if of_fit is None else of_fit
    if reset:
        estimator._categorical = where
    if len(where) == 0:
        names, kinds = check_columns(X), (np.float64, np.float32)
        X = validate_data(estimator, X, dtype=kinds, order=None, reset=reset, ensure_all_finite=False)
        check_finite(X, names, allow_nan=allow_nan)
        return Columns(X, np.empty((len(X), 0), object), names)
    rest = np.setdiff1d(np.arange(np.shape(X)[1]), where)
    known = check_columns(X, only=rest)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    table = as_objects(X)
    names = [str(j) for j in rest] if known is None else [known[j] for j in rest]
    categorical = _levels(table[:, where], [place(column_names(X), j) for j in where], reset)
    return Columns(_numbers(table[:, rest], names), categorical, names)


def categorical_positions(X, categorical_features):
    """Positions of the categorical columns: named, numbered or masked; None takes those without numbers."""
    if isinstance(categorical_features, tuple) and not categorical_features:
        return np.array([], int)
    names = column_names(X) or []
    if categorical_features is None:
        where = np.array([j for j, name in enumerate(names) if not _is_numeric(X[name])], int)
        dates = [names[j] for j in where if _holds_dates(X[names[j]])]
        if dates:
            remedy = "Turn dates into numbers, such as days since the first one, or drop the column."
            got = f"dates or durations in column {dates[0]!r}"
            raise TypeError(message("X", "hold numbers and categories", got, remedy))
        return where
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


def _is_numeric(column):
    """Is a column numeric: by dtype (pandas and polars), or by content if the dtype is object or text?

    Text that reads as numbers is numeric if more than half of its rows differ, else codes. Booleans are levels.
    """
    import pandas as pd

    dtype, name = column.dtype, str(column.dtype).lower().removesuffix("[pyarrow]")
    if getattr(dtype, "kind", "O") in "iuf" or (hasattr(dtype, "is_numeric") and dtype.is_numeric()):
        return True
    if name.startswith("decimal"):  # of Arrow
        return True
    if name not in TEXT_OR_OBJECTS:
        return False
    values = pd.Series(list(column), dtype=object).dropna()
    if values.empty or not all(map(_reads_as_number, values)):
        return False
    return not any(isinstance(value, str) for value in values) or len(set(values)) > len(values) / 2


def _reads_as_number(value):
    if isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return False
        return True
    return isinstance(value, (Real, Decimal)) and not isinstance(value, (bool, np.bool_))


def _holds_dates(column):
    """Does a column hold dates: by dtype (pandas and polars), or by content if the dtype is object?"""
    dtype = column.dtype
    if hasattr(dtype, "is_temporal"):
        return dtype.is_temporal()
    if getattr(dtype, "kind", "O") in "mM" or str(dtype).startswith(TIMES):
        return True
    return str(dtype) == "object" and any(map(is_date, column))


def as_objects(X) -> np.ndarray:
    """A table (N, d) of objects, each column by itself: through one common type integers would become floats."""
    if column_names(X) is None:
        return np.asarray(X, dtype=object)
    table = np.empty(X.shape, dtype=object)
    for j, name in enumerate(X.columns):
        values = X[name]
        table[:, j] = np.fromiter(values.to_list(), object, len(values))
    return table


def _numbers(values, names):
    import pandas as pd

    numbers = np.where(pd.isna(values), np.nan, values).astype(np.float64)
    check_finite(numbers, names)
    return numbers


def _levels(values, places, of_fit):
    import pandas as pd

    for where, column in zip(places, values.T):
        _check_hashable(column, where)
        check_storable("X", f"categories in column {where}", set(column))
    missing = np.argwhere(pd.isna(values))
    if len(missing):
        row, column = missing[0]
        rule, remedy = "have a level in every categorical cell", "Give missing levels a name, e.g. .fillna('unknown')."
        raise ValueError(message("X", rule, f"a missing value at row {row}, column {places[column]}", remedy))
    for where, column in zip(places, values.T):
        n_levels = len(set(column)) if of_fit else 0
        if len(column) > FEW_ROWS and n_levels > NAMES_OF_ROWS * len(column):
            got = f"{n_levels} levels in {len(column)} rows in column {where}"
            remedy = "Drop the column if it names the rows, turn it into numbers, or give rare levels a common name."
            raise ValueError(message("X", "repeat the levels of a categorical column", got, remedy))
        if len({(isinstance(value, str), isinstance(as_level(value), str)) for value in column}) > 1:
            rule, remedy = "hold either text or numbers in a categorical column", "Write all its levels in one way."
            raise TypeError(message("X", rule, f"both in column {where}", remedy))
    return values


def _check_hashable(column, where):
    """Raise a TypeError for lists, structs and the like, which Arrow and polars have as cells."""
    try:
        set(column)
    except TypeError as error:
        rule, got = "hold single values", f"an entry of column {where} that is not one ({error})"
        remedy = "Unpack it into columns of its own, or drop the column."
        raise TypeError(message("X", rule, got, remedy)) from error


def distinct_rows(points, n_parts, argument, everybody=here_alone, first=0):
    """Numbers in the whole table of `n_parts` rows that differ, or an error; `points(rows)`: some of this process's.

    `everybody(value)` gathers a value over the processes, `first`: number of rows in those before this one.
    """
    own = distinct_places(points, n_parts)
    kinds = np.concatenate(everybody(points(own)))
    found = np.unique(kinds, axis=0, return_index=True)[1]
    if len(found) < n_parts:
        rule = f"be at most the number of distinct rows, {len(found)}"
        raise ValueError(message(argument, rule, n_parts, "Ask for fewer, or check why rows repeat."))
    return np.concatenate(everybody(own + first))[found[:n_parts]]


def check_distinct(X, n_clusters):
    """Check that a table has as many distinct rows as clusters are asked for.

    Parameters
    ----------
    X : array-like of shape (n_obs, n_features)
        Features.
    n_clusters : int
        Number of clusters.

    Raises
    ------
    ValueError
        If fewer rows differ.

    Examples
    --------
    >>> import numpy as np, bayesfair as bf
    >>> bf.engines.check_distinct(np.array([[0.0], [0.0], [1.0]]), 2)
    """
    distinct_rows(X.__getitem__, n_clusters, "n_clusters")

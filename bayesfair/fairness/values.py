"""Values of sensitive columns of any library as codes: in their own order, and missing ones refused."""

import unicodedata
from contextlib import suppress
from decimal import Decimal
from numbers import Real

import narwhals as nw
import numpy as np

from bayesfair._arrays import row_blocks
from bayesfair._check import check_storable, message, tell


def encode_values(column, argument):
    """Codes (N,) int32 of a column's values among its distinct values in order, and those values.

    column: a NumPy array (N,), a narwhals Series, or a list; only of a list or of objects does Python look at every value.
    """
    if len(column) == 0:
        rule, remedy = "hold at least one row", "Check the filter that made it."
        raise ValueError(message(argument, rule, "none", remedy))
    try:
        code, distinct = _factorize(column)
        levels = list(dict.fromkeys(distinct))
    except (TypeError, NotImplementedError) as error:  # the second of Arrow's lists and structs
        rule, remedy = "hold hashable values", "Use text, numbers or tuples as group values."
        raise TypeError(message(argument, rule, f"an entry that is not ({error})", remedy)) from error
    if any(map(_is_missing, levels)):
        _refuse_missing(_values(column), argument)
    check_storable(argument, "values", levels)
    _warn_of_look_alikes(levels, argument)
    levels = _in_order(levels, _own_order(column))
    rank = {level: position for position, level in enumerate(levels)}
    return np.array([rank[value] for value in distinct], np.int32)[code], levels


def _warn_of_look_alikes(levels, argument):
    """Warn of text that differs only in blanks, case, invisible characters or Unicode forms."""
    seen = {}
    for level in levels:
        if isinstance(level, str) and seen.setdefault(_as_seen(level), level) != level:
            what = f"`{argument}` has groups that look alike: {seen[_as_seen(level)]!a} and {level!a}"
            tell(f"{what}. If they are one group, spell its values in one way first.")
            return


def _as_seen(text):
    shown = "".join(sign for sign in unicodedata.normalize("NFKC", text) if unicodedata.category(sign) != "Cf")
    return " ".join(shown.split()).casefold()


def _factorize(column):
    """(index (N,) of each value among the distinct ones, the distinct ones as Python values, including a missing one)."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "biufUSmM":
        return _factorize_array(column)
    native = nw.to_native(column, pass_through=True)
    if hasattr(native, "factorize"):  # pandas
        code, distinct = native.factorize(use_na_sentinel=False)
        return code, distinct.tolist()
    if isinstance(column, nw.Series) and not (column.dtype.is_nested() or column.dtype in (nw.Object, nw.Unknown)):
        return _factorize_series(column)
    values = _values(column)
    distinct = dict.fromkeys(values)
    place = {value: position for position, value in enumerate(distinct)}
    return np.fromiter(map(place.__getitem__, values), np.int32, len(values)), list(distinct)


def _factorize_array(array):
    """`_factorize` for NumPy's own types, block by block: sorting all rows at once takes several times their memory."""
    places, code = {}, np.empty(len(array), np.int32)
    for block in row_blocks(len(array)):
        distinct, within = np.unique(array[block], return_inverse=True)
        place = [places.setdefault(value, len(places)) for value in _values(distinct)]
        code[block] = np.array(place, np.int32)[within]
    return code, list(places)


def _factorize_series(series):
    """`_factorize` for any other library's column; if values are missing, it returns those alone."""
    if series.dtype in (nw.Categorical, nw.Enum):
        series = series.cast(nw.String)
    values = series.unique(maintain_order=True).to_list()
    if any(map(_is_missing, values)):
        return np.zeros(len(series), np.int32), values
    return series.replace_strict(values, range(len(values)), return_dtype=nw.Int32).to_numpy(), values


def columns_of(table, argument):
    """The columns of `table`, at least one, each as `encode_values` takes them."""
    try:
        native = nw.from_native(table, allow_series=True, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        got, remedy = "columns that share a name", "Rename or drop the repeated ones."
        raise ValueError(message(argument, "name every column once", got, remedy)) from error
    if isinstance(native, nw.Series):
        return [native]
    if isinstance(native, nw.DataFrame):
        columns = list(native.iter_columns())
    elif isinstance(table, (list, tuple, range)):
        columns = list(map(list, zip(*table))) if _is_nested(table) else [list(table)]
    else:
        columns = _array_columns(np.asanyarray(table) if np.ma.isMaskedArray(table) else np.asarray(table), argument)
    if not columns:
        rule, remedy = "have at least one row and one column", "Check the filter that made it."
        raise ValueError(message(argument, rule, "none", remedy))
    return columns


def _array_columns(array, argument):
    rule = "be a column or a table with one entry per row of X"
    if array.ndim == 0:
        remedy = "Pass the columns themselves, e.g. table['sex'], not their name; collect a lazy table first."
        raise TypeError(message(argument, rule, repr(array.item()), remedy))
    if array.ndim > 2:
        remedy = "Flatten the other axes into columns."
        raise ValueError(message(argument, rule, f"an array of shape {array.shape}", remedy))
    columns = array[:, None] if array.ndim == 1 else array
    return [column.tolist() if np.ma.isMaskedArray(column) else column for column in columns.T]


def _values(column):
    """Python values of a column; dates stay NumPy's, because `tolist` turns nanoseconds into bare integers."""
    if isinstance(column, (list, nw.Series)):
        return list(column)
    return list(column) if column.dtype.kind in "mM" else column.tolist()


def _is_nested(rows):
    """Is a list a table, written as equally long lists? Tuples are values."""
    return len(rows) > 0 and all(isinstance(row, list) for row in rows) and len(set(map(len, rows))) == 1


def _is_missing(value):
    """Is a value None, NaN, NaT or pandas.NA, also inside a tuple? pandas.NA is known by its type's name: `NA != NA` is NA."""
    if isinstance(value, tuple):
        return any(map(_is_missing, value))
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def _refuse_missing(values, argument):
    missing = [row for row, value in enumerate(values) if _is_missing(value)]
    got = f"{values[missing[0]]!r} at row {missing[0]} (rows with a missing value: {len(missing)})"
    remedy = "Give missing values a name of their own, e.g. .fillna('unknown'), or drop those rows everywhere."
    raise ValueError(message(argument, "have a value in every row", got, remedy))


def _own_order(column):
    """The categories of an ordered column of pandas or polars in their order; None for any other column."""
    native = nw.to_native(column, pass_through=True)
    if hasattr(native, "factorize"):  # pandas
        return native.dtype.categories.tolist() if getattr(native.dtype, "ordered", False) else None
    if isinstance(column, nw.Series) and column.dtype == nw.Enum:
        return list(column.dtype.categories)
    return None


def _in_order(levels, own):
    """Distinct values in the order `own` of their column, or sorted: dates, intervals and the like by their own comparison."""
    if own is not None:
        rank = {level: position for position, level in enumerate(own)}
        return sorted(levels, key=rank.__getitem__)
    kinds = set(map(type, levels))
    if len(kinds) == 1 and not kinds & {str, tuple, frozenset}:  # sets are compared by inclusion
        with suppress(TypeError):  # no order
            return sorted(levels)
    return sorted(levels, key=_sort_key)


def _sort_key(value):
    """A total order over hashable values: numbers by size, then all else as text, tuples element by element."""
    if isinstance(value, tuple):
        return 2, tuple(map(_sort_key, value))
    return (0, value) if isinstance(value, (Real, Decimal)) else (1, str(value), type(value).__name__)

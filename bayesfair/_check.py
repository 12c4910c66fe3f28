"""Errors that say the argument, the rule, the value and the remedy; checks that every room shares."""

import math
from numbers import Integral, Real

import numpy as np

__all__ = ["check_features", "check_integer", "check_number", "check_same_index", "check_same_length", "message"]


def message(argument, rule, value, remedy):
    """The one shape of an error: "`argument` must rule, got value. Remedy." """
    return f"`{argument}` must {rule}, got {value}. {remedy}"


def check_integer(argument, value, *, minimum=1, maximum=None, remedy="Pass a whole number in that range."):
    """`value` as an int in [minimum, maximum]; TypeError for other types, ValueError outside the range."""
    limits = f"at least {minimum}" if maximum is None else f"between {minimum} and {maximum}"
    rule = f"be an integer, {limits}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral):
        raise TypeError(message(argument, rule, repr(value), remedy))
    if value < minimum or (maximum is not None and value > maximum):
        raise ValueError(message(argument, rule, value, remedy))
    return int(value)


def check_number(argument, value, *, positive=True, minimum=None, remedy="Pass a finite number in that range."):
    """`value` as a finite float, above zero unless `positive` is false or a `minimum` is given (which it may equal);
    TypeError for other types, ValueError outside."""
    positive = positive and minimum is None
    rule = "be a finite number" + (" above zero" if positive else "" if minimum is None else f", at least {minimum}")
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise TypeError(message(argument, rule, repr(value), remedy))
    too_low = value <= 0 if positive else minimum is not None and value < minimum
    if not math.isfinite(value) or too_low:
        raise ValueError(message(argument, rule, value, remedy))
    return float(value)


def check_same_length(argument, length, other, other_length):
    """ValueError where two arguments do not describe the same observations."""
    if length != other_length:
        raise ValueError(
            message(
                argument,
                f"have one entry per row of `{other}` ({other_length})",
                f"{length} entries",
                "Take both from the same table, after the same filtering.",
            )
        )


def check_same_index(argument, value, other, other_value):
    """ValueError where both are pandas objects and their row indexes differ: matched by position they would mix up rows."""
    index, wanted = (getattr(part, "index", None) for part in (value, other_value))
    if not hasattr(index, "equals") or not hasattr(wanted, "equals") or index.equals(wanted):
        return
    begins = [", ".join(map(repr, part[:3].tolist())) for part in (index, wanted)]
    got = f"one that begins with {begins[0]} where that of `{other}` begins with {begins[1]}"
    remedy = f"Pass {argument}.loc[{other}.index], or {argument}.to_numpy() where rows do match by position."
    raise ValueError(message(argument, f"have the row index of `{other}`", got, remedy))


def check_features(X, *, argument="X"):
    """`X` as a float64 array (N, d) with N, d >= 1 and finite entries, from pandas, polars, NumPy or nested lists.

    Raises
    ------
    TypeError: entries that are not numbers. ValueError: wrong dimension, no rows or columns, NaN or infinity.
    """
    columns = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    try:
        array = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        rule, remedy = "hold numbers only", "Encode or drop the columns that are not numeric."
        raise TypeError(message(argument, rule, f"entries that are not ({error})", remedy)) from error
    if array.ndim != 2:
        remedy = "Use X.reshape(-1, 1) for a single feature."
        raise ValueError(message(argument, "be a table of two dimensions", f"{array.ndim}", remedy))
    if 0 in array.shape:
        rule, remedy = "have at least one row and one column", "Check the filter that made it."
        raise ValueError(message(argument, rule, f"shape {array.shape}", remedy))
    finite = np.isfinite(array)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        where = repr(columns[column]) if columns else column
        bad = f"{array[row, column]} at row {row}, column {where} ({np.count_nonzero(~finite)} such entries in all)"
        raise ValueError(message(argument, "be finite", bad, "Impute or drop NaN and infinity first."))
    return array

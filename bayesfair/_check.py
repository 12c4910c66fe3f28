"""Errors that state the argument, the rule, the value and the remedy; checks that all rooms share."""

import math
import re
import warnings
from collections import Counter
from contextlib import suppress
from datetime import date, time, timedelta
from inspect import signature
from numbers import Integral, Real
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayesfair._arrays import row_blocks

MOST_OF_VALUE, MOST_OF_SENTENCE = 80, 240  # letters of a value that a message shows
CONTAINER = re.compile(r"[\w.]*(\[.*\]|\(.*\)|\{.*\}|<.*>)$|[^\n]*\n", re.DOTALL)  # the text of a container
CODE = re.compile(r"0\d+")  # digits that name something: as numbers they would lose their zeros
LARGEST_WEIGHT = 1e15  # of all rows together: squares stay finite in float32
PACKAGE = str(Path(__file__).parent)
WIDE = "Int128", "UInt128"  # of polars, which NumPy lacks
NOT_NUMERIC = "Encode or drop the columns that are not numeric."


class Refusal(str):
    """What the user is told in an error of any class. An error without one is a bug: the shell shows its traceback."""

    __slots__ = ()


def message(argument, rule, value, remedy):
    """The form of an error: "`argument` must rule, got value. Remedy."; a value, perhaps personal data, is shortened."""
    return Refusal(f"`{argument}` must {rule}, got {_shortened(value)}. {remedy}")


def _shortened(value):
    """At most 80 letters of a value, or 240 of a sentence or a name: its beginning and its end."""
    text = str(value)
    most = MOST_OF_SENTENCE if isinstance(value, str) and not CONTAINER.match(text) else MOST_OF_VALUE
    end = most // 4
    return text if len(text) <= most else " ".join(f"{text[: most - end - 5]} ... {text[-end:]}".split())


def listed(items, shown=12, between=", "):
    """The items separated by commas, at most `shown` of them, and the number of the others."""
    items = [str(item) for item in items]
    more = f" and {len(items) - shown} more" if len(items) > shown else ""
    return between.join(items[:shown]) + more


class Interrupted(RuntimeWarning):
    """A fit was asked to stop, and keeps what it has."""


def tell(text, category=UserWarning):
    """Issue a warning at the first line of code outside the package."""
    warnings.warn(text, category, skip_file_prefixes=(PACKAGE,))


def tell_of_interruption(kept, num_draws):
    """Warn that Ctrl-C left so many of the draws."""
    rest = "Resume the run, without a number of draws, to make the rest."
    tell(f"Interrupted: kept the {kept} of {num_draws} draws made so far. {rest}", Interrupted)


def attempt(what, compute):
    """`compute()`; if it fails, None and a warning that `what` is missing: after sampling no error may lose the draws."""
    try:
        return compute()
    except Warning:  # that the user turned into an error
        raise
    except Exception as error:
        text = f"{what} could not be computed: {type(error).__name__}: {error}. It is missing, but no draw is lost."
        tell(f"{text} Remedy: save the posterior, and compute what you need from it.", RuntimeWarning)
        return None


class Number(NamedTuple):
    """Allowed numbers: whole ones or all finite ones, from `least` (or only `above` it) to `most`."""

    whole: bool
    least: float = -math.inf
    most: float = math.inf
    above: bool = False

    def __str__(self):
        what = "an integer" if self.whole else "a finite number"
        if self.above:
            least = "zero" if self.least == 0 else self.least
            return f"{what} above {least}" + (f" and at most {self.most}" if self.most < math.inf else "")
        at_least = f"at least {self.least}" if self.most == math.inf else f"between {self.least} and {self.most}"
        return f"{what}, {at_least}"

    def knows(self, value):
        """Is the value a number of this kind, whether or not in the range?"""
        return isinstance(value, Integral if self.whole else Real) and not isinstance(value, (bool, np.bool_))

    def holds(self, value):
        if not (self.knows(value) and self.least <= value <= self.most):
            return False
        return (self.whole or math.isfinite(value)) and not (self.above and value == self.least)

    def check(self, argument, value, remedy):
        """`value` as an int or a float; a TypeError for other kinds, a ValueError outside the range."""
        if not self.knows(value):
            raise TypeError(message(argument, f"be {self}", repr(value), remedy))
        if not self.holds(value):
            raise ValueError(message(argument, f"be {self}", value, remedy))
        return int(value) if self.whole else float(value)


def check_integer(argument, value, *, minimum=1, maximum=math.inf, remedy="Pass a whole number in that range."):
    """`value` as an int in [minimum, maximum]; a TypeError for other types, a ValueError outside the range."""
    return Number(True, minimum, maximum).check(argument, value, remedy)


def check_number(argument, value, *, minimum=None, remedy="Pass a finite number in that range."):
    """`value` as a finite float, at least `minimum` or else above zero; a TypeError for other types, a ValueError outside."""
    return Number(False, minimum or 0, above=minimum is None).check(argument, value, remedy)


def refuse_unread(estimator, *names, where, why="It has no effect there."):
    """Raise a ValueError for parameters other than their defaults that have no effect; `where` and `why` give the reason."""
    known = signature(type(estimator)).parameters
    for name in names:
        value, default = getattr(estimator, name), known[name].default if name in known else None
        if not (value is default or (np.ndim(value) == 0 and value == default)):
            raise ValueError(message(name, f"be left out {where}", repr(value), f"{why} Leave it out."))


def warn_of_no_numbers(estimator, n_columns):
    """Warn if `covariance_type` was given for a table without numeric columns."""
    if n_columns == 0 and estimator.covariance_type != "isotropic":
        what = "`covariance_type` has no effect without numeric columns"
        tell(f"{type(estimator).__name__}: {what}. Remedy: leave it out.")


def random_state_of(random_state):
    """The `numpy.random.RandomState` for a seed; raises a ValueError for anything else."""
    from sklearn.utils import check_random_state  # imported late: summaries do not need scikit-learn

    return _seeded(check_random_state, "random_state", random_state)


def generator_of(seed, argument="random_state"):
    """The `numpy.random.Generator` for a seed; raises a ValueError for anything else."""
    return _seeded(np.random.default_rng, argument, seed)


def _seeded(make, argument, seed):
    try:
        if isinstance(seed, (bool, np.bool_)):
            raise TypeError("a truth value is no seed")
        return make(seed)
    except (TypeError, ValueError) as error:
        rule = "be None, an integer from 0 to 2**32 - 1 or a numpy.random.RandomState"
        remedy = "This cannot be used to seed a numpy.random.RandomState instance: pass an int for repeatable results."
        raise ValueError(message(argument, rule, repr(seed), remedy)) from error


def check_same_length(argument, length, other, other_length):
    """Raise a ValueError if two arguments have different numbers of rows."""
    if length != other_length:
        rule = f"have one entry per row of `{other}` ({other_length})"
        remedy = "Take both from the same table, after the same filtering."
        raise ValueError(message(argument, rule, f"{length} entries", remedy))


def check_weights(sample_weight, n_obs, *, argument="sample_weight", **tables):
    """`sample_weight` as float64 (N,), ones if it is None; errors unless it is N finite numbers of at least 0, some above.

    `tables`: the table of its rows, by argument, whose index it must have.
    """
    if sample_weight is None:
        return np.ones(n_obs)
    check_same_rows(**tables, **{argument: sample_weight})
    check_in_memory(argument, sample_weight)
    remedy = "A weight is the number of rows that a row stands for."
    try:
        weight = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(message(argument, "hold numbers only", f"entries that are not ({error})", remedy)) from error
    if weight.ndim != 1:
        # scikit-learn's checks of estimators expect the last words.
        raise ValueError(message(argument, "have one dimension", f"{weight.ndim}", "Sample weights must be 1D array."))
    check_same_length(argument, len(weight), next(iter(tables), "X"), n_obs)
    bad = ~(np.isfinite(weight) & (weight >= 0))
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(message(argument, "be finite and not negative", f"{weight[row]} at row {row}", remedy))
    if not weight.any():
        raise ValueError(message(argument, "be above zero for some row", "all weights zero", remedy))
    if weight.sum() > LARGEST_WEIGHT or weight[weight > 0].min() < 1 / LARGEST_WEIGHT:
        rule = f"lie between {1 / LARGEST_WEIGHT:.0e} and {LARGEST_WEIGHT:.0e}"
        got = f"{weight[weight > 0].min():.3g} to {weight.max():.3g}"
        raise ValueError(message(argument, rule, got, remedy))
    return weight


def check_positive_weights(sample_weight, n_obs, X):
    """`check_weights` without a 0, on whose row results would not depend."""
    weight = check_weights(sample_weight, n_obs, X=X)
    if (weight == 0).any():
        got = f"0 at row {int((weight == 0).argmax())}"
        raise ValueError(message("sample_weight", "be above zero", got, "Drop rows of weight 0 first."))
    return weight


def index_of(X):
    """The index of a pandas object (N,), as an array; None for anything else."""
    index = getattr(X, "index", None)
    return np.asarray(index) if hasattr(index, "equals") else None


def storable_index(X):
    """`index_of`; raises a ValueError for row names that no file can hold."""
    index = index_of(X)
    if index is not None:
        check_storable("X", "row names", index)
    return index


def row_names(X):
    """`storable_index`, or None if it only counts rows from 0."""
    index = storable_index(X)
    return None if index is None or counts_rows(index) else index


def counts_rows(names):
    """Are these names of rows (N,) their numbers from 0?"""
    return names.dtype.kind in "iu" and np.array_equal(names, np.arange(len(names)))


def check_storable(argument, what, names):
    """Raise a ValueError for text among `names` that no file can hold, before the work whose results would name it."""
    text = [name for name in names if isinstance(name, str)]
    for name in text if _is_unstorable("".join(text)) else ():
        if _is_unstorable(name):
            remedy = "Remove the NUL or the half character from it."
            raise ValueError(message(argument, f"have {what} that files can hold", repr(name), remedy))


def _is_unstorable(text):
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a character of UTF-16
        return True
    return "\0" in text


def node_names(argument, names):
    """Names of rows (N,) as a list; raises a ValueError if two rows share one: a graph would merge them."""
    names = names.tolist()
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        remedy = "Rename them: the nodes of a graph need unique names."
        raise ValueError(message(argument, "name each row once", f"{name!r} {times} times", remedy))
    return names


def check_same_rows(**tables):
    """Raise a ValueError if pandas objects, by argument, differ in their row index: by position rows would be mixed up.

    All are held against the first of them; another check compares lengths.
    """
    indexed = {argument: table.index for argument, table in tables.items() if index_of(table) is not None}
    for other, wanted in list(indexed.items())[:1]:
        for argument, index in indexed.items():
            if len(index) == len(wanted) and not index.equals(wanted):
                raise_other_rows(argument, index, f"`{other}`", wanted, f"{other}.index")


def raise_other_rows(argument, index, other, wanted, names):
    """The ValueError for an argument whose row names `index` are not those `wanted`, which `names` is code for."""
    index, wanted = np.asarray(index, object), np.asarray(wanted, object)
    most = min(len(index), len(wanted))
    at = int(np.append(index[:most] != wanted[:most], True).argmax())
    here, there = (", ".join(map(repr, part[at : at + 3].tolist())) for part in (index, wanted))
    got = f"one that has {here} from row {at} on, where that of {other} has {there}"
    remedy = f"Pass {argument}.loc[{names}] or, if rows match by position, {argument}.set_axis({names})."
    raise ValueError(message(argument, f"have the row index of {other}", got, remedy))


def place(names, column):
    """A column in messages: its name in quotes, or its position if the table has no names."""
    return column if names is None else repr(str(names[column]))


def check_in_memory(argument, table):
    """Raise an error for what is no dense table in memory, and for a masked array, which NumPy would unmask."""
    if np.ma.is_masked(table):
        remedy = f"Pass {argument}.filled(np.nan) if NaN is allowed; otherwise impute those entries or drop their rows."
        got = f"a masked array that hides {np.ma.count_masked(table)}"
        raise ValueError(message(argument, "show all its entries", got, remedy))
    if type(table).__name__ == "LazyFrame":
        raise TypeError(message(argument, "be a table in memory", "a LazyFrame", f"Pass {argument}.collect()."))
    if type(table).__module__.startswith("pyarrow"):
        raise TypeError(message(argument, "be a data frame or an array", "pyarrow's", f"Pass {argument}.to_pandas()."))
    if hasattr(table, "nodes") and hasattr(table, "adj"):
        remedy = 'VariationalFairClustering(objective="ncut") takes graphs.'
        raise TypeError(
            message(argument, "be a data frame or an array", f"a {type(table).__name__} of networkx", remedy)
        )
    if getattr(getattr(table, "dtype", None), "names", None):
        remedy = f"Pass pandas.DataFrame({argument})."
        raise TypeError(message(argument, "be a data frame or a plain array", "a record array", remedy))
    if hasattr(table, "toarray"):
        got = f"a sparse {type(table).__name__}"
        raise TypeError(message(argument, "be a dense table", got, f"Pass {argument}.toarray(), if it fits in memory."))


def column_names(X, *, argument="X"):
    """The names of a data frame's columns, None for arrays and lists; errors for names of several types or given twice."""
    check_in_memory(argument, X)
    if not hasattr(X, "columns"):
        return None
    names = list(X.columns)
    kinds = {type(name).__name__ for name in names}
    if len(kinds) > 1 and "str" in kinds:
        remedy = f"Rename them: {argument}.columns = {argument}.columns.astype(str)."
        raise TypeError(message(argument, "name all its columns by text", ", ".join(sorted(kinds)), remedy))
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        bad = f"columns that share the name {', '.join(map(repr, twice))}"
        raise ValueError(message(argument, "name every column once", bad, "Rename or drop the repeated ones."))
    check_storable(argument, "column names", names)
    return names


def check_columns(X, *, argument="X", only=None):
    """`column_names` of a table whose columns (those at the positions `only`) all hold numbers; booleans are 0 and 1."""
    names = column_names(X, argument=argument)
    table = X if names is not None else _array_of(X, argument)
    _check_width(table, names or (), argument)
    _check_shape(table, argument)
    for column, values in _doubtful_columns(table, names):
        if only is None or column in only:
            _check_numbers(values, argument, place(names, column))
    return names


def _check_width(table, names, argument):
    """Raise a TypeError for integers of 128 bits."""
    for name in names:
        if str(table[name].dtype) in WIDE:
            got, remedy = f"{table[name].dtype} in column {str(name)!r}", "Cast it to Int64 or Float64."
            raise TypeError(message(argument, "hold numbers that NumPy has", got, remedy))


def _check_shape(table, argument):
    # The remedies have the words that scikit-learn's checks of estimators expect.
    if len(table.shape) != 2:
        remedy = f"Reshape your data: {argument}.reshape(-1, 1) makes a table of a single feature."
        raise ValueError(message(argument, "be a table of two dimensions", f"{len(table.shape)}", remedy))
    if 0 in table.shape:
        n_rows, n_columns = table.shape
        what = f"{n_rows} sample(s)" if n_rows == 0 else f"{n_columns} feature(s)"
        rule = "have at least one row and one column"
        got = f"{what} (shape={table.shape}) while a minimum of 1 is required"
        raise ValueError(message(argument, rule, got, "Check the filter that made it."))
    if np.iscomplexobj(table):
        remedy = "Complex data not supported: pass real and imaginary parts as columns."
        raise ValueError(message(argument, "hold real numbers", "complex ones", remedy))


def _doubtful_columns(table, names):
    """(position, values) of the columns, of a data frame or an array (N, d), that may not hold numbers by their type."""
    if names is None:
        return () if table.dtype.kind in "biufc" else enumerate(table.T)
    series = ((j, table[name]) for j, name in enumerate(names))
    return ((j, np.asarray(one)) for j, one in series if not _holds_numbers(one.dtype))


def _array_of(X, argument):
    try:
        return np.asarray(X)
    except ValueError as error:
        rule, remedy = "have rows of one length", "Fill the short ones, or pass a data frame."
        raise ValueError(message(argument, rule, f"ragged ones ({error})", remedy)) from error


def _holds_numbers(dtype):
    """Do columns of this dtype hold numbers? For pandas and polars."""
    if hasattr(dtype, "is_numeric"):
        return dtype.is_numeric() or str(dtype) == "Boolean"
    return getattr(dtype, "kind", "O") in "biufc"


def _check_numbers(values, argument, where):
    if values.dtype.kind in "mM" or (values.dtype.kind == "O" and any(map(is_date, values))):
        remedy = "Turn dates into numbers, such as days since the first one, or drop the column."
        raise TypeError(message(argument, "hold numbers only", f"dates or durations in column {where}", remedy))
    if values.ndim > 1:  # what polars makes of structs and of lists of one length
        bad, remedy = f"{values[0].tolist()} at row 0, column {where}", "Unpack it into columns of its own, or drop it."
        raise TypeError(message(argument, "hold numbers only", bad, remedy))
    code = next((entry for entry in values.tolist() if isinstance(entry, str) and CODE.fullmatch(entry)), None)
    if code is not None:
        remedy = "Digits with leading zeros are names, as of postal codes. Drop the column, or convert it to numbers."
        raise TypeError(message(argument, "hold numbers only", f"the text {code!r} in column {where}", remedy))
    with suppress(TypeError, ValueError, OverflowError):
        values.astype(np.float64)
        return
    for row, entry in enumerate(values.astype(object)):
        try:
            np.fromiter([entry], object, 1).astype(np.float64)  # as the array does, which allows missing values
        except (TypeError, ValueError, OverflowError) as error:
            bad = f"{entry!r} at row {row}, column {where} ({error})"
            raise TypeError(message(argument, "hold numbers only", bad, NOT_NUMERIC)) from None


def is_date(value):
    """Is it a date, time, duration or pandas' Period, as an object?"""
    return isinstance(value, (date, time, timedelta, np.datetime64, np.timedelta64)) or type(value).__name__ == "Period"


def check_finite(array, names=None, *, argument="X", allow_nan=False):
    """Raise a ValueError, with row and column, for infinite entries of an array (N, d), and for NaN unless `allow_nan`."""
    is_bad = np.isinf if allow_nan else (lambda part: ~np.isfinite(part))
    n_bad = [np.count_nonzero(is_bad(array[rows])) for rows in row_blocks(len(array))]
    if any(n_bad):
        first = row_blocks(len(array))[np.flatnonzero(n_bad)[0]]
        row, column = np.argwhere(is_bad(array[first]))[0] + (first.start, 0)
        where = f"row {row}, column {place(names, column)}"
        columns = np.flatnonzero(np.any([is_bad(array[rows]).any(0) for rows in row_blocks(len(array))], 0))
        among = f", in columns {listed(place(names, j) for j in columns)}" if len(columns) > 1 else ""
        got = f"{array[row, column]} at {where} ({sum(n_bad)} such entries in all{among})"
        raise ValueError(message(argument, "be finite", got, "Impute or drop NaN and infinity first."))


def check_features(X, *, argument="X", dtypes=(np.float64,)):
    """`X` as an array (N, d) with N, d >= 1 and finite entries, from pandas, polars, NumPy or nested lists.

    dtypes: those that a NumPy array may keep; everything else becomes the first of them.
    """
    names = check_columns(X, argument=argument)
    array = _as_numbers(X, argument, dtypes)
    check_finite(array, names, argument=argument)
    return array


def _as_numbers(X, argument, dtypes):
    try:
        if isinstance(X, np.ndarray) and X.dtype in dtypes:
            return X
        if hasattr(X, "iloc"):  # pandas: its own types have a missing value that NumPy lacks
            return X.to_numpy(dtype=dtypes[0], na_value=np.nan)
        return np.asarray(X, dtype=dtypes[0])
    except (TypeError, ValueError, OverflowError) as error:
        got = f"entries that are not ({error})"
        raise TypeError(message(argument, "hold numbers only", got, NOT_NUMERIC)) from error

"""Which columns of a table are features, which are sensitive, which are left out, and why."""

from shlex import quote
from typing import NamedTuple

import numpy as np

import bayesfair as bf
from bayesfair._check import message
from bayesfair.cli.tables import UNNAMED, listed, separator_hint, typed

__all__ = ["Columns", "choose_columns", "standardized"]

# How programs write that a number is missing: those that pandas knows. In sensitive columns they are categories.
MISSING_NUMBERS = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"} | {
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
}
UNNAMED_ROWS = "row names, as it has no name itself"
COUNTED_ROWS = "row numbers; name it in --features to take it"
MAX_LINE = 200  # letters of the names that a remedy spells out
TRUTH = {"True": "1", "TRUE": "1", "true": "1", "False": "0", "FALSE": "0", "false": "0"}
INTEGER = r"[+-]?(?:0|[1-9][0-9]{0,14})(?:\.0+)?"  # as floats hold exactly; not 007, which is a code


class Columns(NamedTuple):
    """What `fit` takes from a table: numbers (obs, dim) and categories (obs, columns) under the names of its rows, and
    {name: why it is left out}."""

    features: object
    sensitive: object
    left_out: dict

    def __str__(self):
        kinds = [f"{typed(name)} ({_kind(self.features[name])})" for name in self.features]
        groups = bf.fairness.encode_groups(self.sensitive)
        sizes = [f"{name} ({size})" for name, size in zip(groups.names, groups.sizes)]
        return "\n".join(
            (
                f"features   {listed(kinds)}",
                f"sensitive  {' x '.join(self.sensitive)}: {listed(sizes)}",
                f"left out   {_with_reasons(self.left_out) or 'nothing'}",
            )
        )


def choose_columns(table, sensitive, features=None, *, index=None, na=(), missing_group=None) -> Columns:
    """The columns of a table of text and numbers, by names; without `features` every numeric one that is not row names or
    constant.

    `na`: texts that mean missing in every column of text, beside empty cells and, for numbers, MISSING_NUMBERS.
    `missing_group`: the group of rows whose value is missing in a sensitive column. `index`: the column of row names.

    Raises
    ------
    ValueError: names that the table lacks, text or missing values among the features, missing groups, one group only.
    """
    _check_names(table, "--sensitive", sensitive)
    _check_names(table, "--index", [] if index is None else [index])
    _check_names(table, "--features", features or [])
    _check_index(index, {"--sensitive": sensitive, "--features": features or []})
    if len(table) == 0:
        raise ValueError(message("TABLE.csv", "have rows below the names of its columns", "none", "Check the file."))
    others = [name for name in table if name not in sensitive]
    numbers = {name: _numbers(table[name], MISSING_NUMBERS | set(na)) for name in features or others}
    reasons = _reasons(table, numbers) if features is None else dict.fromkeys(others, "not in --features")
    reasons |= {} if index is None else {index: "row names"}
    chosen = features or [name for name in others if reasons[name] is None]
    left_out = {name: reasons[name] for name in others if name not in chosen}
    if not chosen:
        got, remedy = f"none; left out: {_with_reasons(left_out)}", "Encode categories as numbers in the file first."
        raise ValueError(message("--features", "leave numeric columns", got, remedy))
    categories = _categories(table[sensitive], {"", *na}, missing_group)
    rows = _row_names(table, index, left_out)
    return Columns(_features(table, chosen, numbers).set_axis(rows), categories.set_axis(rows), left_out)


def _row_names(table, index, left_out):
    """What is in the column `index`, or else in that left out as row names or numbers, whole numbers as such; else the rows
    are counted."""
    import pandas as pd

    taken = [name for name, reason in left_out.items() if reason in (UNNAMED_ROWS, COUNTED_ROWS)]
    name = index if index is not None or not taken else taken[0]
    if name is None:
        return table.index
    names = table[name]
    if pd.api.types.is_numeric_dtype(names) or not names.str.fullmatch(INTEGER).all():
        return names
    return names.astype(float).astype(int)


def _with_reasons(left_out):
    """Names with the reason in brackets, once for all that share it."""
    reasons = dict.fromkeys(left_out.values())
    names = {reason: listed(typed(name) for name in left_out if left_out[name] == reason) for reason in reasons}
    return listed(f"{names[reason]} ({reason})" for reason in reasons)


def standardized(features):
    """Columns of mean zero and standard deviation one; ValueError names those for which there is no such thing."""
    with np.errstate(over="ignore", invalid="ignore"):
        centred = features - features.mean()
        spread = centred.std(ddof=0)
    unusable = [name for name in features if not 0 < spread[name] < np.inf or features[name].nunique() == 1]
    if unusable:
        got = f"columns that are constant or too large to square: {listed(unusable)}"
        remedy = "Leave them out by naming the others in --features."
        raise ValueError(message("--standardize", "be used on features that vary", got, remedy))
    return centred / spread


def _check_names(table, option, names):
    missing = [name for name in names if name not in table]
    if missing:
        remedy = f"The columns of the table are: {listed(map(typed, table), 40)}.{separator_hint(table)}"
        raise ValueError(message(option, "name columns of the table", listed(map(repr, missing)), remedy))


def _check_index(index, taken):
    for option, names in taken.items():
        if index in names:
            got = f"{index!r}, which {option} names too"
            raise ValueError(message("--index", "be a column of its own", got, "Leave it out in one of the two."))


def _numbers(cells, missing):
    """(numbers, NaN where there is none; where the cell holds text that is neither number nor missing)."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(cells):
        numbers = cells.astype(float) if cells.hasnans else cells
        return numbers, pd.Series(False, index=cells.index)
    text = cells.str.strip()
    present = ~text.isin(missing)
    numbers = pd.to_numeric(text.where(present).replace(TRUTH), errors="coerce").astype(float)
    return numbers, present & numbers.isna()


def _reasons(table, numbers):
    """{name: why it is no feature unless it is named so}, None where nothing speaks against it."""
    reasons = {name: _reason(table[name], *columns) for name, columns in numbers.items()}
    first = table.columns[0]
    if first in reasons and first.startswith(UNNAMED):
        reasons[first] = UNNAMED_ROWS
    elif first in reasons and _counts_rows(numbers[first][0]):
        reasons[first] = COUNTED_ROWS
    return reasons


def _reason(cells, numbers, is_text):
    if is_text.any():
        return _text_reason(cells[is_text], numbers)
    if numbers.isna().all():
        return "empty"
    return "constant" if numbers.notna().all() and numbers.nunique() == 1 else None


def _text_reason(texts, numbers):
    """Text; where one stands among numbers it may mean that they are missing."""
    example = texts.iloc[0].strip()
    if texts.nunique() > 1 or len(texts) >= numbers.notna().sum():
        return f"text such as {example!r}"
    return f"{len(texts)} times {example!r} among numbers; if that means missing, --na {quote(example)}"


def _counts_rows(numbers):
    return any(np.array_equal(numbers, np.arange(len(numbers)) + start) for start in (0, 1))


def _features(table, names, numbers):
    """The features as a table of finite numbers."""
    import pandas as pd

    for name in names:
        texts = table[name][numbers[name][1]]
        if len(texts):
            got = f"the text {texts.iloc[0]!r} in {name!r}, row {texts.index[0] + 1} ({len(texts)} such cells in it)"
            remedy = "Leave this column out, write it in numbers, or name texts that mean missing in --na."
            raise ValueError(message("--features", "name columns of numbers", got, remedy))
    features = pd.DataFrame({name: numbers[name][0] for name in names})
    _check_finite(features)
    return features


def _check_finite(features):
    bad = (~np.isfinite(features)).sum()
    if bad.any():
        got = ", ".join(f"{count} missing or infinite in {name!r}" for name, count in bad[bad > 0].items())
        whole = ",".join(typed(name) for name in bad.index[bad == 0])
        others = f": --features {quote(whole)}" if 0 < len(whole) < MAX_LINE else ""
        remedy = f"Fill those cells, remove those rows, or leave the columns out{others}."
        raise ValueError(message("--features", f"hold a finite number in all {len(features)} rows", got, remedy))


def _categories(cells, missing, missing_group):
    """Sensitive columns as they stand, numbers that are whole as integers, missing values in a group of their own."""
    import pandas as pd

    whole = {name: _whole(cells[name]) for name in cells if pd.api.types.is_numeric_dtype(cells[name])}
    text = cells.apply(lambda column: whole[column.name] if column.name in whole else column.str.strip())
    absent = text.apply(lambda column: column.isna() if column.name in whole else column.isin(missing))
    if absent.any(axis=None) and missing_group is None:
        got = ", ".join(f"{count} missing in {name!r}" for name, count in absent.sum().items() if count)
        remedy = "Make them a group of their own, --missing-group unknown, or remove those rows from the table."
        raise ValueError(message("--sensitive", f"have a value in all {len(text)} rows", got, remedy))
    groups = text.apply(lambda column: column if column.name in whole else _integers(column, ~absent[column.name]))
    if absent.any(axis=None):
        groups = groups.astype(object).mask(absent, missing_group)
    names = bf.fairness.encode_groups(groups).names
    if len(names) == 1:
        remedy = "Name a column in which rows differ."
        raise ValueError(message("--sensitive", "make at least two groups", f"only {names[0]!r}", remedy))
    return groups


def _integers(column, present):
    """Integers where every value is one, so that 1.0 is the group 1 and 10 comes after 9; text otherwise."""
    values = column.astype(object)
    if column[present].str.fullmatch(INTEGER).all():
        values[present] = [int(float(value)) for value in column[present]]
    return values


def _whole(numbers):
    """Integers where every number is one, so that 1.0 is the group 1."""
    return numbers.astype("Int64") if (numbers.dropna() % 1 == 0).all() else numbers


def _kind(numbers):
    """What a feature holds, and its type where the file has types."""
    kind = "0 or 1" if numbers.isin([0, 1]).all() else "whole numbers" if (numbers % 1 == 0).all() else "numbers"
    return kind if numbers.dtype == float else f"{kind}, {numbers.dtype}"

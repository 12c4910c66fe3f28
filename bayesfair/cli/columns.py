"""Which columns of a table are features, which are sensitive, which are left out, and why."""

import re
from shlex import quote
from typing import NamedTuple

import numpy as np

import bayesfair as bf
from bayesfair._check import message
from bayesfair.cli.tables import UNNAMED, listed, separator_hint, typed

__all__ = ["MISSING", "THOUSANDS", "ChosenColumns", "choose_columns", "column_of_names", "row_names", "standardized"]

# How programs write that a number is missing: those that pandas knows. In sensitive columns they are categories.
MISSING_NUMBERS = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"} | {
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
}
MISSING = ("error", "drop", "keep")  # what may be done about rows without a value
UNNAMED_ROWS = "row names, as it has no name itself"
COUNTED_ROWS = "row numbers; name it in --features to take it"
MAX_LINE = 200  # letters of the names that a remedy spells out
TRUTH = {"True": "1", "TRUE": "1", "true": "1", "False": "0", "FALSE": "0", "false": "0"}
INTEGER = r"[+-]?(?:0|[1-9][0-9]{0,14})(?:\.0+)?"  # as floats hold exactly; not 007, which is a code
THOUSANDS = (",", ".", " ", "'", "_")
READINGS = [(decimal, thousands) for decimal in ".," for thousands in (None, *THOUSANDS) if decimal != thousands]


class ChosenColumns(NamedTuple):
    """What `fit` takes from a table: features (obs, dim) and sensitive categories (obs, columns) under the names of its rows,
    {name: why it is left out}, {name: how many rows without a value in it were dropped}, and weights (obs,), None where
    every row is one."""

    features: object
    sensitive: object
    left_out: dict
    dropped: dict
    weights: object = None

    def __str__(self):
        kinds = [f"{typed(name)} ({_kind(self.features[name])})" for name in self.features]
        groups = bf.fairness.encode_groups(self.sensitive)
        sizes = [f"{name} ({size})" for name, size in zip(groups.names, groups.sizes)]
        without = listed(f"{count} without {typed(name)}" for name, count in self.dropped.items())
        lines = [
            f"features   {listed(kinds)}",
            f"sensitive  {' x '.join(self.sensitive)}: {listed(sizes)}",
            f"left out   {_with_reasons(self.left_out) or 'nothing'}",
        ]
        if self.weights is not None:
            lines.insert(2, f"weights    {typed(self.weights.name)} (sum {self.weights.sum():,.6g})")
        return "\n".join(lines + [f"dropped    rows: {without}"] * bool(without))


def choose_columns(
    table,
    sensitive,
    features=None,
    *,
    categorical=(),
    weights=None,
    index=None,
    na=(),
    decimal=".",
    thousands=None,
    missing="error",
    missing_group=None,
) -> ChosenColumns:
    """The columns of a table of text and numbers, by names; without `features` every numeric one that is not row names or
    constant. The `categorical` ones are features as they stand.

    `weights`: the column of how much rows count. `na`: texts that mean missing in every column of text, beside empty cells and,
    for numbers, MISSING_NUMBERS. `decimal`: the point of numbers in columns of text; `thousands`: what stands between groups of
    three digits. `missing`: rows without a value are an
    "error"; "drop" leaves them out, "keep" leaves numbers missing. `missing_group`: the group of rows whose value is missing in
    a sensitive column. `index`: the column of row names.

    Raises
    ------
    ValueError: names that the table lacks, text or missing values among the features, missing groups, one group only.
    """
    if thousands == decimal:
        remedy = "For 1.234,5 pass --decimal , --thousands ."
        raise ValueError(message("--thousands", "be another character than --decimal", repr(thousands), remedy))
    _check_all_names(table, sensitive, features, categorical, weights, index)
    style = MISSING_NUMBERS | set(na), decimal, thousands
    others = [name for name in table if name not in sensitive and name != weights]
    wanted = [name for name in features or others if name not in categorical]
    numbers = {name: _numbers(table[name], *style) for name in wanted}
    reasons = dict.fromkeys(others, "not in --features") if features else _reasons(table, numbers, style)
    names, reason = column_of_names(table, index, {*sensitive, *categorical, weights, *(features or [])})
    _check_unique(table, names)
    reasons |= {} if names is None else {names: reason}
    chosen = wanted if features else [name for name in wanted if reasons[name] is None]
    left_out = {name: reasons[name] for name in others if name not in (*chosen, *categorical)}
    _check_any([*chosen, *categorical], left_out)
    X, (kinds, no_kind) = (
        _numeric_features(table, chosen, numbers, style),
        _cleaned(table[list(categorical)], {"", *na}),
    )
    groups, no_group = _cleaned(table[sensitive], {"", *na})
    if missing_group is not None:
        groups, no_group = groups.astype(object).mask(no_group, missing_group), no_group & False
    weight = _weights(table, weights, style)
    absent = {"--features": X.isna(), "--categorical": no_kind, "--weights": weight.isna(), "--sensitive": no_group}
    kept, dropped = _complete(absent) if missing == "drop" else (np.full(len(table), True), {})
    _check_present({option: part[kept] for option, part in absent.items()}, keep_numbers=missing == "keep")
    _check_finite(X[kept])
    _check_several(groups[kept])
    rows = row_names(table, names)[kept]
    features, groups, weight = (part[kept].set_axis(rows) for part in (X.join(kinds.astype(object)), groups, weight))
    return ChosenColumns(features, groups, left_out, dropped, None if weights is None else weight[weights])


def row_names(table, index):
    """What is in the column `index`, whole numbers as such; the rows are counted where it is None."""
    import pandas as pd

    if index is None:
        return table.index
    names = table[index]
    if not pd.api.types.is_numeric_dtype(names) and names.str.fullmatch(INTEGER).all():
        names = names.astype(float).astype(int)
    return pd.Index(names)


def column_of_names(table, index, taken):
    """The column `index` of row names, or else the first one where that has no name or counts the rows and is not `taken`,
    and why it is no feature; (None, "") where there is none."""
    first = table.columns[0]
    if index is not None:
        return index, "row names"
    if first in taken:
        return None, ""
    if first.startswith(UNNAMED):
        return first, UNNAMED_ROWS
    return (first, COUNTED_ROWS) if _counts_rows(_numbers(table[first], MISSING_NUMBERS)[0]) else (None, "")


def _with_reasons(left_out):
    """Names with the reason in brackets, once for all that share it."""
    reasons = dict.fromkeys(left_out.values())
    names = {reason: listed(typed(name) for name in left_out if left_out[name] == reason) for reason in reasons}
    return listed(f"{names[reason]} ({reason})" for reason in reasons)


def standardized(features):
    """Columns of mean zero and standard deviation one, those of categories as they are; ValueError names those for which
    there is no such thing."""
    numbers = features.select_dtypes("number")
    with np.errstate(over="ignore", invalid="ignore"):
        centred = numbers - numbers.mean()
        spread = centred.std(ddof=0)
    unusable = [name for name in numbers if not 0 < spread[name] < np.inf or numbers[name].nunique() == 1]
    if unusable:
        got = f"columns that are constant or too large to square: {listed(unusable)}"
        remedy = "Leave them out by naming the others in --features."
        raise ValueError(message("--standardize", "be used on features that vary", got, remedy))
    return features.assign(**(centred / spread))


def _check_all_names(table, sensitive, features, categorical, weights, index):
    taken = {"--sensitive": sensitive, "--features": features or [], "--categorical": categorical}
    taken |= {option: [] if name is None else [name] for option, name in (("--weights", weights), ("--index", index))}
    for option, names in taken.items():
        _check_names(table, option, names)
    own = {
        "--categorical": ["--sensitive"],
        "--weights": ["--sensitive", "--features", "--categorical"],
        "--index": ["--sensitive", "--features", "--categorical", "--weights"],
    }
    for option, others in own.items():
        for other in others:
            _check_own(option, taken[option], other, taken[other])


def _check_names(table, option, names):
    missing = [name for name in names if name not in table]
    if missing:
        remedy = f"The columns of the table are: {listed(map(typed, table), 40)}.{separator_hint(table)}"
        raise ValueError(message(option, "name columns of the table", listed(map(repr, missing)), remedy))


def _check_own(option, names, other, taken):
    for name in set(names) & set(taken):
        got = f"{name!r}, which {other} names too"
        raise ValueError(message(option, "name columns of its own", got, "Leave it out in one of the two."))


def _check_any(chosen, left_out):
    if not chosen:
        got = f"none; left out: {_with_reasons(left_out)}"
        remedy = "Encode categories as numbers in the file first, or name them in --categorical."
        raise ValueError(message("--features", "leave numeric columns", got, remedy))


def _numbers(cells, missing, decimal=".", thousands=None):
    """(numbers, NaN where there is none; where the cell holds text that is neither number nor missing)."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(cells):
        numbers = cells.astype(float) if cells.hasnans else cells
        return numbers, pd.Series(False, index=cells.index)
    text = cells.str.strip()
    present = ~text.isin(missing)
    if thousands is not None:
        mark = r"[ \u00a0\u202f]" if thousands == " " else re.escape(thousands)
        grouped = text.str.fullmatch(rf"[+-]?[0-9]{{1,3}}(?:{mark}[0-9]{{3}})+(?:{re.escape(decimal)}[0-9]*)?")
        text = text.mask(grouped, text.str.replace(mark, "", regex=True))
    if decimal != ".":
        text = text.str.translate(str.maketrans({decimal: ".", ".": decimal}))  # 1.5 is no number then
    numbers = pd.to_numeric(text.where(present).replace(TRUTH), errors="coerce").astype(float)
    return numbers, present & numbers.isna()


def _reasons(table, numbers, style):
    """{name: why it is no feature unless it is named so}, None where nothing speaks against it."""
    return {name: _reason(table[name], *columns, style) for name, columns in numbers.items()}


def _reason(cells, numbers, is_text, style):
    if is_text.any():
        return _text_reason(cells, cells[is_text], numbers, style)
    if numbers.isna().all():
        return "empty"
    return "constant" if numbers.notna().all() and numbers.nunique() == 1 else None


def _text_reason(cells, texts, numbers, style):
    """Text; where one stands among numbers it may mean that they are missing."""
    example = texts.iloc[0].strip()
    hint = _number_hint(cells, texts, style)
    if hint:
        return f"text such as {example!r}{hint}"
    if texts.nunique() > 1 or len(texts) >= numbers.notna().sum():
        return f"text such as {example!r}"
    return f"{len(texts)} times {example!r} among numbers; if that means missing, --na {quote(example)}"


def _number_hint(cells, texts, style):
    """What to type for each way to read a column of text as numbers, with what its first text becomes; "" without any."""
    missing, decimal, _ = style
    readings = {}
    for point, thousands in sorted(READINGS, key=lambda reading: reading[0] != decimal):
        numbers, is_text = _numbers(cells, missing, point, thousands)
        if not is_text.any():
            options = (
                f"--decimal {point}" * (point != decimal),
                f"--thousands {quote(thousands or '')}" * bool(thousands),
            )
            readings.setdefault(tuple(numbers[texts.index]), " ".join(filter(None, options)))
    return "".join(f"; if that is the number {values[0]:.15g}, {typed}" for values, typed in readings.items())


def _check_unique(table, names):
    """ValueError where rows share a name: `memberships --table` could not tell them apart."""
    if names is None or table[names].is_unique:
        return
    got = f"{table[names][table[names].duplicated()].iloc[0]!r} twice in {names!r}"
    remedy = (
        "Name a column whose entries differ. Without one, rows are numbered; delete a first column that has no name."
    )
    raise ValueError(message("--index", "name each row once", got, remedy))


def _counts_rows(numbers):
    return any(np.array_equal(numbers, np.arange(len(numbers)) + start) for start in (0, 1))


def _numeric_features(table, names, numbers, style):
    """The features as a table of numbers, NaN where there is none."""
    import pandas as pd

    for name in names:
        texts = table[name][numbers[name][1]]
        if len(texts):
            got = f"the text {texts.iloc[0]!r} in {name!r}, row {texts.index[0] + 1} ({len(texts)} such cells in it)"
            got += _number_hint(table[name], texts, style)
            remedy = "Leave it out, name it in --categorical, write numbers, or name texts that mean missing in --na."
            raise ValueError(message("--features", "name columns of numbers", got, remedy))
    return pd.DataFrame({name: numbers[name][0] for name in names}, index=table.index)


def _weights(table, name, style):
    """A table of the column of weights, as numbers; of no column where there is none."""
    import pandas as pd

    if name is None:
        return pd.DataFrame(index=table.index)
    numbers, is_text = _numbers(table[name], *style)
    if is_text.any():
        texts = table[name][is_text]
        got = f"the text {texts.iloc[0]!r} in {name!r}{_number_hint(table[name], texts, style)}"
        raise ValueError(message("--weights", "name a column of numbers", got, "Write numbers there."))
    return pd.DataFrame({name: numbers.astype(float)})


def _complete(absent):
    """(which rows have a value everywhere (obs,), {column: how many have none}) of tables {option: where there is none}."""
    kept = ~np.any([part.any(axis=1) for part in absent.values()], axis=0)
    if not kept.any():
        remedy = "Leave out columns that are mostly empty by naming the others in --features."
        raise ValueError(message("--missing", "leave rows that have a value everywhere", "none", remedy))
    return kept, {name: int(n) for part in absent.values() for name, n in part.sum().items() if n}


def _check_present(absent, keep_numbers):
    """ValueError where there are cells without a value, in tables {option: where there is none}."""
    counts = {option: part.sum() for option, part in absent.items()}
    holes = {
        option: missing
        for option, missing in counts.items()
        if missing.any() and not (keep_numbers and option == "--features")
    }
    if holes:
        several = ((name, count) for missing in holes.values() for name, count in missing[missing > 0].items())
        got = listed(f"{count} missing in {name!r}" for name, count in several)
        rule = f"have a value in all {len(absent['--sensitive'])} rows"
        remedies = dict.fromkeys(_remedy(option, missing) for option, missing in holes.items())
        remedy = f"{', '.join(remedies)}, fill those cells, or drop those rows: --missing drop."
        raise ValueError(message("` and `".join(holes), rule, got, remedy[0].upper() + remedy[1:]))


def _remedy(option, missing):
    if option == "--sensitive":
        which = ", ".join(repr(name) for name in missing.index[missing > 0])
        return f"make those of {which} a group of their own, --missing-group unknown"
    whole = ",".join(typed(name) for name in missing.index[missing == 0])
    without = f" (--features {quote(whole)})" if option == "--features" and 0 < len(whole) < MAX_LINE else ""
    return f"leave those columns out of {option}{without}"


def _check_finite(features):
    infinite = np.isinf(features).sum()
    if infinite.any():
        got = ", ".join(f"{count} infinite in {name!r}" for name, count in infinite[infinite > 0].items())
        raise ValueError(
            message("--features", "hold finite numbers", got, "Correct those cells, or leave the columns out.")
        )


def _cleaned(cells, missing):
    """(columns of categories as they stand, numbers that are whole as integers; where there is no value)."""
    import pandas as pd

    whole = {name: _whole(cells[name]) for name in cells if pd.api.types.is_numeric_dtype(cells[name])}
    text = cells.apply(lambda column: whole[column.name] if column.name in whole else column.str.strip())
    absent = text.apply(lambda column: column.isna() if column.name in whole else column.isin(missing))
    return text.apply(
        lambda column: column if column.name in whole else _integers(column, ~absent[column.name])
    ), absent


def _check_several(groups):
    names = bf.fairness.encode_groups(groups).names
    if len(names) == 1:
        remedy = "Name a column in which rows differ."
        raise ValueError(message("--sensitive", "make at least two groups", f"only {names[0]!r}", remedy))


def _integers(column, present):
    """Integers where every value is one, so that 1.0 is the group 1 and 10 comes after 9; text otherwise."""
    values = column.astype(object)
    if column[present].str.fullmatch(INTEGER).all():
        values[present] = [int(float(value)) for value in column[present]]
    return values


def _whole(numbers):
    """Integers where every number is one, so that 1.0 is the group 1."""
    return numbers.astype("Int64") if (numbers.dropna() % 1 == 0).all() else numbers


def _kind(values):
    """What a feature holds, and its type where the file has types."""
    if values.dtype == object:
        return f"{values.nunique()} categories"
    numbers = values.dropna()
    kind = "0 or 1" if numbers.isin([0, 1]).all() else "whole numbers" if (numbers % 1 == 0).all() else "numbers"
    return kind if values.dtype == float else f"{kind}, {values.dtype}"

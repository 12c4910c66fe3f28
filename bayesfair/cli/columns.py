"""Which columns of a table are features, which are sensitive, which are left out, and why."""

import re
from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from operator import or_
from shlex import quote
from typing import NamedTuple

import numpy as np

import bayesfair as bf
from bayesfair._check import listed, message, tell
from bayesfair._scaling import NOTE
from bayesfair.cli.tables import ORDERS, ROW_NAMES, UNNAMED, separator_hint, typed

# How programs write a missing number: pandas' list. In sensitive columns these are categories.
MISSING_NUMBERS = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"} | {
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
}
MARKERS = MISSING_NUMBERS - {""} | {"?", "-", ".", "(null)", "missing", "Missing"}  # told where they are categories
MISSING = ("error", "drop")  # choices for rows without a value
UNNAMED_ROWS = "row names, as it has no name itself"
COUNTED_ROWS = "row numbers; name it in --features to take it"
ROWS_OF_PANDAS = "row names in the file; name it in --features to take it"
TOGETHER = (("--sensitive", "--features"), ("--features", "--categorical"))  # may name the same columns
TRUTH = {"True": "1", "TRUE": "1", "true": "1", "False": "0", "FALSE": "0", "false": "0"}
INTEGER = r"[+-]?(?:0|[1-9][0-9]{0,14})(?:\.0+)?"  # integers that floats hold exactly; not 007, which is a code
LARGEST_INTEGER = 2.0**53  # up to it floats hold every integer
LEADING_ZERO = r"[+-]?0[0-9].*"  # of codes such as 007, which no number in --na means
THOUSANDS = (",", ".", " ", "'", "_")


class ChosenColumns(NamedTuple):
    """The part of a table that a command uses, under the names of its rows."""

    features: object
    sensitive: object
    left_out: dict  # {name: why}
    dropped: dict  # {name: number of rows that lack it}
    weights: object = None
    clusters: object = None
    names: str | None = None  # the column of row names
    n_dropped: int = 0  # rows, each counted once

    @property
    def dropped_in_words(self):
        """How many rows are left out, and what they lack; "" for none."""
        without = listed(f"{count:,} without {typed(name)}" for name, count in self.dropped.items())
        return f"{self.n_dropped:,} in all: {without}" if len(self.dropped) > 1 else without

    def __str__(self):
        kinds = [f"{typed(name)} ({_kind(self.features[name])})" for name in self.features]
        groups = bf.fairness.encode_groups(self.sensitive)
        sizes = [f"{name} ({size})" for name, size in zip(groups.names, groups.sizes)]
        lines = [
            f"features   {listed(kinds)}",
            f"sensitive  {' x '.join(self.sensitive)}: {listed(sizes)}",
            f"left out   {_with_reasons(self.left_out) or 'nothing'}",
        ]
        if self.weights is not None:
            lines.insert(2, f"weights    {typed(self.weights.name)} (sum {self.weights.sum():,.6g})")
        return "\n".join(lines + [f"dropped    rows: {self.dropped_in_words}"] * bool(self.dropped))


class Wanted(NamedTuple):
    """What a command reads from a table: names of columns, and the form of cells, as its options say."""

    sensitive: list
    features: list | None = None  # None for every numeric column that is not row names or constant, [] for none
    categorical_features: list | None = None
    weights: str | None = None
    index: str | None = None
    clusters: str | None = None
    na: Sequence[str] = ()  # what means missing, beside empty cells and, for numbers, MISSING_NUMBERS
    decimal: str = "."
    thousands: str | None = None
    missing: str = "error"  # or "drop", or "keep", which no option sets and which leaves numbers missing
    missing_group: str | None = None

    @classmethod
    def typed(cls, arguments, **chosen):
        """What was typed, but for what is `chosen`."""
        given = {name: getattr(arguments, name) for name in cls._fields if getattr(arguments, name, None) is not None}
        return cls(**given | chosen)

    @property
    def categories(self):
        return self.categorical_features or []

    @property
    def style(self):
        """(what means missing, the decimal point, the mark of thousands)."""
        return tuple(self.na), self.decimal, self.thousands

    @property
    def named(self):
        """{option: the columns that it names}."""
        lists = {"--sensitive": self.sensitive, "--features": self.features or [], "--categorical": self.categories}
        alone = {"--weights": self.weights, "--index": self.index, "--clusters": self.clusters}
        return lists | {option: [] if name is None else [name] for option, name in alone.items()}


def choose_columns(table, wanted: Wanted) -> ChosenColumns:
    """The columns of a table of text and numbers; categories are features as they stand."""
    if wanted.thousands == wanted.decimal:
        remedy = "For 1.234,5 pass --decimal , --thousands ."
        raise ValueError(message("--thousands", "be another character than --decimal", repr(wanted.thousands), remedy))
    _check_names(table, wanted.named)
    sensitive, features, categories, weights, style = *wanted[:2], wanted.categories, wanted.weights, wanted.style
    others = [name for name in table if name not in (*sensitive, weights, wanted.clusters)]
    asked = others if features is None else features
    possible = [name for name in asked if name not in categories]
    numbers = {name: _numbers(table[name], *style) for name in possible}
    reasons = {name: "not in --features" if features is not None else _reason(table, name, numbers) for name in others}
    taken = {*sensitive, *categories, weights, wanted.clusters, *(features or [])}
    names, reason = column_of_names(table, wanted.index, taken)
    _check_unique(table, names)
    reasons |= {
        name: ROWS_OF_PANDAS for name in table.attrs.get(ROW_NAMES, ()) if name in reasons and name not in taken
    }
    reasons |= {} if names is None else {names: reason}
    chosen = possible if features is not None else [name for name in possible if reasons[name] is None]
    left_out = {name: reasons[name] for name in others if name not in (*chosen, *categories)}
    if features != [] and not (chosen or categories):
        got = f"none; left out: {_with_reasons(left_out)}"
        remedy = "Encode categories as numbers in the file first, or name them in --categorical."
        raise ValueError(message("--features", "leave numeric columns", got, remedy))
    X = _numeric(table, "--features", {name: numbers[name] for name in chosen})
    weight = {} if weights is None else {weights: _numbers(table[weights], *style)}
    weight = _numeric(table, "--weights", weight).astype(float)
    kinds, no_kind = category_columns(table[categories], *style)
    groups, no_group = category_columns(table[sensitive], *style)
    parts, no_part = category_columns(table[[wanted.clusters] if wanted.clusters else []], *style)
    if wanted.missing_group is not None:
        groups, no_group = groups.astype(object).mask(no_group, wanted.missing_group), no_group & False
    absent = {"--features": X.isna(), "--categorical": no_kind, "--weights": weight.isna(), "--sensitive": no_group}
    absent["--clusters"] = no_part
    kept, dropped = _complete(absent) if wanted.missing == "drop" else (np.full(len(table), True), {})
    _check_present({option: part[kept] for option, part in absent.items()}, keep_numbers=wanted.missing == "keep")
    _tell_markers({"--sensitive": groups[~no_group], "--clusters": parts[~no_part]})
    rows = row_names(table, names)[kept]
    groups = _in_own_order(groups, table.attrs.get(ORDERS, {}))
    tables = X.join(kinds.astype(object)), groups, weight, parts
    features, groups, weight, parts = (part[kept].set_axis(rows) for part in tables)
    weight, parts = (None if one.empty else one.iloc[:, 0] for one in (weight, parts))
    n_dropped = int((~kept).sum())
    return ChosenColumns(features, groups, left_out, dropped, weight, parts, names, n_dropped)


def _in_own_order(groups, orders):
    """Groups whose column has an order in the file {name: levels}; text that has become numbers is in theirs."""
    import pandas as pd

    for name, levels in orders.items():
        if name in groups and groups[name].isin(levels).all():
            groups = groups.assign(**{name: pd.Categorical(groups[name], levels, ordered=True)})
    return groups


def row_names(table, index):
    """The values of the column `index`, whole numbers as such; rows are counted if it is None."""
    import pandas as pd

    if index is None:
        return table.index
    names = table[index]
    if not pd.api.types.is_numeric_dtype(names) and names.str.fullmatch(INTEGER).all():
        names = names.astype(float).astype(int)
    return pd.Index(names)


def column_of_names(table, index, taken):
    """(the column of row names, why it is no feature), or (None, "") without one.

    It is `index`, or else the first column if it is not `taken` and has no name, or counts the rows, or holds the row names
    of a file of pandas. Those are passed over where several columns name the rows, or rows share a name.
    """
    first = table.columns[0]
    if index is not None:
        return index, "row names"
    if first in taken:
        return None, ""
    written = table.attrs.get(ROW_NAMES)
    if written:
        return (first, ROWS_OF_PANDAS) if written == [first] and table[first].is_unique else (None, "")
    if first.startswith(UNNAMED):
        return first, UNNAMED_ROWS
    numbers, _ = _numbers(table[first])
    counts = any(np.array_equal(numbers, np.arange(len(numbers)) + start) for start in (0, 1))
    return (first, COUNTED_ROWS) if counts else (None, "")


def _with_reasons(left_out):
    """Names with the reason in brackets, one bracket for all that share it."""
    reasons = dict.fromkeys(left_out.values())
    names = {reason: listed(typed(name) for name in left_out if left_out[name] == reason) for reason in reasons}
    return listed(f"{names[reason]} ({reason})" for reason in reasons)


def standardized(features):
    """Columns of mean zero and standard deviation one, those of categories unchanged; an error if that cannot be."""
    numbers = features.select_dtypes("number")
    with np.errstate(over="ignore", invalid="ignore"):
        centred = numbers - numbers.mean()
        spread = centred.std(ddof=0)
    unusable = [name for name in numbers if not 0 < spread[name] < np.inf or numbers[name].nunique() == 1]
    if unusable:
        got = f"columns that are constant, infinite or too large to square: {listed(unusable)}"
        remedy = "Leave them out by naming the others in --features."
        raise ValueError(message("--standardize", "be used on features that vary", got, remedy))
    scaled = features.assign(**(centred / spread))
    scaled.attrs[NOTE] = {"mean": numbers.mean().to_dict(), "deviation": spread.to_dict()}
    return scaled


def _check_names(table, named):
    """Raise a ValueError if columns named by options, {option: names}, are not in the table, or are named by two options."""
    for option, names in named.items():
        missing = [name for name in names if name not in table]
        if missing:
            remedy = f"The columns of the table are: {listed(map(typed, table), 40)}.{separator_hint(table)}"
            raise ValueError(message(option, "name columns of the table", listed(map(repr, missing)), remedy))
    for other, option in combinations(named, 2):
        twice = [name for name in named[option] if name in named[other]]
        if twice and (other, option) not in TOGETHER:
            got = f"{twice[0]!r}, which {other} names too"
            raise ValueError(message(option, "name columns of its own", got, "Leave it out of one of the two."))


def _numbers(cells, na=(), decimal=".", thousands=None):
    """(numbers, with NaN for none; mask of the cells with text that is neither number nor missing)."""
    import pandas as pd

    missing = _missing(cells, na, decimal, thousands)
    if pd.api.types.is_numeric_dtype(cells):
        return cells.mask(missing).astype(float) if missing.any() else cells, pd.Series(False, index=cells.index)
    text = cells.str.strip()
    missing |= text.isin(MISSING_NUMBERS)
    numbers = _parsed(text.mask(missing).replace(TRUTH), decimal, thousands)
    return numbers, ~missing & numbers.isna()


def _parsed(text, decimal, thousands):
    """Stripped text as floats, NaN for text that is no number."""
    import pandas as pd

    if thousands is not None:
        mark = r"[ \u00a0\u202f]" if thousands == " " else re.escape(thousands)
        grouped = text.str.fullmatch(rf"[+-]?[0-9]{{1,3}}(?:{mark}[0-9]{{3}})+(?:{re.escape(decimal)}[0-9]*)?")
        text = text.mask(grouped, text.str.replace(mark, "", regex=True))
    if decimal != ".":
        text = text.str.translate(str.maketrans({decimal: ".", ".": decimal}))  # then 1.5 is not a number
    return pd.to_numeric(text, errors="coerce").astype(float)


def _missing(cells, na, decimal, thousands):
    """Mask of the cells that mean missing: empty, written as a text of `na`, or the same number as one."""
    import pandas as pd

    codes = _codes(na, decimal, thousands)
    if pd.api.types.is_numeric_dtype(cells):
        missing = cells.isna()
        values = cells[~missing].to_numpy()
        with np.errstate(over="ignore"):  # of float32
            missing[~missing] = reduce(or_, [values == code for code in codes], np.zeros(len(values), bool))
        return missing
    text = cells.str.strip()
    missing = text.isin(["", *na])
    if codes:
        numbers = _parsed(text, decimal, thousands)
        missing |= numbers.isin([float(code) for code in codes]) & ~text.str.fullmatch(LEADING_ZERO)
    return missing


def _codes(na, decimal, thousands):
    """The numbers among texts that mean missing, integers as such."""
    import pandas as pd

    texts = pd.Series(list(na), dtype=str)
    numbers = _parsed(texts, decimal, thousands)
    numbers = numbers[numbers.notna() & ~texts.str.fullmatch(LEADING_ZERO)]
    return [int(texts[at]) if re.fullmatch("[+-]?[0-9]{1,20}", texts[at]) else number for at, number in numbers.items()]


def _reason(table, name, numbers):
    """Why a column is no feature by default; None if it could be one, but was not asked for."""
    if name not in numbers:
        return None
    values, is_text = numbers[name]
    if is_text.any():
        return _text_reason(table[name][is_text], values)
    if values.isna().all():
        return "empty"
    return "constant" if values.notna().all() and values.nunique() == 1 else None


def _text_reason(texts, numbers):
    """Describe text; a single text among numbers may mean that they are missing."""
    example = texts.iloc[0].strip()
    if texts.nunique() > 1 or len(texts) >= numbers.notna().sum():
        return f"text such as {example!r}"
    typed_so = f"={quote(example)}" if example.startswith("-") else f" {quote(example)}"
    return f"{len(texts)} times {example!r} among numbers; if that means missing, --na{typed_so}"


def _check_unique(table, names):
    """Raise a ValueError if rows share a name: `memberships --table` could not tell them apart."""
    if names is None or table[names].is_unique:
        return
    got = f"{table[names][table[names].duplicated()].iloc[0]!r} twice in {names!r}"
    remedy = "Name a column whose entries differ. Without one rows are numbered; delete a first column without a name."
    raise ValueError(message("--index", "name each row once", got, remedy))


def _numeric(table, option, numbers):
    """Columns {name: result of `_numbers`} as a table, NaN for missing numbers."""
    import pandas as pd

    for name, (_, is_text) in numbers.items():
        texts = table[name][is_text]
        if len(texts):
            got = f"the text {texts.iloc[0]!r} in {name!r}, row {texts.index[0] + 1} ({len(texts)} such cells in it)"
            remedy = "Leave it out, name it in --categorical, name texts that mean missing in --na, or say how numbers "
            remedy += "are written: --decimal, --thousands."
            raise ValueError(message(option, "name columns of numbers", got, remedy))
    return pd.DataFrame({name: values for name, (values, _) in numbers.items()}, index=table.index)


def _complete(absent):
    """(mask (obs,) of rows with a value everywhere, {column: number of missing values}) of tables {option: mask of missing}."""
    kept = ~np.any([part.any(axis=1) for part in absent.values()], axis=0)
    if not kept.any():
        remedy = "Leave out columns that are mostly empty by naming the others in --features."
        raise ValueError(message("--missing", "leave rows that have a value everywhere", "none", remedy))
    return kept, {name: int(n) for part in absent.values() for name, n in part.sum().items() if n}


def _check_present(absent, keep_numbers):
    """Raise a ValueError for cells without a value, in tables {option: mask of missing}."""
    counts = {option: part.sum() for option, part in absent.items() if not (keep_numbers and option == "--features")}
    holes = {option: missing[missing > 0] for option, missing in counts.items() if missing.any()}
    if holes:
        got = listed(f"{count} missing in {name!r}" for missing in holes.values() for name, count in missing.items())
        remedy = "Leave those columns out, fill those cells, or drop those rows: --missing drop."
        if "--sensitive" in holes:
            remedy += " Rows without a sensitive value may also be a group of their own: --missing-group unknown."
        rule = f"have a value in all {len(absent['--sensitive'])} rows"
        raise ValueError(message("` and `".join(holes), rule, got, remedy))


def _tell_markers(tables):
    """Warn of texts that often mean a missing value, and that are a group or a cluster here; tables {option: columns}."""
    for option, columns in tables.items():
        for name, values in columns.items():
            found = values[values.isin(MARKERS)].value_counts()
            if len(found):
                told = listed(f"{text!r} ({count:,} rows)" for text, count in found.items())
                tell(f"{option} {name}: {told} counts as a value. If it means missing, --na {quote(found.index[0])}.")


def category_columns(cells, *style):
    """(columns of categories, whole numbers as integers and others unchanged; mask of missing values); see `Wanted.style`."""
    import pandas as pd

    columns = {name: _column_of_categories(cells[name], *style) for name in cells}
    return tuple(pd.DataFrame({name: pair[at] for name, pair in columns.items()}, index=cells.index) for at in (0, 1))


def _column_of_categories(cells, *style):
    """Integers if every value is one, so that 1.0 is the group 1 and 10 comes after 9."""
    import pandas as pd

    absent = _missing(cells, *style)
    if pd.api.types.is_integer_dtype(cells):
        return cells, absent
    if pd.api.types.is_numeric_dtype(cells):
        numbers = cells[~absent]
        are_whole = (numbers % 1 == 0).all() and (numbers.abs() <= LARGEST_INTEGER).all()
        return cells.mask(absent).astype("Int64") if are_whole else cells, absent
    values = cells.str.strip().astype(object)
    if values[~absent].str.fullmatch(INTEGER).all():
        values[~absent] = [int(float(value)) for value in values[~absent]]
    return values, absent


def check_several(groups):
    """ValueError where a fit would have one group only."""
    names = bf.fairness.encode_groups(groups).names
    if len(names) == 1:
        remedy = "Name a column in which rows differ."
        raise ValueError(message("--sensitive", "make at least two groups", f"only {names[0]!r}", remedy))


def _kind(values):
    """The kind of a feature's values, and its type if the file has types."""
    if values.dtype == object:
        return f"{values.nunique()} categories"
    numbers = values.dropna()
    kind = "0 or 1" if numbers.isin([0, 1]).all() else "whole numbers" if (numbers % 1 == 0).all() else "numbers"
    return kind if values.dtype == float else f"{kind}, {values.dtype}"

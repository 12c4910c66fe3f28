"""Which columns of a table are features, which are sensitive, which are left out, and why."""

import re
from collections.abc import Sequence
from itertools import combinations, pairwise
from shlex import quote
from typing import NamedTuple

import numpy as np

import bayesfair as bf
from bayesfair._check import listed, message, tell
from bayesfair._numbers import significant
from bayesfair._scaling import NOTE
from bayesfair.cli.entry import WrongUse
from bayesfair.cli.tables import ORDERS, ROW_NAMES, UNNAMED, separator_hint, typed
from bayesfair.fairness.groups import MOST_NUMBERS

# How programs write a missing number: pandas' list. In sensitive columns these are categories.
MISSING_NUMBERS = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"} | {
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
}
MARKERS = MISSING_NUMBERS - {""} | {"?", "-", ".", "(null)", "missing", "Missing"}  # told where they are categories
TRUTH = {"True": "1", "TRUE": "1", "true": "1", "False": "0", "FALSE": "0", "false": "0"}
INTEGER = r"[+-]?(?:0|[1-9][0-9]{0,14})(?:\.0+)?"  # integers that floats hold exactly; not 007, which is a code
LARGEST_INTEGER = 2.0**53  # up to it floats hold every integer
LEADING_ZERO = r"[+-]?0[0-9].*"  # of codes such as 007, which no number in --na means
QUARTILES, CODES = "quartiles", "none"  # in --bins, in place of cuts
THOUSANDS = (",", ".", " ", "'", "_")
SPACES = r"[ \u00a0\u202f]"  # that stand for " " between digits
ROWS_OF_PANDAS = "row names in the file; name it in --features to take it"


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
            f"sensitive  {' x '.join(self.sensitive)}: {listed(sizes, between='; ')}",
        ]
        if self.weights is not None:
            lines.append(f"weights    {typed(self.weights.name)} (sum {significant(self.weights.sum())})")
        lines.append(f"left out   {_with_reasons(self.left_out) or 'nothing'}")
        return "\n".join(lines + [f"dropped    rows: {self.dropped_in_words}"] * bool(self.dropped))


class Wanted(NamedTuple):
    """What a command reads from a table: names of columns, and the form of cells, as its options say."""

    sensitive: list
    features: list | None = None  # None for every numeric column that is not row names or constant, [] for none
    categorical_features: Sequence[str] = ()
    weights: str | None = None
    index: str | None = None
    clusters: str | None = None
    na: Sequence[str] = ()  # what means missing, beside empty cells and, for numbers, MISSING_NUMBERS
    decimal: str = "."
    thousands: str | None = None
    missing: str = "error"  # or "drop"
    missing_group: str | None = None
    takes_categories: bool = False  # is there an option --categorical?

    @classmethod
    def typed(cls, arguments, **chosen):
        """What was typed, but for what is `chosen`."""
        given = {name: getattr(arguments, name) for name in cls._fields if getattr(arguments, name, None) is not None}
        return cls(**{"takes_categories": hasattr(arguments, "categorical_features")} | given | chosen)

    @property
    def style(self):
        """(what means missing, the decimal point, the mark of thousands)."""
        return tuple(self.na), self.decimal, self.thousands

    @property
    def named(self):
        """{option: the columns that it names}."""
        lists = {
            "--sensitive": self.sensitive,
            "--features": self.features or [],
            "--categorical": self.categorical_features,
        }
        alone = {"--weights": self.weights, "--index": self.index, "--clusters": self.clusters}
        return lists | {option: [] if name is None else [name] for option, name in alone.items()}


def choose_columns(table, wanted: Wanted) -> ChosenColumns:
    """The columns of a table of text and numbers; categories are features as they stand."""
    _check_names(table, wanted)
    named = wanted.named
    names, why = column_of_names(table, wanted.index, {name for used in named.values() for name in used})
    numbers, left_out = _features(table, wanted, {} if names is None else {names: why})
    parts = {
        "--features": _numeric(table, "--features", numbers, wanted.takes_categories),
        "--categorical": _categories(table, named["--categorical"], wanted),
        "--weights": _numeric(table, "--weights", _as_numbers(table, named["--weights"], wanted)).astype(float),
        "--sensitive": _categories(table, named["--sensitive"], wanted),
        "--clusters": _categories(table, named["--clusters"], wanted),
    }
    if wanted.missing_group is not None:
        groups = parts["--sensitive"]
        parts["--sensitive"] = groups.astype(object).mask(groups.isna(), wanted.missing_group)
    kept, dropped = _complete(parts, wanted.missing == "drop")
    rows = row_names(table, names)[kept]
    X, kinds, weight, groups, clusters = (part[kept].set_axis(rows) for part in parts.values())
    _tell_markers({"--sensitive": groups, "--clusters": clusters})
    groups = _in_own_order(groups, table.attrs.get(ORDERS, {}))
    weight, clusters = (None if one.empty else one.iloc[:, 0] for one in (weight, clusters))
    n_dropped = int((~kept).sum())
    return ChosenColumns(X.join(kinds.astype(object)), groups, left_out, dropped, weight, clusters, names, n_dropped)


def _as_numbers(table, names, wanted):
    return {name: numbers_of(table[name], *wanted.style) for name in names}


def _features(table, wanted, names):
    """({numeric feature: result of `numbers_of`}, {other column: why it is none}); `names`: the second of the row names."""
    others = [name for name in table if name not in (*wanted.sensitive, wanted.weights, wanted.clusters)]
    asked = others if wanted.features is None else wanted.features
    numbers = _as_numbers(table, [name for name in asked if name not in wanted.categorical_features], wanted)
    if wanted.features is None:
        reasons = {name: _reason(table[name], *pair) for name, pair in numbers.items()}
    else:
        used = (*wanted.features, *wanted.categorical_features)
        reasons = {name: "not in --features" for name in others if name not in used}
    reasons |= {name: ROWS_OF_PANDAS for name in table.attrs.get(ROW_NAMES, ()) if name in reasons} | names
    left_out = {name: reason for name, reason in reasons.items() if reason is not None}
    numbers = {name: pair for name, pair in numbers.items() if name not in left_out}
    if wanted.features != [] and not (numbers or wanted.categorical_features):
        remedy = "Encode categories as numbers in the file first, or name them in --categorical."
        raise WrongUse(f"No numeric column is left as a feature. Left out: {_with_reasons(left_out)}. {remedy}")
    return numbers, left_out


def _check_names(table, wanted):
    """Raise a WrongUse if columns named by options are not in the table, or are named by two options."""
    if wanted.thousands == wanted.decimal:
        remedy = "For 1.234,5 pass --decimal , --thousands ."
        raise WrongUse(message("--thousands", "differ from --decimal", repr(wanted.thousands), remedy))
    named = wanted.named
    for option, names in named.items():
        missing = [name for name in names if name not in table]
        if missing:
            remedy = f"The columns of the table are: {listed(map(typed, table), 40)}.{separator_hint(table)}"
            raise WrongUse(message(option, "name columns of the table", listed(map(repr, missing)), remedy))
    for other, option in combinations(named, 2):
        twice = [name for name in named[option] if name in named[other]]
        if twice and (other, option) not in {("--sensitive", "--features"), ("--features", "--categorical")}:
            got = f"{twice[0]!r}, which {other} names too"
            raise WrongUse(message(option, "name columns of its own", got, "Leave it out of one of the two."))


def column_of_names(table, index, taken):
    """(the column of row names, why it is no feature), or (None, "") without one.

    It is `index`, or else the first column if it is not `taken` and has no name, or counts the rows, or holds the row names
    of a file of pandas. Those are passed over where several columns name the rows, or rows share a name.
    """
    first, written = table.columns[0], table.attrs.get(ROW_NAMES)
    if index is None and (first in taken or (written and (written != [first] or not table[first].is_unique))):
        return None, ""
    if index is None and not written and not first.startswith(UNNAMED):
        numbers, _ = numbers_of(table[first])
        counts = any(np.array_equal(numbers, np.arange(len(numbers)) + start) for start in (0, 1))
        return (first, "row numbers; name it in --features to take it") if counts else (None, "")
    names = first if index is None else index
    twice = table[names][table[names].duplicated()]
    if len(twice):  # `memberships --table` could not tell the rows apart
        remedy = "Name a column whose entries differ, or delete a first column without a name: rows are numbered then."
        raise WrongUse(message("--index", "name each row once", f"{twice.iloc[0]!r} twice in {names!r}", remedy))
    return (
        names,
        "row names" if index is not None else ROWS_OF_PANDAS if written else "row names, as it has no name itself",
    )


def row_names(table, index):
    """The values of the column `index`, whole numbers as such; rows are counted if it is None."""
    import pandas as pd

    if index is None:
        return table.index
    names = table[index]
    if not pd.api.types.is_numeric_dtype(names) and names.str.fullmatch(INTEGER).all():
        names = names.astype(float).astype(int)
    return pd.Index(names)


def numbers_of(cells, na=(), decimal=".", thousands=None):
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
    """Stripped text as floats, NaN for text that is no number; `pandas.read_csv(thousands=",")` would take 1,5 for 15."""
    import pandas as pd

    if thousands is not None:
        mark = SPACES if thousands == " " else re.escape(thousands)
        text = text.str.replace(rf"(?<=[0-9]){mark}(?=[0-9]{{3}}(?![0-9]))", "", regex=True)
    if decimal != ".":
        text = text.str.translate(str.maketrans({decimal: ".", ".": decimal}))  # then 1.5 is not a number
    return pd.to_numeric(text, errors="coerce").astype(float)


def _missing(cells, na, decimal, thousands):
    """Mask of the cells that mean missing: empty, written as a text of `na`, or the same number as one."""
    import pandas as pd

    codes = pd.Series(list(na), dtype=str)
    codes = _parsed(codes.mask(codes.str.fullmatch(LEADING_ZERO)), decimal, thousands).dropna()
    if pd.api.types.is_numeric_dtype(cells):
        with np.errstate(over="ignore"):  # of float32
            return np.logical_or.reduce([cells.isna(), *((cells == code).fillna(False) for code in codes)])
    text = cells.str.strip()
    missing = text.isin(["", *na])
    if len(codes):
        missing |= _parsed(text, decimal, thousands).isin(codes) & ~text.str.fullmatch(LEADING_ZERO)
    return missing


def _categories(table, names, wanted):
    """Columns of categories, None for missing: whole numbers are integers, so that 1.0 is the group 1 and 10 comes after 9."""
    import pandas as pd

    columns = {}
    for name in names:
        cells, absent = table[name], _missing(table[name], *wanted.style)
        if pd.api.types.is_integer_dtype(cells):
            columns[name] = cells.astype(object).mask(absent) if absent.any() else cells
        elif pd.api.types.is_numeric_dtype(cells):
            numbers = cells[~absent]
            whole = (numbers % 1 == 0).all() and (numbers.abs() <= LARGEST_INTEGER).all()
            columns[name] = cells.mask(absent).astype("Int64") if whole else cells.mask(absent)
        else:
            values = cells.str.strip().astype(object).mask(absent)
            whole = values[~absent].str.fullmatch(INTEGER).all()
            columns[name] = values.astype(float).astype("Int64") if whole else values
    return pd.DataFrame(columns, index=table.index)


def _in_own_order(groups, orders):
    """Groups whose column has an order in the file {name: levels}; text that has become numbers is in theirs."""
    import pandas as pd

    for name, levels in orders.items():
        if name in groups and groups[name].isin(levels).all():
            groups = groups.assign(**{name: pd.Categorical(groups[name], levels, ordered=True)})
    return groups


def _reason(cells, numbers, is_text):
    """Why a column is no feature by default, or None; a single text among numbers may mean that they are missing."""
    if is_text.any():
        texts = cells[is_text]
        example = texts.iloc[0].strip()
        if texts.nunique() > 1 or len(texts) >= numbers.notna().sum():
            return f"text such as {example!r}"
        typed_so = f"={quote(example)}" if example.startswith("-") else f" {quote(example)}"
        return f"{len(texts)} times {example!r} among numbers; if that means missing, --na{typed_so}"
    if numbers.isna().all():
        return "empty"
    return "constant" if numbers.notna().all() and numbers.nunique() == 1 else None


def _with_reasons(left_out):
    """Names with the reason in brackets, one bracket for all that share it."""
    reasons = dict.fromkeys(left_out.values())
    names = {reason: listed(typed(name) for name in left_out if left_out[name] == reason) for reason in reasons}
    return listed(f"{names[reason]} ({reason})" for reason in reasons)


def _numeric(table, option, numbers, takes_categories=False):
    """Columns {name: result of `numbers_of`} as a table, NaN for missing numbers."""
    import pandas as pd

    for name, (_, is_text) in numbers.items():
        texts = table[name][is_text]
        if len(texts):
            got = f"the text {texts.iloc[0]!r} in {name!r}, row {texts.index[0] + 1} ({len(texts)} such cells in it)"
            remedy = (
                f"Leave it out, {'name it in --categorical, ' * takes_categories}name texts that mean missing in --na, "
            )
            remedy += "or say how numbers are written: --decimal, --thousands."
            raise WrongUse(message(option, "name columns of numbers", got, remedy))
    return pd.DataFrame({name: values for name, (values, _) in numbers.items()}, index=table.index)


def _complete(parts, drop):
    """(mask (obs,) of rows to keep, {column: number of missing values}) of tables {option: columns}."""
    holes = {option: part.isna().sum() for option, part in parts.items()}
    holes = {
        option: {name: int(n) for name, n in counts.items() if n} for option, counts in holes.items() if counts.any()
    }
    kept = ~np.any([part.isna().any(axis=1) for part in parts.values()], axis=0)
    if not holes or (drop and kept.any()):
        return kept, {name: n for counts in holes.values() for name, n in counts.items()}
    if drop:
        remedy = "Leave out columns that are mostly empty by naming the others in --features."
        raise WrongUse(f"Every row lacks some value, so --missing drop leaves no row. {remedy}")
    got = listed(f"{n} missing in {name!r}" for counts in holes.values() for name, n in counts.items())
    remedy = "Leave those columns out, fill those cells, or drop those rows: --missing drop."
    if "--sensitive" in holes:
        remedy += " Rows without a sensitive value may also be a group of their own: --missing-group unknown."
    raise WrongUse(message("` and `".join(holes), f"have a value in all {len(kept)} rows", got, remedy))


def _tell_markers(tables):
    """Warn of texts that often mean a missing value, and that are a group or a cluster here; tables {option: columns}."""
    for option, name, values in ((option, *pair) for option, columns in tables.items() for pair in columns.items()):
        found = values[values.isin(MARKERS)].value_counts()
        if len(found):
            told = listed(f"{text!r} ({count:,} rows)" for text, count in found.items())
            tell(f"{option} {name}: {told} counts as a value. If it means missing, pass --na {quote(found.index[0])}.")


def check_several(groups):
    """WrongUse if a fit would have one group only."""
    names = bf.fairness.encode_groups(groups).names
    if len(names) == 1:
        remedy = "Name a column in which rows differ."
        raise WrongUse(message("--sensitive", "make at least two groups", f"only {names[0]!r}", remedy))


def counted_from_1(columns: ChosenColumns) -> ChosenColumns:
    """The same columns; rows without names have their numbers from 1, as a reader counts them below the first line."""
    if columns.names is not None:
        return columns
    parts = {name: getattr(columns, name) for name in ("features", "sensitive", "weights", "clusters")}
    return columns._replace(
        **{name: None if part is None else part.set_axis(part.index + 1) for name, part in parts.items()}
    )


def in_bands(groups, bins, wanted: Wanted):
    """Sensitive columns whose numbers are in bands {column: cuts, QUARTILES or CODES}; an error for many numbers without."""
    import pandas as pd

    if not bins.keys() <= {*groups}:
        got, remedy = listed(map(repr, bins.keys() - {*groups})), f"These are: {listed(map(typed, groups))}."
        raise WrongUse(message("--bins", "name sensitive columns", got, remedy))
    return pd.DataFrame({name: _in_bands(cells, bins.get(name), wanted) for name, cells in groups.items()})


def _in_bands(cells, cuts, wanted):
    """One sensitive column in bands; as it is without cuts; codes as text, with the name of the column."""
    import pandas as pd

    if cuts == CODES:
        codes = [cell if cell == wanted.missing_group else f"{cells.name} {cell}" for cell in cells]
        return pd.Series(codes, index=cells.index)
    numbers, is_text = numbers_of(cells.astype(str), (), wanted.decimal, wanted.thousands)
    is_text &= cells != wanted.missing_group
    if cuts is None:
        _check_few(cells, numbers.nunique(), is_text)
        return cells
    if is_text.any():
        got = f"the text {cells[is_text].iloc[0]!r} in {cells.name!r}"
        raise WrongUse(message("--bins", "name columns of numbers", got, "Leave that column out of --bins."))
    return _bands(numbers, cuts, wanted.missing_group)


def _check_few(cells, n_numbers, is_text):
    """A WrongUse for a column of many numbers that are no ids, which are refused elsewhere."""
    if n_numbers <= MOST_NUMBERS or is_text.any() or 2 * n_numbers > len(cells):
        return
    name = quote(typed(cells.name))
    rule, got = f"have at most {MOST_NUMBERS} groups of numbers in a column", f"{n_numbers} numbers in {cells.name!r}"
    remedy = f"Pass --bins {name}=18,30,45,65 with cuts of yours, or {name}={QUARTILES}. If they are codes, whose order means "
    raise WrongUse(message("--sensitive", rule, got, f"{remedy}nothing: --bins {name}={CODES}."))


def _bands(numbers, cuts, missing):
    """The band of every number, in order: "under 18", "18 to under 30", "30 and over"; last the group without a number."""
    import pandas as pd

    cuts = np.unique(numbers.quantile([0.25, 0.5, 0.75])) if cuts == QUARTILES else np.array(cuts)
    ends = [f"{cut:,.10g}" for cut in cuts]
    names = [f"under {ends[0]}", *(f"{low} to under {high}" for low, high in pairwise(ends)), f"{ends[-1]} and over"]
    band = np.where(numbers.isna(), len(names), np.searchsorted(cuts, numbers, side="right"))
    names += [missing] if numbers.isna().any() else []
    return pd.Series(pd.Categorical.from_codes(band, names, ordered=True), index=numbers.index)


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
        raise WrongUse(message("--standardize", "be used on features that vary", got, remedy))
    scaled = features.assign(**(centred / spread))
    scaled.attrs[NOTE] = {"mean": numbers.mean().to_dict(), "deviation": spread.to_dict()}
    return scaled


def _kind(values):
    """The kind of a feature's values, and its type if the file has types."""
    if values.dtype == object:
        return f"{values.nunique()} categories"
    numbers = values.dropna()
    kind = "0 or 1" if numbers.isin([0, 1]).all() else "whole numbers" if (numbers % 1 == 0).all() else "numbers"
    return kind if values.dtype == float else f"{kind}, {values.dtype}"

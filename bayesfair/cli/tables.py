"""Tables from files and to files: CSV cells as text, numbers of Parquet and Feather as numbers."""

import re
from importlib.util import find_spec
from io import BytesIO

import numpy as np

import bayesfair as bf
from bayesfair._check import listed, message
from bayesfair._files import COLUMNAR, write_whole

COMPRESSED = (".gz", ".bz2", ".zip", ".xz", ".zst")  # endings that pandas unpacks by itself
BEGINNING = 4096  # bytes of a file that are searched for its first line
UNNAMED = "Unnamed: "  # with the position: pandas' name for a column without one
ROW_NAMES = "row names"  # in the `attrs` of a table: the columns that a file of pandas says are its row names
ORDERS = "orders"  # likewise: {column: its levels, in an order of their own}
NO_SEPARATOR = "Give the separator of its columns, such as --separator ';'."
HOW_CSV_IS_READ = (
    "Name its columns in the first line, quote fields that hold the separator, and check --separator and --encoding, such as "
    "cp1252 or utf-16."
)


def read_table(path, separator=",", encoding="utf-8"):
    """A pandas DataFrame of a CSV file, every cell as text and none missing, or of a Parquet or Feather file.

    CSV has the names of its columns in the first line. The others keep numbers in their type; all else is text, "" for
    none. Their row names, if pandas wrote any, come first (`ROW_NAMES`).
    """
    if path.suffix.lower() in COLUMNAR:
        table = _read(path, "Check the file and its ending.")
        levels = [] if _only_counts(table.index) else list(table.index.names)
        names = _names(path, [*("" if name is None else name for name in levels), *table.columns])
        table = table.reset_index(drop=not levels, allow_duplicates=True).set_axis(names, axis=1)
        orders = {name: list(map(str, table[name].cat.categories)) for name in table if _is_ordered(table[name])}
        table = table.apply(_numbers_or_text)
        table.attrs.update({ROW_NAMES: names[: len(levels)], ORDERS: orders})
        return _with_rows(path, table)
    of_excel = re.fullmatch("sep=(.)", _first_line(path, encoding))
    separator, skipped = (of_excel[1], 1) if of_excel else (separator, 0)
    as_text = {"header": None, "dtype": str, "na_filter": False, "skipinitialspace": True}
    lines = _read(path, HOW_CSV_IS_READ, sep=separator, encoding=encoding, skiprows=skipped, **as_text)
    names = _names(path, lines.iloc[0])
    return _with_rows(path, lines[1:].set_axis(names, axis=1).reset_index(drop=True))


def _read(path, remedy, **options):
    try:
        return bf.datasets.read_table(path, **options)
    except ImportError as error:
        raise ValueError(str(error)) from error
    except ValueError as error:
        if error.__cause__ is None:  # a kind of file that is no table here
            raise
        got = f"{str(path)!r} ({str(error.__cause__).strip()})"
        raise ValueError(message("TABLE.csv", "be a table that can be read", got, remedy)) from error


def _with_rows(path, table):
    if len(table) == 0:
        raise ValueError(message(path.name, "have rows below the names of its columns", "none", "Check the file."))
    return table


def is_table(path):
    """Does a file's name end as that of a table?"""
    return path.suffix.lower() == ".csv" or path.suffix.lower() in COLUMNAR


def check_ending(path):
    """Raise a ValueError unless `path` ends as a table that can be written here."""
    if not is_table(path):
        rule = f"end in .csv or {', '.join(COLUMNAR)}, as a table goes there"
        raise ValueError(message("--out", rule, repr(path.name), "Spreadsheets read .csv."))
    if path.suffix.lower() != ".csv" and not (find_spec("pyarrow") or find_spec("polars")):
        rule, remedy = "be a .csv, as neither pyarrow nor polars is installed", "pip install 'bayesfair[parquet]'."
        raise ValueError(message("--out", rule, repr(path.name), remedy))


def to_csv(table, file=None, *, separator=",", decimal=".", encoding="utf-8"):
    """A DataFrame without its row names as CSV, to a file of bytes, or as text."""
    settings = {"sep": separator, "decimal": decimal, "encoding": encoding}
    return table.to_csv(file, index=False, lineterminator="\n", **settings)


def write_table(table, path, **of_csv):
    """Write a DataFrame without its row names to a file of the kind given by its ending; `of_csv`: as in `to_csv`."""
    kind, buffer = COLUMNAR.get(path.suffix.lower()), BytesIO()
    if kind is None:
        _encode(table, buffer, of_csv)
    elif find_spec("pyarrow"):
        getattr(table, f"to_{kind}")(buffer)
    else:
        _by_polars(table, buffer, "write_parquet" if kind == "parquet" else "write_ipc")
    write_whole([buffer.getbuffer()], path)


def _encode(table, buffer, of_csv):
    try:
        to_csv(table, buffer, **of_csv)
    except UnicodeEncodeError as error:
        got = f"{of_csv['encoding']}, which has no {error.object[error.start]!r}"
        remedy = "Leave it out for UTF-8."
        raise ValueError(message("--encoding", "hold every letter of the table", got, remedy)) from error


def _by_polars(table, buffer, write):
    import pandas as pd
    import polars

    cells = {name: [None if cell is pd.NA else cell for cell in table[name].tolist()] for name in table}
    getattr(polars.DataFrame(cells), write)(buffer)


def typed(name):
    """A column's name as typed in a list: quoted if it contains a comma."""
    return f'"{name}"' if "," in name else name


def separator_hint(names):
    """The option to type if half of the names contain the separator of columns; else empty."""
    names = list(names)
    found = [mark for mark in (";", "\t", "|", ",") if 2 * sum(mark in name for name in names) >= len(names)]
    shown = found[0].replace("\t", "\\t") if found else ""
    return f" If columns are separated by '{shown}', pass --separator '{shown}'." if found else ""


def _only_counts(index):
    """Does an index without a name count the rows from 0, as that of every table without row names?"""
    return index.names == [None] and index.dtype.kind in "iu" and np.array_equal(index, np.arange(len(index)))


def _is_ordered(column):
    """Are these categories with an order of their own?"""
    return bool(getattr(column.dtype, "ordered", False))


def _numbers_or_text(column):
    """A column of a typed file: numbers in NumPy's types, text otherwise."""
    import pandas as pd

    if pd.api.types.is_bool_dtype(column) and not column.hasnans:
        return column.astype("int8")
    if pd.api.types.infer_dtype(column, skipna=True) == "decimal":
        return column.astype(float)
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_complex_dtype(column):
        return column
    return column.astype(object).where(column.notna(), "").astype(str)


def _first_line(path, encoding):
    """The first line of a file; "" for a packed one, and for a pipe, which can be read only once."""
    if not path.is_file() or path.suffix.lower() in COMPRESSED:
        return ""
    with path.open(encoding=encoding, errors="replace") as file:
        return file.readline(BEGINNING).strip().lstrip("\ufeff")


def _names(path, header):
    """Names of the columns, each once."""
    names = [str(name).strip() or f"{UNNAMED}{position}" for position, name in enumerate(header)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        remedy = "Rename one of them in the first line of the file."
        raise ValueError(message(path.name, "name each column once", f"{listed(map(repr, twice))} twice", remedy))
    if len(names) == 1:
        got = f"one named {names[0]!r}"
        raise ValueError(message(path.name, "have several columns", got, separator_hint(names).strip() or NO_SEPARATOR))
    return names

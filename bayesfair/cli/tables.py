"""Tables from files and to files: CSV cells as text, numbers of Parquet and Feather as numbers."""

import codecs
import re
from importlib.util import find_spec
from io import BytesIO
from zipfile import BadZipFile

import numpy as np

import bayesfair as bf
from bayesfair._check import Refusal, listed, message
from bayesfair._files import COLUMNAR, write_whole
from bayesfair.cli.entry import WrongUse

COMPRESSED = (".gz", ".bz2", ".zip", ".xz", ".zst")  # endings that pandas unpacks by itself
BEGINNING = 4096  # bytes of a file that are searched for its first line
UNNAMED = "Unnamed: "  # with the position: pandas' name for a column without one
ROW_NAMES = "row names"  # in the `attrs` of a table: the columns that a file of pandas says are its row names
ORDERS = "orders"  # likewise: {column: its levels, in an order of their own}
HOW_CSV_IS_READ = (
    "The first line must name the columns, and fields that hold the separator must be quoted. Check --separator, and "
    "--encoding, such as cp1252 or utf-16."
)


def read_table(path, separator=",", encoding="utf-8"):
    """A pandas DataFrame of a CSV file, every cell as text and none missing, or of a Parquet or Feather file.

    CSV has the names of its columns in the first line. The others keep numbers in their type; all else is text, "" for
    none. Their row names, if pandas wrote any, come first (`ROW_NAMES`).
    """
    if path.suffix.lower() in COLUMNAR:
        table, notes = _of_columns(path, _read(path, "Check the file and its ending."))
    elif path.suffix.lower() == ".xlsx":
        table, notes = _of_sheet(path), {}
    else:
        of_excel = re.fullmatch("sep=(.)", _first_line(path, encoding))
        separator, skipped = (of_excel[1], 1) if of_excel else (separator, 0)
        as_text = {"header": None, "dtype": str, "na_filter": False, "skipinitialspace": True}
        lines = _read(path, HOW_CSV_IS_READ, sep=separator, encoding=encoding, skiprows=skipped, **as_text)
        table, notes = lines[1:].set_axis(_names(path, lines.iloc[0]), axis=1).reset_index(drop=True), {}
    if len(table) == 0:
        raise WrongUse(message(path.name, "have rows below the names of its columns", "none", "Check the file."))
    table.attrs.update(notes)
    return table


def _read(path, remedy, **options):
    try:
        return bf.datasets.read_table(path, **options)
    except (ValueError, OSError) as error:
        if error.__cause__ is None and error.args and isinstance(error.args[0], Refusal):  # no file, or no table here
            raise WrongUse(str(error).replace("`path`", "`TABLE.csv`")) from error
        if isinstance(error, OSError) or error.__cause__ is None:
            raise
        got = f"{str(path)!r} ({str(error.__cause__).strip()})"
        raise WrongUse(message("TABLE.csv", "be a table that can be read", got, remedy)) from error


def _of_sheet(path):
    """The first sheet of an .xlsx file, every cell as text."""
    import pandas as pd

    if not find_spec("openpyxl"):
        remedy = "Install openpyxl, or save the sheet as CSV (UTF-8)."
        raise WrongUse(message("TABLE.xlsx", "come with openpyxl installed", repr(path.name), remedy))
    try:
        lines = pd.read_excel(path, header=None, dtype=str, na_filter=False, engine="openpyxl")
    except (ValueError, KeyError, OSError, BadZipFile) as error:
        got = f"{str(path)!r} ({str(error).strip()})"
        raise WrongUse(message("TABLE.xlsx", "be a sheet that can be read", got, "Save it as CSV (UTF-8).")) from error
    if lines.empty:
        raise WrongUse(
            message(path.name, "have a first line with the names of its columns", "none", "Check the sheet.")
        )
    return lines[1:].set_axis(_names(path, lines.iloc[0]), axis=1).reset_index(drop=True)


def _of_columns(path, table):
    """(The table of a typed file with its row names as columns, what its `attrs` say)."""
    counts = table.index.names == [None] and table.index.dtype.kind in "iu"
    levels = [] if counts and np.array_equal(table.index, np.arange(len(table))) else list(table.index.names)
    names = _names(path, [*("" if name is None else name for name in levels), *table.columns])
    table = table.reset_index(drop=not levels, allow_duplicates=True).set_axis(names, axis=1)
    ordered = [name for name in table if getattr(table[name].dtype, "ordered", False)]
    orders = {name: list(map(str, table[name].cat.categories)) for name in ordered}
    return table.apply(_numbers_or_text), {ROW_NAMES: names[: len(levels)], ORDERS: orders}


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
        raise WrongUse(message(path.name, "name each column once", f"{listed(map(repr, twice))} twice", remedy))
    if len(names) == 1:
        remedy = separator_hint(names).strip() or "Give the separator of its columns, such as --separator ';'."
        raise WrongUse(message(path.name, "have several columns", f"one named {names[0]!r}", remedy))
    return names


def typed(name):
    """A column's name as typed in a list: quoted if it contains a comma."""
    return f'"{name}"' if "," in name else name


def separator_hint(names):
    """The option to type if half of the names contain the separator of columns; else empty."""
    names = list(names)
    found = [mark for mark in (";", "\t", "|", ",") if 2 * sum(mark in name for name in names) >= len(names)]
    shown = found[0].replace("\t", "\\t") if found else ""
    return f" If columns are separated by '{shown}', pass --separator '{shown}'." if found else ""


def is_table(path):
    """Does a file's name end as that of a table?"""
    return path.suffix.lower() == ".csv" or path.suffix.lower() in COLUMNAR


def check_ending(path, option="--out"):
    """Raise a WrongUse unless `path` ends as a table that can be written here."""
    if not is_table(path):
        rule = f"end in .csv or {', '.join(COLUMNAR)}, as a table goes there"
        raise WrongUse(message(option, rule, repr(path.name), "Spreadsheets read .csv."))
    if path.suffix.lower() != ".csv" and not (find_spec("pyarrow") or find_spec("polars")):
        rule, remedy = "be a .csv, as neither pyarrow nor polars is installed", "pip install 'bayesfair[parquet]'."
        raise WrongUse(message(option, rule, repr(path.name), remedy))


def as_read(path, encoding):
    """How a table is written as the CSV file at `path` is: `encoding`, with a byte order mark, and the ends of lines.

    Excel writes both and, without the mark, takes UTF-8 for another encoding.
    """
    style = {"encoding": encoding, "line_end": "\n"}
    if path is None or not path.is_file() or path.suffix.lower() in (*COMPRESSED, *COLUMNAR, ".xlsx"):
        return style
    with path.open("rb") as file:
        first = file.readline(BEGINNING)
    mark = {"encoding": "utf-8-sig"} if encoding == "utf-8" and first.startswith(codecs.BOM_UTF8) else {}
    return style | mark | ({"line_end": "\r\n"} if first.endswith(b"\r\n") else {})


def write_table(table, path, **style):
    """Write a DataFrame without its row names to a file of the kind given by its ending; `style`: that of `to_csv`."""
    kind, buffer = COLUMNAR.get(path.suffix.lower()), BytesIO()
    if kind is None:
        try:
            to_csv(table, buffer, **style)
        except UnicodeEncodeError as error:
            got = f"{style['encoding']}, which has no {error.object[error.start]!r}"
            rule, remedy = "hold every letter of the table", "Leave it out for UTF-8."
            raise WrongUse(message("--encoding", rule, got, remedy)) from error
    elif find_spec("pyarrow"):
        getattr(table, f"to_{kind}")(buffer)
    else:
        import pandas as pd
        import polars as pl

        cells = {name: [None if cell is pd.NA else cell for cell in table[name].tolist()] for name in table}
        getattr(pl.DataFrame(cells), "write_parquet" if kind == "parquet" else "write_ipc")(buffer)
    write_whole([buffer.getbuffer()], path)


def to_csv(table, file=None, *, separator=",", decimal=".", encoding="utf-8", line_end="\n"):
    """A DataFrame without its row names as CSV, to a file of bytes, or as text."""
    style = {"sep": separator, "decimal": decimal, "encoding": encoding, "lineterminator": line_end}
    return table.to_csv(file, index=False, **style)

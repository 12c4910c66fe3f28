"""Tables from files, of CSV every cell as text, of Parquet and Feather numbers as numbers; and tables to files."""

import codecs
import lzma
import re
import zlib
from importlib.util import find_spec
from io import BytesIO
from zipfile import BadZipFile

import bayesfair as bf
from bayesfair._check import message
from bayesfair._files import COLUMNAR, write_whole

COMPRESSED = (".gz", ".bz2", ".zip", ".xz", ".zst")  # what pandas unpacks by itself, by the name
NOT_TEXT = b"\x00"  # in pictures, workbooks and archives; text has none unless it is UTF-16 or UTF-32
BEGINNING = 4096  # bytes of a file in which a zero byte is looked for
BYTE_ORDER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
UNNAMED = "Unnamed: "  # and the position: what pandas calls a column without a name
SHOWN = 12
NO_SEPARATOR = "Say what separates its columns, such as --separator ';'."


def read_table(path, separator=",", encoding="utf-8"):
    """A pandas DataFrame: the cells of a CSV file as text, with the names of its first line; nothing counts as missing. Or
    the columns of a Parquet or Feather file, numbers in their own type, all else as text, "" where there is none.

    Raises
    ------
    ValueError, OSError: no such file, a folder, no text, another encoding or separator, lines of unequal lengths, no
    rows, names that are given twice, no library that reads Parquet and Feather.
    """
    import pandas as pd

    if path.suffix.lower() in COLUMNAR:
        return _with_rows(path, _read_columnar(path))
    _check_is_text(path, encoding)
    first = _first_line(path, encoding)
    of_excel = re.fullmatch("sep=(.)", first)
    separator, skipped = (of_excel[1], 1) if of_excel else (separator, 0)
    try:
        lines = pd.read_csv(
            path,
            sep=separator,
            encoding=encoding,
            header=None,
            skiprows=skipped,
            dtype=str,
            na_filter=False,
            skipinitialspace=True,
        )
    except UnicodeError as error:
        raise _wrong_encoding(path, encoding) from error
    except pd.errors.EmptyDataError as error:
        raise ValueError(
            message("TABLE.csv", "hold a table", f"the empty file {str(path)!r}", "Check the name.")
        ) from error
    except pd.errors.ParserError as error:
        raise _wrong_lines(path, str(error), first) from error
    except (OSError, EOFError, LookupError, ValueError, BadZipFile, lzma.LZMAError, zlib.error) as error:
        raise _unreadable(path, error) from error
    names = _names(path, [str(name).strip() for name in lines.iloc[0]], first)
    return _with_rows(path, lines[1:].set_axis(names, axis=1).reset_index(drop=True))


def _with_rows(path, table):
    if len(table) == 0:
        raise ValueError(message(path.name, "have rows below the names of its columns", "none", "Check the file."))
    return table


def is_table(path):
    """Whether a file's name ends as that of a table."""
    return path.suffix.lower() == ".csv" or path.suffix.lower() in COLUMNAR


def check_ending(path):
    """ValueError unless `path` ends as a table does that can be written here."""
    if not is_table(path):
        rule = f"end in .csv or {', '.join(COLUMNAR)}, as a table goes there"
        raise ValueError(message("--out", rule, repr(path.name), "Spreadsheets read .csv."))
    if path.suffix.lower() != ".csv" and not (find_spec("pyarrow") or find_spec("polars")):
        remedy = "pip install 'bayesfair[parquet]', or write a .csv."
        raise ValueError(
            message("--out", "be a .csv where neither pyarrow nor polars is there", repr(path.name), remedy)
        )


def to_csv(table, file=None, *, separator=",", decimal=".", encoding="utf-8"):
    """A DataFrame without its row names as CSV, to a file of bytes, or as text."""
    settings = {"sep": separator, "decimal": decimal, "encoding": encoding}
    return table.to_csv(file, index=False, lineterminator="\n", **settings)


def write_table(table, path, **of_csv):
    """A DataFrame without its row names as a file of the kind that its ending says, whole or not at all; `of_csv` as
    `to_csv` takes it.

    Raises
    ------
    ValueError: text that the encoding lacks.
    """
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
        raise ValueError(
            message("--encoding", "hold every letter of the table", got, "Leave it out for UTF-8.")
        ) from error


def _by_polars(table, buffer, write):
    import pandas as pd
    import polars

    cells = {name: [None if cell is pd.NA else cell for cell in table[name].tolist()] for name in table}
    getattr(polars.DataFrame(cells), write)(buffer)


def listed(items, shown=SHOWN):
    """The items between commas, at most `shown` of them, and how many more there are."""
    items = [str(item) for item in items]
    more = f" and {len(items) - shown} more" if len(items) > shown else ""
    return ", ".join(items[:shown]) + more


def typed(name):
    """A column's name as it is typed in a list: quoted where it holds a comma."""
    return f'"{name}"' if "," in name else name


def separator_hint(names):
    """What to type where the names themselves hold what separates columns; empty where they do not."""
    found = [separator for separator in (";", "\t", "|", ",") if any(separator in name for name in names)]
    shown = found[0].replace("\t", "\\t") if found else ""
    return f" If columns are separated by '{shown}', pass --separator '{shown}'." if found else ""


def _read_columnar(path):
    try:
        table = bf.datasets.read_table(path)
    except ImportError as error:
        raise ValueError(str(error)) from error
    except ValueError as error:
        raise _unreadable(path, error.__cause__ or error) from error
    table = table.set_axis(_names(path, [str(name).strip() for name in table.columns]), axis=1)
    return table.apply(_numbers_or_text).reset_index(drop=True)


def _numbers_or_text(column):
    import pandas as pd

    if pd.api.types.is_bool_dtype(column) and not column.hasnans:
        return column.astype("int8")
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_complex_dtype(column):
        return column
    return column.astype(object).where(column.notna(), "").astype(str)


def _is_plain(path):
    """Can the file be looked into before pandas reads it? A pipe can be read only once."""
    return path.is_file() and path.suffix.lower() not in COMPRESSED


def _check_is_text(path, encoding):
    """Refuse what can be told from the beginning of the file."""
    if not _is_plain(path):
        return
    try:
        with path.open("rb") as file:
            beginning = file.read(BEGINNING)
    except OSError as error:
        raise _unreadable(path, error) from error
    wide = encoding.startswith(("utf-16", "utf-32")) or beginning.startswith(BYTE_ORDER_MARKS)
    if NOT_TEXT in beginning and not wide:
        remedy = "Save the table as CSV; a compressed one needs the ending that says so, such as .gz."
        raise ValueError(message("TABLE.csv", "be text", f"{str(path)!r}, which is not", remedy))


def _first_line(path, encoding):
    """The first line of a file that is read as it is, "" of others; one that cannot be decoded is told later."""
    if not _is_plain(path):
        return ""
    with path.open(encoding=encoding, errors="replace") as file:
        return file.readline(BEGINNING).strip().lstrip("\ufeff")


def _unreadable(path, error):
    reason = getattr(error, "strerror", None) or error
    return ValueError(
        message("TABLE.csv", "be a file that can be read", f"{str(path)!r} ({reason})", "Check the file.")
    )


def _wrong_encoding(path, encoding):
    got, guess = "other bytes", "cp1252"
    if _is_plain(path):
        whole = path.read_bytes()
        guess = "utf-16" if whole.startswith(BYTE_ORDER_MARKS) else guess
        got = _first_wrong_byte(whole, encoding) or got
    remedy = f"Name the file's own encoding, such as --encoding {guess}, or save it as UTF-8."
    return ValueError(message(path.name, f"be text in {encoding}", got, remedy))


def _first_wrong_byte(whole, encoding):
    try:
        whole.decode(encoding)
    except UnicodeDecodeError as error:
        line = whole.count(b"\n", 0, error.start) + 1
        return f"the byte 0x{whole[error.start]:02x} in line {line}"


def _comment(path, first):
    rule, remedy = "begin with the names of its columns", "Delete the comment lines above the names."
    return ValueError(message(path.name, rule, f"the comment {first!r}", remedy))


def _wrong_lines(path, text, first):
    """An error in the words of this package for one of pandas' tokenizer."""
    counts = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", text)
    if counts is None:
        remedy = "Close every quotation mark, and check --separator."
        return ValueError(message(path.name, "be lines of fields", f"something else ({text.strip()})", remedy))
    if first.startswith("#"):
        return _comment(path, first)
    header, line, fields = map(int, counts.groups())
    rule, got = f"have no line longer than its first, of {header} fields", f"{fields} fields in line {line}"
    remedy = "Quote fields that hold the separator, and give every column a name in the first line."
    return ValueError(message(path.name, rule, got, NO_SEPARATOR if header == 1 else remedy))


def _names(path, header, first=""):
    """Names of the columns, each once."""
    names = [name or f"{UNNAMED}{position}" for position, name in enumerate(header)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        remedy = "Rename one of them in the first line of the file."
        raise ValueError(message(path.name, "name each column once", f"{listed(map(repr, twice))} twice", remedy))
    if len(names) == 1 and first.startswith("#"):
        raise _comment(path, first)
    if len(names) == 1:
        got = f"one named {names[0]!r}"
        raise ValueError(message(path.name, "have several columns", got, separator_hint(names).strip() or NO_SEPARATOR))
    return names

"""Your own tables from files: CSV, Parquet and Feather, by the ending of the name."""

import json
import re
from collections.abc import Sequence
from importlib.util import find_spec
from os import PathLike
from pathlib import Path

import pandas as pd

from bayesfair._check import Refusal, message
from bayesfair._files import COLUMNAR

OF_PROGRAMS = {  # endings of files that are no text, and how pandas reads them
    **dict.fromkeys((".xlsx", ".xls", ".xlsm", ".xlsb", ".ods"), "read_excel"),
    ".sav": "read_spss",
    ".dta": "read_stata",
    ".sas7bdat": "read_sas",
    ".h5": "read_hdf",
}
UNNAMED_INDEX = re.compile(r"__index_level_\d+__")  # in a file, of row names without a name of their own


def read_table(path: str | PathLike[str], columns: str | Sequence[str] | None = None, **options) -> pd.DataFrame:
    """Read a file as a pandas DataFrame: Parquet, Feather or CSV.

    Files that end in .parquet or .pq are Parquet, those in .feather or .arrow are Feather, all others are CSV.
    Numbers keep the type that the file gives them: float32 stays float32. Row names that pandas wrote into Parquet are the
    index.

    Parameters
    ----------
    path : str or os.PathLike
        The file.
    columns : str or sequence of str, optional
        Names of the columns to read, in their order. By default all.
    **options
        Options of `pandas.read_csv`, for CSV files only.

    Returns
    -------
    pandas.DataFrame

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    IsADirectoryError
        If `path` is a folder.
    ImportError
        If a Parquet or Feather file is asked for and neither pyarrow nor polars is installed.
    ValueError
        If the file cannot be read, is a spreadsheet, or lacks one of the columns.

    Examples
    --------
    >>> import bayesfair as bf
    >>> table = bf.datasets.read_table("customers.parquet", ["age", "income"])  # doctest: +SKIP
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(message("path", "be a file", f"the folder {str(path)!r}", "Name a file in it."))
    if not path.exists():
        raise FileNotFoundError(message("path", "be a file that exists", repr(str(path)), "Check the name."))
    if path.suffix.lower() in OF_PROGRAMS:
        remedy = f"Save it as CSV, or read it in Python by pandas.{OF_PROGRAMS[path.suffix.lower()]}."
        raise ValueError(message("path", "be a file of CSV, Parquet or Feather", repr(path.name), remedy))
    names = None if columns is None else [columns] if isinstance(columns, str) else list(columns)
    kind = COLUMNAR.get(path.suffix.lower())
    reader = _reader(path, kind) if kind else pd.read_csv
    try:
        table = reader(path, **{"columns" if kind else "usecols": names, **options})
    except Exception as error:  # each library raises its own
        rule = "be a file that can be read"
        rule += "" if names is None else f" and has the columns {', '.join(map(repr, names))}"
        got = f"{str(path)!r} ({str(error).partition('\n')[0]})"
        raise ValueError(message("path", rule, got, "Check the file and its ending.")) from error
    return _with_index(table if names is None else table[names])


def _reader(path, kind):
    """`reader(path, columns)` of an installed library."""
    if find_spec("pyarrow"):
        return getattr(pd, f"read_{kind}")
    if find_spec("polars"):
        return _parquet_by_polars if kind == "parquet" else _feather_by_polars
    raise ImportError(
        Refusal(
            f"{path.name} is a {kind.capitalize()} file, which needs the package pyarrow (or polars). Either "
            "`pip install 'bayesfair[parquet]'`, or save the table as CSV."
        )
    )


def _with_index(table):
    """Row names that a library has copied as columns, without pandas' note of them, become the index."""
    copied = [name for name in table if UNNAMED_INDEX.fullmatch(str(name))]
    return table.set_index(copied).rename_axis([None] * len(copied)) if copied else table


def _feather_by_polars(path, columns):
    import polars

    return _to_pandas(polars.read_ipc(path, columns=columns))


def _parquet_by_polars(path, columns):
    import polars

    index = json.loads(polars.read_parquet_metadata(path).get("pandas", "{}")).get("index_columns", [])
    copied = [name for name in index if isinstance(name, str)]
    table = _to_pandas(polars.read_parquet(path, columns=columns and list(dict.fromkeys([*columns, *copied]))))
    if copied:
        return table.set_index(copied).rename_axis([None if UNNAMED_INDEX.fullmatch(name) else name for name in copied])
    counted = [pd.RangeIndex(one["start"], one["stop"], one["step"], name=one["name"]) for one in index]
    return table.set_axis(counted[0]) if counted else table


def _to_pandas(table):
    """A polars DataFrame as a pandas one, column by column: polars' own conversion needs pyarrow."""
    return pd.DataFrame({column.name: _values(column) for column in table})


def _values(column):
    if str(column.dtype) in ("Int128", "UInt128"):  # which NumPy lacks
        return column.to_list()
    if column.dtype.is_numeric() or column.dtype.is_temporal() or str(column.dtype) == "Boolean":
        return column.to_numpy()
    if str(column.dtype).startswith("Enum"):
        return pd.Categorical(column.cast(str).to_numpy(), column.dtype.categories.to_list(), ordered=True)
    if str(column.dtype).startswith("Categorical"):
        return pd.Categorical(column.cast(str).to_numpy())
    return column.to_list()

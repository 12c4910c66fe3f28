"""Tables of files in the formats that people have, by whichever library is there."""

import importlib.util

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayesfair as bf
from bayesfair.datasets import tables

PEOPLE = pl.DataFrame(
    {
        "age": pl.Series([31, 45, 28, 60], dtype=pl.Int16),
        "income": pl.Series([1.5, 2.25, 0.5, 3.0], dtype=pl.Float32),
        "sex": pl.Series(["F", "M", "F", "M"], dtype=pl.Categorical),
        "town": ["Ulm", None, "York", "Ulm"],
        "married": [True, False, True, True],
    }
)
WRITERS = {
    "people.csv": PEOPLE.write_csv,
    "people.parquet": PEOPLE.write_parquet,
    "people.PQ": PEOPLE.write_parquet,
    "people.feather": PEOPLE.write_ipc,
    "people.arrow": PEOPLE.write_ipc,
}


@pytest.fixture(params=WRITERS)
def file(request, tmp_path):
    WRITERS[request.param](tmp_path / request.param)
    return tmp_path / request.param


def test_every_format_gives_the_same_table(file):
    table = bf.datasets.read_table(file)
    assert isinstance(table, pd.DataFrame)
    assert list(table) == PEOPLE.columns
    for name in ("age", "income", "married"):
        np.testing.assert_array_equal(table[name], PEOPLE[name].to_numpy())
    assert bf.fairness.encode_groups(table["sex"]).names == ("F", "M")
    assert table["town"].isna().tolist() == [False, True, False, False]
    if file.suffix != ".csv":
        assert (table["age"].dtype, table["income"].dtype) == (np.int16, np.float32)


def test_some_columns_in_the_order_asked_for(file):
    assert list(bf.datasets.read_table(str(file), columns=["income", "age"])) == ["income", "age"]
    assert bf.datasets.read_table(file, columns="age").shape == (4, 1)
    with pytest.raises(ValueError, match=r"has the columns 'wage'.*people"):
        bf.datasets.read_table(file, columns=["wage"])


def test_options_are_those_of_pandas(tmp_path):
    (tmp_path / "t.csv").write_text("x;y\n1;2\n")
    assert bf.datasets.read_table(tmp_path / "t.csv", sep=";", dtype="float32").dtypes.tolist() == [np.float32] * 2


@pytest.mark.parametrize("name", ["broken.parquet", "broken.feather"])
def test_broken_files_are_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"PAR1 but not really")
    with pytest.raises(ValueError, match=r"`path` must be a file that can be read, got .*broken"):
        bf.datasets.read_table(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "way"), [("people.xlsx", "read_excel"), ("people.ODS", "read_excel"), ("p.sav", "read_spss")]
)
def test_spreadsheets_are_refused_with_the_way(tmp_path, name, way):
    (tmp_path / name).write_bytes(b"PK\x03\x04")
    with pytest.raises(ValueError, match=rf"got '{name}'\. Save it as CSV, or read it in Python by pandas\.{way}"):
        bf.datasets.read_table(tmp_path / name)


def test_no_file_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="a file that exists"):
        bf.datasets.read_table(tmp_path / "nothing.csv")
    with pytest.raises(IsADirectoryError, match="got the folder"):
        bf.datasets.read_table(tmp_path)


def test_without_any_library_the_remedy_is_named(tmp_path, monkeypatch):
    PEOPLE.write_parquet(tmp_path / "people.parquet")
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"people.parquet is a Parquet file, which needs .*bayesfair\[parquet\]"):
        bf.datasets.read_table(tmp_path / "people.parquet")


INDEXES = {
    "unnamed": pd.Index([7, 3]),
    "named": pd.Index(["b", "a"], name="who"),
    "range": pd.RangeIndex(10, 14, 2, name="no"),
    "counting": pd.RangeIndex(2),
    "levels": pd.MultiIndex.from_tuples([("x", 1), ("x", 2)], names=["house", None]),
}


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="pandas writes Parquet by pyarrow")
@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("columns", [None, ["y", "x"]])
def test_row_names_of_pandas_are_the_index_by_every_reader(tmp_path, monkeypatch, kind, columns):
    """pyarrow took them for row names, and polars for a column."""
    table = pd.DataFrame({"x": [1, 2], "y": [1.5, 2.5]}, index=INDEXES[kind])
    table.to_parquet(tmp_path / "t.parquet")
    for reader in ("pyarrow", "polars"):
        monkeypatch.setattr(tables, "find_spec", lambda name, reader=reader: name == reader or None)
        read = bf.datasets.read_table(tmp_path / "t.parquet", columns)
        pd.testing.assert_frame_equal(read, table if columns is None else table[columns], check_index_type=False)


@pytest.mark.parametrize("reader", ["pyarrow", "polars"])
def test_row_names_copied_without_the_note_of_pandas_are_the_index_too(tmp_path, monkeypatch, reader):
    pl.DataFrame({"x": [1, 2], "__index_level_0__": [7, 3]}).write_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(tables, "find_spec", lambda name: name == reader or None)
    read = bf.datasets.read_table(tmp_path / "t.parquet")
    assert (list(read), read.index.tolist(), read.index.name) == (["x"], [7, 3], None)


def test_integers_of_128_bits_are_read(tmp_path, monkeypatch):
    pl.DataFrame({"x": pl.Series([1, 2], dtype=pl.Int128)}).write_ipc(tmp_path / "t.feather")
    monkeypatch.setattr(tables, "find_spec", lambda name: name == "polars" or None)
    assert bf.datasets.read_table(tmp_path / "t.feather")["x"].tolist() == [1, 2]

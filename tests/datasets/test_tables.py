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


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="pandas writes Parquet by pyarrow")
def test_pandas_row_names_are_no_column_for_polars(tmp_path, monkeypatch):
    pd.DataFrame({"x": [1, 2]}, index=[7, 3]).to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(tables, "find_spec", lambda name: name == "polars" or None)
    assert list(bf.datasets.read_table(tmp_path / "t.parquet")) == ["x"]

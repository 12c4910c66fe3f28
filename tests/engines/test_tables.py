"""Which columns of a table are numbers, which are categories, and which are neither: for all estimators that take both."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayesfair as bf
from bayesfair.engines.tables import read_columns

N = 30
VALUES = np.arange(N) / 4
FRAME = pd.DataFrame({"a": VALUES[::-1]})
ZIP = [f"{10000 + i % 12:05d}" for i in range(N)]
NUMBERS = {
    "Decimal": pd.Series([Decimal(str(v)) for v in VALUES], dtype=object),
    "text": pd.Series(VALUES.astype(str)),
    "text as objects": pd.Series(VALUES.astype(str), dtype=object),
    "pandas' text": pd.Series(VALUES.astype(str), dtype="string"),
    "objects": pd.Series(VALUES, dtype=object),
    "nullable": pd.Series(VALUES, dtype="Float64"),
}
DATES = {
    "dates": pd.Series([datetime.date(2020, 1, 1 + i) for i in range(N)], dtype=object),
    "timestamps": pd.Series(pd.date_range("2020", periods=N)),
    "timestamps as objects": pd.Series(pd.date_range("2020", periods=N), dtype=object),
    "periods": pd.Series(pd.period_range("2020", periods=N, freq="M")),
    "durations": pd.Series([datetime.timedelta(i) for i in range(N)], dtype=object),
}


def read(column, categorical_features=None):
    return read_columns(bf.FairMixture(2), FRAME.assign(b=column), categorical_features, reset=True)


@pytest.mark.parametrize("kind", NUMBERS)
def test_what_reads_as_numbers_is_numbers(kind):
    columns = read(NUMBERS[kind])
    np.testing.assert_array_equal(columns.continuous[:, 1], VALUES)
    assert columns.categorical.shape == (N, 0)


@pytest.mark.parametrize("dtype", [pl.String, pl.Decimal(scale=2), pl.Float32])
def test_numbers_of_polars_are_numbers(dtype):
    table = pl.DataFrame({"b": VALUES, "c": ["x", "y"] * (N // 2)}).with_columns(pl.col("b").cast(dtype))
    columns = read_columns(bf.FairMixture(2), table, None, reset=True)
    np.testing.assert_array_equal(columns.continuous[:, 0], VALUES)
    assert columns.categorical.shape == (N, 1)


@pytest.mark.parametrize("kind", DATES)
def test_dates_are_refused_by_name(kind):
    with pytest.raises(TypeError, match=r"dates or durations in column 'b'\. Turn dates into numbers"):
        read(DATES[kind])


@pytest.mark.parametrize("named", [None, ["b"], [1]])
def test_a_column_that_names_its_rows_is_refused_by_name(named):
    with pytest.raises(ValueError, match=r"got 30 levels in 30 rows in column 'b'\. Drop the column"):
        read([f"person {i}" for i in range(N)], named)


def test_text_of_numbers_that_repeat_is_categories():
    assert read(ZIP, ["b"]).categorical.ravel().tolist() == ZIP
    assert read(pd.Categorical(ZIP)).categorical.ravel().tolist() == ZIP
    assert read(ZIP).categorical.shape == (N, 1)  # few levels that repeat are codes
    assert read(VALUES.astype(str).tolist()).categorical.shape == (N, 0)


def test_one_person_of_each_level_may_be_asked_about_later():
    """Rows to predict may be few and all different."""
    estimator, people = bf.FairMixture(2), FRAME.assign(b=[f"town {i % 25}" for i in range(N)])
    read_columns(estimator, people, None, reset=True)
    assert len(read_columns(estimator, people[:25], None, reset=False).categorical) == 25


@pytest.mark.parametrize("also_text", [False, True])
def test_none_among_numbers_names_the_column(also_text):
    table = FRAME.assign(b=pd.Series([None, *VALUES[1:]], dtype=object))
    table = table.assign(c=["x", "y"] * (N // 2)) if also_text else table
    with pytest.raises(ValueError, match="nan at row 0, column 'b'"):
        read_columns(bf.FairMixture(2), table, None, reset=True)


def test_missing_values_name_the_column():
    with pytest.raises(ValueError, match="a missing value at row 0, column 'b'"):
        read([None, *["x", "y", "z"] * 9, "x", "y"])
    with pytest.raises(ValueError, match="`X` must have a level in every categorical cell"):
        read(pd.array(["u", pd.NA] * 15, dtype="string"))
    with pytest.raises(ValueError, match="nan at row 1, column 'b'"):
        read(pd.array([1, pd.NA] * 15, dtype="Int64"))

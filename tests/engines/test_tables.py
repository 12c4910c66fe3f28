"""Which columns of a table are numbers, which are categories, and which are neither: for all estimators that take both."""

import datetime
import enum
from decimal import Decimal
from fractions import Fraction
from importlib.util import find_spec

import networkx
import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayesfair as bf
from bayesfair._tables import encoder_of, fit_encoder, read_columns
from bayesfair.posterior.settings import as_attribute, of_attribute

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
if find_spec("pyarrow"):
    import pyarrow as pa

    NUMBERS["Decimal of Arrow"] = NUMBERS["Decimal"].astype(pd.ArrowDtype(pa.decimal128(6, 2)))
    NUMBERS["text of Arrow"] = NUMBERS["text"].astype(pd.ArrowDtype(pa.string()))
    NUMBERS["long text of Arrow"] = NUMBERS["text"].astype(pd.ArrowDtype(pa.large_string()))
DATES = {
    "dates": pd.Series([datetime.date(2020, 1, 1 + i) for i in range(N)], dtype=object),
    "timestamps": pd.Series(pd.date_range("2020", periods=N)),
    "timestamps as objects": pd.Series(pd.date_range("2020", periods=N), dtype=object),
    "periods": pd.Series(pd.period_range("2020", periods=N, freq="M")),
    "durations": pd.Series([datetime.timedelta(i) for i in range(N)], dtype=object),
}
if find_spec("pyarrow"):
    times = pd.Series([datetime.time(i % 24) for i in range(N)])
    DATES["times of Arrow"] = times.astype(pd.ArrowDtype(pa.time64("us")))
    DATES["dates of Arrow"] = DATES["dates"].astype(pd.ArrowDtype(pa.date32()))
    DATES["timestamps of Arrow"] = DATES["timestamps"].astype(pd.ArrowDtype(pa.timestamp("us")))
Rank = enum.Enum("Rank", ["a", "b"])
LEVELS = {  # three values in their own order, where they have one
    "bands": list(pd.cut([9, 50, 101], [0, 30, 100, 200])),
    "Decimal": [Decimal("0.10"), Decimal("9.5"), Decimal("10.00")],
    "fractions": [Fraction(1, 3), Fraction(1, 2), Fraction(20)],
    "timestamps": list(pd.date_range("2020", periods=3, freq="7h", tz="Europe/Rome")),
    "dates": [datetime.date(999, 1, 1), datetime.date(2000, 1, 1)],
    "periods": list(pd.period_range("2020-09", periods=3, freq="M")),
    "durations": list(pd.to_timedelta([9, 10, 100], unit="D")),
    "pairs": [("a", 2), ("a", 10), ("b", 1)],
    "bytes": [b"a", b"b", b"c"],
    "ranks": list(Rank),
    "numbers": [9, 10, 2**60],
    "booleans": [False, True],
    "text": ["a", "b", "c"],
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


LONG = 1_152_921_504_606_846_976
CODES = {
    "short": [1, 2, 3],
    "long": [LONG + 1, LONG + 2, LONG + 3],
    "bool": [True, False, True],
    "text": ["1", "2", "3"],
}


@pytest.mark.parametrize("codes", CODES.values(), ids=CODES)
@pytest.mark.parametrize("library", [pd, pl])
def test_categories_beside_floats_keep_their_values(codes, library):
    """All columns passed through one type: 1 became 1.0, True of polars 1.0, and codes above 2^53 one level."""
    table = library.DataFrame({"x": VALUES, "code": codes * (N // 3)})
    levels = read_columns(bf.FairMixture(2), table, ["code"], reset=True).categorical.ravel().tolist()
    assert [repr(level) for level in levels[:3]] == [repr(code) for code in codes]


@pytest.mark.parametrize("named", [None, ["b"]])
@pytest.mark.parametrize(
    "cells",
    [
        pl.Series([[1, 2], [3]] * (N // 2)),
        pl.Series([{"u": 1}, {"u": 2}] * (N // 2)),
        pd.Series([{"u": 1}, [2]] * (N // 2)),
    ],
)
def test_lists_and_structs_are_refused_by_name(cells, named):
    frame = pl.DataFrame if isinstance(cells, pl.Series) else pd.DataFrame
    with pytest.raises(
        TypeError, match=r"single values, got an entry of column 'b' .*Unpack it into columns of its own"
    ):
        read_columns(bf.FairMixture(2), frame({"a": VALUES, "b": cells}), named, reset=True)


@pytest.mark.parametrize("cells", [[[1], [2]], [[1, 2], [3]], [{"u": 1}, {"u": 2}]])
def test_lists_and_structs_among_numbers_are_refused_by_name(cells):
    for column in (pl.Series(cells * (N // 2)), pd.Series(cells * (N // 2))):
        frame = pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame
        with pytest.raises(TypeError, match=r"must hold numbers only, got .* at row 0, column 'b'"):
            read_columns(bf.FairMixture(2), frame({"a": VALUES, "b": column}), (), reset=True)


@pytest.mark.skipif(find_spec("pyarrow") is None, reason="of Arrow")
def test_lists_and_structs_of_arrow_are_no_groups():
    for cells, kind in (([[1], [2]], pa.list_(pa.int64())), ([{"u": 1}, {"u": 2}], pa.struct([("u", pa.int64())]))):
        with pytest.raises(TypeError, match="`sensitive_features` must hold hashable values"):
            bf.fairness.encode_groups(pd.Series(cells, dtype=pd.ArrowDtype(kind)))


@pytest.mark.parametrize("named", [None, (), ["c"]])
def test_integers_of_128_bits_are_refused_by_name(named):
    table = pl.DataFrame({"b": pl.Series(range(N), dtype=pl.Int128), "c": [1, 2] * (N // 2)})
    with pytest.raises(TypeError, match=r"got Int128 in column 'b'\. Cast it to Int64"):
        read_columns(bf.FairMixture(2), table, named, reset=True)


@pytest.mark.parametrize("name", ["a\0b", "a\ud800"])
def test_names_that_no_file_can_hold_are_refused_before_the_fit(name):
    """Only `save` failed, after all draws: VLEN strings do not support embedded NULLs."""
    groups, fair = ["f", "m"] * (N // 2), bf.GibbsFairClustering(2)
    with pytest.raises(ValueError, match="have row names that files can hold, got"):
        fair.fit(FRAME.set_axis(pd.Index([name, *map(str, range(N - 1))], dtype=object)), sensitive_features=groups)
    with pytest.raises(ValueError, match="have column names that files can hold, got"):
        fair.fit(FRAME.set_axis(pd.Index([name], dtype=object), axis=1), sensitive_features=groups)
    with pytest.raises(ValueError, match="have values that files can hold, got"):
        fair.fit(FRAME, sensitive_features=np.array([name, "m"] * (N // 2), dtype=object))
    with pytest.raises(ValueError, match="have categories in column 'b' that files can hold, got"):
        read(pd.Series([name, "m"] * (N // 2), dtype=object))


@pytest.mark.parametrize(
    ("X", "told"),
    [
        (FRAME.to_records(index=False), r"a record array\. Pass pandas\.DataFrame\(X\)"),
        (networkx.path_graph(N), r"a Graph of networkx\. VariationalFairClustering\(objective=\"ncut\"\) takes graphs"),
    ],
)
def test_what_is_no_table_is_refused_with_the_way(X, told):
    for estimator in (bf.FairMixture(2), bf.BalancedKMeans(2), bf.GibbsFairClustering(2)):
        with pytest.raises(TypeError, match=told):
            estimator.fit(X, sensitive_features=["f", "m"] * (N // 2))


@pytest.mark.parametrize("kind", LEVELS)
def test_levels_of_every_kind_are_those_of_the_saved_run_in_their_own_order(kind):
    values = LEVELS[kind]
    at = np.resize(np.arange(len(values)), N)
    columns = read(pd.Series([values[i] for i in at], dtype=object), ["b"])
    encoder = fit_encoder(columns)
    np.testing.assert_array_equal(encoder.codes(columns.categorical)[:, 0], at)
    levels = of_attribute(as_attribute([part.tolist() for part in encoder.levels.categories_]))
    np.testing.assert_array_equal(encoder._replace(levels=encoder_of(levels)).codes(columns.categorical)[:, 0], at)


def test_equal_decimals_are_one_level():
    columns = read(pd.Series([Decimal("1.50"), Decimal("1.5"), Decimal("-0"), Decimal(0), Decimal(100)] * 6), ["b"])
    encoder = fit_encoder(columns)
    assert encoder.levels.categories_[0].tolist() == ["0", "1.5", "100"]
    assert encoder.codes(columns.categorical)[:5, 0].tolist() == [1, 1, 0, 0, 2]


def test_numbers_among_decimals_are_refused():
    with pytest.raises(TypeError, match="Write all its levels in one way"):
        read(pd.Series([Decimal(1), 1, 2] * 10, dtype=object), ["b"])

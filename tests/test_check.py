"""Tables of every make: read as numbers, or refused with the column's name."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from bayesfair._check import check_features, message
from bayesfair.fairness import encode_groups

GOOD = {
    "integers": [[1, 2], [3, 4]],
    "booleans": pd.DataFrame({"a": [True, False], "b": [1.5, 2.0]}),
    "half precision": np.array([[1, 2]], np.float16),
    "objects": np.array([[1, 2.5]], object),
    "numbers as text": pd.DataFrame({"a": ["1", "2.5"]}),
    "nullable": pd.DataFrame({"a": pd.array([1, 2], dtype="Int64"), "b": pd.array([True, False], dtype="boolean")}),
    "polars": pl.DataFrame({"a": [1, 2], "b": [True, False]}),
    "categories that are numbers": pd.DataFrame({"a": pd.Categorical([3, 4])}),
}
DAY = datetime.date(2020, 1, 1)
BAD = {
    "text": (pd.DataFrame({"a": [1, 2], "town": ["1", "York"]}), TypeError, "'York' at row 1, column 'town'"),
    "text in an array": (np.array([["1", "x"]]), TypeError, "'x' at row 0, column 1"),
    "text in polars": (pl.DataFrame({"town": ["York"]}), TypeError, "'York' at row 0, column 'town'"),
    "a dictionary": (np.array([[1, {}]], object), TypeError, "column 1"),
    "dates": (pd.DataFrame({"day": pd.to_datetime(["2020-01-01"])}), TypeError, "dates or durations in column 'day'"),
    "dates in polars": (pl.DataFrame({"day": [DAY]}), TypeError, "dates or durations in column 'day'"),
    "durations": (pl.DataFrame({"t": [datetime.timedelta(1)]}), TypeError, "dates or durations in column 't'"),
    "dates in an array": (np.array([["2020-01-01"]], "M8[D]"), TypeError, "dates or durations in column 0"),
    "one name twice": (pd.DataFrame([[1, 2]], columns=["a", "a"]), ValueError, "share the name 'a'"),
    "lazy": (pl.DataFrame({"a": [1]}).lazy(), TypeError, r"got a LazyFrame. Pass X.collect\(\)"),
    "sparse": (scipy.sparse.csr_matrix([[1.0]]), TypeError, r"X.toarray\(\)"),
    "missing": (pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}), ValueError, "nan at row 1, column 'a'"),
    "missing in polars": (pl.DataFrame({"a": [None, 1]}), ValueError, "nan at row 0, column 'a'"),
    "infinite": ([[1.0, np.inf]], ValueError, "inf at row 0, column 1"),
    "complex": (np.array([[1j]]), ValueError, "hold real numbers, got complex ones"),
    "complex in a frame": (pd.DataFrame({"a": [1j]}), ValueError, "hold real numbers, got complex ones"),
    "nothing": (None, ValueError, "table of two dimensions, got 0"),
    "three dimensions": (np.ones((2, 2, 2)), ValueError, "table of two dimensions, got 3"),
    "no columns": (pd.DataFrame(index=[0, 1]), ValueError, r"0 feature\(s\)"),
    "names of two types": (
        pd.DataFrame([[1, 2]], columns=["a", 1]),
        TypeError,
        "name its columns by text alone, got int",
    ),
    "ragged": ([[1, 2], [3]], ValueError, "rows of one length"),
    "a list": ([1.0, 2.0], ValueError, "reshape"),
    "no rows": (np.empty((0, 2)), ValueError, "at least one row"),
}


@pytest.mark.parametrize("name", GOOD)
def test_numbers_are_read(name):
    table = check_features(GOOD[name])
    assert table.dtype == np.float64
    assert table.ndim == 2


@pytest.mark.parametrize("name", BAD)
def test_what_holds_no_numbers_is_refused_by_name(name):
    table, error, match = BAD[name]
    with pytest.raises(error, match=match):
        check_features(table)


@pytest.mark.parametrize(
    "value",
    [
        {"sex": ["female", "male"] * 3000},
        repr({"sex": ["female", "male"] * 3000}),
        ["female"] * 3000,
        np.arange(6000.0).reshape(1000, 6),
        repr(np.arange(6000.0)),
        b"female" * 3000,
        "female" * 3000,
        f"the text {'female' * 3000!r} in 'sex'",
        10**4000,
    ],
)
def test_a_message_shortens_what_it_shows(value):
    text = message("sensitive_features", "hold one value per row", value, "Pass a column.")
    most = 240 if isinstance(value, str) and value[0] in "ft" else 80
    assert len(text) <= most + len(message("sensitive_features", "hold one value per row", "", "Pass a column."))
    assert " ... " in text


def test_a_dictionary_of_sensitive_values_is_not_printed():
    with pytest.raises((TypeError, ValueError)) as refused:
        encode_groups({"sex": ["female", "male"] * 3000})
    assert len(str(refused.value)) < 400

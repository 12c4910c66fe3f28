"""Every format of a number, at the values that a plain format would misstate."""

import numpy as np
import pytest

from bayesfair import _numbers as numbers

FORMATS = [  # the format, a value, and its text
    ("counted", (1, "mode"), "1 mode"),
    ("counted", (1200, "row"), "1,200 rows"),
    ("percent", (0.004,), "under 1%"),
    ("percent", (0.996,), "over 99%"),
    ("percent", (0.0,), "0%"),
    ("percent", (1.0,), "100%"),
    ("fine_percent", (0.9973,), "99.7%"),
    ("fine_percent", (0.00031,), "0.03%"),
    ("fine_percent", (0.421,), "42%"),
    ("more_or_less", (-0.02,), "2.0% less"),
    ("more_or_less", (0.125,), "12.5% more"),
    ("signed_percent", (0.125,), "+12.5%"),
    ("signed_percent", (np.inf,), "unknown"),
    ("significant", (0.12345,), "0.123"),
    ("significant", (12.0,), "12"),
    ("significant", (123.456,), "123"),
    ("significant", (12345.6,), "12,346"),
    ("significant", (np.nan,), "none"),
    ("r_hat", (1.0079,), "1.008"),  # with two decimals it would be the limit
    ("r_hat", (np.nan,), "none"),
    ("r_hat", (np.inf,), "infinite"),
    ("rounded_down", (0.7879,), "0.787"),
    ("rounded_down", (2 / 3,), "0.666"),
    ("rounded_down", (0.8,), "0.800"),
    ("rounded_down", (0.876, 2), "0.87"),
    ("rows_away", (0.9999,), "0.99 of a row"),  # not one row
    ("rows_away", (1234.56,), "1,234.6 rows"),
    ("within_rows", (0.9999,), "one row"),
    ("within_rows", (7.21,), "7.3 rows"),
    ("alike", ([0.5, 12.25, np.nan],), ["0.5", "12.2", "none"]),
    ("alike", ([1, 2000.0],), ["1", "2,000"]),
    ("interval", (np.linspace(0.5, 0.7, 101),), "0.60 [0.51, 0.69]"),
    ("interval", (np.linspace(100, 2000, 101),), "1,050 [204, 1,896]"),
    ("interval", (np.full(5, 7),), "7 [7, 7]"),
    ("interval", (np.array([]),), "empty"),
    (
        "intervals",
        (np.array([[0.0, 10.0, np.nan], [1.0, 20.0, np.nan]]),),
        ["0.5 [0.1, 0.9]", "15.0 [10.6, 19.4]", "empty"],
    ),
]


@pytest.mark.parametrize(("name", "given", "text"), FORMATS)
def test_numbers_as_readers_see_them(name, given, text):
    assert getattr(numbers, name)(*given) == text

"""The summary in print: whole at 80 letters, digits by the spread, the table itself untouched."""

import numpy as np
import pandas as pd
import pytest
from bayesfair.posterior.printed import SummaryTable

from bayesfair.posterior.diagnostics import summarise


@pytest.fixture(scope="module")
def table():
    import xarray as xr

    rng = np.random.default_rng(0)
    draws = {
        "lp": -123456.789 + 12.3 * rng.normal(size=(4, 50)),
        "distance_to_reference": 1.665 + 0.116 * rng.normal(size=(4, 50)),
        "clustering_loss": 2.7e9 + 17e6 * rng.normal(size=(4, 50)),
        "lambda_c": 3e-9 + 1e-10 * rng.normal(size=(4, 50)),
        "balance": np.full((4, 50), 6 / 7),
    }
    return summarise(xr.Dataset({name: (("chain", "draw"), values) for name, values in draws.items()}))


def test_it_is_whole_on_a_line_of_80_letters(table):
    lines = repr(table).splitlines()
    assert len(lines) == 1 + len(table)
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["mean", "sd", "eti89_lb", "eti89_ub", "ess_bulk", "ess_tail", "r_hat"]


def test_digits_are_those_of_the_spread(table):
    shown = {line.split()[0]: line.split()[1:] for line in repr(table).splitlines()[1:]}
    lp = table.loc["lp"]
    assert shown["lp"][:2] == [f"{lp['mean']:.0f}", f"{lp['sd']:.0f}"]
    distance = table.loc["distance_to_reference"]
    assert shown["distance_to_reference"][:2] == [f"{distance['mean']:.2f}", f"{distance['sd']:.2f}"]
    assert float(shown["lambda_c"][0]) == pytest.approx(table["mean"]["lambda_c"], rel=5e-3)
    assert shown["balance"][0] == "0.85714"
    assert len(shown["balance"]) == 4  # neither R-hat nor effective sample size: left empty


def test_it_is_a_data_frame_with_all_its_digits(table):
    assert isinstance(table, pd.DataFrame)
    assert table["mean"]["balance"] == pytest.approx(6 / 7, abs=1e-15)
    for made in (table[table["r_hat"] > 0], table.round(3), table[["mean"]], table.sort_values("sd")):
        assert type(made) is pd.DataFrame
    assert "<table" in table._repr_html_()


def test_what_is_no_summary_is_shown_as_it_is():
    assert repr(SummaryTable({"mean": [0.5]})) == repr(pd.DataFrame({"mean": [0.5]}))

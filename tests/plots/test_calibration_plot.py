"""The picture of a calibration: its curves by number. How it looks was checked by eye."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

import bayesfair as bf
from bayesfair.plots.calibration_plot import curves_of


@pytest.fixture
def table():
    curve = {
        "multiple": [0.5, 0.5, 1, 1],
        "stated": [0.1, 0.9, 0.1, 0.9],
        "true": [0.1, 0.9, 0.3, 0.7],
        "se": [0.1] * 4,
    }
    made = pd.DataFrame()
    made.attrs = {"multiple": 0.5, "curve": curve, "n_tables": 9}
    return made


def test_a_line_for_each_multiple_and_the_best_is_thick(table):
    curves = curves_of(table)
    np.testing.assert_allclose(curves[1.0], [[0.1, 0.9], [0.3, 0.7], [0.1, 0.1]])
    given = plt.subplots()[1]
    assert bf.plots.calibration(table, ax=given) is given
    assert [line.get_label() for line in given.lines] == ["as stated", "0.5, the least score", "1"]
    assert given.lines[1].get_linewidth() > given.lines[2].get_linewidth()


def test_another_table_is_refused():
    with pytest.raises(ValueError, match="hold `curve` in its attrs"):
        bf.plots.calibration(pd.DataFrame())

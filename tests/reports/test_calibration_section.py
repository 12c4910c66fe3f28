"""The section on how right the probabilities are: there if a run holds a calibration, a hint if not."""

import numpy as np
import pandas as pd
import pytest

import bayesfair as bf
from bayesfair.posterior.calibrating import STATEMENTS, as_fact
from bayesfair.reports.contents import HOW_TO_CALIBRATE

TITLE = "How right are these probabilities?"


@pytest.fixture
def fact():
    index = pd.MultiIndex.from_product([[0.5, 1.0], STATEMENTS], names=["multiple", "statement"])
    names = ("stated", "true", "error", "score")
    table = pd.DataFrame(np.full((8, 8), 0.25), index, [*names, *(f"{name}_se" for name in names)])
    curve = {"multiple": [0.5, 1.0], "stated": [0.2, 0.9], "true": [0.2, 0.7], "se": [0.01, 0.02]}
    table.attrs = {"multiple": 0.5, "n_tables": 9, "n_rows": 60, "curve": curve, "sentence": "Half of them are right."}
    return as_fact(table)


def page_of(make_tree, tmp_path, **facts):
    tree = make_tree(facts={"estimator": "GibbsFairClustering", **facts})
    return bf.report(tree, tmp_path / "page.html").read_text()


def test_a_calibration_has_a_section_with_sentence_picture_and_table(make_tree, tmp_path, fact):
    page = page_of(
        make_tree, tmp_path, calibration=fact, inverse_temperature="calibrated", calibrated_temperature="(0.25,)"
    )
    assert TITLE in page
    assert "Half of them are right. The run itself has the inverse temperature that a calibration chose, 0.25." in page
    assert "Statements in simulated tables" in page
    assert "0.250 ± 0.250" in page
    assert HOW_TO_CALIBRATE not in page
    assert "multiples" not in page.split("All settings and versions")[1]


def test_without_one_there_is_a_hint_for_runs_that_have_a_temperature(make_tree, tmp_path, unpainted):
    page = page_of(make_tree, tmp_path)
    assert TITLE not in page
    assert HOW_TO_CALIBRATE in page
    assert HOW_TO_CALIBRATE not in page_of(make_tree, tmp_path, estimator="BayesianFairMixture")

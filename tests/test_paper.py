"""What the papers' pages are made of: which figures are worse, what stands first, and costs at equal Balance."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1]))  # benchmarks are no part of the package

from benchmarks.paper import biglearn, sheet
from benchmarks.paper.rounds import conditional_round


class Warns:
    def fit(self, X, sensitive_features):
        warnings.warn("it had not converged", stacklevel=1)


def test_a_figure_is_worse_by_more_than_a_hundredth_and_stands_before_the_tables(tmp_path):
    page = sheet.Sheet("paper", "A paper", tmp_path, 1)
    page.begin("table")
    page.row("Table", "data", "near", {"cost": 101.0, "Balance": 0.5}, {"cost": 100.0, "Balance": 0.5})
    page.row(
        "Table", "data", "worse", {"cost": 99.0, "Balance": 0.4}, {"cost": 100.0, "Balance": 0.5}, why="The reason."
    )
    page.note("Seen first.")
    text = (tmp_path / "paper.md").read_text()
    assert "worse than the paper by more than 1% in 1 of 4 figures" in text
    assert (
        text.index("Seen first.")
        < text.index("The reason.")
        < text.index("Balance 0.4 (paper 0.5)")
        < text.index("## Table")
    )


def test_a_part_that_runs_again_replaces_its_rows_in_their_place(tmp_path):
    for value in (1.0, 2.0):
        page = sheet.Sheet("paper", "A paper", tmp_path, 1)
        for part in ("first", "second")[: None if value == 1 else 1]:
            page.begin(part)
            page.row(part, "data", "method", {"cost": value})
    assert [(row["part"], row["ours"]) for row in page.rows] == [("first", 2.0), ("second", 1.0)]


def test_warnings_of_fits_are_printed_every_time():
    for _ in range(2):
        with pytest.warns(UserWarning, match="had not converged"):
            sheet.fitted(Warns(), None)


def test_costs_are_compared_at_the_loosest_bound_that_reaches_the_balance():
    asked = []

    def measure(bound):
        asked.append(bound)
        return {"Balance": np.array([0.5, 0.7]) - bound}

    assert sheet.as_fair(measure, [0.2, 0.1, 0.05], 0.5)[0] == 0.1
    assert asked == [0.2, 0.1]
    assert sheet.as_fair(measure, [0.2, 0.1], 0.9)[0] == 0.1  # the last, if none does


def test_the_grid_has_the_variance_of_the_authors():
    X = biglearn.grid(0, 20_000)
    nearest = np.square(X[:, None] - biglearn.MIDDLES).sum(2).min(1)
    assert abs(nearest.mean() / 2 - 0.1) < 0.002


@pytest.mark.slow
@pytest.mark.parametrize("step", [biglearn.Wandering(5), conditional_round])
def test_rounds_on_the_grid_come_near_the_truth(step, monkeypatch):
    """From N(0, I) to below half the divergence of one normal; the least of all rounds is at most the mean of the last."""
    monkeypatch.setattr(biglearn, "ROUNDS", 60)
    monkeypatch.setattr(biglearn, "LAST", 20)
    found = biglearn.by_round(0, (step, 0.2, (0.4, 0.1, 0.5)))
    assert 0 < found[biglearn.LEAST] <= found[biglearn.MEAN] < 0.9

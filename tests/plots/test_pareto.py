"""The Pareto front by enumeration, and what the picture holds."""

import numpy as np
import pandas as pd
import pytest

import bayesfair as bf
from bayesfair.plots.costs import front, pareto


def test_front_is_what_no_other_point_beats():
    rng = np.random.default_rng(0)
    cost, unfair = rng.integers(8, size=(2, 40)).astype(float)
    expected = [
        not any((cost[j] <= c and unfair[j] <= u) and (cost[j] < c or unfair[j] < u) for j in range(40))
        for c, u in zip(cost, unfair)
    ]
    np.testing.assert_array_equal(front(cost, unfair), expected)
    np.testing.assert_array_equal(front(cost, -unfair, higher_is_better=True), expected)
    assert 0 < sum(expected) < 40


def test_the_picture_of_a_path():
    data = bf.datasets.make_well_specified()
    engine = bf.FairletKMeans(2, random_state=0)
    path = bf.engines.fairness_path(engine, data.features, data.sensitive, "composition", [10, 25, 50])
    ax = pareto(pd.concat([path, path.assign(method="other", cost=2 * path["cost"])]))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["FairletKMeans", "other"]
    np.testing.assert_allclose(np.sort(ax.collections[0].get_offsets()[:, 1]), np.sort(path["cost"]))
    assert "gap" in ax.get_xlabel()
    assert "balance" in pareto(path, fairness="balance").get_xlabel()


def test_results_without_the_columns_are_refused():
    with pytest.raises(ValueError, match="`results` must have columns method, cost"):
        pareto(pd.DataFrame({"cost": [1.0]}))

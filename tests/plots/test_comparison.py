"""Panels of the table of several numbers of clusters, by what they hold; how they look is checked by eye."""

import numpy as np
import pandas as pd
import pytest

import bayesfair as bf

TABLE = pd.DataFrame(
    {
        "cost": [50.0, 20.0, 22.0],
        "fairness_cost": [0.1, 0.2, 0.3],
        "balance": [0.9, 0.8, 0.9],
        "bootstrap_ari": [1.0, 0.7, 0.8],
        "loo": [-300.0, -200.0, -250.0],
    },
    index=pd.Index([2, 4, 3], name="n_clusters"),
)
TABLE.attrs["method"] = "FairMixture"


def test_a_panel_for_every_question_that_is_answered():
    axes = bf.plots.cluster_comparison(TABLE)
    titles = [ax.get_title() for ax in axes]
    assert len(axes) == 5
    assert titles[0].startswith("Cost, sum of squares")
    assert titles[-1].startswith("Predictive density")
    assert "FairMixture" in axes[0].figure.get_suptitle()
    cost = axes[0].get_lines()
    np.testing.assert_array_equal(cost[0].get_xdata(), [2, 3, 4])
    np.testing.assert_array_equal(cost[0].get_ydata(), [50, 22, 20])
    assert cost[-1].get_xdata()[0] == 3  # the elbow
    ring = axes[-1].get_lines()[-1]
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (4, -200)


def test_another_table_is_refused():
    with pytest.raises(ValueError, match=r"have columns of bayesfair\.compare_clusters"):
        bf.plots.cluster_comparison(pd.DataFrame({"a": [1]}))

"""`distance_report`: by hand, and bad input."""

import numpy as np
import pandas as pd
import pytest

from bayesfair.fairness import distance_report

X, LABELS = np.array([[0.0], [2.0], [10.0], [10.0], [16.0]]), list("aabbb")


def test_by_hand():
    table = distance_report(X, LABELS, overall=True)
    assert table.index.tolist() == ["a", "b", "overall"]
    assert table["size"].tolist() == [2, 3, 5]
    assert table["within_ss"].tolist() == [2, 24, 26]  # squares 1, 1; 4, 4, 16
    assert table["rms_distance"].tolist() == pytest.approx([1, 8**0.5, 5.2**0.5])
    assert table["max_distance"].tolist() == [1, 4, 4]
    assert table["distance_variance"].tolist() == pytest.approx([0, 32, 0.6 * 32])
    assert table.attrs == table.loc["overall"].drop("size").to_dict()


def test_centres_may_be_others_and_labels_soft():
    table = distance_report(X, LABELS, [[0.0], [10.0]])
    assert table["within_ss"].tolist() == [4, 36]
    assert table["distance_variance"].tolist() == pytest.approx([4, 36**2 * 2 / 9])
    soft = pd.get_dummies(LABELS).to_numpy(float)
    np.testing.assert_allclose(distance_report(X, soft), distance_report(X, LABELS))
    empty = distance_report(X, np.column_stack([soft, np.zeros(5)])).iloc[2]
    assert (empty["size"], empty["within_ss"]) == (0, 0)
    assert np.isnan(empty["max_distance"])


def test_bad_input_is_told():
    with pytest.raises(ValueError, match=r"`centers` must have the shape \(2, 1\), got shape \(3, 1\)"):
        distance_report(X, LABELS, np.zeros((3, 1)))
    with pytest.raises(ValueError, match="labels"):
        distance_report(X, LABELS[:4])

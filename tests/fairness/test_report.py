"""`report`: the numbers of each row by hand, the whole clustering in attrs and in the last row."""

import numpy as np
import pandas as pd
import pytest

from bayesfair.fairness import additive_gap, balance, gap, kl_error, report
from bayesfair.fairness.groups import groups_for_fit

SEX = pd.Series(list("FMMFMM"), index=[9, 8, 7, 9, 8, 7])
LABELS = np.array([4, 4, 4, 2, 2, 7])
X = np.arange(12.0).reshape(6, 2)


def test_rows_are_clusters_and_columns_tell_who_is_in_them():
    table = report(LABELS, SEX)
    assert table.index.tolist() == [2, 4, 7]
    assert table.index.name == "cluster"
    assert table["size"].tolist() == [2, 3, 1]
    assert table["share"].tolist() == pytest.approx([1 / 3, 1 / 2, 1 / 6])
    assert table["count[F]"].tolist() == [1, 1, 0]
    assert table["count[M]"].tolist() == [1, 2, 1]
    assert table["proportion[F]"].tolist() == pytest.approx([1 / 2, 1 / 3, 0])
    assert table["balance"].tolist() == [1.0, 0.5, 0.0]
    assert table["gap"].tolist() == pytest.approx([1 / 4, 0, 1 / 4])
    assert table["kl"].tolist()[1:] == [0.0, np.inf]
    assert (table.dtypes[["size", "count[F]"]] == np.int64).all()
    assert "within_ss" not in table


def test_attrs_are_the_measures_of_the_whole_clustering():
    sex, labels = list("FMMFMMMM"), [0, 0, 0, 1, 1, 1, 1, 1]
    attrs = report(labels, sex, np.arange(16.0).reshape(8, 2)).attrs
    assert attrs["balance"] == balance(labels, sex) == 0.25
    assert attrs["best_balance"] == pytest.approx(2 / 6)
    assert attrs["gap"] == gap(labels, sex) == pytest.approx(1 / 6)
    assert attrs["additive_gap"] == additive_gap(labels, sex) == pytest.approx(1 / 3)
    assert attrs["kl_error"] == kl_error(labels, sex)
    assert 0 < attrs["kl_error"] < 0.1
    assert attrs["within_ss"] == pytest.approx(16 + 80)


def test_the_last_row_is_the_whole_clustering():
    table = report(LABELS, SEX, X, overall=True)
    assert table.index.tolist() == [2, 4, 7, "overall"]
    assert len(report(LABELS, SEX, X)) == 3
    row = table.loc["overall"]
    assert (row["size"], row["share"], row["count[F]"], row["count[M]"]) == (6, 1, 2, 4)
    assert row["proportion[F]"] == pytest.approx(1 / 3)
    assert (row["balance"], row["gap"], row["kl"]) == (0, 0.25, np.inf)
    # cluster 4: rows 0, 1, 2, two steps of (2, 2) apart; cluster 2: rows 3, 4
    assert table["within_ss"].tolist() == pytest.approx([4, 16, 0, 20])
    assert row["rms_distance"] == pytest.approx((20 / 6) ** 0.5)
    assert row["max_distance"] == pytest.approx(8**0.5)
    assert row["distance_variance"] == pytest.approx(64 / 9)  # squares 8, 0, 8; 2, 2; 0
    assert table.attrs == report(LABELS, SEX, X).attrs


def test_soft_assignments_give_expected_sizes_and_weighted_sums():
    soft = np.array([[0.5, 0.5, 0], [1, 0, 0], [0.25, 0.75, 0]])
    table = report(soft, ["a", "b", "a"], [[0.0], [1.0], [2.0]])
    assert table["size"].tolist() == [1.75, 1.25, 0]
    assert table["count[a]"].tolist() == [0.75, 1.25, 0]
    means = 1.5 / 1.75, 1.5 / 1.25
    expected = [0.5 * means[0] ** 2 + (1 - means[0]) ** 2 + 0.25 * (2 - means[0]) ** 2]
    expected += [0.5 * means[1] ** 2 + 0.75 * (2 - means[1]) ** 2, 0]
    assert table["within_ss"].tolist() == pytest.approx(expected)
    assert table.loc[2, ["proportion[a]", "balance", "rms_distance"]].isna().all()
    assert table.attrs["balance"] == 0


def test_target_moves_the_kl_column_only():
    plain, aimed = report(LABELS, SEX), report(LABELS, SEX, target={"F": 0.5, "M": 0.5})
    assert aimed.loc[2, "kl"] == 0
    pd.testing.assert_frame_equal(plain.drop(columns="kl"), aimed.drop(columns="kl"))


def test_where_attributes_are_balanced_one_by_one_the_balance_is_that_of_the_worst_of_them():
    labels, columns = [0, 0, 0, 0, 1, 1, 1, 1], [["F", "n"], ["M", "s"], ["M", "s"], ["F", "s"]] * 2
    groups = groups_for_fit(columns, 8, crossed=False)
    table = report(labels, groups, overall=True)
    by_region = report(labels, [region for _, region in columns])
    assert table["balance"].tolist() == pytest.approx([1 / 3] * 3)  # of the crossings 1 / 2, of sex 1
    assert table.attrs["balance"] == balance(labels, groups) == pytest.approx(by_region.attrs["balance"])
    assert table.attrs["best_balance"] == pytest.approx(1 / 3)
    uneven = [0, 0, 0, 0, 0, 1, 1, 1]
    each = [report(uneven, list(values))["off_by"] for values in zip(*columns)]
    np.testing.assert_allclose(report(uneven, groups)["off_by"], np.max(each, axis=0))


@pytest.mark.parametrize(
    ("X", "error", "text"),
    [
        (np.ones((5, 2)), ValueError, r"`X` must have one entry per row of `labels` \(6\), got 5"),
        ([["a"]] * 6, TypeError, "`X` must hold numbers only"),
    ],
)
def test_features_that_do_not_fit_are_refused(X, error, text):
    with pytest.raises(error, match=text):
        report(LABELS, SEX, X)

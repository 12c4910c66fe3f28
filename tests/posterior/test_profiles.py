"""What the clusters are: against pandas' groupby, and in the units from before a scaler."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from draws import draws_of

from bayesfair.posterior import profile, reference_partition
from bayesfair.posterior.profiles import in_words, names_in_words
from bayesfair.posterior.schema import Column
from bayesfair.posterior.tree import build_tree

N_OBS, CLUSTERS = 60, ["north", "south", "west"]


@pytest.fixture(scope="module")
def people():
    """Two numbers, truth values, zeros and ones, categories with holes, and a number that says nothing."""
    rng = np.random.default_rng(0)
    labels = pd.Series(np.array(CLUSTERS)[np.arange(N_OBS) % 3])
    table = pd.DataFrame({"noise": rng.normal(size=N_OBS), "age": rng.normal(40, 10, N_OBS)})
    table["income"] = 1e6 + 2_000 * (np.arange(N_OBS) % 3) + rng.normal(0, 900, N_OBS)
    table.loc[[3, 7, 8], "age"] = np.nan
    table["owner"] = rng.random(N_OBS) < 0.3
    table["late"] = (rng.random(N_OBS) < 0.4).astype(int)
    table["town"] = rng.choice(["York", "Hull", "Leeds"], N_OBS)
    table.loc[[0, 11], "town"] = None
    return labels, table, pd.Series(rng.choice(["f", "m"], N_OBS))


def test_means_and_shares_are_those_of_pandas(people):
    labels, table, sex = people
    found = profile(labels, table, sensitive_features=sex)
    numbers = table[["noise", "age", "income", "owner", "late"]].astype(float)
    for name in numbers:
        line = found.loc[name].iloc[0]
        np.testing.assert_allclose(line[CLUSTERS].astype(float), numbers.groupby(labels)[name].mean()[CLUSTERS])
        assert line["everyone"] == pytest.approx(numbers[name].mean())
        assert line["spread"] == pytest.approx(numbers[name].std(ddof=0))
        known = numbers[name].dropna()
        between = known.groupby(labels).transform("mean").var(ddof=0) / known.var(ddof=0)
        assert line["separation"] == pytest.approx(between)
    for column, feature in ((table["town"], "town"), (sex, "protected group")):
        shares = pd.crosstab(column, labels, normalize="columns")
        np.testing.assert_allclose(found.loc[feature].loc[shares.index, CLUSTERS].astype(float), shares)
        shares = column.value_counts(normalize=True).loc[shares.index]
        np.testing.assert_allclose(found.loc[feature].loc[shares.index, "everyone"].astype(float), shares)
    assert found.attrs["sizes"] == dict.fromkeys(CLUSTERS, 20)


def test_the_most_telling_features_come_first_and_groups_last(people):
    labels, table, sex = people
    found = profile(labels, table, sensitive_features=sex)
    features = found.index.get_level_values("feature")
    assert features[0] == "income"
    assert features[-2:].tolist() == ["protected group"] * 2
    most = found["separation"].groupby(features, sort=False).max()
    assert most.index.is_unique
    assert most[:-1].is_monotonic_decreasing
    shown = in_words(found)
    names = dict(zip(names_in_words(found), shown["everyone"]))
    assert names["income"] == f"{table['income'].mean():,.0f}"
    assert names["age"] == f"{table['age'].mean():.0f}"
    assert names["owner"] == f"{table['owner'].mean():.0%}"
    assert {"town: York", "f", "m"} <= set(names)


def test_what_nobody_has_or_everybody_has_is_no_trait():
    table = pd.DataFrame({"none": [np.nan] * 4, "same": [0.1] * 4, "part": [np.nan, np.nan, 1.0, 2.0]})
    found = profile([0, 0, 1, 1], table).droplevel("level")
    assert found.loc["none"].isna().all()
    assert found.loc["same", ["spread", "separation"]].tolist() == [0, 0]
    assert np.isnan(found.loc["part", 0])
    assert found.loc["part", 1] == 1.5


@pytest.mark.parametrize(
    ("source", "X", "text"),
    [
        ([0, 1], None, "`X` must come with labels"),
        ([0, 1], [[1.0], [2.0], [3.0]], "3"),
        ([0, 1], [1.0, 2.0], "two dimensions"),
        (np.arange(30) % 2, pd.DataFrame({"name": [f"p{row}" for row in range(30)]}), "names the rows"),
        ([0, 1], pd.DataFrame({"born": pd.to_datetime(["2001-01-01", "2002-01-01"])}), "dates in column 'born'"),
        (np.full((2, 2), 0.5), [[1.0], [2.0]], "soft assignments"),
    ],
)
def test_what_has_no_profile_is_told(source, X, text):
    with pytest.raises(ValueError, match=text):
        profile(source, X)


@pytest.fixture(scope="module")
def tree_of(people):
    def make(X, **names):
        draws = np.tile((np.arange(N_OBS) % 3).astype(np.int8), (2, 4, 1))
        return build_tree(draws_of(draws), X, people[2], n_clusters=3, **names)

    return make


def test_a_tree_has_the_profile_of_its_point_estimate_by_its_weights(people, tree_of):
    numbers = people[1][["noise", "income"]]
    tree = tree_of(numbers, columns=[Column(name) for name in numbers])
    labels = reference_partition(tree)
    pd.testing.assert_frame_equal(profile(tree), profile(labels, numbers, sensitive_features=people[2]))
    assert profile(tree, people[1]).index.equals(profile(labels, people[1], sensitive_features=people[2]).index)
    weight = 1.0 + np.arange(N_OBS) % 4
    tree["constant_data"]["weight"] = xr.DataArray(weight, dims="obs")
    weighed = profile(tree)
    for cluster in range(3):
        mean = np.average(numbers["income"][labels == cluster], weights=weight[labels == cluster])
        assert weighed.loc[("income", ""), cluster] == pytest.approx(mean, rel=1e-12)
    pd.testing.assert_frame_equal(weighed.loc[["protected group"]], profile(tree, people[1]).loc[["protected group"]])


def test_a_table_of_ones_own_has_the_rows_and_the_names_of_the_tree(people, tree_of):
    numbers = people[1][["noise", "income"]].set_axis([f"p{row}" for row in range(N_OBS)])
    tree = tree_of(numbers, columns=[Column(name) for name in numbers], obs_names=numbers.index)
    pd.testing.assert_frame_equal(profile(tree, numbers), profile(tree))
    pd.testing.assert_frame_equal(profile(tree, numbers.to_numpy()), profile(tree))
    with pytest.raises(
        ValueError, match=r"have the row index of the tree, .* where that of the tree has 'p0', 'p1', 'p2'"
    ):
        profile(tree, numbers[::-1])

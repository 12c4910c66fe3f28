"""`Dataset` and `subsample`: exact ratios, a seed that decides everything, and refusals that say what is possible."""

import numpy as np
import pandas as pd
import pytest

from bayesfair.datasets import Dataset, load_diabetes, subsample


def toy(counts, index=None):
    group = np.repeat(list(counts), list(counts.values()))
    index = pd.RangeIndex(len(group)) if index is None else index
    return Dataset(
        "toy",
        pd.DataFrame({"x": np.arange(len(group))}, index=index),
        pd.Series(group, name="g", index=index),
        pd.Series(np.arange(len(group)) * 10, name="y", index=index),
        "A toy.",
    )


def test_repr_says_what_is_inside():
    assert repr(toy({"b": 2, "a": 1000})) == (
        "Dataset toy: 1,002 rows, 1 features\n  features   x\n  sensitive  g: a 1,000; b 2\n  target     y"
    )
    sensitive = pd.DataFrame({"sex": ["F", "M", "F"], "race": ["a", "b", "a"]})
    wide = repr(Dataset("wide", pd.DataFrame(np.zeros((3, 12))), sensitive, None, ""))
    assert all(text in wide for text in ("sex, race: F, a 2; M, b 1", "9, ... (12 in all)", "target     none"))


@pytest.mark.parametrize("part", ["sensitive", "target"])
def test_parts_that_do_not_share_an_index_are_refused(part):
    parts = {"sensitive": pd.Series(["a", "b"]), "target": pd.Series([1, 2])}
    parts[part] = parts[part].set_axis([0, 5])
    with pytest.raises(ValueError, match=f"`{part}` must share the row index of `features`"):
        Dataset("bad", pd.DataFrame({"x": [1, 2]}), **parts, description="")


@pytest.mark.parametrize(
    ("ratio", "size", "expected"),
    [
        ((2, 1), 30, {"a": 20, "b": 10}),
        ({"b": 2, "a": 3}, 25, {"a": 15, "b": 10}),
        ([4, 5], None, {"a": 16, "b": 20}),
        ({"b": 1}, 7, {"b": 7}),
        ((np.int64(1), np.int32(1)), np.int64(4), {"a": 2, "b": 2}),
    ],
)
def test_groups_come_out_exactly_in_the_ratio(ratio, size, expected):
    drawn = subsample(toy({"a": 50, "b": 20}), ratio, size)
    assert drawn.sensitive.value_counts().to_dict() == expected
    assert len(drawn) == sum(expected.values())


def test_rows_stay_together_in_order_and_are_drawn_without_replacement():
    data = toy({"a": 50, "b": 20}, index=pd.Index([f"r{i}" for i in range(70)]))
    drawn = subsample(data, (1, 1), 40, seed=3)
    x = drawn.features["x"]
    assert x.is_monotonic_increasing
    assert x.is_unique
    assert (drawn.target == 10 * x).all()
    assert drawn.features.index.tolist() == [f"r{i}" for i in x]
    assert (drawn.sensitive == np.where(x < 50, "a", "b")).all()
    assert "40 rows (seed 3): a 20, b 20" in drawn.description
    assert drawn.name == "toy"
    again, other = (subsample(data, (1, 1), 40, seed=seed).features["x"].tolist() for seed in (3, 4))
    assert x.tolist() == again != other


def test_crossed_groups_and_groups_without_a_name():
    sensitive = pd.DataFrame({"sex": list("FFMM") * 5, "race": list("abab") * 5})
    data = Dataset("crossed", pd.DataFrame({"x": range(20)}), sensitive, None, "")
    drawn = subsample(data, {"F, a": 1, "M, b": 2}, 6)
    assert drawn.sensitive.value_counts().to_dict() == {("F", "a"): 2, ("M", "b"): 4}
    unnamed = Dataset("unnamed", pd.DataFrame({"x": range(4)}), pd.Series(["a", None, "b", None], name="g"), None, "")
    assert subsample(unnamed, (1, 1)).features["x"].tolist() == [0, 2]


@pytest.mark.parametrize(
    ("ratio", "size", "error", "text"),
    [
        ((1, 1), 21, ValueError, r"`size` must be a multiple of 2 .* got 21\. Nearest possible: \[20, 22\]"),
        ((1, 1), 42, ValueError, r"`size` must be at most 40 .*'b': 20.* got 42"),
        ((60, 1), 61, ValueError, "`size` must be at most 0"),
        ((1, 1), 0, ValueError, "`size` must be an integer, at least 1"),
        ((1, 1), 2.0, TypeError, "`size` must be an integer"),
        ((1, 1, 1), 3, ValueError, r"one part per group \['a', 'b'\], got 3 parts"),
        ({"a": 1, "c": 1}, 2, ValueError, r"`ratio` .*unknown names \['c'\]"),
        ((1.5, 1), 5, TypeError, "`ratio` must be an integer"),
    ],
)
def test_impossible_draws_are_refused(ratio, size, error, text):
    with pytest.raises(error, match=text):
        subsample(toy({"a": 50, "b": 20}), ratio, size)


def test_the_bundled_data():
    data = load_diabetes()
    assert data.features.shape == (442, 9)
    assert "sex" not in data.features
    assert data.sensitive.value_counts().to_dict() == {"sex 1": 235, "sex 2": 207}
    assert data.target.name == "progression"
    assert data.target.iloc[:3].tolist() == [151, 75, 141]
    assert data.features.iloc[0].tolist() == [59, 32.1, 101, 157, 93.2, 38, 4, 4.8598, 87]  # unscaled
    assert "does not say which is which" in data.description

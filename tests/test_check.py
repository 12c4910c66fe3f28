"""Tables of every make: read as numbers, or refused with the column's name."""

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from draws import tree_of_draws

import bayesfair
from bayesfair import _arviz, fairness
from bayesfair._check import check_features, check_weights, generator_of, message, random_state_of
from bayesfair._settings import Count, Length, NotNegative, Positive, Share, check_settings
from bayesfair.fairlets import decompose
from bayesfair.gibbs import Labels

GOOD = [
    [[1, 2], [3, 4]],
    pd.DataFrame({"a": [True, False], "b": [1.5, 2.0]}),
    np.array([[1, 2]], np.float16),
    np.array([[1, 2.5]], object),
    pd.DataFrame({"a": ["1", "2.5"]}),
    pd.DataFrame({"a": pd.array([1, 2], dtype="Int64"), "b": pd.array([True, False], dtype="boolean")}),
    pl.DataFrame({"a": [1, 2], "b": [True, False]}),
    pd.DataFrame({"a": pd.Categorical([3, 4])}),
]
DAY = datetime.date(2020, 1, 1)
BAD = {
    "text": (pd.DataFrame({"a": [1, 2], "town": ["1", "York"]}), TypeError, "'York' at row 1, column 'town'"),
    "text in an array": (np.array([["1", "x"]]), TypeError, "'x' at row 0, column 1"),
    "text in polars": (pl.DataFrame({"town": ["York"]}), TypeError, "'York' at row 0, column 'town'"),
    "a dictionary": (np.array([[1, {}]], object), TypeError, "column 1"),
    "dates": (pd.DataFrame({"day": pd.to_datetime(["2020-01-01"])}), TypeError, "dates or durations in column 'day'"),
    "dates as objects": (pd.DataFrame({"day": [DAY]}, dtype=object), TypeError, "dates or durations in column 'day'"),
    "dates in polars": (pl.DataFrame({"day": [DAY]}), TypeError, "dates or durations in column 'day'"),
    "a number without end": (np.array([[1, 10**400]], dtype=object), TypeError, r"column 1 \(int too large"),
    "durations": (pl.DataFrame({"t": [datetime.timedelta(1)]}), TypeError, "dates or durations in column 't'"),
    "dates in an array": (np.array([["2020-01-01"]], "M8[D]"), TypeError, "dates or durations in column 0"),
    "one name twice": (pd.DataFrame([[1, 2]], columns=["a", "a"]), ValueError, "share the name 'a'"),
    "pyarrow": (type("Table", (), {"__module__": "pyarrow.lib"})(), TypeError, r"got pyarrow's. Pass X.to_pandas\(\)"),
    "lazy": (pl.DataFrame({"a": [1]}).lazy(), TypeError, r"got a LazyFrame. Pass X.collect\(\)"),
    "sparse": (scipy.sparse.csr_matrix([[1.0]]), TypeError, r"X.toarray\(\)"),
    "masked": (np.ma.array([[1.0, 2.0]], mask=[[0, 1]]), ValueError, r"hides 1. Pass X.filled\(np.nan\)"),
    "missing": (pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}), ValueError, "nan at row 1, column 'a'"),
    "missing in polars": (pl.DataFrame({"a": [None, 1]}), ValueError, "nan at row 0, column 'a'"),
    "infinite": ([[1.0, np.inf]], ValueError, "inf at row 0, column 1"),
    "complex": (np.array([[1j]]), ValueError, "hold real numbers, got complex ones"),
    "complex in a frame": (pd.DataFrame({"a": [1j]}), ValueError, "hold real numbers, got complex ones"),
    "nothing": (None, ValueError, "table of two dimensions, got 0"),
    "three dimensions": (np.ones((2, 2, 2)), ValueError, "table of two dimensions, got 3"),
    "no columns": (pd.DataFrame(index=[0, 1]), ValueError, r"0 feature\(s\)"),
    "names of two types": (pd.DataFrame([[1, 2]], columns=["a", 1]), TypeError, "all its columns by text, got int"),
    "ragged": ([[1, 2], [3]], ValueError, "rows of one length"),
    "a list": ([1.0, 2.0], ValueError, "reshape"),
    "no rows": (np.empty((0, 2)), ValueError, "at least one row"),
}


def test_numbers_are_read():
    for given in GOOD:
        table = check_features(given)
        assert (table.dtype, table.ndim) == (np.float64, 2)


@pytest.mark.parametrize("name", BAD)
def test_what_holds_no_numbers_is_refused_by_name(name):
    table, error, match = BAD[name]
    with pytest.raises(error, match=match):
        check_features(table)


MASKED = np.ma.array([0.5, 0.5], mask=[False, True])
TAKERS = {
    "sample_weight": lambda: check_weights(MASKED, 2),
    "labels": lambda: fairness.balance(MASKED, ["f", "m"]),
    "target": lambda: fairness.kl_error([0, 1], ["f", "m"], target=MASKED),
    "sensitive": lambda: fairness.balance([0, 1], MASKED),
}


def test_what_is_under_a_mask_is_not_used_and_a_mask_that_hides_nothing_is_no_fault():
    for argument, call in TAKERS.items():
        with pytest.raises(ValueError, match=f"`{argument}` must"):
            call()
    assert check_features(np.ma.array([[1.0, 2.0]], mask=False)).tolist() == [[1, 2]]


def test_a_warning_points_at_the_line_of_the_caller():
    X, group = np.random.default_rng(0).normal(size=(442, 2)), ["f"] * 439 + ["m"] * 3
    with pytest.warns(UserWarning, match="every fairlet needs") as told:
        decompose(X, group)
    assert {warning.filename for warning in told} == {__file__}


BAD_SEEDS = ["a", -1, 1.5, [1.5], {}]


def seeded(random_state):
    """What takes a seed, by name."""
    X, groups = pd.DataFrame({"a": np.arange(8.0)}), ["f", "m"] * 4
    fit = {"sensitive_features": groups}
    names = [
        "BalancedKMeans",
        "BigLearnMixture",
        "FairMixture",
        "FairletKMeans",
        "TiltedKMeans",
        "VariationalFairClustering",
    ]
    engines = [getattr(bayesfair, name) for name in names]
    engine = bayesfair.FairletKMeans(2, random_state=random_state)
    settings = {"num_warmup": 1, "num_draws": 1, "num_chains": 1, "progress_bar": False, "random_state": random_state}
    samplers = bayesfair.GibbsFairClustering, bayesfair.BayesianFairMixture
    return {
        **{kind.__name__: lambda kind=kind: kind(2, random_state=random_state).fit(X, **fit) for kind in engines},
        **{kind.__name__: lambda kind=kind: kind(2, **settings).fit(X, **fit) for kind in samplers},
        "fairness_path": lambda: bayesfair.engines.fairness_path(engine, X, groups, "n_clusters", [2]),
        "compare_clusters": lambda: bayesfair.compare_clusters(engine, X, groups, [2]),
        "decompose": lambda: decompose(X, groups, random_state=random_state),
        "elbow": lambda: bayesfair.plots.elbow(X, groups, [2], random_state=random_state),
        "deal": lambda: bayesfair.distributed.deal(X, groups, random_state=random_state),
        "check_loss": lambda: bayesfair.gibbs.check_loss(
            "kmeans", np.arange(40.0).reshape(20, 2), random_state=random_state
        ),
    }


@pytest.mark.parametrize("seed", BAD_SEEDS, ids=repr)
def test_what_is_no_seed_is_refused_in_the_same_words_everywhere(seed):
    for call in seeded(seed).values():
        with pytest.raises(
            ValueError, match=r"`random_state` must be None, an integer .* cannot be used to seed a numpy"
        ):
            call()
    with pytest.raises(ValueError, match="`seed` must be None, an integer"):
        bayesfair.datasets.make_well_specified(seed)


def test_seeds_are_taken():
    for seed in (3, np.int64(3), np.uint8(3), np.random.RandomState(3), None):
        seeded(seed)["FairletKMeans"]()
    for name in ("compare_clusters", "decompose", "deal"):
        seeded(np.random.RandomState(3))[name]()


@pytest.mark.parametrize(
    "value",
    [
        {"sex": ["female", "male"] * 3000},
        repr({"sex": ["female", "male"] * 3000}),
        ["female"] * 3000,
        np.arange(6000.0).reshape(1000, 6),
        repr(np.arange(6000.0)),
        b"female" * 3000,
        "female" * 3000,
        f"the text {'female' * 3000!r} in 'sex'",
        10**4000,
    ],
)
def test_a_message_shortens_what_it_shows(value):
    text = message("sensitive_features", "hold one value per row", value, "Pass a column.")
    most = 240 if isinstance(value, str) and value[0] in "ft" else 80
    assert len(text) <= most + len(message("sensitive_features", "hold one value per row", "", "Pass a column."))
    assert " ... " in text


@dataclass
class Declaring:
    """Settings of every kind that can be declared, two that are checked elsewhere, and an object with settings."""

    n_clusters: int = 2
    tol: float = 1e-3
    size: Count | None = None
    warmup: Length = 0
    share: Share = 1.0
    weight: NotNegative = 0
    scale: Positive = 1
    solver: Literal["em", "sgd"] = "em"
    thinning: Count | Literal["auto", False] = "auto"
    merge: bool = False
    subsample: Count | Share | None = None
    loss: Literal["kmeans"] | Callable = "kmeans"
    table: np.ndarray | None = None
    target: Literal["labels"] | Labels = "labels"


def declaring(name, value):
    check_settings(Declaring(**{name: value}))


TAKEN = {
    "n_clusters": [1, np.int64(7)],
    "tol": [0, 0.5, np.float32(1)],
    "size": [None, 1],
    "warmup": [0],
    "share": [1, 0.001],
    "weight": [0.0, 1e300],
    "scale": [5e-324],
    "solver": ["em", np.str_("sgd")],
    "thinning": ["auto", False, np.False_, 3],
    "merge": [True, np.False_],
    "subsample": [5, 0.5, None],
    "loss": ["other", len, 3],
    "table": [np.ones(3), "path"],
    "target": ["labels", Labels(size_min=2, min_balance=0.5), Labels],
}


def test_settings_that_are_declared_are_taken():
    for name, values in TAKEN.items():
        for value in values:
            declaring(name, value)


REFUSED = [
    ("n_clusters", 0, ValueError, "`n_clusters` must be an integer, at least 1, got 0. Pass a whole number in that"),
    ("n_clusters", 2.0, TypeError, "got 2.0"),
    ("n_clusters", True, TypeError, "got True"),
    ("tol", -1, ValueError, "`tol` must be a finite number, at least 0, got -1. Pass a finite number in that range."),
    ("size", 0, ValueError, "at least 1, got 0. Pass a whole number in that range, or leave it out."),
    ("warmup", -1, ValueError, "an integer, at least 0, got -1"),
    ("warmup", None, TypeError, "got None"),
    ("share", 0, ValueError, "`share` must be a finite number above zero and at most 1, got 0"),
    ("share", 1.5, ValueError, "got 1.5"),
    ("weight", np.nan, ValueError, "got nan"),
    ("weight", np.inf, ValueError, "got inf"),
    ("weight", "1", TypeError, "got '1'"),
    ("target", Labels(size_min=0), ValueError, "`size_min` must be an integer, at least 1, got 0."),
    ("target", Labels("fair"), ValueError, "`min_balance` must be 'exact' or a finite number above zero, got 'fair'."),
    ("scale", 0.0, ValueError, "`scale` must be a finite number above zero, got 0.0"),
    ("scale", np.array([1.0, 2.0]), TypeError, "above zero, got array"),
    ("solver", "lloyd", ValueError, "`solver` must be one of 'em', 'sgd', got 'lloyd'. Choose one of them."),
    ("solver", None, TypeError, "got None"),
    ("thinning", 0, ValueError, "`thinning` must be 'auto', False or an integer, at least 1, got 0. Choose one of"),
    ("thinning", True, ValueError, "got True"),
    ("thinning", 1.5, TypeError, "got 1.5"),
    ("merge", 1, TypeError, "`merge` must be one of True, False, got 1"),
    ("subsample", 1.5, ValueError, "an integer, at least 1, or a finite number above zero and at most 1, got 1.5"),
    ("subsample", 0, ValueError, "got 0"),
]


def test_settings_that_are_not_declared_are_refused_in_one_way():
    for name, value, error, told in REFUSED:
        with pytest.raises(error, match=re.escape(told)):
            declaring(name, value)


def test_all_columns_with_missing_values_are_named_at_once():
    table = pd.DataFrame({"a": [1.0, np.nan], "b": [0.0, 1.0], "c": [np.nan, np.nan]})
    told = "nan at row 0, column 'c' (3 such entries in all, in columns 'a', 'c')"
    with pytest.raises(ValueError, match=re.escape(told)):
        check_features(table)


def test_digits_with_leading_zeros_are_no_numbers():
    for table in (pd.DataFrame({"zip": ["10115", "00001"]}), pl.DataFrame({"zip": ["10115", "00001"]})):
        with pytest.raises(TypeError, match="got the text '00001' in column 'zip'"):
            check_features(table)
    np.testing.assert_array_equal(check_features(pd.DataFrame({"a": ["0", "0.5", "10"]})), [[0], [0.5], [10]])


@pytest.mark.parametrize("seed", [True, np.False_])
def test_truth_values_are_no_seeds(seed):
    for seeded in (random_state_of, generator_of):
        with pytest.raises(ValueError, match="`random_state` must be None, an integer"):
            seeded(seed)


def test_python_without_docstrings_is_told_before_arviz_fails(monkeypatch):
    monkeypatch.setattr(_arviz, "__doc__", None)  # as under python -OO
    with pytest.raises(ValueError, match="ArviZ needs docstrings, which `python -OO` removes"):
        bayesfair.posterior.summary(tree_of_draws())

"""`encode_groups`: the same groups from every container, missing values refused, names that tell groups apart."""

import tracemalloc
from datetime import timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayesfair as bf
from bayesfair.fairness import encode_groups, merge_small_groups
from bayesfair.fairness.groups import encode_columns, groups_for_fit

SEX, RACE = ["M", "F", "M", "F", "M"], ["b", "a", "a", "a", "b"]
ONE_COLUMN = {
    "list": SEX,
    "numpy": np.array(SEX),
    "numpy column": np.array(SEX)[:, None],
    "pandas": pd.Series(SEX),
    "pandas odd index": pd.Series(SEX, index=[7, 7, -1, 0, 3]),
    "pandas categorical": pd.Series(pd.Categorical(SEX, categories=["M", "unused", "F"])),
    "pandas frame": pd.DataFrame({"sex": SEX}),
    "polars": pl.Series(SEX),
    "polars frame": pl.DataFrame({"sex": SEX}),
}
TWO_COLUMNS = {
    "nested list": [list(pair) for pair in zip(SEX, RACE)],
    "numpy": np.array([SEX, RACE]).T,
    "pandas": pd.DataFrame({"sex": SEX, "race": RACE}, index=[5, 5, 5, 1, 0]),
    "polars": pl.DataFrame({"sex": SEX, "race": RACE}),
}


@pytest.mark.parametrize("sensitive", ONE_COLUMN.values(), ids=ONE_COLUMN)
def test_one_column_gives_the_same_groups_from_every_container(sensitive):
    groups = encode_groups(sensitive)
    assert groups.names == ("F", "M")
    assert groups.code.tolist() == [1, 0, 1, 0, 1]
    assert groups.code.dtype == np.int32
    assert groups.sizes.tolist() == [2, 3]


@pytest.mark.parametrize("sensitive", TWO_COLUMNS.values(), ids=TWO_COLUMNS)
def test_several_columns_are_crossed_and_only_combinations_that_occur_are_groups(sensitive):
    groups = encode_groups(sensitive)
    assert groups.names == ("F, a", "M, a", "M, b")
    assert groups.code.tolist() == [2, 0, 1, 0, 2]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([10, 9, 10], ("9", "10")),
        (pd.Series([2, 1, 2], dtype="Int64"), ("1", "2")),
        (pd.Series([True, False, True], dtype="boolean"), ("False", "True")),
        ([(2, "a"), (1, "b"), (2, "a")], ("1, b", "2, a")),
        ([frozenset("b"), "a", frozenset("b")], ("a", "frozenset({'b'})")),
        (np.array(["2020-02-01", "2019-01-01", "2020-02-01"], "datetime64[D]"), ("2019-01-01", "2020-02-01")),
    ],
)
def test_groups_are_sorted_by_value_and_any_hashable_will_do(values, names):
    groups = encode_groups(values)
    assert groups.names == names
    assert groups.code.tolist() == [1, 0, 1]


AGES = [25, 7, 61, 25, 7]
OWN_ORDER = {
    "bands": (pd.Series(pd.cut(AGES, [0, 9, 30, 100])), ("(0, 9]", "(9, 30]", "(30, 100]")),
    "bands as objects": (pd.cut(AGES, [0, 9, 30, 100]).astype(object).tolist(), ("(0, 9]", "(9, 30]", "(30, 100]")),
    "ordered categories": (
        pd.Series(pd.Categorical(["mid", "low", "high", "mid", "low"], ["low", "none", "mid", "high"], ordered=True)),
        ("low", "mid", "high"),
    ),
    "enum of polars": (
        pl.Series(["mid", "low", "high", "mid", "low"], dtype=pl.Enum(["low", "none", "mid", "high"])),
        ("low", "mid", "high"),
    ),
    "decimals": (
        [Decimal("10.5"), Decimal("9.5"), Decimal("100"), Decimal("10.5"), Decimal("9.5")],
        ("9.5", "10.5", "100"),
    ),
    "decimals beside numbers": ([Decimal("10.5"), 9, 100.0, Decimal("10.5"), 9], ("9", "10.5", "100.0")),
    "durations": (
        [timedelta(10), timedelta(9), timedelta(100)],
        ("9 days, 0:00:00", "10 days, 0:00:00", "100 days, 0:00:00"),
    ),
    "bytes": ([b"b", b"a", b"c"], ("b'a'", "b'b'", "b'c'")),
}


@pytest.mark.parametrize("kind", OWN_ORDER)
def test_groups_are_in_the_order_of_their_column(kind):
    """They were listed by the alphabet: (9, 30] after (30, 100], high before low, 10.5 before 9.5."""
    values, names = OWN_ORDER[kind]
    groups = encode_groups(values)
    assert groups.names == names
    assert groups.code.tolist()[:3] == [1, 0, 2]


def test_crossed_groups_are_in_the_order_of_each_column():
    bands = pd.Categorical(["low", "high", "low"], ["low", "high"], ordered=True)
    names = encode_groups(pd.DataFrame({"band": bands, "sex": ["M", "F", "F"]})).names
    assert names == ("low, F", "low, M", "high, F")


def test_values_that_print_alike_keep_different_names():
    assert encode_groups([1, "1", 2]).names == ("1", "2", "'1'")
    assert encode_groups([("a, b", "c"), ("a", "b, c")]).names == ("'a', 'b, c'", "'a, b', 'c'")
    assert set(encode_groups([1, "1", "'1'"]).names) == {"1", "'1'", repr("'1'")}


@pytest.mark.parametrize("container", [np.array, pd.Series, pd.Index, list], ids=lambda kind: kind.__name__)
def test_what_python_calls_equal_is_one_group_by_the_name_that_came_first(container):
    values = [True, "b", 1, 0.0, 1.0, False, (1, "b"), 2]
    groups = encode_groups(container(values, dtype=object) if container is not list else values)
    assert groups.names == ("0.0", "True", "2", "b", "1, b")
    assert groups.code.tolist() == [1, 3, 1, 0, 1, 0, 4, 2]


N_MANY, SEXES = 300_000, np.array(["female", "male"])
MANY_ROWS = {
    "text": lambda code: SEXES[code],
    "pandas text": lambda code: pd.Series(SEXES[code]),
    "pandas categories": lambda code: pd.Series(pd.Categorical.from_codes(code, SEXES)),
}


@pytest.mark.parametrize("kind", MANY_ROWS)
def test_no_python_object_is_made_for_each_row(kind):
    """A text takes 50 bytes and the pointer to it eight, at each of several steps; pandas' own arrays take 58 in all."""
    table = MANY_ROWS[kind](np.arange(N_MANY) % 3 % 2)
    encode_groups(table[:10])  # what is imported is not counted
    tracemalloc.start()
    encode_groups(table)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < (64 if kind == "pandas text" else 32) * N_MANY


MISSING = {
    "None": ["a", None],
    "NaN": [1.0, float("nan")],
    "NaN among objects": np.array(["a", np.nan], dtype=object),
    "masked": np.ma.array([1, 2], mask=[False, True]),
    "pandas nullable": pd.Series([1, None], dtype="Int64"),
    "pandas categorical": pd.Series(["a", None], dtype="category"),
    "NumPy NaT": np.array(["2020-01-01", "NaT"], "datetime64[s]"),
    "polars NaN": pl.Series([1.0, float("nan")]),
    "one column of a table": pd.DataFrame({"sex": ["F", "M"], "race": ["a", None]}),
    "inside a tuple": [("F", "a"), ("F", None)],
}


@pytest.mark.parametrize("sensitive", MISSING.values(), ids=MISSING)
def test_missing_group_values_are_refused_and_the_row_is_named(sensitive):
    with pytest.raises(ValueError, match=r"`sensitive_features` must have a value in every .* at row 1 .*: 1\)"):
        encode_groups(sensitive)


@pytest.mark.parametrize(
    ("sensitive", "error", "text"),
    [
        ([], ValueError, "hold at least one row"),
        (pd.DataFrame(index=[1, 2]), ValueError, "at least one row and one column"),
        (np.zeros((2, 2, 2)), ValueError, r"an array of shape \(2, 2, 2\)"),
        ("sex", TypeError, r"got 'sex'\. Pass the columns themselves"),
        (None, TypeError, "got None"),
        (pl.LazyFrame({"sex": ["F"]}), TypeError, "collect a lazy table"),
        ([{"F"}, {"M"}], TypeError, "hold hashable values.*set"),
        (pd.DataFrame([["F", "a"]], columns=["x", "x"]), ValueError, "name every column once"),
    ],
)
def test_input_that_names_no_groups_is_refused(sensitive, error, text):
    with pytest.raises(error, match=text):
        encode_groups(sensitive)


SIZES = {"a": 100, "b": 90, "c": 7, "d": 5, "e": 2}
MANY = np.repeat(list(SIZES), list(SIZES.values()))


@pytest.mark.parametrize(
    ("least", "names", "sizes"),
    [
        (1, ("a", "b", "c", "d", "e"), [100, 90, 7, 5, 2]),
        (3, ("a", "b", "c", "other"), [100, 90, 7, 7]),  # e alone is too small, so that d joins it
        (8, ("a", "b", "other"), [100, 90, 14]),
        (20, ("a", "other"), [100, 104]),
    ],
)
def test_small_groups_are_merged_until_every_group_is_large_enough(least, names, sizes):
    merged = merge_small_groups(MANY, least)
    assert merged.names == names
    assert merged.sizes.tolist() == sizes
    known = dict(zip(MANY, np.array(merged.names)[merged.code]))
    assert all(new in (old, "other") for old, new in known.items())


@pytest.mark.parametrize(
    ("least", "name", "text"),
    [(101, "other", "leave at least two groups of 101 rows"), (3, "a", "not be the name of a group that is kept")],
)
def test_merging_that_cannot_be_is_told(least, name, text):
    with pytest.raises(ValueError, match=text):
        merge_small_groups(MANY, least, name=name)
    assert merge_small_groups(MANY, 3, name="e").names == ("a", "b", "c", "e")  # the name of one of its parts


PEOPLE = pd.DataFrame({"x": [0.0, 1.0, 5.0, 6.0], "y": [0.0, 1.0, 0.0, 2.0]}, index=[10, 11, 12, 13])
SHUFFLED = pd.Series(["F", "M", "F", "M"], index=[13, 12, 11, 10])
LABELS = pd.Series([0, 1, 0, 1], index=PEOPLE.index)


@pytest.mark.parametrize(
    "call",
    [
        lambda s: bf.GibbsFairClustering(2).fit(PEOPLE, sensitive_features=s),
        lambda s: bf.engines.fairness_path(bf.FairletKMeans(), PEOPLE, s, "n_clusters", [2]),
        lambda s: bf.fairlets.decompose(PEOPLE, s),
        lambda s: bf.fairness.balance(LABELS, s),
        lambda s: bf.fairness.report(LABELS, s),
        lambda s: bf.fairness.report(LABELS.to_numpy(), s, PEOPLE),
    ],
)
def test_rows_of_two_pandas_objects_are_not_matched_by_position_where_their_indexes_differ(call):
    with pytest.raises(ValueError, match=r"must have the row index of .* has 1\d, .* from row 0 on, where"):
        call(SHUFFLED)


def test_equal_indexes_and_objects_without_one_are_matched():
    assert bf.fairness.balance(LABELS, SHUFFLED.loc[LABELS.index]) == bf.fairness.balance(LABELS, ["M", "F", "M", "F"])
    assert bf.fairness.balance(LABELS.tolist(), SHUFFLED) == bf.fairness.balance(LABELS, SHUFFLED.to_numpy())


@pytest.mark.parametrize("other", ["male ", "ma\u200ble", "\uff4dale"])
def test_groups_that_look_alike_are_told(other):
    with pytest.warns(UserWarning, match="`sensitive_features` has groups that look alike") as told:
        groups = encode_groups(["male", other, "female"])
    assert len(groups.names) == 3
    assert told[0].filename == __file__


SEX, REGION = np.resize(["f", "m"], 24), np.resize(["n", "n", "s", "s", "e", "e"], 24)
FOLLOWERS = {"itself": SEX, "a combination": np.char.add(SEX, REGION), "a union": REGION == "e"}


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("kind", FOLLOWERS)
def test_features_that_follow_from_the_groups_are_told(kind, frame):
    X = frame({"a": np.arange(24.0), "same": np.ones(24), "b": FOLLOWERS[kind]})
    with pytest.warns(UserWarning, match="Column 'b' of `X` follows from `sensitive_features`.*Remedy: drop it"):
        groups_for_fit(np.column_stack([SEX, REGION]), 24, X=X)


@pytest.mark.parametrize("groups", [SEX, np.arange(24)], ids=["two groups", "a group for each row"])
def test_other_features_are_not(groups):
    groups_for_fit(groups, 24, X=pd.DataFrame({"a": np.arange(24.0), "same": 1, "b": REGION}))


def test_values_that_say_nothing_alone_keep_the_name_of_their_column_among_several():
    table = pd.DataFrame({"own": ["yes", "No", "yes"], "code": ["07", "1.5", "x1"], "sex": ["f", "m", "f"]})
    names = encode_groups(table).names
    assert names == ("own=No, code=1.5, m", "own=yes, code=07, f", "own=yes, x1, f")
    assert [part.names for part in encode_columns(table)] == [
        ("own=No", "own=yes"),
        ("code=07", "code=1.5", "x1"),
        ("f", "m"),
    ]
    assert encode_groups(table["own"]).names == ("No", "yes")
    assert encode_groups(table[["own", "sex"]].to_numpy()).names == ("No, m", "yes, f")


def test_numbers_of_one_of_several_columns_keep_the_name_of_their_column():
    table = pd.DataFrame({"male": [1, 0, 1], "marr": [True, True, False], "race": ["p", "q", "q"]})
    assert encode_groups(table[["male", "marr"]]).names == (
        "male=0, marr=True",
        "male=1, marr=False",
        "male=1, marr=True",
    )
    assert encode_groups(table[["male", "race"]]).names == ("male=0, q", "male=1, p", "male=1, q")
    assert encode_groups(table[["male"]]).names == ("0", "1")
    groups = encode_groups(table)
    assert [part.column for part in groups.crosses] == ["male", "marr", "race"]
    assert [np.array(part.names)[part.code[groups.code]].tolist() for part in groups.crosses] == [
        ["male=1", "male=0", "male=1"],
        ["marr=True", "marr=True", "marr=False"],
        ["p", "q", "q"],
    ]
    assert groups.take([0, 2]).crosses[0].names == ("male=1",)


def test_a_fit_refuses_ids_and_tells_of_ages_as_groups():
    rng = np.random.default_rng(0)
    X, ids = rng.normal(size=(60, 2)), pd.Series(np.arange(60) * 7.5, name="income")
    est = bf.BalancedKMeans(2, n_init=1, random_state=0)
    for groups in (ids, pd.DataFrame({"sex": ["f", "m"] * 30, "income": ids})):
        with pytest.raises(ValueError, match=r"hold values that rows share, got 60 values in 60 rows in 'income'"):
            est.fit(X, sensitive_features=groups)
    ages = pd.Series(np.arange(60) % 25 + 20, name="age")
    with pytest.warns(UserWarning, match=r"25 numbers in 'age', .* put them into bands"):
        est.fit(X, sensitive_features=ages)
    est.fit(X, sensitive_features="code " + ages.astype(str))

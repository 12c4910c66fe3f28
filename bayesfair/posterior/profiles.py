"""The traits of clusters: every feature by cluster in readable units, the most telling features first."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._check import check_same_length, check_same_rows, column_names, is_date, message
from bayesfair._names import DataFrame, DataTree
from bayesfair._numbers import percent
from bayesfair._scaling import ROUNDING
from bayesfair.fairness.groups import Groups, encode_groups
from bayesfair.fairness.metrics import encode_assignment
from bayesfair.posterior.point_estimates import reference_partition
from bayesfair.posterior.schema import check_rows_of, columns_of, groups_of, observed_features, weight_of
from bayesfair.posterior.view import View, once

EVERYONE, SPREAD, SEPARATION = "everyone", "spread", "separation"
GROUP = "protected group"  # the feature that holds the groups' shares
NUMBER, YES = "", "yes"  # the level of a number's mean, and of a column of truth values
FEW_ROWS, NAMES_ROWS = 20, 0.9  # above FEW_ROWS rows, a column with so many levels per row names the rows


def profile(
    source: "DataTree | ArrayLike", X: ArrayLike | None = None, *, sensitive_features: ArrayLike | None = None
) -> "DataFrame":
    """What the clusters are: the mean of every feature, or the share of every category, by cluster.

    The features that tell the clusters apart best come first, the shares of the protected groups last. Missing values count
    in no mean and no share. `bayesfair.plots.profile` draws this table.

    Parameters
    ----------
    source : xarray.DataTree or array-like of shape (n_obs,)
        A posterior, whose point estimate is shown, or anybody's cluster labels, which may be text.
    X : data frame or array-like of shape (n_obs, n_features), optional
        Features in the units that the table should have: the table as it was before a scaler or an encoder. Columns of text
        and categories are shown as shares. By default the features of the tree, in the units before the scaling that
        `bayesfair fit --standardize` made.
    sensitive_features : array-like of shape (n_obs,) or (n_obs, n_attributes), optional
        Protected groups. By default those of the tree.

    Returns
    -------
    pandas.DataFrame
        One row for each feature, or for each of its categories, indexed by `feature` and `level` (empty for the mean of
        numbers, "yes" for the share of true values and of ones among zeros). Columns: `everyone`, one for each cluster,
        `spread` (standard deviation over all rows) and `separation` (share of the variance that is between clusters, from 0
        to 1). Where a tree has weights, means of features are weighted; shares of groups count rows.
        `attrs["sizes"]` has the rows of every cluster.

    Raises
    ------
    ValueError
        If labels come without `X`, if lengths or row names differ, or if a column holds dates or a name for every row.

    Examples
    --------
    >>> import pandas as pd, bayesfair as bf
    >>> X = pd.DataFrame({"age": [20.0, 30.0, 60.0, 70.0], "town": ["York", "Hull", "York", "Hull"]})
    >>> table = bf.posterior.profile(["young", "young", "old", "old"], X)
    >>> table.loc[("age", ""), ["everyone", "old", "young"]].tolist()
    [45.0, 65.0, 25.0]
    """
    if hasattr(source, "children"):  # a tree, or a view of one
        tree = View.of(source)
        if X is None and sensitive_features is None:
            return most_telling_first(tree_profile(tree))
        check_rows_of(tree, X=X, sensitive_features=sensitive_features)
        X, labels = readable_features(tree) if X is None else named_features(tree, X), reference_partition(tree)
        weight, groups = weight_of(tree), groups_of(tree)
    else:
        labels, weight, groups = source, None, None
    if X is None:
        raise ValueError(
            message("X", "come with labels", "None", "Pass the table of features, in units that readers know.")
        )
    check_same_rows(X=X, source=source, sensitive_features=sensitive_features)
    groups = groups if sensitive_features is None else encode_groups(sensitive_features)
    return most_telling_first(profile_table(X, labels, groups, weight))


@once
def tree_profile(tree) -> "DataFrame":
    """`profile` of a tree's point estimate, with the features in the order of the tree."""
    return profile_table(readable_features(tree), reference_partition(tree), groups_of(tree), weight_of(tree))


def profile_table(X, labels, groups: Groups | None = None, weight=None) -> "DataFrame":
    """The table of `profile`, with the features in the order of X (obs, features); `weight` (obs,): of the rows in means."""
    import pandas as pd

    code, clusters = encode_assignment(labels)
    if code.ndim != 1:
        raise ValueError(message("source", "be one label for each row", "soft assignments", "Pass their argmax(1)."))
    figures, index = [], []
    for (feature, level, values), of_rows in _lines(X, groups, len(code), weight):
        index.append((feature, level))
        figures.append(figures_of(values, code, len(clusters), of_rows))
    index = pd.MultiIndex.from_tuples(index, names=["feature", "level"])
    table = pd.DataFrame(figures, index, pd.Index([EVERYONE, *clusters, SPREAD, SEPARATION], dtype=object))
    table.attrs["sizes"] = dict(zip(clusters, np.bincount(code).tolist()))
    return table


def _lines(X, groups, n_obs, weight):
    """Lines of features, with the weights of their rows, and of groups, with rows of equal weight."""
    yield from ((line, weight) for line in lines_of_table(X, n_obs))
    if groups is not None:
        check_same_length("sensitive_features", len(groups.code), "labels", n_obs)
        for at, name in enumerate(groups.names):
            yield (GROUP, str(name), (groups.code == at) * 1.0), None


def most_telling_first(table: "DataFrame") -> "DataFrame":
    """The lines of a profile by the largest separation of their feature; those of groups stay last."""
    return table.iloc[telling_order(table)]


def telling_order(table, most=None) -> np.ndarray:
    """Positions of a profile's lines, those that separate clusters best first: all groups, the `most` best features."""
    import pandas as pd

    feature = table.index.get_level_values("feature")
    is_group = feature == GROUP
    own = np.where(is_group, np.inf, table[SEPARATION].fillna(0))
    of_feature = pd.Series(own).groupby(feature, sort=False).transform("max").to_numpy()
    order = np.argsort(np.where(is_group, 1.0, -of_feature), kind="stable")
    kept = np.argsort(-own, kind="stable")[: None if most is None else most + is_group.sum()]
    return order[np.isin(order, kept)]


def names_in_words(table) -> list[str]:
    """The lines of a profile by name: age, town: York, and groups by their own names."""
    return [
        level if feature == GROUP else feature if level in (NUMBER, YES) else f"{feature}: {level}"
        for feature, level in table.index
    ]


def in_words(table) -> "DataFrame":
    """Values of everyone and of the clusters as text: shares in percent, means to two digits of their standard deviation."""
    told = table.drop(columns=[SPREAD, SEPARATION]).astype(object)
    for at, ((_, level), spread) in enumerate(zip(table.index, table[SPREAD])):
        write = _mean_writer(spread) if level == NUMBER else percent
        told.iloc[at] = ["" if np.isnan(value) else write(value) for value in told.iloc[at]]
    return told


def _mean_writer(spread):
    decimals = int(np.clip(2 - np.ceil(np.log10(spread)), 0, 6)) if spread > 1e-5 else None
    return "{:z,.6g}".format if decimals is None else f"{{:z,.{decimals}f}}".format


def figures_of(values, code, n_clusters, weight=None):
    """[mean, means of the clusters, standard deviation, share of variance between clusters] of the finite `values` (obs,)."""
    held = np.isfinite(values)
    if not held.any():
        return [np.nan] * (n_clusters + 3)
    values, code, weight = values[held], code[held], np.ones(held.sum()) if weight is None else weight[held]
    mean = np.average(values, weights=weight)
    off = values - mean  # squares of differences do not cancel
    mass, empty = np.bincount(code, weight, n_clusters), np.full(n_clusters, np.nan)
    means, shift = (
        np.divide(np.bincount(code, weight * of, n_clusters), mass, out=empty.copy(), where=mass > 0)
        for of in (values, off)
    )
    variance = np.average(off**2, weights=weight)
    varies = np.sqrt(variance) > ROUNDING * abs(mean)
    between = np.nansum(mass * shift**2) / mass.sum()
    return [mean, *means, np.sqrt(variance) * varies, between / variance if varies else 0.0]


def lines_of_table(X, n_obs) -> Iterator[tuple[str, str, np.ndarray]]:
    """(feature, level, values of all rows (obs,)), NaN if missing: numbers unchanged, an indicator for each category."""
    import pandas as pd

    names = column_names(X)
    table = X if names is not None else np.asarray(X)
    if len(table.shape) != 2:
        raise ValueError(
            message("X", "be a table of two dimensions", len(table.shape), "Pass X[:, None] for one feature.")
        )
    check_same_length("X", len(table), "labels", n_obs)
    for at, name in enumerate(range(table.shape[1]) if names is None else names):
        column = table[:, at] if names is None else table[name]
        column = pd.Series(column if isinstance(column, pd.Series) else np.asarray(column)).reset_index(drop=True)
        for level, values in _lines_of_column(column.infer_objects(), name):
            yield str(name), level, values


def _lines_of_column(column, name):
    from pandas.api import types

    if types.is_bool_dtype(column.dtype):
        return [(YES, column.to_numpy(np.float64, na_value=np.nan))]
    if types.is_numeric_dtype(column.dtype):
        values = column.to_numpy(np.float64, na_value=np.nan)
        return [(YES if _are_truths(values) else NUMBER, values)]
    if types.is_datetime64_any_dtype(column.dtype) or any(map(is_date, column.dropna()[:1])):
        remedy = "Turn dates into numbers, such as years, or drop the column."
        raise ValueError(message("X", "hold numbers and categories", f"dates in column {name!r}", remedy))
    categories = column.astype("category").cat
    if len(column) > FEW_ROWS and len(categories.categories) > NAMES_ROWS * len(column):
        got = f"{len(categories.categories)} categories of {len(column)} rows in column {name!r}"
        raise ValueError(message("X", "hold categories that rows share", got, "Drop the column: it names the rows."))
    return _shares(categories)


def _are_truths(values):
    """Are the values 0 and 1 alone, except for rounding and missing values?"""
    known = values[~np.isnan(values)]
    return len(known) > 0 and (np.minimum(abs(known), abs(known - 1)) < 1e-9).all() and np.ptp(known) > 0.5


def _shares(categories):
    """(level, indicator of its rows) for every category, NaN if the value is missing."""
    code = categories.codes.to_numpy()
    missing = np.where(code < 0, np.nan, 0.0)
    return ((str(level) or "(empty)", missing + (code == at)) for at, level in enumerate(categories.categories))


@once
def readable_features(tree) -> "DataFrame":
    """The features of a tree for readers: in the units before a scaling that the tree knows, categories by name."""
    import pandas as pd

    found = {}
    for column, values in zip(columns_of(tree), observed_features(tree).T):
        if column.kind == "category":
            found[column.name] = pd.Categorical.from_codes(values.astype(int), list(column.levels))
        elif column.kind == "indicator":
            found[column.name] = values > 0
        elif column.is_scaled:
            found[column.name] = column.middle + column.unit * values.astype(np.float64, copy=False)
        else:
            found[column.name] = values
    return pd.DataFrame(found)


def named_features(tree, X):
    """The user's X, with the names of the tree's features if it is an array of as many columns."""
    import pandas as pd

    if column_names(X) is None and np.ndim(X) == 2 and "observed_data" in tree.children:
        features = tree["observed_data"]["feature"].values
        return pd.DataFrame(X, columns=features) if np.shape(X)[1] == len(features) else X
    return X

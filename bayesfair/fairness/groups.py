"""Groups: one integer code per row, from one or several sensitive columns of any kind."""

import re
from collections import Counter
from collections.abc import Sequence
from numbers import Number, Real
from typing import NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike

from bayesfair._affinities import Nodes
from bayesfair._arrays import BLOCK, code_masses
from bayesfair._check import check_integer, check_same_length, check_same_rows, check_weights, message, tell
from bayesfair.fairness.values import columns_of, encode_values

FEW_VALUES = 20  # of a column, which may differ in all rows of a small table
BARE = re.compile(r"yes|no|y|n|true|false|[+-]?\d+(\.\d+)?", re.IGNORECASE)  # they say nothing without their column
MOST_NUMBERS = 20  # of one attribute; more are put into bands


class Groups(NamedTuple):
    """The group of every row.

    Attributes
    ----------
    code : numpy.ndarray of shape (n_obs,)
        The number of every row's group, int32, from 0.
    names : tuple of str
        The names of the groups, in the order of their numbers.
    attributes : tuple of Groups
        Filled where groups cross several attributes and each attribute is balanced on its own. It has one entry for
        each attribute, which gives the attribute's value of every crossed group. Empty where the groups themselves are
        balanced.
    crosses : tuple of Groups
        Like `attributes`, filled where groups cross several attributes and the crossed groups are balanced.
    column : str
        The name of the attribute, "" if it has none.

    Examples
    --------
    >>> import bayesfair as bf
    >>> groups = bf.fairness.encode_groups(["M", "F", "M"])
    >>> groups.code.tolist(), groups.names
    ([1, 0, 1], ('F', 'M'))
    """

    code: np.ndarray
    names: tuple[str, ...]
    attributes: tuple["Groups", ...] = ()
    crosses: tuple["Groups", ...] = ()
    column: str = ""

    @property
    def parts(self):
        """What the groups cross, whether that is balanced by itself or together; empty for one attribute."""
        return self.attributes or self.crosses

    @property
    def sizes(self):
        """Number of rows in each group, int of shape (n_groups,)."""
        return code_masses(self.code, len(self.names))

    def take(self, rows):
        """Keep some of the rows.

        Parameters
        ----------
        rows : array-like of int or bool
            Row numbers, or a mask.

        Returns
        -------
        Groups
            Groups without any of these rows are left out.
        """
        used, code = np.unique(self.code[rows], return_inverse=True)
        names = tuple(self.names[at] for at in used)
        attributes, crosses = (tuple(part.take(used) for part in parts) for parts in (self.attributes, self.crosses))
        return Groups(code.astype(np.int32).ravel(), names, attributes, crosses, self.column)


def encode_groups(sensitive_features: ArrayLike | Groups, *, argument: str = "sensitive_features") -> Groups:
    """Turn sensitive features into one group for each row.

    Several columns are crossed: each combination that occurs is a group. Groups are in the order of the column's
    categories if those are ordered (an ordered categorical of pandas, an Enum of polars), and else sorted by value,
    numbers before text, column by column. Their names are made by `str`, joined by ", ", and by `repr` where two would
    share a name. Numbers, yes and no, and true and false of one of several columns keep the name of their column:
    "sex=1, married=no".

    Parameters
    ----------
    sensitive_features : array-like of shape (n_obs,) or (n_obs, n_attributes), or Groups
        A pandas or polars Series or DataFrame, a NumPy array, or a list of values or of rows. Row order counts, an
        index does not. `Groups` are returned as they are.
    argument : str, default "sensitive_features"
        What error messages call the argument.

    Returns
    -------
    Groups

    Raises
    ------
    TypeError
        If the argument does not hold one value for each row, or a value cannot be hashed.
    ValueError
        If there are no rows, more than two dimensions, or a missing value (None, NaN, NaT or pandas.NA).

    Notes
    -----
    Values that Python calls equal, such as 1, 1.0 and True, are one group.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.fairness.encode_groups([["F", "north"], ["M", "south"], ["F", "south"]]).names
    ('F, north', 'F, south', 'M, south')
    """
    if isinstance(sensitive_features, Groups):
        return sensitive_features
    columns = columns_of(sensitive_features, argument)
    encoded, titles = [encode_values(column, argument) for column in columns], _titles(columns)
    code, levels = _cross(encoded)
    if len(columns) == 1:
        return Groups(code, _names(levels), column=titles[0])
    return Groups(code, _names(levels, titles), crosses=_values_of_groups(code, len(levels), _each(encoded, titles)))


def cross_attributes(attributes: Sequence[Groups]) -> Groups:
    """Cross several attributes into one set of groups.

    Parameters
    ----------
    attributes : sequence of Groups
        The groups of the same rows by each attribute.

    Returns
    -------
    Groups
        The combinations that occur. Their field `attributes` remembers what was crossed.

    Examples
    --------
    >>> import bayesfair as bf
    >>> sex = bf.fairness.encode_groups(["F", "F", "M"])
    >>> region = bf.fairness.encode_groups(["north", "south", "south"])
    >>> bf.fairness.cross_attributes([sex, region]).names
    ('F, north', 'F, south', 'M, south')
    """
    cells, code = np.unique(np.stack([part.code for part in attributes], 1), axis=0, return_inverse=True)
    held = tuple(Groups(cells[:, at], part.names, column=part.column) for at, part in enumerate(attributes))
    levels = [tuple(part.names[of] for part, of in zip(attributes, cell)) for cell in cells]
    return Groups(code.astype(np.int32).ravel(), _names(levels), held)


def merge_small_groups(sensitive: ArrayLike | Groups, min_group_size: int, *, name: str = "other") -> Groups:
    """Merge groups of few rows into one group, the last.

    If the merged group is itself too small, the next smallest group joins it. Balance then speaks of the merged
    group, not of its parts.

    Parameters
    ----------
    sensitive : array-like of shape (n_obs,) or (n_obs, n_attributes), or Groups
        The groups of the rows, see `encode_groups`.
    min_group_size : int, at least 1
        Fewest rows of a group that stays as it is.
    name : str, default "other"
        Name of the merged group.

    Returns
    -------
    Groups
        The groups as they are if none is small.

    Raises
    ------
    ValueError
        If fewer than two groups would be left, or a group that stays has this name.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.fairness.merge_small_groups(["a"] * 5 + ["b"] * 4 + ["c", "d"], 2).names
    ('a', 'b', 'other')
    """
    groups = encode_groups(sensitive, argument="sensitive")
    least = check_integer("min_group_size", min_group_size)
    order, sizes = np.argsort(groups.sizes, kind="stable"), np.sort(groups.sizes)
    n_small = int(np.searchsorted(sizes, least))
    if n_small == 0:
        return groups
    n_merged = max(n_small, int(np.searchsorted(np.cumsum(sizes), least)) + 1)
    if n_merged >= len(sizes):
        rule, remedy = f"leave at least two groups of {least} rows", "Pass a smaller number, or None to merge nothing."
        sizes_by_name = ", ".join(f"{group}: {size}" for group, size in zip(groups.names, groups.sizes))
        raise ValueError(message("min_group_size", rule, f"groups {sizes_by_name}", remedy))
    merged = {groups.names[at] for at in order[:n_merged]}
    if name in set(groups.names) - merged:
        rule, remedy = "not be the name of a group that is kept", "Choose another name."
        raise ValueError(message("merged_group_name", rule, repr(name), remedy))
    names = (*(group for group in groups.names if group not in merged), name)
    code = [len(names) - 1 if group in merged else names.index(group) for group in groups.names]
    return Groups(np.array(code, np.int32)[groups.code], names, column=groups.column)


def target_proportions(sensitive: ArrayLike | Groups, *, sample_weight: ArrayLike | None = None) -> np.ndarray:
    """The share of every group among all rows.

    Parameters
    ----------
    sensitive : array-like of shape (n_obs,) or (n_obs, n_attributes), or Groups
        The groups of the rows, see `encode_groups`.
    sample_weight : array-like of shape (n_obs,), optional
        How many rows each one stands for. By default one.

    Returns
    -------
    numpy.ndarray of shape (n_groups,)
        Shares in the order of the groups' names. They sum to 1.

    References
    ----------
    VFC, eq. (2): the target U unless another one is given.
    """
    groups = encode_groups(sensitive, argument="sensitive")
    weight = check_weights(sample_weight, len(groups.code), sensitive=sensitive)
    masses = np.bincount(groups.code, weight, len(groups.names))
    return masses / masses.sum()


def _cross(columns):
    """Code and levels of the occurring combinations of columns with codes and levels; a single column stays as it is."""
    code, levels = columns[0]
    if len(columns) == 1:
        return code, levels
    levels = [(level,) for level in levels]
    for other, others in columns[1:]:
        cells, code = np.unique(code * np.int64(len(others)) + other, return_inverse=True)
        levels = [(*levels[cell // len(others)], others[cell % len(others)]) for cell in cells]
    return code.astype(np.int32), levels


def groups_for_fit(
    sensitive_features, n_obs, *, min_group_size=None, merged_group_name="other", crossed=True, rows=None, X=None
):
    """The groups of an estimator's `fit`. None warns and makes one group of all rows; a single group is an error.

    `crossed`: false if every column is an attribute of its own (`Groups.attributes`), within which small groups are merged.
    `rows` (N,): a mask of the rows to use. `X`: the checked table, for a warning of columns that follow from the groups.
    """
    if sensitive_features is None:
        tell(
            "No sensitive features given: plain clustering, without any fairness. "
            "Pass fit(X, sensitive_features=...) for fair clusters; the second argument, `y`, is not read."
        )
        return Groups(np.zeros(n_obs if rows is None else rows.sum(), np.int32), ("everyone",))
    attributes = [encode_groups(sensitive_features)] if crossed else encode_columns(sensitive_features)
    for groups in attributes:
        check_same_length("sensitive_features", len(groups.code), "X", n_obs)
        if X is not None:
            _warn_of_followers(X, groups)
    attributes = attributes if rows is None else [groups.take(rows) for groups in attributes]
    for groups in attributes:
        if len(groups.names) == 1:
            remedy = "Check the column, or pass sensitive_features=None for plain clustering."
            raise ValueError(message("sensitive_features", "have at least two groups", repr(groups.names[0]), remedy))
    if min_group_size is not None:
        attributes = [merge_small_groups(each, min_group_size, name=merged_group_name) for each in attributes]
    return attributes[0] if len(attributes) == 1 else cross_attributes(attributes)


def read_groups(estimator, sensitive_features, n_obs, *, needed=True, rows=None, X=None) -> Groups:
    """`groups_for_fit` with the estimator's settings of groups, if it has them, for the rows of the mask `rows`.

    If `needed`, their absence and columns of `X` that predict them are told.
    """
    check_same_rows(X=X, sensitive_features=sensitive_features)
    X = None if isinstance(X, Nodes) else X
    if sensitive_features is None and not needed:
        return Groups(np.zeros(n_obs if rows is None else rows.sum(), np.int32), ("everyone",))
    settings = {name.removeprefix("target__"): value for name, value in estimator.get_params().items()}
    merging = {name: settings[name] for name in ("min_group_size", "merged_group_name", "crossed") if name in settings}
    groups = groups_for_fit(sensitive_features, n_obs, rows=rows, X=X if needed else None, **merging)
    for part in groups.parts or (groups,):
        check_shared("sensitive_features", part.names, n_obs, part.column)
        if len(numbers := numbers_of(part)):
            what = f"`sensitive_features` has {len(numbers)} numbers{of_column(part.column)}, each of which is a group"
            tell(f"{what}. Remedy: unless they are codes, put them into bands, such as by pandas.cut.")
    return groups


def refuse_groups_as_y(y, sensitive_features):
    """Raise a TypeError for groups in the place of `y`, which nothing reads. Numbers pass: pipelines hand labels on."""
    if y is None or sensitive_features is not None:
        return
    kind = "G" if isinstance(y, Groups) else np.asarray(y).dtype.kind
    are_numbers = kind in "iufc" or (kind == "O" and all(isinstance(entry, Number) for entry in np.ravel(y)))
    if not are_numbers:
        rule, remedy = "be left out", "It is not read. Pass groups as fit(X, sensitive_features=...)."
        raise TypeError(message("y", rule, "what looks like groups", remedy))


def check_shared(argument, values, n_obs, column=""):
    """Raise a ValueError for a column of ids: more than `FEW_VALUES` values, and fewer than two rows for each."""
    if len(values) <= max(FEW_VALUES, n_obs / 2):
        return
    got = f"{len(values):,} values in {n_obs:,} rows{of_column(column)}"
    raise ValueError(
        message(argument, "hold values that rows share", got, "Leave out ids, and put numbers into bands.")
    )


def numbers_of(groups: Groups) -> np.ndarray:
    """The numbers that name the groups, if there are more than `MOST_NUMBERS`; none if a name is no number."""
    if len(groups.names) <= MOST_NUMBERS:
        return np.empty(0)
    try:
        return np.array([name.removeprefix(f"{groups.column}=") for name in groups.names], float)
    except ValueError:
        return np.empty(0)


def of_column(name):
    """Which column it is, in a sentence; nothing for one without a name."""
    return f" in {name!r}" if name else ""


def _warn_of_followers(X, groups):
    """Warn of columns of a checked table that have one value in every group, as the sensitive one and copies of it have.

    If most groups have a single row every column is like that, and there is no warning.
    """
    n_obs, n_groups = len(groups.code), len(groups.names)
    if 2 * n_groups > n_obs:
        return
    first = np.zeros(n_groups, int)
    first[groups.code[::-1]] = np.arange(n_obs)[::-1]
    followers = [name for name, values in _named_columns(X) if _follows(values, first, groups.code)]
    if followers:
        which = ", ".join(map(repr, followers))
        what = f"Column {which} of `X` follows from `sensitive_features`: it has one value in every group"
        tell(f"{what}. Remedy: drop it from the features, as it separates the groups.")


def _named_columns(X):
    """(name, or position without names, values (N,)) of a table's columns."""
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return [(name, series.to_numpy()) for name, series in zip(frame.columns, frame.iter_columns())]
    return list(enumerate(np.asarray(X).T))


def _follows(values, first, code):
    """Has a column one value in each group, but not the same one in all? For most columns a few rows suffice to deny it."""
    of_group, few = values[first], slice(BLOCK // 16)
    varies = (of_group[code[few]] == values[few]).all() and (of_group != of_group[0]).any()
    return bool(varies and (of_group[code] == values).all())


def names_of_attributes(sensitive_features) -> list[str] | None:
    """The names of the columns of a data frame or of a Series; None without names."""
    columns = getattr(sensitive_features, "columns", None)
    names = [getattr(sensitive_features, "name", None)] if columns is None else list(columns)
    return [str(name) for name in names] if all(isinstance(name, str) and name for name in names) else None


def check_same_attributes(sensitive_features, known: list[str] | None):
    """Raise a ValueError if columns have other names than those of the fit: levels such as yes and no fit any column."""
    names = names_of_attributes(sensitive_features)
    if None not in (names, known) and names != known:
        rule, got = f"have the columns of the fit, {', '.join(map(repr, known))}", ", ".join(map(repr, names))
        remedy = "Pass those columns in that order, or sensitive_features.to_numpy() if only their names differ."
        raise ValueError(message("sensitive_features", rule, got, remedy))


def known_groups(sensitive_features, n_obs, known: Groups, merged_group_name="other") -> Groups:
    """The groups of new rows by the names of a fit's, or its merged group; an error for a group that the fit had not."""
    attributes = encode_columns(sensitive_features) if known.attributes else [encode_groups(sensitive_features)]
    parts = known.attributes or (known,)
    if len(attributes) != len(parts):
        rule, remedy = f"have the {len(parts)} columns of the fit", "Pass the same sensitive columns."
        raise ValueError(message("sensitive_features", rule, len(attributes), remedy))
    check_same_length("sensitive_features", len(attributes[0].code), "X", n_obs)
    renamed = [_renamed(groups, part.names, merged_group_name) for groups, part in zip(attributes, parts)]
    if len(renamed) > 1:
        return cross_attributes(renamed)
    return renamed[0] if known.crosses else renamed[0]._replace(crosses=())


def _renamed(groups, names, merged):
    own = [name if name in names else merged for name in groups.names]
    if not set(own) <= set(names):
        new = next(name for name in groups.names if name not in names)
        rule = f"hold groups of the fit, {', '.join(map(repr, names))}"
        remedy = "Check the spelling and the order of the columns, or fit with rows of that group."
        raise ValueError(message("sensitive_features", rule, repr(new), remedy))
    present = [name for name in names if name in own]
    code = np.array([present.index(name) for name in own], np.int32)[groups.code]
    first = [own.index(name) for name in present]
    crosses = tuple(part._replace(code=part.code[first]) for part in groups.crosses)
    return Groups(code, tuple(present), crosses=crosses, column=groups.column)


def encode_columns(sensitive_features):
    """`Groups` of every column by itself, or of every attribute of `Groups`; those without attributes are one themselves."""
    if isinstance(sensitive_features, Groups):
        code, parts = sensitive_features.code, sensitive_features.attributes
        return [part._replace(code=part.code[code]) for part in parts] or [sensitive_features]
    argument = "sensitive_features"
    columns = columns_of(sensitive_features, argument)
    encoded = [encode_values(column, argument) for column in columns]
    titles = _titles(columns)
    if len(columns) == 1:
        return [Groups(encoded[0][0], _names(encoded[0][1]), column=titles[0])]
    return _each(encoded, titles)


def _each(encoded, titles):
    """`Groups` of every one of several columns, from its code and levels and its title."""
    named = [name or f"attribute {at + 1}" for at, name in enumerate(titles)]
    return [
        Groups(code, _names([(level,) for level in levels], (title,)), column=name)
        for (code, levels), title, name in zip(encoded, titles, named)
    ]


def _values_of_groups(code, n_groups, attributes):
    """Every attribute's value of the groups that cross them."""
    of_groups = []
    for part in attributes:
        value = np.empty(n_groups, np.int32)
        value[code] = part.code
        of_groups.append(part._replace(code=value))
    return tuple(of_groups)


def _titles(columns):
    """The names of columns, "" for those without one."""
    names = [getattr(column, "name", None) for column in columns]
    return tuple(name if isinstance(name, str) else "" for name in names)


def _names(levels, titles=()):
    """The names of groups; `titles`: of the columns whose values a level holds."""
    names = [_joined(level, str, titles) for level in levels]
    shared = {name for name, count in Counter(names).items() if count > 1}
    names = tuple(_joined(level, repr, titles) if name in shared else name for name, level in zip(names, levels))
    return names if len(set(names)) == len(names) else tuple(_joined(level, repr, titles) for level in levels)


def _joined(level, text, titles):
    """A level as text; values that say nothing by themselves, such as numbers, with the title of their column, if any."""
    if not titles:
        return ", ".join(map(text, level)) if isinstance(level, tuple) else text(level)
    return ", ".join(
        f"{title}={text(value)}" if title and is_bare(value) else text(value) for value, title in zip(level, titles)
    )


def is_bare(value):
    """Does a value, such as a number or yes, say nothing without the name of its column?"""
    return isinstance(value, Real) or (isinstance(value, str) and BARE.fullmatch(value.strip()) is not None)

"""The table to look at first: every cluster with its size, its groups and how fair it is."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._check import check_features, check_same_length, check_same_rows
from bayesfair._names import DataFrame
from bayesfair.fairness.distances import distance_columns, distances_of_all
from bayesfair.fairness.groups import Groups, encode_groups
from bayesfair.fairness.metrics import (
    check_target,
    cluster_balance,
    cluster_gap,
    cluster_kl,
    encode_assignment,
    group_masses,
    masses_of_attributes,
    off_by_attribute,
    rows_off,
)


def report(
    labels: ArrayLike,
    sensitive: ArrayLike | Groups,
    X: ArrayLike | None = None,
    *,
    target: Mapping | ArrayLike | None = None,
    overall: bool = False,
) -> "DataFrame":
    """A table with one row per cluster: its size, its groups, how fair and how tight it is.

    Parameters
    ----------
    labels : array-like of shape (n_obs,) or (n_obs, n_clusters)
        The cluster of every row. Soft assignments give expected sizes and weighted sums.
    sensitive : array-like of shape (n_obs,) or (n_obs, n_attributes), or Groups
        The groups of the rows, see `encode_groups`. Of `Groups` that cross attributes, `balance` and `off_by` are those
        of the attribute where they are worst; the other columns speak of the crossed groups.
    X : array-like of shape (n_obs, n_features), optional
        Features, for the columns of `distance_report`.
    target : dict or array-like of shape (n_groups,), optional
        The wanted proportions, see `kl_error`. By default those of the data.
    overall : bool, default False
        Whether to add the whole clustering as a last row named "overall". There balance is the minimum, gap and off_by
        are the maximum, and the rest are sums.

    Returns
    -------
    pandas.DataFrame
        The columns are `size`; `share` of all rows; `count[g]` and `proportion[g]` for every group g; `balance`; `gap`;
        `kl`; `off_by`, the most rows by which a group's count differs from its share of the cluster (below 1: as
        balanced as whole rows can be). Of several attributes also `off_by[a]` for every attribute by itself and
        `off_by[a x b]` for their combinations: where one is balanced, the other may not be. With `X` also `within_ss`,
        `rms_distance`, `max_distance` and `distance_variance`. The figures of the whole clustering are in `attrs`:
        `balance`, `best_balance` (that of the data, which no clustering can exceed), `gap`, `off_by`, `additive_gap`,
        `kl_error` and, with `X`, distances.

    Raises
    ------
    ValueError
        If lengths or row indexes differ, or labels, groups or target are not valid.

    References
    ----------
    Gap: FMC, eq. (14). KL: VFC, eq. (2).

    Examples
    --------
    >>> import bayesfair as bf
    >>> table = bf.fairness.report([0, 0, 0, 1, 1], ["F", "M", "M", "F", "M"])
    >>> table["balance"].tolist()
    [0.5, 1.0]
    """
    import pandas as pd

    check_same_rows(sensitive=sensitive, labels=labels, X=X)
    groups = encode_groups(sensitive, argument="sensitive")
    masses = group_masses(labels, groups)
    assignment, clusters = encode_assignment(labels)
    counts = masses.astype(np.int64) if assignment.ndim == 1 else masses
    columns = _fairness_columns(masses, counts, groups, check_target(target, groups))
    if X is not None:
        X = check_features(X)
        check_same_length("X", len(X), "labels", len(assignment))
        columns |= {**distance_columns(X, assignment, len(masses)), "size": columns["size"]}
    table = pd.DataFrame(columns, index=pd.Index(clusters, name="cluster"))
    attrs = _overall(table, masses, groups)
    if overall:
        table = pd.concat([table, _overall_row(table, groups.names, attrs)])
    table.attrs.update(attrs)
    return table


def _fairness_columns(masses, counts, groups, target):
    size = masses.sum(axis=1)
    proportion = np.divide(masses, size[:, None], out=np.full_like(masses, np.nan), where=size[:, None] > 0)
    return (
        {"size": counts.sum(axis=1), "share": size / size.sum()}
        | {f"count[{name}]": counts[:, j] for j, name in enumerate(groups.names)}
        | {f"proportion[{name}]": proportion[:, j] for j, name in enumerate(groups.names)}
        | {"balance": cluster_balance(masses, groups), "gap": cluster_gap(masses), "kl": cluster_kl(masses, target)}
        | {"off_by": np.max([rows_off(held).max(axis=-1) for held in masses_of_attributes(masses, groups)], axis=0)}
        | {f"off_by[{name}]": off for name, off in off_by_attribute(masses, groups).items()}
    )


def _overall(table, masses, groups):
    figures = {
        "balance": table["balance"].min(),
        "best_balance": cluster_balance(masses.sum(axis=0, keepdims=True), groups)[0],
        "gap": table["gap"].max(),
        "off_by": table["off_by"].max(),
        "additive_gap": table["gap"].sum(),
        "kl_error": table["kl"].sum(),
    }
    figures |= {name: table[name].max() for name in table if name.startswith("off_by[")}
    distances = distances_of_all(table) if "within_ss" in table else {}
    return {name: float(figure) for name, figure in figures.items()} | distances


def _overall_row(table, names, attrs):
    """The whole clustering as one more row with the same columns."""
    import pandas as pd

    size = table["size"].sum()
    row = {**attrs, "size": size, "share": 1.0, "kl": attrs["kl_error"]}
    row |= {f"count[{name}]": table[f"count[{name}]"].sum() for name in names}
    row |= {f"proportion[{name}]": row[f"count[{name}]"] / size for name in names}
    return pd.DataFrame([row], index=pd.Index(["overall"], name="cluster"), columns=table.columns)

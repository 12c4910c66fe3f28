"""The table people look at first: every cluster with its size, its groups and how fair it is."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._check import check_features, check_same_index, check_same_length
from bayesfair._names import DataFrame
from bayesfair.fairness.distances import OF_ALL, distance_columns, distances_of_all
from bayesfair.fairness.groups import Groups, encode_groups
from bayesfair.fairness.metrics import (
    check_target,
    cluster_balance,
    cluster_gap,
    cluster_kl,
    encode_assignment,
    group_masses,
    masses_of_attributes,
    persons_off,
)


def report(
    labels: ArrayLike,
    sensitive: ArrayLike | Groups,
    X: ArrayLike | None = None,
    *,
    target: Mapping | ArrayLike | None = None,
    overall: bool = False,
) -> "DataFrame":
    """One row per cluster as a pandas DataFrame: how large it is, whom it holds, how fair and how tight it is.

    Columns: `size`; `share` of all observations; `count[g]` and `proportion[g]` for every group g; `balance`; `gap`,
    its term under the maximum of FMC eq. (14); `kl`, its term of VFC eq. (2) against `target` (default: the
    proportions of the data); `off_by`, the most persons by which a group's count differs from its share of the cluster
    (below 1: as balanced as whole people can be). With `X` (N, d) also `within_ss`, the sum of squared distances to the
    cluster's mean, and the other columns of `distance_report`. Soft assignments (N, K) give expected sizes
    and weighted sums. Of `Groups` that cross `attributes`, `balance` and `off_by` are those of the attribute where they are
    worst, and the rest speaks of the crossings.

    `attrs` holds the figures of the whole clustering: `balance`, `best_balance` (that of the data, which no clustering
    into non-empty clusters can exceed), `gap`, `off_by`, `additive_gap`, `kl_error` and, with `X`, distances. `overall=True`
    also shows them as a last row named "overall", where balance is the minimum, gap and off_by the maximum, the rest sums.
    """
    import pandas as pd

    check_same_index("labels", labels, "sensitive", sensitive)
    check_same_index("X", X, "sensitive", sensitive)
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
        | {"off_by": np.max([persons_off(held).max(axis=-1) for held in masses_of_attributes(masses, groups)], axis=0)}
    )


def _overall(table, masses, groups):
    sums = {"additive_gap": "gap", "kl_error": "kl"}
    distances = distances_of_all(table) if "within_ss" in table else {}
    return (
        {
            "balance": float(table["balance"].min()),
            "best_balance": float(cluster_balance(masses.sum(axis=0, keepdims=True), groups)[0]),
            "gap": float(table["gap"].max()),
            "off_by": float(table["off_by"].max()),
        }
        | {name: float(table[column].sum()) for name, column in sums.items()}
        | distances
    )


def _overall_row(table, names, attrs):
    """The whole clustering as one more row with the same columns."""
    import pandas as pd

    size = table["size"].sum()
    row = {
        "size": size,
        "share": 1.0,
        "balance": attrs["balance"],
        "gap": attrs["gap"],
        "kl": attrs["kl_error"],
        "off_by": attrs["off_by"],
    }
    row |= {f"count[{name}]": table[f"count[{name}]"].sum() for name in names}
    row |= {f"proportion[{name}]": row[f"count[{name}]"] / size for name in names}
    row |= {name: attrs[name] for name in OF_ALL if name in attrs}
    return pd.DataFrame([row], index=pd.Index(["overall"], name="cluster"), columns=table.columns)

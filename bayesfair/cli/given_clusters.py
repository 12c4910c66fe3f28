"""Given clusters in a table: their column, beside those of groups and features."""

import numpy as np

from bayesfair._check import message
from bayesfair.cli.columns import Wanted, category_columns, choose_columns
from bayesfair.cli.tables import listed, typed


def choose_clusters(table, wanted: Wanted, clusters):
    """(the column `clusters` (obs,) under the names of its rows, `ChosenColumns` of the same rows) of a table.

    No features are taken where none are asked for. A row without a cluster is dropped where such rows are to be, as any other
    that lacks a value.

    Raises
    ------
    ValueError: as `choose_columns`; no such column, or one that is named for something else too, rows without a cluster.
    """
    _check_name(table, wanted, clusters)
    _check_filled(table, wanted, clusters)
    columns = choose_columns(
        table, wanted._replace(sensitive=[*wanted.sensitive, clusters], features=wanted.features or [])
    )
    return columns.sensitive[clusters], columns._replace(sensitive=columns.sensitive[wanted.sensitive])


def _check_name(table, wanted, clusters):
    if clusters not in table:
        remedy = f"The columns of the table are: {listed(map(typed, table), 40)}."
        raise ValueError(message("--clusters", "name a column of the table", repr(clusters), remedy))
    other = next((option for option, names in wanted.named.items() if clusters in names), None)
    if other is not None:
        remedy = "Leave it out of one of the two."
        raise ValueError(
            message("--clusters", "name a column of its own", f"{clusters!r}, which {other} names too", remedy)
        )


def _check_filled(table, wanted, clusters):
    _, absent = category_columns(table[[clusters]], {"", *wanted.na})
    missing = int(np.asarray(absent).sum())
    if missing and (wanted.missing != "drop" or wanted.missing_group is not None):
        remedy = "Fill those cells, or drop those rows: --missing drop without --missing-group."
        raise ValueError(
            message("--clusters", "have a value in every row", f"{missing} missing in {clusters!r}", remedy)
        )

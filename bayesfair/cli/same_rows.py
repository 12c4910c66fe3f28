"""The rows of a run in a table: by place in the file of the fit alone, else by their names, or by what they hold."""

from hashlib import file_digest

import numpy as np

from bayesfair._check import counts_rows, message
from bayesfair.cli.columns import column_of_names, row_names
from bayesfair.cli.new_rows import columns_of_fit, numbers_of
from bayesfair.cli.tables import typed
from bayesfair.fairness.groups import known_groups
from bayesfair.posterior.schema import groups_of, names_of_rows, observed_features
from bayesfair.posterior.settings import of_attribute
from bayesfair.posterior.tree import names_for_file

DIGEST, NAMES = "SHA-256 of the file", "Row names"  # of the provenance of a run
NUMBERED = "none: rows are numbered"
ANOTHER_FILE = "Pass the file of the fit, or fit with --index COL and keep that column in the table."


def sha256_of(path):
    """The checksum of a file; words for anything else, such as a pipe, which can be read only once."""
    if not path.is_file():
        return "not a file"
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def check_index(tree, table, index):
    """Raise a ValueError if `index` is not the column of row names of the fit, which the table has."""
    told = _provenance_of(tree).get(NAMES)
    if index is not None and told != typed(index) and (told == NUMBERED or told in map(typed, table)):
        got, remedy = f"{index!r}, but the fit had {told}", "Leave it out."
        raise ValueError(message("--index", "be that of the fit", got, remedy))


def _provenance_of(tree):
    return of_attribute(tree.attrs.get("provenance", "{}"))


def places_in_run(tree, table, arguments, load):
    """The place in the run of every row of a table (rows,), -1 for others. `load()`: the estimator of the run."""
    about = _provenance_of(tree)
    names = row_names(table, _column_of_names(tree, table, arguments.index, about))
    is_file_of_fit = arguments.table.is_file() and about.get(DIGEST) == sha256_of(arguments.table)
    if is_file_of_fit or (names_of_rows(tree) is not None and _are_names(names, arguments.index, about)):
        return places_by_name(names, tree["posterior"]["obs"].values)
    return _places_by_content(tree, table, arguments, load())


def _column_of_names(tree, table, index, about):
    """The column of row names: that of the fit, or else `index`; None where the fit numbered its rows."""
    told = about.get(NAMES)
    if told == NUMBERED:
        return None
    known = [name for name in table if typed(name) == told]
    features = tree["observed_data"]["X"]["feature"].values.tolist()
    return known[0] if known else column_of_names(table, index, features)[0]


def _are_names(names, index, about):
    """Do rows have names, rather than numbers in the order of their file?"""
    if about.get(NAMES) == NUMBERED:
        return False
    numbers = names.to_numpy()
    return index is not None or not any(counts_rows(numbers - start) for start in (0, 1) if numbers.dtype.kind in "iu")


def places_by_name(names, known):
    """The place of every one of the `names` of a table's rows among the `known` ones of results (obs,), -1 for none."""
    import pandas as pd

    known = pd.Index(known)
    if not names.is_unique:
        got, remedy = f"{names[names.duplicated()][0]!r} twice", "Name a column of row names: --index COL."
        raise ValueError(message("--table", "name each row once", got, remedy))
    if not known.isin(names).all():  # whole numbers are read as numbers only if all names are
        names, known = names.map(str), known.map(str)
    return known.get_indexer(names)


def _places_by_content(tree, table, arguments, estimator):
    """Places by the features and the groups, which must tell the rows apart."""
    import pandas as pd

    sensitive = [name for name in estimator._names.get("sensitive") or [] if name in table]
    given = {"index": None, "sensitive": sensitive, "clusters": None, "weights": None, "missing": "drop"}
    columns = columns_of_fit(table, arguments, estimator, **given)
    known, X = groups_of(tree), observed_features(tree)
    parts = [(X, numbers_of(estimator, columns.features).astype(X.dtype))]
    if sensitive and known is not None and len(known.names) > 1:
        merged = estimator.get_params().get("merged_group_name")
        groups = known_groups(columns.sensitive, len(columns.features), known, merged)
        parts.append((known.code, np.array([known.names.index(name) for name in groups.names])[groups.code]))
    of_run, of_table = (pd.Index(_contents(half)) for half in zip(*parts))
    alike = of_table[of_table.isin(of_run)]
    if not (of_run.is_unique and alike.is_unique):
        n_alike = max(int(one.duplicated(keep=False).sum()) for one in (of_run, alike))
        got = f"another file than that of the fit, without names of rows, and with {n_alike} rows that others equal"
        raise ValueError(message("--table", "have rows that can be told apart", got, ANOTHER_FILE))
    names = row_names(table, column_of_names(table, None, {*columns.features, *sensitive})[0])
    place = np.full(len(table), -1)
    place[names.get_indexer(columns.features.index)] = of_run.get_indexer(of_table)
    return place


def _contents(parts):
    """What every row holds, as bytes; -0.0 is 0.0."""
    held = np.column_stack([np.asarray(part, np.float64) for part in parts]) + 0.0
    return [row.tobytes() for row in held]


def under_names_of(tree, place, names):
    """The rows of a tree that a table has, under the table's `names` (rows,); `place`: of `places_in_run`."""
    rows = np.flatnonzero(place >= 0)
    if not len(rows):
        raise ValueError(message("--run", "be of rows of the table", "none of them", ANOTHER_FILE))
    rows = rows[np.argsort(place[rows])]
    if len(rows) < tree["posterior"].sizes["obs"]:
        tree = tree.isel(obs=place[rows], missing_dims="ignore")
    named = names_for_file(names[rows])
    return tree.map_over_datasets(lambda one: one.assign_coords(obs=named) if "obs" in one.dims else one)

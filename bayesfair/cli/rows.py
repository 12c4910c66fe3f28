"""The rows of a saved run in a table: found by name or by content, and new rows placed as in the fit."""

from hashlib import file_digest

import numpy as np

import bayesfair as bf
from bayesfair._check import counts_rows, listed, message
from bayesfair.cli.columns import ChosenColumns, Wanted, choose_columns, column_of_names, row_names
from bayesfair.cli.entry import WrongUse
from bayesfair.cli.tables import separator_hint, typed
from bayesfair.fairness.groups import known_groups
from bayesfair.posterior.schema import columns_of, groups_of, names_of_rows, observed_features
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
    """Raise a WrongUse if `index` is not the column of row names of the fit, which the table has."""
    told = _provenance_of(tree).get(NAMES)
    if index is not None and told != typed(index) and (told == NUMBERED or told in map(typed, table)):
        raise WrongUse(message("--index", "be that of the fit", f"{index!r}, but the fit had {told}", "Leave it out."))


def _provenance_of(tree):
    return of_attribute(tree.attrs.get("provenance", "{}"))


def places_in_run(tree, table, arguments, load):
    """The place in the run of every row of a table (rows,), -1 for others. `load()`: the estimator of the run."""
    about = _provenance_of(tree)
    if about.get(NAMES) == NUMBERED:
        column = None
    else:  # that of the fit, if the table has it
        features = tree["observed_data"]["X"]["feature"].values.tolist()
        known = [name for name in table if typed(name) == about.get(NAMES)]
        column = known[0] if known else column_of_names(table, arguments.index, features)[0]
    names = row_names(table, column)
    numbers = names.to_numpy()
    count = numbers.dtype.kind in "iu" and any(counts_rows(numbers - start) for start in (0, 1))
    are_names = about.get(NAMES) != NUMBERED and (arguments.index is not None or not count)
    is_file_of_fit = arguments.table.is_file() and about.get(DIGEST) == sha256_of(arguments.table)
    if is_file_of_fit or (are_names and names_of_rows(tree) is not None):
        return places_by_name(names, tree["posterior"]["obs"].values)
    return _places_by_content(tree, table, arguments, load())


def places_by_name(names, known):
    """The place of every one of the `names` of a table's rows among the `known` ones of results (obs,), -1 for none."""
    import pandas as pd

    known = pd.Index(known)
    if not names.is_unique:
        got, remedy = f"{names[names.duplicated()][0]!r} twice", "Name a column of row names: --index COL."
        raise WrongUse(message("--table", "name each row once", got, remedy))
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
    parts = [(X, _as_observed(estimator, columns.features).astype(X.dtype))]
    if sensitive and known is not None and len(known.names) > 1:
        merged = estimator.get_params().get("merged_group_name")
        groups = known_groups(columns.sensitive, len(columns.features), known, merged)
        parts.append((known.code, np.array([known.names.index(name) for name in groups.names])[groups.code]))
    # what every row holds, as bytes; -0.0 is 0.0
    halves = (np.column_stack([np.asarray(part, np.float64) for part in half]) + 0.0 for half in zip(*parts))
    of_run, of_table = (pd.Index([row.tobytes() for row in half]) for half in halves)
    alike = of_table[of_table.isin(of_run)]
    if not (of_run.is_unique and alike.is_unique):
        n_alike = max(int(one.duplicated(keep=False).sum()) for one in (of_run, alike))
        got = f"{n_alike} rows with equal features and groups, in another file than that of the fit"
        raise WrongUse(message("--table", "have rows that can be told apart", got, ANOTHER_FILE))
    names = row_names(table, column_of_names(table, None, {*columns.features, *sensitive})[0])
    place = np.full(len(table), -1)
    place[names.get_indexer(columns.features.index)] = of_run.get_indexer(of_table)
    return place


def _as_observed(estimator, X):
    """The rows (obs, columns) of a table with the columns of the fit, as the posterior holds its own."""
    if not isinstance(estimator, bf.BayesianFairMixture):
        return estimator._read_new(X)
    from bayesfair._tables import read_columns  # loads scikit-learn

    columns = read_columns(estimator, X, estimator.categorical_features, reset=False)
    return np.hstack([columns.continuous, estimator._run.encoder.codes(columns.categorical)])


def under_names_of(tree, place, names):
    """The rows of a tree that a table has, under the table's `names` (rows,); `place`: of `places_in_run`."""
    rows = np.flatnonzero(place >= 0)
    if not len(rows):
        raise WrongUse(message("--run", "hold rows of the table", "none of them", ANOTHER_FILE))
    rows = rows[np.argsort(place[rows])]
    if len(rows) < tree["posterior"].sizes["obs"]:
        tree = tree.isel(obs=place[rows], missing_dims="ignore")
    named = names_for_file(names[rows])
    return tree.map_over_datasets(lambda one: one.assign_coords(obs=named) if "obs" in one.dims else one)


def beside(table, place, rows):
    """The user's table beside `rows` (of `memberships`), by the `place` of each of its rows in them; -1: empty cells."""
    missing = np.setdiff1d(np.arange(len(rows)), place)
    if len(missing):
        name = rows.index[missing[:1]].tolist()[0]
        got, remedy = f"one without {name!r}", "Give the --index, --separator and --encoding of the fit."
        raise WrongUse(message("--table", "have the rows of the fit", got, remedy))
    rows = rows.drop(columns="group", errors="ignore").astype({"cluster": "Int64"})
    rows = rows.rename(columns={name: f"{name} (bayesfair)" for name in rows if name in table})
    return table.join(rows.reset_index(drop=True).reindex(place).set_axis(table.index))


def columns_of_fit(table, arguments, estimator, **given) -> ChosenColumns:
    """The columns of a table that the fit had, in its order and units; none is sensitive if each row is placed by itself.

    `given`: fields of `Wanted` that replace what was typed.
    """
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        remedy = "Use predict_proba or reassign in Python, or fit a table whose columns have names."
        raise WrongUse(message("RUN.nc", "come from a table with names of columns", "a fit of an array", remedy))
    lacking = [typed(name) for name in names if name not in table]
    if lacking:
        remedy = f"The table has: {listed(map(typed, table), 40)}.{separator_hint(table)}"
        raise WrongUse(message("TABLE.csv", "have the columns of the fit", f"one without {listed(lacking)}", remedy))
    levels = _levels(estimator)
    chosen = {"features": [name for name in names if name not in levels], "categorical_features": list(levels)}
    columns = choose_columns(table, Wanted.typed(arguments, **chosen, **given))
    scaled = {one.name: one for one in columns_of(estimator.posterior_) if one.is_scaled}
    X = columns.features[list(names)]
    X = X.assign(**{name: (X[name] - one.middle) / one.unit for name, one in scaled.items()})
    known = {name: X[name].map(lambda cell, one=one: one.get(str(cell), cell)) for name, one in levels.items()}
    return columns._replace(features=X.assign(**known))


def _levels(estimator):
    """{column of categories: {a level as text: the level}}: in a few rows all levels may look like numbers."""
    if isinstance(estimator, bf.BayesianFairMixture):
        names, levels = estimator._names["categorical"], estimator._names["levels"]
    else:
        mixed = estimator._mixed
        names, levels = [estimator.feature_names_in_[at] for at in mixed.where], mixed.levels
    return {name: {str(level): level for level in part} for name, part in zip(names, levels)}


def assigned(estimator, columns: ChosenColumns):
    """A DataFrame with a row for each new one: its cluster, how probable that is by itself, and the runner-up."""
    import pandas as pd

    soft = estimator.predict_proba(columns.features)
    labels = soft.argmax(1)
    if len(columns.sensitive.columns):
        if not hasattr(estimator, "reassign"):
            remedy = "Leave it out: this method places each row by itself."
            raise WrongUse(message("--sensitive", "come with a run of --method gibbs", "another one", remedy))
        labels = estimator.reassign(columns.features, sensitive_features=columns.sensitive)
    rows = pd.DataFrame({"cluster": labels}, index=columns.features.index)
    if soft.shape[1] == 1:
        return rows
    at, others = np.arange(len(soft)), soft.copy()
    others[at, labels] = -1.0
    other = others.argmax(axis=1)
    return rows.assign(probability=soft[at, labels], runner_up=other, runner_up_probability=soft[at, other])

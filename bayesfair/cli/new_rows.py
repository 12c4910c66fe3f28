"""New rows for a saved run: the columns of its fit, read and scaled as in the fit, and the rows' clusters."""

import numpy as np

import bayesfair as bf
from bayesfair._check import listed, message
from bayesfair.cli.columns import ChosenColumns, Wanted, choose_columns
from bayesfair.cli.results import probabilities
from bayesfair.cli.tables import separator_hint, typed
from bayesfair.posterior.schema import columns_of


def columns_of_fit(table, arguments, estimator, **given) -> ChosenColumns:
    """The columns of a table that the fit had, in its order and units; none is sensitive if each row is placed by itself.

    `given`: fields of `Wanted` that replace what was typed.
    """
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        remedy = "Use predict_proba or reassign in Python, or fit a table whose columns have names."
        raise ValueError(message("RUN.nc", "have names for its features", "a fit of an array", remedy))
    lacking = [typed(name) for name in names if name not in table]
    if lacking:
        remedy = f"The table has: {listed(map(typed, table), 40)}.{separator_hint(table)}"
        raise ValueError(message("TABLE.csv", "have the columns of the fit", f"one without {listed(lacking)}", remedy))
    levels = _levels(estimator)
    chosen = {"features": [name for name in names if name not in levels], "categorical_features": list(levels)}
    columns = choose_columns(table, Wanted.typed(arguments, **chosen, **given))
    scaled = {one.name: one for one in columns_of(estimator.posterior_) if (one.middle, one.unit) != (0.0, 1.0)}
    X = columns.features[list(names)]
    X = X.assign(**{name: (X[name] - one.middle) / one.unit for name, one in scaled.items()})
    known = {name: X[name].map(lambda cell, one=one: one.get(str(cell), cell)) for name, one in levels.items()}
    return columns._replace(features=X.assign(**known))


def numbers_of(estimator, X):
    """The rows (obs, columns) of a table with the columns of the fit, as the posterior holds its own."""
    if not isinstance(estimator, bf.BayesianFairMixture):
        return estimator._read_new(X)
    from bayesfair.engines.tables import read_columns  # loads scikit-learn

    columns = read_columns(estimator, X, estimator.categorical_features, reset=False)
    return np.hstack([columns.continuous, estimator._run.encoder.codes(columns.categorical)])


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
            raise ValueError(message("--sensitive", "come with a run of --method gibbs", "another one", remedy))
        labels = estimator.reassign(columns.features, sensitive_features=columns.sensitive)
    more = probabilities(soft, labels) if soft.shape[1] > 1 else {}
    return pd.DataFrame({"cluster": labels, **more}, index=columns.features.index)

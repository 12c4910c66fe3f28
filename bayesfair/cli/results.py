"""Results as tables: clusters, memberships beside the columns of your own table, draws."""

import numpy as np

from bayesfair._check import message
from bayesfair.posterior.relabelling import numbered_alike
from bayesfair.posterior.schema import flat_labels


def clusters_of(estimator, X, groups):
    """A DataFrame with a row for each row of X: its name `obs`, its cluster, its probabilities if there are any, its group."""
    import pandas as pd

    columns = {"obs": X.index, "cluster": estimator.labels_}
    if hasattr(estimator, "predict_proba") and estimator.n_parts > 1:
        columns |= probabilities(estimator.predict_proba(X), estimator.labels_)
    return pd.DataFrame({**columns, "group": np.array(groups.names, dtype=object)[groups.code]})


def probabilities(soft, labels):
    """Columns of the probabilities `soft` (obs, clusters) beside labels (obs,)."""
    rows, others = np.arange(len(labels)), soft.copy()
    others[rows, labels] = -1.0
    other = others.argmax(axis=1)
    return {"probability": soft[rows, labels], "runner_up": other, "runner_up_probability": soft[rows, other]}


def beside(table, place, rows):
    """The user's table beside `rows` (of `memberships`), by the `place` of each of its rows in them; -1: empty cells."""
    missing = np.setdiff1d(np.arange(len(rows)), place)
    if len(missing):
        name = rows.index[missing[:1]].tolist()[0]
        got, remedy = f"one without {name!r}", "Give the --index, --separator and --encoding of the fit."
        raise ValueError(message("--table", "have the rows of the fit", got, remedy))
    rows = rows.drop(columns="group", errors="ignore").astype({"cluster": "Int64"})
    rows = rows.rename(columns={name: f"{name} (bayesfair)" for name in rows if name in table})
    return table.join(rows.reset_index(drop=True).reindex(place).set_axis(table.index))


def draws_of(tree, what):
    """A DataFrame with a row for each draw, `chain` and `draw` first: its "scalars", or its "labels", a column per row."""
    import pandas as pd

    posterior = tree["posterior"]
    chain, draw = np.meshgrid(posterior["chain"].values, posterior["draw"].values, indexing="ij")
    places = pd.DataFrame({"chain": chain.ravel(), "draw": draw.ravel()})
    if what == "labels":
        labels = np.concatenate(list(flat_labels(numbered_alike(tree)).blocks()))
        names = pd.Index(posterior["obs"].values.astype(str))
        if not names.is_unique:
            got, remedy = f"{names[names.duplicated()][0]!r} twice", "Write a .nc, or fit without --index."
            raise ValueError(message("--what labels", "have a column for each row, by its own name", got, remedy))
        return places.join(pd.DataFrame(labels, columns=names))
    scalars = {**tree["posterior"].data_vars, **tree["sample_stats"].data_vars}
    flat = {name: array.values.ravel() for name, array in scalars.items() if array.dims == ("chain", "draw")}
    return places.join(pd.DataFrame(flat))

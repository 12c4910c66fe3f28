"""The units of features before a scaler, which a tree may keep beside them."""

import json

import numpy as np

from bayesfair._check import message
from bayesfair._names import DataTree
from bayesfair.posterior.view import View

REMEDY = "Pass the table in its own units instead: bayesfair.plots.profile(tree, X)."


def with_scaler(tree: "DataTree", scaler) -> "DataTree":
    """The tree, which knows from then on how a scaler had changed its features: tables tell them in their own units.

    Draws, distances and pictures stay as they are. Features without names get those of the scaler.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior of scaled features.
    scaler : fitted transformer of scikit-learn
        What made them: a `StandardScaler`, `MinMaxScaler`, `RobustScaler` or the steps `pipeline[:-1]`. It must move and
        scale every column by itself and have `inverse_transform`.

    Returns
    -------
    xarray.DataTree
        A new tree; the draws are shared with the old one.

    Raises
    ------
    ValueError
        If the scaler does more than move and scale columns, or if its columns are not those of the tree.

    Examples
    --------
    >>> import bayesfair as bf
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> est = bf.GibbsFairClustering(2, num_chains=2, num_warmup=200, num_draws=400, random_state=0, progress_bar=False)
    >>> data, pipe = bf.datasets.make_well_specified(), make_pipeline(StandardScaler(), est)
    >>> fitted = pipe.fit(data.features, gibbsfairclustering__sensitive_features=data.sensitive)
    >>> tree = bf.posterior.with_scaler(pipe[-1].posterior_, pipe[:-1])
    >>> means = bf.posterior.profile(tree)["everyone"].loc["x1"].iloc[0], data.features["x1"].mean()
    >>> [round(float(mean), 3) for mean in means]
    [5.858, 5.858]
    """
    tree = View.of(tree).tree
    middle, unit = _moved_and_scaled(scaler)
    features, own = tree["observed_data"]["feature"].values, getattr(scaler, "feature_names_in_", None)
    names = features.astype(str).tolist()
    known = names if own is None else [str(name) for name in own]
    new = tree.copy()
    if len(known) == len(names) == len(middle) and features.dtype.kind in "iu":
        new, names = _renamed(new, known), known
    if len(known) != len(middle) or not set(known) <= set(names):
        got = f"{len(middle)}: {', '.join(known[:6])}" if own is not None else f"{len(middle)} without names"
        rule = f"have columns of the tree, {', '.join(names[:6])}"
        raise ValueError(message("scaler", rule, got, "Pass the scaler of the fit, or pipeline[:-1]."))
    settings = json.loads(tree.attrs.get("settings", "{}"))
    scaling = {"mean": dict(zip(known, middle.tolist())), "deviation": dict(zip(known, unit.tolist()))}
    settings["names"] = {**settings.get("names", {}), "scaling": scaling}
    new.attrs = {**tree.attrs, "settings": json.dumps(settings)}
    return new


def _moved_and_scaled(scaler):
    """(middle, unit) with X = middle + unit Z; raises a ValueError for another kind of scaler."""
    if not hasattr(scaler, "inverse_transform") or not hasattr(scaler, "n_features_in_"):
        rule = "be fitted and have inverse_transform"
        raise ValueError(message("scaler", rule, type(scaler).__name__, REMEDY))
    dim = scaler.n_features_in_
    probe = np.vstack([np.zeros(dim), np.ones(dim), 1 + np.arange(dim) % 7, -np.arange(dim) / dim])
    try:
        told = np.asarray(scaler.inverse_transform(probe), np.float64)
    except ValueError:  # it returns another number of columns
        told = np.zeros((0, 0))
    if told.shape == probe.shape:
        middle, unit = told[0], told[1] - told[0]
        if np.allclose(told, middle + unit * probe, rtol=1e-9, atol=1e-9 * np.abs(unit).max()):
            return middle, unit
    raise ValueError(message("scaler", "move and scale every column by itself", type(scaler).__name__, REMEDY))


def _renamed(tree, names):
    """A copy of the tree with these names of features."""
    for group in {"observed_data", "posterior"} & set(tree.children):
        if "feature" in tree[group].coords:
            tree[group] = type(tree)(tree[group].to_dataset().assign_coords(feature=names))
    return tree

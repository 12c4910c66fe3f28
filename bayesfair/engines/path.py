"""Cost against fairness along a path of one parameter: the points of a Pareto front."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from bayesfair._check import check_columns, check_same_rows, random_state_of
from bayesfair.fairness.distances import distance_report
from bayesfair.fairness.groups import encode_groups
from bayesfair.fairness.metrics import balance, gap, kl_error

DISTANCES = "max_distance", "distance_variance"


def fairness_path(
    estimator: BaseEstimator, X: ArrayLike, sensitive_features: ArrayLike, parameter: str, values: Iterable
) -> pd.DataFrame:
    """Fit an estimator at several values of one parameter, to trade cost against fairness.

    All fits start from the same random numbers, so that only the values differ. What is compiled for the first value
    serves the others. `bayesfair.plots.pareto` draws the table; concatenate several to compare engines.

    Parameters
    ----------
    estimator : estimator
        A clone of it is fitted at each value.
    X : array-like of shape (n_obs, n_features)
        Features, numbers only.
    sensitive_features : array-like of shape (n_obs,) or (n_obs, n_attributes)
        The groups of the rows.
    parameter : str
        The parameter that varies.
    values : iterable
        Its values.

    Returns
    -------
    pandas.DataFrame
        One row for each value. The columns are method, parameter, value, n_clusters (used), cost (sum of squared
        distances to the means of the clusters), max_distance, distance_variance, balance, gap and kl_error.

    Raises
    ------
    TypeError
        If X holds other than numbers.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_vfc_synthetic()
    >>> engine = bf.VariationalFairClustering(2, random_state=0)
    >>> path = bf.engines.fairness_path(engine, data.features, data.sensitive, "fairness_weight", [3.0, 30.0])
    >>> bool(path["gap"].is_monotonic_decreasing)
    True
    """
    check_same_rows(X=X, sensitive_features=sensitive_features)
    groups = encode_groups(sensitive_features)
    check_columns(X)
    rows = np.asarray(X, dtype=np.float64)
    results, seed = [], int(random_state_of(estimator.random_state).randint(2**31 - 1))
    estimator = clone(estimator).set_params(random_state=seed)
    about = {"method": type(estimator).__name__, "parameter": parameter}
    for value in values:
        labels = clone(estimator).set_params(**{parameter: value}).fit(X, sensitive_features=sensitive_features).labels_
        distances = distance_report(rows, labels).attrs
        costs = {"cost": distances["within_ss"], **{name: distances[name] for name in DISTANCES}}
        fairness = {of.__name__: of(labels, groups) for of in (balance, gap, kl_error)}
        results.append({**about, "value": value, "n_clusters": len(np.unique(labels)), **costs, **fairness})
    return pd.DataFrame(results)

"""Rows for processes: dealt so that each has the groups' shares; and results put together in the original order."""

import jax
import numpy as np
from sklearn.utils import _safe_indexing

from bayesfair._check import check_same_length, check_same_rows, message, random_state_of
from bayesfair.distributed.messages import everybody
from bayesfair.fairness.groups import encode_groups


def deal(X, sensitive_features=None, *, random_state=0):
    """The part of a table that this process fits, and the numbers of its rows.

    Every process reads the whole table. Rows are dealt at random within groups: each process has every group's share of its
    rows to within one, and as many rows as the others to within one.

    Parameters
    ----------
    X : array-like of shape (n_obs, n_features)
        Features.
    sensitive_features : array-like of shape (n_obs,) or (n_obs, n_attributes), optional
        The groups of the rows.
    random_state : int, default 0
        Seed, the same in all processes.

    Returns
    -------
    X : array-like of shape (n_own, n_features)
        Rows of this process.
    sensitive_features : array-like or None
        Their groups.
    rows : numpy.ndarray of int of shape (n_own,)
        Their numbers in the table.

    Raises
    ------
    ValueError
        If there are fewer rows than processes, the groups have another length or row index than the table, or several
        processes have no seed.

    Notes
    -----
    Parts in the order of the processes are the same order of all rows, however many processes there are. So are then the
    results of the engines, apart from rounding.

    Examples
    --------
    >>> import bayesfair as bf
    >>> X, s, rows = bf.distributed.deal([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
    >>> sorted(rows.tolist())
    [0, 1, 2, 3]
    """
    check_same_rows(X=X, sensitive_features=sensitive_features)
    n_obs, n_processes = len(X), jax.process_count()
    if n_obs < n_processes:
        remedy = "Start fewer processes."
        raise ValueError(message("X", f"have at least one row per process, {n_processes}", n_obs, remedy))
    code = np.zeros(n_obs, int) if sensitive_features is None else encode_groups(sensitive_features).code
    check_same_length("sensitive_features", len(code), "X", n_obs)
    if n_processes > 1 and (random_state is None or random_state is np.random):
        rule, remedy = "be the same in all processes", "Pass an int to each of them."
        raise ValueError(message("random_state", rule, repr(random_state), remedy))
    rng = random_state_of(random_state)
    place = np.empty(n_obs)  # position in an order that spreads every group evenly
    for group in np.unique(code):
        members = np.flatnonzero(code == group)
        place[rng.permutation(members)] = (np.arange(len(members)) + 0.5) / len(members)
    rows = np.array_split(np.argsort(place, kind="stable"), n_processes)[jax.process_index()]
    groups = None if sensitive_features is None else _safe_indexing(sensitive_features, rows)
    return _safe_indexing(X, rows), groups, rows


def gather(values, rows=None):
    """What every process has of its rows, such as labels, as one array of all rows in every process.

    Parameters
    ----------
    values : array-like of shape (n_own, ...)
        Values of the rows of this process.
    rows : array-like of int of shape (n_own,), optional
        Their numbers, which `deal` returned. The result is then in the order of the table. By default in the order of the
        processes.

    Returns
    -------
    numpy.ndarray of shape (n_obs, ...)

    Examples
    --------
    >>> import numpy as np, bayesfair as bf
    >>> bf.distributed.gather(np.array([5, 6])).tolist()
    [5, 6]
    """
    whole = np.concatenate(everybody(np.asarray(values)))
    return whole if rows is None else whole[np.argsort(np.concatenate(everybody(rows)))]

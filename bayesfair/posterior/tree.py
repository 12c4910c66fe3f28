"""The posterior as an xarray.DataTree by ArviZ's conventions, made from the draws of any sampler."""

import json

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csc_array

from bayesfair import __version__
from bayesfair._check import check_features, check_integer, check_same_length, message
from bayesfair.fairness import cluster_balance, encode_groups
from bayesfair.posterior.contingency import company, tables_with
from bayesfair.posterior.relabelling import align, apply_permutations, move_clusters, order_by_size
from bayesfair.posterior.saved import plain

__all__ = ["build_tree"]

_BLOCK_LABELS = 2_000_000  # whose centres are taken at a time: 32 MB
_POSTERIOR = ("lambda_f", "lambda_c")
_SAMPLE_STATS = (
    *("lp", "fairlet_loss", "clustering_loss", "swap_rate", "reallocation_rate"),
    *("gap", "diverging", "num_steps"),
)


def build_tree(
    draws, X, groups, *, settings, feature_names=None, obs_names=None, n_clusters, parameters=None, point="dahl"
):
    """An xarray.DataTree of `draws`, relabelled to Dahl's partition of them.

    posterior: `labels` (chain, draw, obs) in the smallest integer type, `lambda_f`, `lambda_c` (chain, draw),
    `centers` (chain, draw, cluster, feature), the mean of the observations with that label (NaN for an empty cluster).
    sample_stats: `lp`, `fairlet_loss`, `clustering_loss`, `balance`, `swap_rate`, `reallocation_rate` (chain, draw).
    observed_data: `X` (obs, feature). constant_data: `group` (obs) and `reference_labels` (obs), the partition that
    gives clusters their numbers, largest first. Attributes of the root: `settings` (JSON, by `saved.plain`), `n_clusters`,
    versions.

    `parameters`: further posterior variables, {name: (dimensions after chain and draw, array)}; those whose first dimension
    is "cluster" follow their cluster. `point`: the partition called `reference_labels` is Dahl's draw, or, with "mode",
    every observation's most frequent label after relabelling, for labels that are independent given the parameters.
    Where draws have `log_likelihood` (chain, draw, obs) it gets its group, for `az.loo`.

    `draws` has those names as attributes; all but `labels` may be None. `groups` is anything that `encode_groups`
    takes, or None.
    """
    import arviz_base

    X, n_clusters = check_features(X), check_integer("n_clusters", n_clusters)
    labels = _check_labels(draws.labels, n_clusters)
    check_same_length("draws.labels", labels.shape[2], "X", len(X))
    flat = labels.reshape(-1, len(X))
    reference = _reference(flat, n_clusters)
    permutations = align(flat, reference, n_clusters)
    flat = apply_permutations(permutations, flat)
    reference = reference if point == "dahl" else _most_frequent(flat, n_clusters)
    shape = labels.shape[:2]
    parameters = _moved(parameters or {}, permutations)
    constant = {"reference_labels": reference}
    stats = _present(draws, _SAMPLE_STATS)
    if groups is not None:
        groups = encode_groups(groups, argument="groups")
        check_same_length("groups", len(groups.code), "X", len(X))
        constant["group"] = groups.code
        stats["balance"] = _balance(flat, groups, n_clusters).reshape(shape)
    tree = arviz_base.from_dict(
        {
            "posterior": {
                "labels": flat.reshape(labels.shape),
                "centers": _centers(flat, X, n_clusters).reshape(*shape, n_clusters, -1),
                **_present(draws, _POSTERIOR),
                **{name: array for name, (_, array) in parameters.items()},
            },
            "sample_stats": stats,
            "observed_data": {"X": X},
            "constant_data": constant,
            **_log_likelihood(draws),
        },
        dims={
            **{name: list(dims) for name, (dims, _) in parameters.items()},
            "x": ["obs"],
            "labels": ["obs"],
            "centers": ["cluster", "feature"],
            "X": ["obs", "feature"],
            "group": ["obs"],
            "reference_labels": ["obs"],
        },
        coords={
            "obs": _names(obs_names, len(X)),
            "feature": _names(feature_names, X.shape[1]),
            "cluster": np.arange(n_clusters),
        },
        attrs={"/": _root_attributes(settings, n_clusters)},
        check_conventions=False,  # `lp` is ArviZ's own name, which its check does not know
    )
    tree["constant_data"]["reference_labels"].attrs["point"] = point
    if groups is not None:
        tree["constant_data"]["group"].attrs["group_names"] = json.dumps(groups.names)
    return tree


def _check_labels(labels, n_clusters):
    labels = np.asarray(labels)
    if labels.ndim != 3 or labels.dtype.kind not in "iu" or 0 in labels.shape:
        rule, remedy = "be integers (chain, draw, obs), at least one of each", "Sample at least one draw."
        raise ValueError(message("draws.labels", rule, f"{labels.dtype} of shape {labels.shape}", remedy))
    if labels.min() < 0 or labels.max() >= n_clusters:
        rule, remedy = f"lie in [0, {n_clusters})", "Pass the n_clusters that the sampler used."
        raise ValueError(message("draws.labels", rule, f"{labels.min()} to {labels.max()}", remedy))
    return labels.astype(np.min_scalar_type(-n_clusters))


def _reference(flat, n_clusters):
    """Dahl's partition of the draws (draws, obs), clusters numbered by size so that runs can be compared."""
    candidates = company(flat, n_clusters)
    best = flat[candidates.draw[np.argmin(candidates.least_squares)]]
    return order_by_size(best, n_clusters).astype(flat.dtype)


def _most_frequent(flat, n_clusters):
    """Every observation's most frequent label in the draws (draws, obs): labels (obs,).

    A cluster that every draw uses and that is nobody's most frequent label gets one observation all the same, so chosen
    that the fewest draws disagree.
    """
    counts = np.stack([(flat == k).sum(axis=0) for k in range(n_clusters)])
    labels = counts.argmax(axis=0)
    always = np.array([k for k in range(n_clusters) if (flat == k).any(axis=1).all()])
    if not np.isin(always, labels).all():
        member, row = linear_sum_assignment(counts.max(axis=0) - counts[always])
        labels[row] = always[member]
    return labels.astype(flat.dtype)


def _moved(parameters, permutations):
    return {
        name: (dims, move_clusters(values, permutations) if dims[:1] == ("cluster",) else values)
        for name, (dims, values) in parameters.items()
    }


def _log_likelihood(draws):
    values = getattr(draws, "log_likelihood", None)
    return {} if values is None else {"log_likelihood": {"x": values}}


def _balance(flat, groups, n_clusters):
    """`bayesfair.fairness.balance` of every draw (draws,), from one pass over their tables with the groups."""
    masses = tables_with(flat, groups.code, len(groups.names), n_clusters).transpose(0, 2, 1)
    return np.nanmin(cluster_balance(masses), axis=-1)


def _centers(flat, X, n_clusters):
    """Means (draws, n_clusters, dim) of the observations of each cluster, centred first against cancellation."""
    mean, num_draws = X.mean(axis=0), len(flat)
    step = max(1, _BLOCK_LABELS // len(X))
    blocks = [_membership(flat[at : at + step], n_clusters) for at in range(0, num_draws, step)]
    sums = np.concatenate([block @ (X - mean) for block in blocks]).reshape(num_draws, n_clusters, -1)
    sizes = np.concatenate([block.sum(axis=1) for block in blocks]).reshape(num_draws, n_clusters, 1)
    return mean + np.divide(sums, sizes, where=sizes > 0, out=np.full(sums.shape, np.nan))


def _membership(draws, n_clusters):
    """The sparse indicator matrix (draws * n_clusters, obs) of a block of draws."""
    num_draws, num_obs = draws.shape
    cluster = (np.arange(num_draws)[:, None] * n_clusters + draws).T.ravel()  # observation by observation
    starts = num_draws * np.arange(num_obs + 1)
    return csc_array((np.ones(cluster.size), cluster, starts), shape=(num_draws * n_clusters, num_obs))


def _present(draws, names):
    values = {name: getattr(draws, name, None) for name in names}
    return {name: np.asarray(value) for name, value in values.items() if value is not None}


def _names(names, length):
    """Coordinate values that netCDF can hold: numbers as they are, anything else as text."""
    if names is None:
        return np.arange(length)
    values = np.asarray(names)
    return values if values.dtype.kind in "iuf" and values.ndim == 1 else np.array([str(name) for name in names])


def _root_attributes(settings, n_clusters):
    return {
        "settings": json.dumps(plain(settings)),
        "n_clusters": n_clusters,
        "bayesfair_version": __version__,
    }

"""The posterior as an xarray.DataTree by ArviZ's conventions, made from the draws of any sampler, ours or another.

posterior: `labels` (chain, draw, obs) in the smallest integer type; `centers` (chain, draw, cluster, feature), means of rows,
NaN for an empty cluster; scalars that draws declare as parameters; `fairlet` (chain, draw or kept_draw, obs), if kept.
sample_stats: the other scalars, and `balance` if there are groups; attributes `kind` and `power` hold their declaration.
observed_data: `X` (obs, feature), with what is known of its columns. constant_data: `row`, the position in the fit, `group`,
`weight` and `reference_labels` (obs,), the partition that gives clusters their numbers, largest first.
guarantee: what is guaranteed of every draw, as data and in a sentence. Root: facts and settings, see `schema`.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csc_array

from bayesfair import __version__
from bayesfair._arrays import row_blocks
from bayesfair._arviz import load_arviz
from bayesfair._check import (
    attempt,
    check_features,
    check_in_memory,
    check_integer,
    check_same_length,
    check_same_rows,
    column_names,
    message,
    storable_index,
)
from bayesfair._draws import Draws, FairletDraws, Statistic
from bayesfair._names import DataTree
from bayesfair.fairness.groups import Groups, encode_groups
from bayesfair.fairness.guarantee import Guarantee
from bayesfair.posterior.draws import LabelDraws
from bayesfair.posterior.guarantees import balances, masses_of
from bayesfair.posterior.relabelling import align, likeliest, most_frequent, number_modes, order_by_size, with_numbers
from bayesfair.posterior.schema import (
    AXES,
    GUARANTEE,
    KEPT,
    KIND,
    NAMED,
    ROW,
    WANTED,
    Column,
    about_unfinished,
    attributes_of_columns,
    dataset_of_guarantee,
    facts_of_run,
    flat_labels,
    groups_of,
    scalars_of,
    variable,
    variables_of_groups,
    weight_of,
)
from bayesfair.posterior.sentences import guaranteed
from bayesfair.posterior.tables import company, count_labels
from bayesfair.posterior.temperatures import PSEUDO, add_log_groups, is_own
from bayesfair.posterior.view import View

NUMBERING = 400  # draws among which the one is that numbers clusters
_FEATURES = 4  # features whose centres are computed at a time


class Beside(NamedTuple):
    """What a tree has beside its draws, table and groups.

    `columns`, `obs_names`: by default positions. `weight` (obs,): of the rows, for the means of clusters; None if all are 1.
    `parameters`: posterior variables {name: (dimensions after chain and draw, array)}; those whose first dimension is
    "cluster" follow their cluster. `log_likelihood` (chain, draw, obs): for `az.loo`. `modes`: an xarray.Dataset of modes
    found before sampling, best first, with `labels` (mode, obs), which are numbered as the reference partition. `facts`:
    attributes of the root. `guarantee`: of every draw. `encoding`: a text that the estimator reads its table by.
    """

    columns: list[Column] | None = None
    obs_names: Any = None
    weight: np.ndarray | None = None
    parameters: dict | None = None
    log_likelihood: np.ndarray | None = None
    modes: Any = None
    facts: dict | None = None
    guarantee: Guarantee = Guarantee()
    encoding: str = ""


def build_tree(draws: Draws, X, groups, *, n_clusters, point="likeliest", **beside):
    """An xarray.DataTree of `draws`, relabelled to a representative partition; `beside` has the fields of `Beside`.

    `point` is the kind of that partition, `reference_labels`. "likeliest": `likeliest`, or Dahl's draw if that has the
    smaller expected Binder loss; "dahl": Dahl's draw; "mode": every row's most frequent label after relabelling to Dahl's
    draw, for labels that are independent given the parameters; None: no derived results until `add_derived` adds them.
    `groups` is anything that `encode_groups` takes, or None.
    """
    import xarray as xr

    beside, X = Beside(**beside), check_features(X, dtypes=(np.float64, np.float32))
    n_clusters = check_integer("n_clusters", n_clusters)
    labels = _check_labels(draws.labels, n_clusters)
    check_same_length("labels", labels.shape[2], "X", len(X))
    groups = None if groups is None else encode_groups(groups, argument="groups")
    if groups is not None:
        check_same_length("groups", len(groups.code), "X", len(X))
    columns = None if beside.columns is None else [column.name for column in beside.columns]
    names = {"obs": (beside.obs_names, len(X)), "feature": (columns, X.shape[1])}
    coords = {dim: np.arange(n) if given is None else names_for_file(given) for dim, (given, n) in names.items()}
    tree = xr.DataTree.from_dict(
        {name: _dataset(held, coords) for name, held in _variables_of_draws(draws, labels, beside).items()}
    )
    if draws.fairlets is not None and draws.fairlets.number is not None:
        tree["posterior"] = tree["posterior"].to_dataset().assign_coords({KEPT: draws.fairlets.number})
    observed = {"X": (("obs", "feature"), X, attributes_of_columns(beside.columns or []))}
    encoding = {"encoding": beside.encoding} if beside.encoding else {}
    tree["observed_data"] = _dataset(observed, coords, ()).assign_attrs(encoding)
    about = {NAMED: int(beside.obs_names is not None), KIND: kind_of_names(beside.obs_names)}
    constant = {ROW: (("obs",), np.arange(len(X)), about)}
    constant |= {} if beside.weight is None else {"weight": (("obs",), beside.weight)}
    constant |= {} if groups is None else variables_of_groups(groups)
    tree["constant_data"] = xr.Dataset(constant, {"obs": coords["obs"]})
    sizes = facts_of_run(tree)
    facts = {"bayesfair_version": __version__, "n_clusters": n_clusters, **sizes, WANTED: sizes["n_draws"]}
    facts |= beside.facts or {}
    tree.attrs.update(facts | about_unfinished(sizes["n_draws"], facts[WANTED]))
    if beside.modes is not None:
        tree["modes"] = beside.modes
    given = dataset_of_guarantee(beside.guarantee, groups.names if groups else (), guaranteed(beside.guarantee, groups))
    tree[GUARANTEE] = given
    return tree if point is None else add_derived(tree, point).tree


def add_derived(tree, point="likeliest") -> View:
    """Add derived results to the tree, if missing: its view. What cannot be computed is left out with a warning."""
    if "reference_labels" not in tree["constant_data"]:
        attempt("`reference_labels`", lambda: _number_clusters(tree, point))
        if "modes" in tree.children and "reference_labels" in tree["constant_data"]:
            attempt("The numbering of the modes' clusters", lambda: _number_modes(tree))
    if "centers" not in tree["posterior"]:
        attempt("`centers`", lambda: _add_centers(tree))
    view = View(tree)
    if "group" in tree["constant_data"] and "balance" not in tree["sample_stats"]:
        attempt("`balance`", lambda: _add_balance(view))
    if not is_own(tree, PSEUDO):
        attempt(f"`{PSEUDO}`", lambda: add_log_groups(tree))
    return view


def draws_of(tree) -> Draws:
    """The draws of a tree, clusters renumbered: `build_tree` makes the same tree from any numbering."""
    known = {name: (kind, values) for name, kind, values in scalars_of(tree) if name != "balance"}
    statistics = {name: Statistic(kind, int(values.attrs.get("power", 0))) for name, (kind, values) in known.items()}
    scalars = {name: values.values for name, (_, values) in known.items()}
    fairlet, fairlets = variable(tree, "posterior", "fairlet"), None
    if fairlet is not None:
        fairlets = FairletDraws(fairlet.values, fairlet[KEPT].values if KEPT in fairlet.dims else None)
    return Draws(tree["posterior"]["labels"].values, scalars, statistics, fairlets)


def _variables_of_draws(draws: Draws, labels, beside: Beside) -> dict:
    """{group: {variable: (dimensions, values, attributes)}} of what draws have; `labels`: theirs in the smallest type."""
    posterior, stats = {"labels": (AXES, labels)}, {}
    for name, (axes, values) in (beside.parameters or {}).items():
        posterior[name] = (*AXES[:2], *axes), np.asarray(values)
    for name, values in draws.scalars.items():
        about = draws.statistics[name]
        (posterior if about.kind == "parameter" else stats)[name] = AXES[:2], np.asarray(values), about._asdict()
    if draws.fairlets is not None:
        dims = AXES if draws.fairlets.number is None else (AXES[0], KEPT, AXES[2])
        posterior["fairlet"] = dims, draws.fairlets.fairlet
    likelihood = {} if beside.log_likelihood is None else {"x": (AXES, np.asarray(beside.log_likelihood))}
    groups = {"posterior": posterior, "sample_stats": stats, "log_likelihood": likelihood}
    return {name: held for name, held in groups.items() if held or held is stats}


def _dataset(variables, coords, sample_dims=AXES[:2]):
    """Variables as ArviZ has them: a name for every row, feature, ... in `coords`, or else a number from 0 on."""
    import xarray as xr

    load_arviz()
    from arviz_base.base import make_attrs

    made = xr.Dataset(variables, attrs=make_attrs(sample_dims=list(sample_dims)))
    return made.assign_coords({dim: coords.get(dim, np.arange(size)) for dim, size in made.sizes.items()})


def _check_labels(labels, n_clusters):
    labels = np.asarray(labels)
    if labels.ndim != 3 or labels.dtype.kind not in "iu" or 0 in labels.shape:
        rule, remedy = "be integers (chain, draw, obs), at least one of each", "Sample at least one draw."
        raise ValueError(message("labels", rule, f"{labels.dtype} of shape {labels.shape}", remedy))
    lowest, highest = LabelDraws(labels).min(), LabelDraws(labels).max()
    if lowest < 0 or highest >= n_clusters:
        rule, remedy = f"lie in [0, {n_clusters})", "Pass the n_clusters that the sampler used."
        raise ValueError(message("labels", rule, f"{lowest} to {highest}", remedy))
    return labels.astype(np.min_scalar_type(-n_clusters), copy=False)


def _number_clusters(tree, point):
    """Give clusters of every draw, and what follows them, the numbers of the reference partition, which the tree gets."""
    posterior, n_clusters = tree["posterior"].to_dataset(), tree.attrs["n_clusters"]
    flat, kind = flat_labels(tree), np.min_scalar_type(-n_clusters)
    candidates = company(flat, n_clusters, NUMBERING)
    best = flat[candidates.draw[np.argmin(candidates.least_squares)]]
    reference = order_by_size(best, n_clusters)  # by size, so that runs can be compared
    found = likeliest(tree, reference, n_clusters) if point == "likeliest" else None
    if found is not None:
        reference, permutations = found
    else:
        point = "dahl" if point == "likeliest" else point
        permutations = align(flat, reference, n_clusters)
    permutations, reference = permutations.astype(kind), reference.astype(kind)
    posterior = with_numbers(posterior, permutations)
    if point == "mode":
        labels = LabelDraws(posterior["labels"])
        reference = most_frequent(labels, count_labels(labels, n_clusters))
    tree["posterior"] = posterior
    constant = tree["constant_data"].to_dataset()
    named = {"reference_labels": (("obs",), reference, {"point": point})}
    tree["constant_data"] = constant.assign_coords(obs=posterior["obs"]).assign({**named, **constant.data_vars})


def _number_modes(tree):
    reference = tree["constant_data"]["reference_labels"].values
    tree["modes"] = number_modes(tree["modes"].to_dataset(), reference, tree.attrs["n_clusters"])


def _add_centers(tree):
    """Add the means of the clusters of every draw after its labels."""
    posterior, n_clusters = tree["posterior"].to_dataset(), tree.attrs["n_clusters"]
    X, weight = tree["observed_data"]["X"], weight_of(tree)
    shape = *posterior["labels"].shape[:2], n_clusters, X.sizes["feature"]
    centers = cluster_means(flat_labels(tree), X.values, n_clusters, weight).reshape(shape)
    added = {"centers": (("chain", "draw", "cluster", "feature"), centers)}
    coords = {"cluster": np.arange(n_clusters), "feature": X["feature"]}
    labels, others = posterior[["labels"]], posterior.drop_vars("labels").data_vars
    tree["posterior"] = labels.assign_coords(coords).assign({**added, **others})


def _add_balance(view):
    stats, labels = view["sample_stats"].to_dataset(), view["posterior"]["labels"]
    balance = balances(masses_of(view), groups_of(view)).reshape(labels.shape[:2])
    coords = {dim: labels[dim] for dim in AXES[:2]}
    of_draws = {"balance": (AXES[:2], balance, Statistic("quantity")._asdict())}
    view.tree["sample_stats"] = stats.assign_coords(coords).assign(of_draws)


def cluster_means(flat, X, n_clusters, weight):
    """Weighted means (draws, n_clusters, dim) of the rows of each cluster, centred first to avoid cancellation."""
    mean, dim = X.mean(axis=0, dtype=np.float64), X.shape[1]
    found = []
    for draws in flat.blocks():
        parts = (
            _sums(draws[:, part], X[part], mean, n_clusters, None if weight is None else weight[part])
            for part in row_blocks(len(X))
        )
        found.append(tuple(map(sum, zip(*parts))))
    sums, sizes = map(np.concatenate, zip(*found))
    sums, sizes = sums.reshape(-1, n_clusters, dim), sizes.reshape(-1, n_clusters, 1)
    return mean + np.divide(sums, sizes, where=sizes > 0, out=np.full(sums.shape, np.nan))


def _sums(draws, X, mean, n_clusters, weight):
    """(sums (draws * n_clusters, dim) of rows less the `mean`, sums of weights) for the clusters of a block of draws."""
    num_draws, num_obs = draws.shape
    cluster = (np.arange(num_draws)[:, None] * n_clusters + draws).T.ravel()  # row by row
    starts, shape = num_draws * np.arange(num_obs + 1), (num_draws * n_clusters, num_obs)
    block = csc_array((np.ones(cluster.size), cluster, starts), shape=shape)
    block = block if weight is None else block.multiply(weight).tocsr()
    some = [slice(first, first + _FEATURES) for first in range(0, X.shape[1], _FEATURES)]
    return np.hstack([block @ (X[:, columns] - mean[columns]) for columns in some]), block.sum(axis=1)


def kind_of_names(names):
    """What names of rows were before `names_for_file` made them text, for `memberships`: "dates", "levels" or ""."""
    if names is None:
        return ""
    values = np.asarray(names)
    return "dates" if values.dtype.kind == "M" else "levels" if isinstance(values.flat[0], tuple) else ""


def names_for_file(names):
    """Coordinate values that netCDF can hold: numbers unchanged, anything else as text."""
    values = np.asarray(names)
    return values if values.dtype.kind in "iuf" and values.ndim == 1 else np.array([str(name) for name in names])


def tree_from_labels(
    labels: ArrayLike, X: ArrayLike, groups: ArrayLike | Groups | None = None, lp: ArrayLike | None = None
) -> "DataTree":
    """The posterior of anybody's sampler as a tree, for every summary, picture and report of this package.

    Clusters are numbered alike in all draws here: labels may switch from draw to draw. Nothing is guaranteed of these draws.
    The point estimate is as balanced as the least balanced of them, and report and summary say so.

    Parameters
    ----------
    labels : array-like of int of shape (n_chains, n_draws, n_obs) or (n_draws, n_obs)
        The cluster of every row in every draw.
    X : array-like of shape (n_obs, n_features)
        Features. The column names and the index of a data frame are kept.
    groups : array-like of shape (n_obs,) or (n_obs, n_attributes), or Groups, optional
        The groups of the rows. Several columns are crossed.
    lp : array-like of shape (n_chains, n_draws) or (n_draws,), optional
        Log density of the draws, up to a constant.

    Returns
    -------
    xarray.DataTree

    Raises
    ------
    TypeError
        If features are not numbers.
    ValueError
        If labels are not whole numbers, shapes or indexes do not match, or numbers are not finite.

    Examples
    --------
    >>> import numpy as np, bayesfair as bf
    >>> draws = np.array([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])  # of four rows
    >>> tree = bf.posterior.tree_from_labels(draws, [[0.0], [0.1], [1.0], [1.1]], ["f", "m", "f", "m"])
    >>> bf.posterior.reference_partition(tree).tolist()
    [0, 0, 1, 1]
    """
    check_same_rows(X=X, groups=groups)
    code, n_clusters = _numbered(labels)
    scalars = {} if lp is None else {"lp": _as_chains(lp, code.shape[:2])}
    draws = Draws(code, scalars, {name: Statistic("quantity") for name in scalars})
    names = column_names(X)
    columns = None if names is None else [Column(str(name)) for name in names]
    return build_tree(draws, X, groups, columns=columns, obs_names=storable_index(X), n_clusters=n_clusters)


def _numbered(labels):
    """(labels (chain, draw, obs) from 0 on in the smallest type, the number of clusters)."""
    check_in_memory("labels", labels)
    labels = np.asarray(labels)
    rule, remedy = "be whole numbers (chain, draw, obs), or (draw, obs) of one chain", "Pass the draws of the labels."
    if labels.ndim == 2:
        labels = labels[None]
    if labels.ndim != 3 or 0 in labels.shape or labels.dtype.kind not in "iu":
        raise ValueError(message("labels", rule, f"{labels.dtype} of shape {labels.shape}", remedy))
    flat = LabelDraws(labels)
    known = np.unique(np.concatenate([np.unique(block) for block in flat.blocks()]))
    code = np.empty(flat.shape, np.min_scalar_type(-len(known)))
    for own, draw in zip(code, flat):  # of all at once NumPy sorts positions, eight bytes for each label
        own[:] = np.searchsorted(known, draw)
    return code.reshape(labels.shape), len(known)


def _as_chains(lp, shape):
    """`lp` as (chain, draw)."""
    values = np.asarray(lp, np.float64)
    values = values[None] if values.ndim == 1 else values
    if values.shape != shape or not np.isfinite(values).all():
        what = f"shape {np.shape(lp)}" if values.shape != shape else "numbers that are not finite"
        raise ValueError(message("lp", f"be finite, {shape}, one for each draw", what, "Leave it out if unknown."))
    return values

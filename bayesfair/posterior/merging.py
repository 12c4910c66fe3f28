"""Chains of several runs in one tree, with clusters numbered alike."""

from collections.abc import Sequence

import numpy as np

from bayesfair._arrays import digest
from bayesfair._check import message
from bayesfair._draws import COMPARED
from bayesfair._names import DataTree
from bayesfair.posterior.point_estimates import point_of
from bayesfair.posterior.schema import (
    GUARANTEE,
    RUN_SIZES,
    UNFINISHED,
    WANTED,
    facts_of_run,
    flat_labels,
    group_names,
    scalars_of,
    variable,
)
from bayesfair.posterior.temperatures import is_own
from bayesfair.posterior.tree import add_derived
from bayesfair.posterior.view import View

OF_DRAWS = "posterior", "sample_stats", "log_likelihood", "log_prior"  # groups with chains
OF_A_RUN = {  # attributes in which runs of one posterior may differ
    *RUN_SIZES.values(),
    WANTED,
    UNFINISHED,
    *[
        "num_chains",
        "num_warmup",
        "num_draws",
        "random_state",
        "progress_bar",
        "n_jobs",
        "modes",
        "chain_method",
        "starts",
    ],
    *["seed", "sweeps_per_draw", "kept_of", "fairlet_gap", "provenance", "bayesfair_version"],
}


def concatenate(trees: Sequence["DataTree"]) -> "DataTree":
    """Put the chains of several runs on the same data into one tree.

    Every run numbers its clusters on its own. Here all draws are relabelled to one partition, so that every summary can read
    them together.

    Parameters
    ----------
    trees : sequence of xarray.DataTree
        Posteriors of the same table, groups and settings, with equally many draws in each chain. Seeds and the numbers of
        chains and of warm-up sweeps may differ.

    Returns
    -------
    xarray.DataTree
        Chains are numbered 0, 1, ... in the order of the trees. The modes that each run found, and the state from which it
        resumes, are left out.

    Raises
    ------
    ValueError
        If there is no tree, or tables, groups, settings or numbers of draws differ. The message names what differs. Also if
        two chains have the same draws, as those of runs with one seed: they would count twice.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_well_specified()
    >>> settings = {"num_warmup": 200, "num_draws": 400, "num_chains": 2, "progress_bar": False}
    >>> runs = [
    ...     bf.GibbsFairClustering(2, random_state=seed, **settings).fit(data.features, sensitive_features=data.sensitive)
    ...     for seed in (0, 1)
    ... ]
    >>> bf.posterior.concatenate([run.posterior_ for run in runs])["posterior"].sizes["chain"]
    4
    """
    import xarray as xr

    trees = [View.of(tree).tree for tree in trees]
    if not trees:
        raise ValueError(message("trees", "hold at least one tree", "none", "Pass [est.posterior_, ...]."))
    for at, tree in enumerate(trees):
        flat_labels(tree)
        _check_same_run(trees[0], tree, at)
    _check_no_chain_twice(trees)
    first, of_draws = trees[0], _of_draws(trees)
    merged = type(first)(name=first.name)
    merged.attrs.update(first.attrs)
    for name, node in first.children.items():
        if name in of_draws and node.data_vars:
            tables = [tree[name].to_dataset() for tree in trees]
            joined = xr.concat(
                tables, "chain", data_vars="minimal", coords="minimal", compat="override", join="override"
            )
            merged[name] = type(first)(joined.assign_coords(chain=np.arange(joined.sizes["chain"])))
        elif name in ("observed_data", "constant_data", GUARANTEE):
            merged[name] = type(first)(node.to_dataset().drop_vars("reference_labels", errors="ignore"))
    costs = [tree["sample_stats"].attrs for tree in trees if "sample_stats" in tree.children]
    if costs and all("sampling_time" in cost for cost in costs):
        merged["sample_stats"].attrs["sampling_time"] = sum(cost["sampling_time"] for cost in costs)
    merged.attrs |= facts_of_run(merged)
    merged.attrs[WANTED] = merged.attrs[RUN_SIZES["draw"]]
    merged.attrs.pop(UNFINISHED, None)
    point = point_of(first)
    return add_derived(merged, "likeliest" if point == "given" else point).tree


def _check_same_run(first, tree, at):
    """Raise a ValueError if a tree differs from the first in table, groups, settings or number of draws."""
    what = f"trees[{at}]"
    draws, known = tree["posterior"].sizes["draw"], first["posterior"].sizes["draw"]
    if draws != known:
        remedy = f"Cut the longer one: tree.isel(draw=slice({min(draws, known)}), missing_dims='ignore')."
        raise ValueError(message(what, f"have as many draws in each chain as trees[0], {known}", draws, remedy))
    same_rows = np.array_equal(first["posterior"]["obs"], tree["posterior"]["obs"])
    a, b = first.attrs, tree.attrs
    settings = sorted((set(a) | set(b)) - OF_A_RUN)
    same = {f"setting `{name}`": a.get(name) == b.get(name) for name in settings} | {
        "table": same_rows and _equal(first, tree, "observed_data", "X"),
        "groups": group_names(first) == group_names(tree) and _equal(first, tree, "constant_data", "group"),
        "weights": _equal(first, tree, "constant_data", "weight"),
        "variables": all(
            name in tree.children and set(first[name].data_vars) == set(tree[name].data_vars)
            for name in _of_draws([first, tree])
        ),
    }
    for name, is_same in same.items():
        if not is_same:
            rule, remedy = f"have the {name} of trees[0]", "Only chains of one posterior can be joined."
            raise ValueError(message(what, rule, "another", remedy))


def _check_no_chain_twice(trees):
    """Raise a ValueError if a chain that moves is in two trees."""
    seen = {}
    for at, tree in enumerate(trees):
        for chain in range(tree["posterior"].sizes["chain"]):
            other = seen.setdefault(_identity(tree, chain), at)
            if other != at and _moves(tree, chain):
                rule, got = "have chains of its own", f"a chain that has the same draws as one of trees[{other}]"
                remedy = (
                    "Pass every run once. Fit again with another random_state for more chains: one seed makes one run."
                )
                raise ValueError(message(f"trees[{at}]", rule, got, remedy))


def _identity(tree, chain):
    """The same for two chains only if they are one: scalars and seed, or else labels, which every tree numbers on its own."""
    scalars = _scalars_of_chain(tree, chain)
    if any(np.ptp(values) > 0 for values in scalars) and "seed" in tree.attrs:
        return tree.attrs["seed"], digest(*scalars)
    return digest(*scalars, tree["posterior"]["labels"][chain].values)


def _moves(tree, chain):
    """Does a chain change? One that stands still adds nothing to what is known of its spread."""
    labels = tree["posterior"]["labels"][chain].values
    return (labels != labels[0]).any() or any(np.ptp(values) > 0 for values in _scalars_of_chain(tree, chain))


def _scalars_of_chain(tree, chain):
    return [values.values[chain] for _, kind, values in scalars_of(tree) if kind in COMPARED]


def _of_draws(trees):
    """Groups with chains that the sampler made: `add_derived` makes others from them."""
    own = [name for name in OF_DRAWS if name in trees[0].children and not is_own(trees[0], name)]
    return [name for name in own if name != "log_prior" or all(name in tree.children for tree in trees)]


def _equal(first, tree, group, name):
    """Do both trees have the same values of a variable, or neither any?"""
    a, b = (variable(one, group, name) for one in (first, tree))
    if a is None or b is None:
        return a is b
    return np.array_equal(a, b)

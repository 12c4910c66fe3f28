"""The variables and facts that summaries read from a tree, and the errors if they are missing.

Facts are attributes of the root, known when the tree is built: `estimator`, `n_clusters`, the sizes of the run (`n_chains`,
`n_draws`, `n_draws_wanted`, `n_obs`), `seed`, `sweeps_per_draw`, `fairlet_gap`, and the settings that are not defaults. The
group `guarantee` has what is guaranteed of every draw; `constant_data` has every row's position in the fit, group and weight.
"""

from typing import NamedTuple

import numpy as np

from bayesfair._check import Refusal, index_of, message, raise_other_rows
from bayesfair._memory import in_words
from bayesfair._names import DataArray, DataTree
from bayesfair.fairness.groups import Groups
from bayesfair.fairness.guarantee import Guarantee
from bayesfair.posterior.draws import LabelDraws
from bayesfair.posterior.view import View, once

AXES = "chain", "draw", "obs"  # of labels
KEPT = "kept_draw"  # the dimension of draws that keep their fairlets, if not all of them do
IN_WORDS = {"chain": "chains", "draw": "draws in each chain", "obs": "rows"}
ROW = "row"  # of constant_data: every row's position in the fit
NAMED = "named"  # its attribute: had the table of the fit an index?
KIND = "kind"  # its attribute too: "dates" and "levels" (of a MultiIndex) are text in `obs`
RUN_SIZES = {"chain": "n_chains", "draw": "n_draws", "obs": "n_obs"}  # attributes of the root
WANTED, UNFINISHED = "n_draws_wanted", "unfinished"
GUARANTEE = "guarantee"
NOTHING = "The method guarantees nothing of the clusters."
STATE = "sampler_state"  # group of the tree


def variable(tree: "DataTree", group: str, name: str) -> "DataArray | None":
    """The variable `name` of `group` as an xarray DataArray, or None if the tree has none."""
    if group not in getattr(tree, "children", {}) or name not in tree[group].data_vars:
        return None
    return tree[group][name]


def scalars_of(tree):
    """(name, kind, DataArray (chain, draw)) of the scalars that samplers declared, and of `lp` from elsewhere."""
    for group in ("sample_stats", "posterior"):
        present = tree[group].data_vars if group in getattr(tree, "children", {}) else {}
        for name, values in present.items():
            kind = values.attrs.get("kind", "quantity" if name == "lp" else None)
            if kind is not None:
                yield name, kind, values


@once
def flat_labels(tree: "DataTree") -> LabelDraws:
    """Labels of all draws, chain after chain: (chains * draws, obs), in memory or on disk; a ValueError if there are none."""
    labels = variable(tree, "posterior", "labels")
    if labels is None or labels.dims != AXES:
        got = _outline(tree) if labels is None else f"`labels` {labels.dims}"
        rule, remedy = (
            "hold `labels` (chain, draw, obs) in its group 'posterior'",
            "Pass est.posterior_, or select with",
        )
        remedy += " lists, such as tree.isel(chain=[0], missing_dims='ignore'), which keep every dimension."
        raise ValueError(message("tree", rule, got, remedy))
    if 0 in labels.shape:
        rule, got = "hold at least one chain, draw and row", f"`labels` of shape {labels.shape}"
        raise ValueError(message("tree", rule, got, "Select more of them."))
    if labels.dtype.kind not in "iu":
        rule, got = "hold `labels` that are whole numbers", labels.dtype
        remedy = "xarray pads chains of unequal length with NaN: join runs with bayesfair.posterior.concatenate."
        raise ValueError(message("tree", rule, got, remedy))
    return LabelDraws(labels)


def facts_of_run(tree: "DataTree") -> dict[str, int]:
    """The sizes of a whole run, as attributes of the root."""
    return {name: tree["posterior"].sizes[dim] for dim, name in RUN_SIZES.items()}


def about_unfinished(done, wanted) -> dict[str, str]:
    """The attribute `unfinished` of the root, of a run that was stopped before its last draw; none of a finished one."""
    return {UNFINISHED: f"{done} of {wanted} draws per chain"} if done < wanted else {}


def check_whole(tree, argument, remedy):
    """Raise a ValueError if chains, draws, rows or their order differ from the run's: it cannot continue from them."""
    cut = other_than_run(tree)
    if cut:
        what = " and ".join(cut.values())
        raise ValueError(Refusal(f"{argument} holds {what}: it is not the whole run and cannot be continued. {remedy}"))


def other_than_run(tree: "DataTree") -> dict[str, str]:
    """{dimension: in words} for chains, draws or rows that differ from the run's, or in their order. Rows may be renamed."""
    labels, other = variable(tree, "posterior", "labels"), {}
    for dim, fact in RUN_SIZES.items() if labels is not None else ():
        has, words = labels.sizes.get(dim, 1), IN_WORDS[dim]
        if fact in tree.attrs and has != tree.attrs[fact]:
            other[dim] = f"{has} {words} instead of the run's {tree.attrs[fact]}"
        elif fact in tree.attrs and not np.array_equal(_numbers_of(tree, labels, dim), np.arange(has)):
            other[dim] = f"{words} in another order than the run's"
    return other


def _numbers_of(tree, labels, dim):
    """The numbers in the run of the chains, draws or rows of a tree."""
    known, names = variable(tree, "constant_data", ROW), np.atleast_1d(labels[dim].values)
    if dim != "obs" or known is None:
        return names
    rows = np.atleast_1d(known["obs"].values)
    if np.array_equal(names, rows) or sorted(map(str, names)) != sorted(map(str, rows)):
        return np.atleast_1d(known.values)
    return known.sel(obs=labels["obs"]).values  # the labels alone were put in another order


def names_of_rows(tree: "DataTree") -> np.ndarray | None:
    """The names (obs,) that rows have from the index of the fit's table; None if that had none."""
    names, row = np.atleast_1d(tree["posterior"]["labels"]["obs"].values), variable(tree, "constant_data", ROW)
    positions = np.arange(len(names)) if row is None else np.atleast_1d(row.values)
    is_named = (row is not None and row.attrs.get(NAMED)) or not np.array_equal(names, positions)
    return names if is_named else None


def check_rows_of(tree: "DataTree", **tables):
    """Raise a ValueError if pandas objects, by argument, name their rows otherwise than the tree: by position they would mix.

    A tree of an array has positions. An index that puts those in another order is refused, and any other index accepted.
    """
    for argument, index in ((name, index_of(table)) for name, table in tables.items()):
        if index is None:
            continue
        flat_labels(tree)  # an error without labels
        known = np.atleast_1d(tree["posterior"]["labels"]["obs"].values)
        if len(index) != len(known) or _same_names(index, known):
            continue
        if names_of_rows(tree) is not None or _same_names(np.sort(index.astype(str)), np.sort(known.astype(str))):
            raise_other_rows(argument, index, "the tree", known, "tree['posterior']['obs'].values")


def _same_names(index, known):
    """Files hold names of rows that are not numbers as text."""
    both_numbers = index.dtype.kind in "iuf" and known.dtype.kind in "iuf"
    return np.array_equal(index, known) if both_numbers else list(map(str, index)) == list(map(str, known))


def holds_several_runs(tree: "DataTree") -> bool:
    """Does the tree hold chains beyond its run's? A run names them 0, 1, ..."""
    had = tree.attrs.get(RUN_SIZES["chain"])
    if had is None or "chain" not in tree["posterior"].coords:
        return False
    names = np.atleast_1d(tree["posterior"]["chain"].values).tolist()
    return len(set(names)) < len(names) or not set(names) <= set(range(had))


@once
def count_clusters(tree: "DataTree") -> int:
    """K: the size of the dimension `cluster`, or the largest label plus one if no variable has it."""
    sizes = tree["posterior"].sizes
    return sizes["cluster"] if "cluster" in sizes else int(flat_labels(tree).max()) + 1


def observed_features(tree: "DataTree") -> np.ndarray:
    """X of the observed data (obs, feature)."""
    observed = variable(tree, "observed_data", "X")
    if observed is None:
        raise ValueError(message("tree", "hold `X` in its group 'observed_data'", _outline(tree), "Pass X yourself."))
    return observed.values


class Column(NamedTuple):
    """A column of X: its name, its `kind` (number, category or indicator), its levels, and `middle` + `unit` X unscaled."""

    name: str
    kind: str = "number"
    levels: tuple[str, ...] = ()
    middle: float = 0.0
    unit: float = 1.0

    @property
    def is_scaled(self) -> bool:
        """Was the column scaled before the fit?"""
        return (self.middle, self.unit) != (0.0, 1.0)


def attributes_of_columns(columns: list[Column]) -> dict:
    """What `columns_of` reads, as attributes of X."""
    about = {f"levels_{at}": list(map(str, one.levels)) for at, one in enumerate(columns) if one.kind == "category"}
    if any(one.kind == "indicator" for one in columns):
        about["indicators"] = [at for at, one in enumerate(columns) if one.kind == "indicator"]
    if any(one.is_scaled for one in columns):
        about |= {"middle": [one.middle for one in columns], "unit": [one.unit for one in columns]}
    return about


def columns_of(tree: "DataTree") -> list[Column]:
    """The columns of X, in their order."""
    X, found = tree["observed_data"]["X"], []
    indicators, about = np.atleast_1d(X.attrs.get("indicators", [])).tolist(), X.attrs
    for at, name in enumerate(X["feature"].values.astype(str).tolist()):
        if f"levels_{at}" in about:
            found.append(Column(name, "category", texts(about[f"levels_{at}"])))
        else:
            scale = (float(np.atleast_1d(about[part])[at]) for part in ("middle", "unit") if part in about)
            found.append(Column(name, "indicator" if at in indicators else "number", (), *scale))
    return found


def weight_of(tree: "DataTree") -> np.ndarray | None:
    """Weights (obs,) of the rows; None if all are 1."""
    weight = variable(tree, "constant_data", "weight")
    return None if weight is None else weight.values


def group_names(tree: "DataTree") -> tuple[str, ...] | None:
    """Names of the groups in the order of their codes, or None if the tree has no groups."""
    group = variable(tree, "constant_data", "group")
    if group is None:
        return None
    return texts(group.attrs.get("names", np.arange(int(group.max()) + 1)))


def texts(values) -> tuple[str, ...]:
    """A list of text as attributes have it: files turn a list of one into that one."""
    return tuple(map(str, np.atleast_1d(values).tolist()))


@once
def groups_of(tree: "DataTree") -> Groups | None:
    """The groups of the rows, with the attributes that they cross."""
    names = group_names(tree)
    if names is None:
        return None
    code, crossed = tree["constant_data"]["group"].values, variable(tree, "constant_data", "attribute_code")
    if crossed is None:
        return Groups(code, names)
    parts = (
        Groups(own.values.astype(np.int32), texts(crossed.attrs[f"names_{at}"]), column=str(own["attribute"].item()))
        for at, own in enumerate(crossed)
    )
    return Groups(code, names, **{crossed.attrs["kind"]: tuple(parts)})


def variables_of_groups(groups: Groups) -> dict:
    """The groups for `constant_data`: the code of every row, and of every group by each attribute that groups cross."""
    found = {"group": (("obs",), groups.code, {"names": list(groups.names)})}
    if groups.parts:
        about = {f"names_{at}": list(part.names) for at, part in enumerate(groups.parts)}
        about |= {"kind": "attributes" if groups.attributes else "crosses"}
        code = np.stack([part.code for part in groups.parts])
        found["attribute_code"] = (("attribute", "group_code"), code, about)
        found["attribute"] = ("attribute", [part.column for part in groups.parts])
    return found


def dataset_of_guarantee(given: Guarantee, names, sentence: str):
    """A guarantee as an xarray.Dataset; `names` of the groups, and the `sentence` that states it."""
    import xarray as xr

    usual = Guarantee()._asdict()
    held = {name: value for name, value in given._asdict().items() if name == "kind" or value is not usual[name]}
    arrays = {name: held.pop(name) for name in ("fewest", "most", "ratio") if name in held}
    dims = {"fewest": ("group",), "most": ("group",), "ratio": ("group", "for_each")}
    coords = {"group": list(names), "for_each": list(names)} if arrays else {}
    variables = {name: (dims[name], value) for name, value in arrays.items()}
    return xr.Dataset(variables, coords, held | {"sentence": sentence or NOTHING})


def is_part(tree) -> bool:
    """Are the tree's rows other than the run's, or in another order?"""
    return "obs" in other_than_run(tree)


@once
def guarantee_of(tree: "DataTree") -> Guarantee:
    """What is guaranteed of the tree's draws: nothing for other rows than the run's, or in another order."""
    if GUARANTEE not in getattr(tree, "children", {}) or is_part(tree):
        return Guarantee()
    held = tree[GUARANTEE]
    known = {name: np.asarray(held.attrs[name]).item() for name in Guarantee._fields if name in held.attrs}
    return Guarantee(**(known | {name: value.values for name, value in held.data_vars.items()}))


def state_dataset(arrays, axes=None):
    """Arrays by name as an xarray.Dataset, with the dimensions in `axes`, or with dimensions of their own."""
    import xarray as xr

    values = {name: np.asarray(array) for name, array in arrays.items()}
    own = {name: tuple(f"{name}_{axis}" for axis in range(v.ndim)) for name, v in values.items()}
    return xr.Dataset({name: ((axes or {}).get(name, own[name]), v) for name, v in values.items()})


def arrays_of(dataset):
    """The arrays that `state_dataset` was given."""
    return {name: v.values for name, v in dataset.data_vars.items()}


def cost_of(tree):
    """The time and memory of a fit, in words; "" if the tree has neither."""
    about = tree["sample_stats"].attrs if "sample_stats" in tree.children else {}
    if "sampling_time" not in about:
        return ""
    memory = f", at most {in_words(about['peak_memory'])} of memory" if about.get("peak_memory") else ""
    return f"{about['sampling_time']:,.3g} s{memory}"


def _outline(tree):
    tree = View.of(tree).tree
    if not hasattr(tree, "children"):
        return type(tree).__name__
    return "groups " + (
        ", ".join(f"{name} ({', '.join(node.data_vars)})" for name, node in tree.children.items()) or "none"
    )

"""The variables that summaries read from a tree, and the errors if they are missing."""

import hashlib
import json
from itertools import zip_longest

import numpy as np

from bayesfair._check import Refusal, counts_rows, index_of, message, raise_other_rows
from bayesfair._names import DataArray, DataTree
from bayesfair.fairness.groups import Groups
from bayesfair.posterior.labels import LabelDraws
from bayesfair.posterior.view import View, once

AXES = "chain", "draw", "obs"  # of labels
KEPT = "kept_draw"  # the dimension of draws that keep their fairlets, if not all of them do
IN_WORDS = {"chain": "chains", "draw": "draws in each chain", "obs": "rows"}
ROW = (
    "row"  # of constant_data: every row's position in the fit; its attribute NAMED: had the table of the fit an index?
)
NAMED = "named"
KIND = "kind"  # its attribute too: "dates" and "levels" (of a MultiIndex) are text in `obs`
CROSSED = "attributes", "crosses"  # fields of `Groups`, and attributes of `group`, JSON
RUN_SIZES = "run_sizes"  # attribute of the root, JSON: numbers of the run's chains, draws per chain and rows
RUN_ORDER = "run_order"  # likewise, JSON: digests of their names in the run's order


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


def about_whole(tree: "DataTree") -> dict[str, str]:
    """Attributes of the root of a whole run: its sizes, and the order of its chains and draws (rows have `ROW`)."""
    posterior = tree["posterior"]
    order = [_digest_of_names(posterior[dim].values) for dim in AXES[:2]]
    return {RUN_SIZES: json.dumps([posterior.sizes[dim] for dim in AXES]), RUN_ORDER: json.dumps(order)}


def _digest_of_names(names):
    """The same in memory and in files, which store text in another type."""
    if names.dtype.kind in "iuf":
        names = np.ascontiguousarray(names, np.int64 if names.dtype.kind in "iu" else np.float64)
        return hashlib.sha256(names).hexdigest()[:16]
    return hashlib.sha256("\0".join(map(str, names)).encode(errors="surrogatepass")).hexdigest()[:16]


def check_whole(tree, argument, remedy):
    """Raise a ValueError if chains, draws, rows or their order differ from the run's: it cannot continue from them."""
    cut = other_than_run(tree)
    if cut:
        what = " and ".join(cut.values())
        raise ValueError(Refusal(f"{argument} holds {what}: it is not the whole run and cannot be continued. {remedy}"))


def other_than_run(tree: "DataTree") -> dict[str, str]:
    """{dimension: in words} for chains, draws or rows that differ from the recorded run's, or in their order.

    Rows may have other names than in the run. Earlier files have no `ROW`, but a digest of the rows' names.
    """
    labels = variable(tree, "posterior", "labels")
    if labels is None or RUN_SIZES not in tree.attrs:
        return {}
    order, other = json.loads(tree.attrs.get(RUN_ORDER, "[]")), {}
    for dim, had, digest in zip_longest(AXES, json.loads(tree.attrs[RUN_SIZES]), order):
        has, words = labels.sizes.get(dim, 1), IN_WORDS[dim]
        if has != had:
            other[dim] = f"{has} {words} instead of the run's {had}"
        elif dim == AXES[2] and variable(tree, "constant_data", ROW) is not None:
            if not _in_order(labels, tree["constant_data"][ROW]):
                other[dim] = f"{words} in another order than the run's"
        elif digest and dim in labels.coords and _digest_of_names(np.atleast_1d(labels[dim].values)) != digest:
            other[dim] = f"{words} in another order, or under other names, than the run's"
    return other


def _in_order(labels, row):
    """Are the rows of the labels in the order of the fit, by their positions `row`, which may have names of its own?"""
    names, known = (np.atleast_1d(part["obs"].values) for part in (labels, row))
    moved = not np.array_equal(names, known) and sorted(map(str, names)) == sorted(map(str, known))
    return not moved and counts_rows(np.atleast_1d(row.values))


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
    if RUN_SIZES not in tree.attrs or "chain" not in tree["posterior"].coords:
        return False
    names, had = np.atleast_1d(tree["posterior"]["chain"].values).tolist(), json.loads(tree.attrs[RUN_SIZES])[0]
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


def weight_of(tree: "DataTree") -> np.ndarray | None:
    """Weights (obs,) of the rows; None if all are 1."""
    weight = variable(tree, "constant_data", "weight")
    return None if weight is None else weight.values


def group_names(tree: "DataTree") -> tuple[str, ...] | None:
    """Names of the groups in the order of their codes, or None if the tree has no groups."""
    group = variable(tree, "constant_data", "group")
    if group is None:
        return None
    if "group_names" in group.attrs:
        return tuple(json.loads(group.attrs["group_names"]))
    return tuple(str(code) for code in range(int(group.max()) + 1))


@once
def groups_of(tree: "DataTree") -> Groups | None:
    """The groups of the rows, with the attributes that they cross."""
    names = group_names(tree)
    if names is None:
        return None
    group = tree["constant_data"]["group"]
    return Groups(group.values, names, *(_parts(json.loads(group.attrs.get(kind, "[]"))) for kind in CROSSED))


def plain_parts(parts):
    """What groups cross, for JSON."""
    return [{"names": part.names, "code": part.code.tolist(), "column": part.column} for part in parts]


def _parts(plain):
    """What groups cross, from `plain_parts`; runs of earlier versions do not name the columns."""
    titles = [part.get("column", f"attribute {at + 1}") for at, part in enumerate(plain)]
    return tuple(
        Groups(np.array(part["code"], np.int32), tuple(part["names"]), column=title)
        for part, title in zip(plain, titles)
    )


def _outline(tree):
    tree = View.of(tree).tree
    if not hasattr(tree, "children"):
        return type(tree).__name__
    return "groups " + (
        ", ".join(f"{name} ({', '.join(node.data_vars)})" for name, node in tree.children.items()) or "none"
    )

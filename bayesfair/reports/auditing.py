"""`audit`: given clusters, their groups, and the moves that would balance them."""

from difflib import get_close_matches
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._arrays import cell_masses
from bayesfair._check import (
    check_features,
    check_number,
    check_same_length,
    check_same_rows,
    column_names,
    index_of,
    listed,
    message,
)
from bayesfair._names import DataFrame, DataTree
from bayesfair._partitions import tables_with
from bayesfair._progress import in_one_place, progress
from bayesfair._scaling import noted_scaling, standardise, warn_of_scales
from bayesfair._settings import declared
from bayesfair.fairness.balanced import balance_constraint, each_and_together, is_exact
from bayesfair.fairness.chance import DRAWN, independence, representation
from bayesfair.fairness.distances import distance_report
from bayesfair.fairness.groups import (
    MOST_NUMBERS,
    Groups,
    check_shared,
    cross_attributes,
    groups_for_fit,
    numbers_of,
    of_column,
)
from bayesfair.fairness.metrics import cluster_balance, encode_assignment, looked_at, rows_off
from bayesfair.fairness.per_cluster import report as cluster_report
from bayesfair.fairness.plain import share_above
from bayesfair.fairness.rates import selection_rates
from bayesfair.posterior.diagnostics import Note, as_html, judge
from bayesfair.posterior.membership import memberships
from bayesfair.posterior.relabelling import about, numbered_alike
from bayesfair.posterior.schema import count_clusters, flat_labels, names_of_rows
from bayesfair.reports.audit_page import write_page_of
from bayesfair.reports.audit_sentences import CHEAPEST, CLUSTERS, FAVOURABLE, FEWEST, GIVEN, notes_of

SEED = 0  # of the lots that decide who moves
SHORT = 2  # seconds of work that has no bar


class Audit(NamedTuple):
    """What `audit` found. `print(audit)` says it in sentences; `audit.write("audit.html")` makes a page of it.

    Parameters
    ----------
    notes : list of Note
        The sentences: `kind`, `headline` and `text`.
    clusters : pandas.DataFrame
        `bayesfair.fairness.report` of the clusters, with a last row for all of them.
    tests : pandas.DataFrame
        A row for every attribute and question ("clusters" and, with `favourable`, "favourable"). Pairs of attributes follow the
        attributes, and the combinations of all come last: the `test`, its `p_value`, `cramers_v`, `p_holm` (corrected by Holm
        for all different tests), `beyond_chance`, by the `p_value`, and `same_as`: the earlier row whose table of counts it
        has, as with two clusters or two equal attributes.
    rates : pandas.DataFrame
        A row for every attribute, outcome and group: `rows`, `selected`, `rate` with Wilson's interval (`low`, `high`),
        `is_small` (below 2% of all rows), `ratio` to the highest rate with Katz's interval (`ratio_low`, `ratio_high`), and
        `below_four_fifths`. The outcome is "favourable" or, without `favourable`, each cluster. attrs["judged"] has the
        number of groups of every attribute that are not small: only these can be flagged.
    representation : pandas.DataFrame
        A row for every attribute, cluster and group: `count`; `expected`, the share of the group; `excess`, the first less
        the second, negative where the group is short; `share_of_cluster`, `share_of_all`; `low` and `high`, what drawing by
        lot would give, for all counts of the attribute together; `p_value`, times the number of counts of the attribute that
        are looked at (Bonferroni); `beyond_chance`: the count is outside its range, and the test of the attribute is beyond
        chance too. Attributes are those of `tests`. attrs["pairs"] has those of every pair of three or more, and what their
        groups combine.
    repairs : pandas.DataFrame
        "as given", "fewest moves" and, with features, "cheapest found": how many rows move, what the clusters cost then, and
        how balanced they are. Of several attributes, `off_by[a]` is the most rows by which a count of each is off. A repair
        that is not found is missing. attrs["sizes"] has the rows of every cluster, {repair: {cluster: rows}}: repairs may
        change them. Up to 24 counts no repair has fewer moves; in larger tables the fewest found are not proved so.
    moves : pandas.DataFrame or None
        The rows that either repair moves, their group, and their cluster as given and after each repair. Without features
        those that move are drawn by lot. None without a repair.
    distances : pandas.DataFrame or None
        With features: `bayesfair.fairness.distance_report`.
    memberships : pandas.DataFrame or None
        With a posterior: `bayesfair.posterior.memberships` of its rows for these clusters, which have their own names here.

    Examples
    --------
    >>> import bayesfair as bf
    >>> found = bf.audit(["gold", "gold", "basic", "basic"], ["f", "m", "f", "m"])
    >>> found.notes[0].headline, found.repairs["moved"].tolist()
    ('Balanced:', [0, 0])
    """

    notes: list[Note]
    clusters: DataFrame
    tests: DataFrame
    rates: DataFrame
    representation: DataFrame
    repairs: DataFrame
    moves: DataFrame | None
    distances: DataFrame | None
    memberships: DataFrame | None

    def __str__(self):
        return "\n".join(f"{note.headline} {note.text}" for note in self.notes)

    def _repr_html_(self):
        return as_html(self.notes)

    def write(
        self, path: str | PathLike[str], *, title: str | None = None, provenance: dict[str, str] | None = None
    ) -> Path:
        """Write one self-contained HTML page, sentences first.

        Parameters
        ----------
        path : str or os.PathLike
            The file to write, named .html.
        title : str, optional
            A heading of your own.
        provenance : dict of str to str, optional
            What to say of the source, {term: text}.

        Returns
        -------
        pathlib.Path
            The file.

        Raises
        ------
        ValueError
            If the path does not end in .html.
        FileNotFoundError
            If the folder of the path does not exist.
        """
        return write_page_of(self, path, title, provenance or {})


@in_one_place
def audit(
    labels: ArrayLike,
    sensitive_features: ArrayLike | Groups,
    X: ArrayLike | None = None,
    *,
    favourable: "ArrayLike | None" = None,
    crossed: bool = True,
    repair: bool = True,
    min_balance: Literal["exact"] | float = "exact",
    level: float = 0.95,
    tree: "DataTree | None" = None,
    progress_bar: bool = False,
) -> Audit:
    """Look at clusters that somebody else made: who is short of what, by how many rows, and beyond chance or not.

    Every attribute has a test of its own and then, with `crossed`, every pair of attributes and the combinations of all have
    one: no attribute changes the verdict on another, or on a pair. Its counts are held against what drawing clusters of these
    sizes by lot would give: hypergeometric laws, exact, with the number of counts of the attribute accounted for. A repair is
    looked for that makes the clusters balanced with few moves.

    Parameters
    ----------
    labels : array-like of shape (n_obs,)
        The cluster of every row: numbers or text.
    sensitive_features : array-like of shape (n_obs,) or (n_obs, n_attributes)
        Protected attributes.
    X : array-like of shape (n_obs, n_features), optional
        Numbers by which the clusters were made, scaled as they were then. With them there are individual distances, what a
        repair costs, and who would move.
    favourable : array-like, optional
        The clusters that it is good to be in. With them there are rates at which groups are selected, and impact ratios.
    crossed : bool, default True
        Whether to look at pairs and all combinations of several attributes too, and to balance the combinations beside each
        attribute on its own. Where that is impossible, a repair keeps every attribute to within one row, and the combinations
        as near as it can.
    repair : bool, default True
        Whether to look for a repair.
    min_balance : "exact" or float, default "exact"
        What balanced means: to within one row, or a Balance of at least so much.
    level : float, default 0.95
        Probability that all counts of an attribute are inside their ranges if clusters are drawn by lot.
    tree : xarray.DataTree, optional
        A posterior of these rows, or of some of them. Rows are found by their names, or by their places if the posterior is of
        an array, which has no names.
    progress_bar : bool, default False
        Whether to show progress bars for work that takes more than a few seconds.

    Returns
    -------
    Audit

    Raises
    ------
    ValueError
        Lengths or indexes that differ, missing values, a `level` outside (0, 1), a posterior with fewer clusters, clusters or
        groups that nearly every row has for itself, an attribute of more than 20 numbers, `favourable` clusters that are none.

    Examples
    --------
    >>> import bayesfair as bf
    >>> segments = ["gold"] * 10 + ["basic"] * 10
    >>> found = bf.audit(segments, ["f", "m"] * 3 + ["m"] * 4 + ["f"] * 7 + ["m"] * 3)
    >>> table = found.representation.set_index(["cluster", "group"])
    >>> table.loc[("gold", "f"), ["count", "low", "high"]].astype(int).tolist()
    [3, 3, 7]
    """
    check_same_rows(labels=labels, sensitive_features=sensitive_features, X=X)
    if not 0 < check_number("level", level) < 1:
        raise ValueError(message("level", "be between 0 and 1", level, "The usual choice is 0.95."))
    code, clusters = _clusters(labels)
    declared(bool).check("crossed", crossed)
    declared(bool).check("repair", repair)
    declared(bool).check("progress_bar", progress_bar)
    groups = groups_for_fit(sensitive_features, len(code), crossed=crossed)
    attributes = _attributes(groups)
    for part in [one for one in attributes.values() if not one.parts]:
        check_shared("sensitive_features", part.names, len(code), part.column)
        _check_bands(part)
    constraint = balance_constraint(groups, min_balance)  # small groups need no warning here
    constraint = each_and_together(groups) if groups.crosses and is_exact(constraint) else constraint
    indexes = [index_of(one) for one in (labels, sensitive_features, X)]
    index = next((one for one in indexes if one is not None), None)
    if X is not None:
        warn_of_scales(check_features(X), column_names(X))
    names = np.arange(len(code)) if index is None else index
    outcomes = _outcomes(code, clusters, favourable)
    tables, first_of = _tables(code, attributes, outcomes.get(FAVOURABLE))
    work = len(tables) * DRAWN + sum(len(clusters) * len(one.names) for one in attributes.values())
    with progress(work, "what chance could do", progress_bar, delay=SHORT) as bar:
        tests = _with_repeated(independence(tables, level, bar.update), first_of)
        counts = _beyond_chance(representation(code, clusters, attributes, level, bar.update), tests)
    repairs, moves = _repairs(code, clusters, groups, constraint, X, names, repair, progress_bar)
    found = Audit(
        [],
        cluster_report(labels, groups, overall=True),
        tests,
        selection_rates(attributes, outcomes, level),
        counts,
        repairs,
        moves,
        None if X is None else _distances(X, labels),
        None if tree is None else _memberships(tree, code, clusters, index, groups),
    )
    good = None if favourable is None else _favourable(clusters, favourable)
    pairs = _parts_of_pairs(attributes, groups)
    found.representation.attrs.update(is_crossed=bool(groups.crosses), pairs=pairs, favourable=good)
    found.rates.attrs["favourable"] = good
    return found._replace(notes=notes_of(found, constraint))


def _check_bands(part):
    """Raise a ValueError for an attribute of many numbers, such as ages, whose every value would be a group."""
    values = numbers_of(part)
    if not len(values):
        return
    cuts = ", ".join(f"{cut:g}" for cut in np.unique(np.quantile(values[part.code], [0.25, 0.5, 0.75])))
    rule = f"be in bands if an attribute has more than {MOST_NUMBERS} numbers"
    remedy = f"Pass pandas.cut(values, [-inf, {cuts}, inf]), which are quartiles. "
    remedy += "Codes are text: pass 'code ' + values.astype(str)."
    raise ValueError(message("sensitive_features", rule, f"{len(values):,}{of_column(part.column)}", remedy))


def _favourable(clusters, favourable):
    """The names of the favourable ones among the `clusters`, which are some and not all."""
    asked = [str(one) for one in ([favourable] if isinstance(favourable, str) else np.ravel(favourable))]
    names, remedy = {str(name): name for name in clusters}, f"The clusters are: {listed(clusters)}."
    unknown = [one for one in asked if one not in names]
    if unknown:
        near = _nearest(unknown[0], names)
        meant = f"Did you mean {near!r}? " if near else ""
        raise ValueError(message("favourable", "name clusters", repr(unknown[0]), meant + remedy))
    if not 0 < len({*asked}) < len(names):
        got = "all of them" if asked else "none"
        raise ValueError(message("favourable", "name some of the clusters, not all", got, remedy))
    return [names[one] for one in names if one in asked]


def _nearest(text, names):
    """The name that `text` most likely means, upper case or not; None if none is near."""
    folded = {name.strip().casefold(): name for name in names}
    return next((folded[one] for one in get_close_matches(text.strip().casefold(), folded, 1)), None)


def _outcomes(code, clusters, favourable):
    """{outcome: mask (N,) of who has it}: to be in a favourable cluster or, if none is declared, in each of them."""
    if favourable is None:
        return {name: code == k for k, name in enumerate(clusters)}
    good = _favourable(clusters, favourable)
    return {FAVOURABLE: np.isin(code, [k for k, name in enumerate(clusters) if name in good])}


def _tables(code, attributes, selected):
    """({(attribute, question): counts}, {(attribute, question): the one with its counts}).

    Selection comes first, if there is one; combinations come last. The same groups of rows, by whatever names, and the same
    clusters make one table: with two clusters those are the favourable one and the other.
    """
    asked = ({} if selected is None else {FAVOURABLE: selected.astype(np.int32)}) | {CLUSTERS: code}
    sides, tables, first_of, known = {question: _parts(row) for question, row in asked.items()}, {}, {}, {}
    for name, groups in attributes.items():
        own = _parts(groups.code)
        for question, row in asked.items():
            first_of[name, question] = first = known.setdefault((own, sides[question]), (name, question))
            if first == (name, question):
                tables[first] = cell_masses(row, groups.code, (int(row.max()) + 1, len(groups.names)))
    return tables, first_of


def _parts(code):
    """What is the same for codes (N,) that part the rows alike."""
    _, first, code = np.unique(code, return_index=True, return_inverse=True)
    return first[code].tobytes()


def _with_repeated(tests, first_of):
    """The `tests` with a line for every question that has the table of another one, which it is the `same_as`."""
    attrs, tests = tests.attrs, tests.set_index(["attribute", "question"])
    every = tests.loc[list(first_of.values())].set_index(tests.index.from_tuples(first_of, names=tests.index.names))
    same = [None if key == first else f"{first[0]}, {first[1]}" for key, first in first_of.items()]
    every = every.assign(same_as=same).reset_index()
    every.attrs.update(attrs)
    return every


def _beyond_chance(table, tests):
    """The `representation`, where counts are beyond chance only if the test of their attribute is."""
    related = tests.loc[(tests["question"] == CLUSTERS) & tests["beyond_chance"], "attribute"]
    return table.assign(beyond_chance=table["beyond_chance"] & table["attribute"].isin(related))


def _distances(X, labels):
    """`distance_report` with the `units` in its `attrs`."""
    table = distance_report(X, labels, overall=True)
    scaled = noted_scaling(X) is not None
    units = "standard deviations of the features" if scaled else "the units of the features as they are given"
    table.attrs["units"] = units
    return table


def _clusters(labels):
    """(codes (N,), the clusters in sorted order) of hard labels."""
    if np.ndim(labels) != 1:
        remedy = "Pass one column, such as table['segment']."
        raise ValueError(message("labels", "be one label for each row", f"{np.ndim(labels)} dimensions", remedy))
    code, clusters = encode_assignment(labels)
    check_shared("labels", clusters, len(code), str(getattr(labels, "name", None) or ""))
    return np.asarray(code, np.int32), clusters


def _attributes(groups) -> dict[str, Groups]:
    """Every attribute under its name and, if they are balanced together, every pair of three or more and their combinations."""
    pairs = combinations(groups.crosses, 2) if len(groups.crosses) > 2 else ()
    crossed = {_name(pair): cross_attributes(pair) for pair in pairs}
    each = {part.column: part for part in groups.parts} | crossed
    each = {name: one._replace(code=one.code[groups.code]) for name, one in each.items()}
    return each if groups.attributes else each | {_name(groups.crosses) or groups.column or "group": groups}


def _name(parts):
    return " x ".join(part.column for part in parts)


def _parts_of_pairs(attributes, groups):
    """{pair: {attribute: {group of the pair: that of the attribute}}} among three `attributes` or more, not of all `groups`."""
    pairs = {name: one for name, one in attributes.items() if one is not groups and one.parts}
    return {
        name: {part.column: {group: part.names[at] for group, at in zip(pair.names, part.code)} for part in pair.parts}
        for name, pair in pairs.items()
    }


def _repairs(code, clusters, groups, constraint, X, names, wanted, progress_bar):
    """(DataFrame of the moves and costs of each repair, DataFrame of the rows that move, or None if none is `wanted`).

    The first has a `room`, see `Moves`, and the `sizes` of clusters in its `attrs`.
    """
    import pandas as pd

    room, made = _made(code, groups, constraint, X, len(clusters), progress_bar) if wanted else (None, {})
    labels = {GIVEN: code} | made
    found = {
        name: {"moved": int((one != code).sum())}
        | _balance_of(cell_masses(one, groups.code, (len(clusters), len(groups.names))), groups, constraint)
        | ({} if X is None else {"within_ss": distance_report(X, one).attrs["within_ss"]})
        for name, one in labels.items()
    }
    table = pd.DataFrame.from_dict(found, orient="index")
    if X is not None:
        table["cost_increase"] = [share_above(cost, table.loc[GIVEN, "within_ss"]) for cost in table["within_ss"]]
    sizes = {name: np.bincount(one, minlength=len(clusters)).tolist() for name, one in labels.items()}
    table.attrs.update(room=room, sizes={name: dict(zip(clusters, held)) for name, held in sizes.items()})
    return table, _moves(labels, clusters, groups, names) if wanted else None


def _made(code, groups, constraint, X, n_clusters, progress_bar):
    """(the `room` of `Moves`, {repair: labels (N,)}); None and nothing if none is found."""
    from bayesfair.balanced.repairs import moves_needed, repair  # loads Numba

    if X is not None:
        made = repair(_problem(X, groups, constraint, n_clusters), code, progress_bar)
        each = {} if made is None else {FEWEST: made.fewest, CHEAPEST: made.cheapest}
        return getattr(made, "room", None), {name: one for name, one in each.items() if one is not None}
    needed = moves_needed(constraint, cell_masses(code, groups.code, (n_clusters, len(groups.names))))
    return (None, {}) if needed is None else (needed.room, {FEWEST: _by_lot(code, groups.code, needed.counts)})


def _by_lot(labels, code, counts):
    """Labels (N,) of these counts (clusters, groups): lots decide which rows of a group leave a cluster that has too many."""
    rng, moved = np.random.default_rng(SEED), labels.copy()
    for group, wanted in enumerate(counts.T):
        rows = rng.permutation(np.flatnonzero(code == group))
        change = wanted - np.bincount(labels[rows], minlength=len(wanted))
        leaving = [rows[labels[rows] == k][:surplus] for k, surplus in enumerate(np.maximum(-change, 0))]
        moved[np.concatenate(leaving)] = np.repeat(np.arange(len(wanted)), np.maximum(change, 0))
    return moved


def _problem(X, groups, constraint, n_clusters):
    """The problem of `BalancedKMeans` with these features."""
    from bayesfair.balanced.centroids import CENTROIDS
    from bayesfair.balanced.problem import BalancedProblem

    names, X = column_names(X), check_features(X)
    check_same_length("X", len(X), "labels", len(groups.code))
    Z, _ = standardise(X, names=names)
    return BalancedProblem(Z, groups.code, np.ones(len(Z)), constraint, CENTROIDS["kmeans"], n_clusters)


def _balance_of(counts, groups, constraint):
    """The balance of clusters with these counts (K, J): of every attribute, and of combinations that are balanced."""
    off = {name: float(rows_off(held).max()) for name, (_, held) in looked_at(counts, groups).items()}
    if groups.attributes:
        off.popitem()
    figures = {"balance": float(cluster_balance(counts, groups).min()), "off_by": max(off.values())}
    figures |= {f"off_by[{name}]": most for name, most in off.items()} if groups.parts else {}
    return {"is_balanced": bool(constraint.satisfied(counts).all()), **figures}


def _moves(labels, clusters, groups, names):
    import pandas as pd

    moved = np.any([one != labels[GIVEN] for one in labels.values()], axis=0)
    cluster = np.array(clusters, dtype=object)
    columns = {"group": np.array(groups.names, dtype=object)[groups.code[moved]]}
    columns |= {name: cluster[one[moved]] for name, one in labels.items()}
    return pd.DataFrame(columns, index=pd.Index(names[moved], name="obs"))


def _memberships(tree, code, clusters, index, groups):
    """`memberships` of the rows of a posterior, with the names of the given clusters and of the rows' groups.

    `index` (N,): names of the rows, None without.
    """
    n_clusters = count_clusters(tree)
    if len(clusters) > n_clusters:
        remedy = f"Fit with n_clusters={len(clusters)}."
        raise ValueError(message("tree", f"have at least {len(clusters)} clusters", n_clusters, remedy))
    place = _places(tree, index, len(code))
    if (place < 0).any():
        tree, place = tree.isel(obs=np.flatnonzero(place >= 0), missing_dims="ignore"), place[place >= 0]
    table = memberships(tree, reference=code[place]).drop(columns=["group", "placed_for_balance"], errors="ignore")
    cluster = np.array(clusters, dtype=object)
    other = table["runner_up"].to_numpy(int, na_value=-1)
    names = [*clusters, *(f"another, {k}" for k in range(len(clusters), n_clusters))]
    named = [None if k < 0 else names[k] for k in other]
    sets = [" or ".join(str(names[int(k)]) for k in one.split(" or ")) for one in table["label_set"]]
    group = np.array(groups.names, dtype=object)[groups.code[place]]
    table = table.assign(cluster=cluster[code[place]], runner_up=named, label_set=sets, group=group)
    table.attrs.update(matched=_matched(tree, code[place], clusters), chains=judge(tree))
    return table


def _places(tree, index, n_obs):
    """The place of every row of the tree among `n_obs` rows with these names, -1 for none; positions if neither has names."""
    import pandas as pd

    known, obs = names_of_rows(tree), tree["posterior"]["labels"]["obs"].values
    if index is None or (known is None and not np.array_equal(np.sort(index.astype(str)), np.sort(obs.astype(str)))):
        index = np.arange(n_obs) if known is None else np.zeros(0)
    names = pd.Index(index if obs.dtype.kind in "iuf" else list(map(str, index)))
    if not names.is_unique:
        got, remedy = "repeated names", "Drop the index if rows match by position."
        raise ValueError(message("labels", "name each row once", got, remedy))
    place = names.get_indexer(pd.Index(obs))
    if (place < 0).all():
        got, remedy = f"rows such as {str(obs[0])!r}", "Use the same row names, or none, in both."
        raise ValueError(message("tree", "be of rows that `labels` has", got, remedy))
    return place


def _matched(tree, code, clusters):
    """{given cluster: the share of rows of the given cluster in the draws' cluster that stands for it}, over all draws."""
    labels = flat_labels(numbered_alike(about(tree, code)))
    n_clusters = max(count_clusters(tree), len(clusters))
    tables = tables_with(labels, code.astype(np.int32), len(clusters), n_clusters).sum(0)  # (drawn, given)
    own, size = np.diagonal(tables), tables.sum(1)[: len(clusters)]
    return {name: float(one / max(all_of, 1)) for name, one, all_of in zip(clusters, own, size)}

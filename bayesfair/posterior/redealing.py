"""The files of a run whose rows are in several processes, as files for another number of processes."""

import os
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayesfair._check import check_integer, message
from bayesfair._draws import Draws
from bayesfair._journal import read_journal, states
from bayesfair._partitions import parts_of
from bayesfair.fairness import Groups
from bayesfair.posterior.access import groups_of
from bayesfair.posterior.files import finish_run, opened, read_tree
from bayesfair.posterior.saved import FORMAT, plain, restored, settings_of
from bayesfair.posterior.state import STATE, arrays_of
from bayesfair.posterior.stored import about_run, begin_run, check_store, groups_of_run, is_unfinished, modes_of_run
from bayesfair.posterior.tree import draws_of

__all__ = ["redeal"]

ALIKE = "seed", "shares", "thinning", "tuning", "names"  # settings that the shares of a run have in common
STATES = {  # as every process, or one with all rows, has them
    "labels": {"label", "lambda_c", "key"},
    "optimal": {"cluster", "members", "lambda_f", "lambda_c", "fairlet_loss", "fairlet_factor", "key"},
}
ROWS = {"label", "cluster", "members"}  # of which each process has its own


class _Share(NamedTuple):
    """What is stored of a run in the file of one process. `numbered`: how many draws have the clusters' numbers that a finished
    run gave them."""

    X: np.ndarray
    groups: Groups
    draws: Draws
    wanted: int
    sweep: int
    state: dict[str, np.ndarray]
    state_dims: dict[str, tuple[str, ...]]
    settings: dict
    feature_names: list
    obs_names: np.ndarray
    n_clusters: int
    modes: object  # xarray.Dataset or None
    numbered: int


def redeal(paths: list[str | os.PathLike[str]], into: list[str | os.PathLike[str]]) -> None:
    """Write the files `paths`, one of each process of a run by rows, as files `into` for as many processes as these are.

    The rows of process 0 come first, then those of process 1, and so on; the new processes get equal parts of them, in this
    order. With target="optimal" fairlets stay whole: parts are consecutive fairlets in the order of their first rows, equal to
    within about a fairlet, and within a part the rows are in the old order. Every file has the names of its rows as its
    coordinate `obs`: those that the index of a data frame gave them in `fit`, or else their numbers in the old order.

    Draws, state and settings are those of the old files, which stay as they are, so that the run goes on from there, its
    fairlets too: in each of the new processes with `GibbsFairClustering.load(path).set_params(mesh=mesh).resume()`. One new
    file is an ordinary run of all rows, which needs no `mesh`. Of several the run counts as not finished: where it had all of
    its draws, `resume()` makes none and finishes it; `resume(n)` makes n more.

    Where a process was killed, the draws are those up to the last ones that all files have. Draws are copied block by block:
    there need be no memory for them. Files are written whole, all of them or none.

    Raises
    ------
    ValueError: files that are not all the shares of one run, more new files than rows or fairlets. FileNotFoundError: no such
    file. FileExistsError: a new file that is there already.
    """
    into = [check_store(path) for path in into]
    _check_differ("into", into, "Give every process a file of its own.")
    shares = _together([Path(path) for path in paths])
    n_obs = sum(len(share.X) for share in shares)
    members = _members(shares) if "members" in shares[0].state else np.arange(n_obs)[:, None]
    remedy = f"There are {len(members)} {'fairlets' if members.shape[1] > 1 else 'rows'}: name fewer files."
    check_integer("into", len(into), maximum=len(members), remedy=remedy)
    with _all_or_none() as written:
        for process, (path, rows) in enumerate(zip(into, _dealt(parts_of(members, n_obs), len(into)))):
            share = _part(shares, rows, members)
            _write(path, share._replace(settings={**share.settings, "shares": len(into), "process": process}))
            written.append(path)
        if len(into) == 1 and shares[0].draws.labels.shape[1] >= shares[0].wanted:
            finish_run(into[0])


def _check_differ(argument, paths, remedy):
    """ValueError where there are none, or one of them twice."""
    if not paths or len({path.resolve() for path in paths}) < len(paths):
        raise ValueError(message(argument, "name files that differ", [str(path) for path in paths], remedy))


@contextmanager
def _all_or_none():
    """A list of files that were written, which are deleted where what is done within fails."""
    written = []
    try:
        yield written
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


# The old files


def _together(paths) -> list[_Share]:
    """The shares of a run in the order of their processes, with the draws and the state after the last ones that all have."""
    _check_differ("paths", paths, "Pass the file of every process once.")
    trees = {path: read_tree(path) for path in paths if not _is_unfinished(path)}
    has = [{trees[path]["posterior"].sizes["draw"]} if path in trees else set(states(path)) for path in paths]
    last = max(set.intersection(*has), default=None)
    if last is None:
        raise _refused(" and ".join(f"{max(draws)} draws" for draws in has))
    shares = [_of_tree(trees[path]) if path in trees else _of_journal(path, last) for path in paths]
    _check_one_run(shares)
    return sorted(shares, key=lambda share: share.settings.get("process", 0))


def _is_unfinished(path):
    with opened(path):
        return is_unfinished(path)


def _of_tree(tree) -> _Share:
    """Of a run that is finished, or of one in memory that was saved."""
    settings, draws = settings_of(tree), draws_of(tree)
    state = arrays_of(tree[STATE]) if STATE in tree.children else {}
    n_draws = draws.labels.shape[1]
    return _Share(
        X=tree["observed_data"]["X"].values,
        groups=groups_of(tree),
        draws=draws,
        wanted=settings.get("wanted", n_draws),
        sweep=settings.get("sweep", 0),
        state=state,
        state_dims={name: tree[STATE][name].dims for name in state},
        settings=settings,
        feature_names=tree["posterior"]["feature"].values.tolist(),
        obs_names=tree["posterior"]["obs"].values,
        n_clusters=int(tree.attrs["n_clusters"]),
        modes=tree["modes"].to_dataset() if "modes" in tree.children else None,
        numbered=n_draws,
    )


def _of_journal(path, last) -> _Share:
    """Of a run that is not finished, as it was after its `last` draws, numbers of clusters as the sampler has them."""
    stored = read_journal(path, last)
    about = stored.about
    return _Share(
        X=stored.arrays["X"],
        groups=groups_of_run(stored),
        draws=stored.draws,
        wanted=stored.wanted,
        sweep=stored.sweep,
        state=stored.state,
        state_dims={name: tuple(dims) for name, dims in about["state_dims"].items()},
        settings=restored(about["settings"]),
        feature_names=about["feature_names"],
        obs_names=stored.arrays.get("obs", np.arange(len(stored.arrays["X"]))),
        n_clusters=about["n_clusters"],
        modes=modes_of_run(stored),
        numbered=about.get("numbered", 0),
    )


def _check_one_run(shares):
    """ValueError where files are not all the shares of one run that can be dealt anew."""
    for share in shares:
        target = share.settings.get("parameters", {}).get("target")
        if share.settings.get("estimator") != "GibbsFairClustering" or share.settings.get("format") != FORMAT:
            raise _refused("what no GibbsFairClustering of this version wrote")
        if set(share.state) not in STATES.values():
            raise _refused(f"a run with target={target!r} and {', '.join(sorted(share.state))} in its state")
        if share.settings.get("shares") in (None, 1):
            raise _refused("a run of one process, which has all rows")
    known, n_processes = [share.settings.get("process") for share in shares], shares[0].settings.get("shares")
    if n_processes != len(shares):
        raise _refused(f"{len(shares)} of the {n_processes} files of a run")
    if any(process in known[:place] for place, process in enumerate(known) if process is not None):
        raise _refused(f"files of the processes {', '.join(map(str, known))}")
    first, others = _of_all_rows(shares[0]), map(_of_all_rows, shares[1:])
    if any(one != first for one in others):
        raise _refused("files of several runs")


def _of_all_rows(share: _Share):
    """What every share of a run has of all rows, as bytes."""
    values = {**share.draws.scalars, **{name: share.state[name] for name in share.state if name not in ROWS}}
    told = {name: np.ascontiguousarray(array).tobytes() for name, array in values.items()}
    return told, plain({name: share.settings.get(name) for name in ALIKE}), share.sweep, share.numbered


def _refused(got):
    remedy = "Pass the files of all processes of one fit with a mesh of rows."
    return ValueError(message("paths", "name the shares of one run", got, remedy))


# The new ones


def _dealt(unit, n_parts):
    """The rows of each part, ascending: whole units, in the order of their first rows, about as many rows in every part and at
    least one unit; `unit` (obs,): of each row."""
    _, first, size = np.unique(unit, return_index=True, return_counts=True)
    order, number = np.argsort(first), np.arange(1, n_parts)
    middle = np.cumsum(size[order]) - size[order] / 2
    cuts = np.searchsorted(middle, len(unit) * number / n_parts)
    cuts = (
        np.clip(np.maximum.accumulate(cuts - number), 0, len(order) - n_parts) + number
    )  # of which no two are the same
    part = np.empty(len(order), int)
    part[order] = np.searchsorted(cuts, np.arange(len(order)), side="right")
    return [np.flatnonzero(part[unit] == which) for which in range(n_parts)]


def _first_rows(shares):
    """Of every share among the rows of all; after them how many there are."""
    return np.cumsum([0, *(len(share.X) for share in shares)])


def _members(shares):
    """Members of all fairlets (fairlets, slots) by the numbers of all rows; the number of these where a slot is empty."""
    first, tables = _first_rows(shares), [share.state["members"][0] for share in shares]
    width = max(table.shape[1] for table in tables)
    whole = np.full((sum(map(len, tables)), width), first[-1])
    at = 0
    for share, table, start in zip(shares, tables, first):
        own = whole[at : at + len(table), : table.shape[1]]
        own[:] = np.where(table < len(share.X), table + start, first[-1])
        at += len(table)
    return whole


def _part(shares, rows, members) -> _Share:
    """Some rows of all that the shares have; `rows`: their numbers (obs,), ascending. `members`: of all fairlets."""
    first = _first_rows(shares)
    cuts = np.searchsorted(rows, first)
    own = [rows[low:high] - start for low, high, start in zip(cuts, cuts[1:], first)]

    def joined(arrays, axis=0):
        return np.concatenate([np.take(array, some, axis) for array, some in zip(arrays, own)], axis)

    one, modes = shares[0], None
    if one.modes is not None:
        labels = joined([share.modes["labels"].values for share in shares], 1)
        modes = one.modes.assign(labels=(("mode", "obs"), labels))
    labels = _LabelsOfShares([share.draws.labels for share in shares], own)
    return one._replace(
        X=joined([share.X for share in shares]),
        groups=one.groups._replace(code=joined([share.groups.code for share in shares])),
        draws=one.draws._replace(labels=labels),
        state={**one.state, **_state_of(shares, rows, members, joined)},
        obs_names=rows if _are_counted(shares) else joined([share.obs_names for share in shares]),
        modes=modes,
    )


def _state_of(shares, rows, members, joined):
    """What the state has of some rows."""
    if "label" in shares[0].state:
        return {"label": joined([share.state["label"] for share in shares], 1)}
    members = _renumbered(members, rows, _first_rows(shares)[-1])
    own = (members < len(rows)).any(1)
    cluster = np.concatenate([share.state["cluster"] for share in shares], 1)[:, own]
    return {"cluster": cluster, "members": np.stack([members[own]] * len(cluster))}


def _renumbered(members, rows, n_obs):
    """`members` by their places among `rows`; `len(rows)` where they are not there."""
    place = np.full(n_obs + 1, len(rows), np.int32)
    place[rows] = np.arange(len(rows))
    return place[members]


class _LabelsOfShares:
    """Labels (chain, draw, obs) of some rows of every share, which are read as they are indexed by draws."""

    def __init__(self, labels, rows):
        self._labels, self._rows = labels, rows
        self.dtype = np.result_type(*labels)
        self.shape = *labels[0].shape[:2], sum(map(len, rows))

    def __getitem__(self, draws):
        return np.concatenate([labels[draws][..., some] for labels, some in zip(self._labels, self._rows)], -1)


def _are_counted(shares):
    """Are rows named by nobody, so that in every share they are counted from 0?"""
    return all(np.array_equal(share.obs_names, np.arange(len(share.X))) for share in shares)


def _write(path, share: _Share):
    about = about_run(
        share.groups,
        settings=share.settings,
        feature_names=share.feature_names,
        obs_names=share.obs_names,
        n_clusters=share.n_clusters,
        modes=share.modes,
        state_dims=share.state_dims,
        is_share=share.settings["shares"] > 1,
        numbered=share.numbered,
    )
    begin_run(path, share.X, about, share.wanted, share.draws, share.sweep, share.state, is_new=True).close()

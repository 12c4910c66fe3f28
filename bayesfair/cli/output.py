"""Where results go: places checked before any work, runs kept wherever they can be, tables and verdicts in print."""

import os
import shutil
import sys
import tempfile
import warnings
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from shlex import quote
from textwrap import fill

import numpy as np

import bayesfair as bf
from bayesfair._check import message
from bayesfair._files import check_destination, write_whole
from bayesfair._progress import progress
from bayesfair.cli.exit_status import DONE, FAILED, writing
from bayesfair.posterior.diagnostics import scalar_table
from bayesfair.posterior.in_short import brief
from bayesfair.posterior.saved import cost_of
from bayesfair.posterior.schema import groups_of, variable
from bayesfair.posterior.store import is_stored
from bayesfair.posterior.verdict import judge
from bayesfair.posterior.view import View

LINE = 80  # letters
PICTURES = {  # names of files, and what `bayesfair.reports.pictures` draws there
    "profile.png": "draw_traits",
    "clustering.png": "draw_uncertainty",
    "uncertainty_profile.png": "draw_profile",
    "co_clustering.png": "draw_co_clustering",
    "trace.png": "draw_trace",
    "modes.png": "draw_modes",
}


def place_for(path, argument="--out"):
    """`path`, found fit for a file to be written there, its folder made if need be; ValueError or OSError if not."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        got, remedy = f"{str(path.parent)!r} ({error.strerror})", "Choose another folder."
        raise ValueError(message(argument, "be in a folder that exists or can be made", got, remedy)) from error
    return check_destination(path)


def check_output(places, reads, overwrite, argument="--out"):
    """ValueError where a command would replace a file that it reads, or one that is there already unless `overwrite`."""
    for place in places:
        if not place.exists():
            continue
        got = repr(os.fspath(place))
        for file in reads:
            if file is not None and file.exists() and place.samefile(file):
                rule, remedy = f"be another file than {os.fspath(file)!r}, which is read", "Choose another name."
                raise ValueError(message(argument, rule, got, remedy))
        if not overwrite:
            remedy = "Choose another name, or add --overwrite to replace the file."
            raise ValueError(message(argument, "name a file that is not there yet", got, remedy))


@contextmanager
def replaced(path, mesh):
    """Within the block an earlier run stands aside, under a free name. It comes back if no new run has begun by the end, as
    when its settings are refused; otherwise it is deleted."""
    from bayesfair.distributed.messages import first_then_others, sharing

    aside = _free(path)
    with sharing(mesh, "chains"):  # before any of the processes looks at the place
        moved = first_then_others(lambda: path.exists() and path.rename(aside), lambda: None)
    try:
        yield
    finally:
        if moved and path.exists():
            shutil.rmtree(aside) if aside.is_dir() else aside.unlink()
        elif moved:
            aside.rename(path)


def shows_progress(quiet=False):
    """Whether somebody looks at standard error, and wants to."""
    return not quiet and sys.stderr is not None and sys.stderr.isatty()


def save(estimator, path):
    """Save the run to `path` or, should that fail after all, beside it or among temporary files; (where it is, exit status).

    Where it is not where it was asked for, or not whole, that is told in a warning; None is where no place took it. A run
    whose draws went to a file as they were made is there already.
    """
    if is_stored(estimator.posterior_):
        print(f"the posterior is in {path}")
        return path, DONE
    for place in _places(path):
        try:
            estimator.save(place)
        except OSError as error:
            warnings.warn(f"The run could not be saved to {os.fspath(place)!r}: {error}", RuntimeWarning, stacklevel=2)
        else:
            print(f"saved the posterior to {place}")
            return place, DONE if place == path else FAILED
    warnings.warn("The draws are lost: no place took them.", RuntimeWarning, stacklevel=2)
    return None, FAILED


def _places(path):
    """`path`, then where else a file may go; found one by one, for a full disk may leave no temporary folder either."""
    yield path
    yield _free(path)
    with suppress(OSError):
        yield _free(Path(tempfile.gettempdir()) / path.name)


def _free(path):
    """The first of run-1.nc, run-2.nc, ... that is no file yet."""
    names = (path.with_stem(f"{path.stem}-{number}") for number in count(1))
    return next(name for name in names if not name.exists())


def leaves_posterior(estimator):
    """Whether its fit is a posterior, which is saved as a run; that of other engines is a table of clusters."""
    return hasattr(estimator, "save")


def print_fit(estimator, groups, weights):
    """How an engine's fit ended, and its clusters."""
    ended = "converged" if estimator.converged_ else "not converged"
    value = estimator.objective_trace_[-1]
    print(f"{type(estimator).__name__}: {ended} after {estimator.n_iter_} iterations, objective {value:.6g}")
    print_clusters("Clusters", estimator.labels_, groups, weights)


def print_point_estimate(estimator):
    """The clusters of a posterior's point estimate."""
    tree = estimator.posterior_
    weight = variable(tree, "constant_data", "weight")
    weights = None if weight is None else weight.values
    print_clusters("Clusters of the point estimate", estimator.labels_, groups_of(tree), weights)


def print_clusters(title, labels, groups, weights):
    """Sizes, groups and balance of clusters, by rows and by their weights, if any; sizes alone where there are no groups."""
    print(f"\n{title}")
    if groups is None:
        clusters, sizes = np.unique(labels, return_counts=True)
        print("\n".join(["cluster  size", *(f"{k:>7}  {size:>4}" for k, size in zip(clusters, sizes))]))
        return
    report = bf.fairness.report(labels, groups)
    counts = [name for name in report if name.startswith("count[")]
    print(report[["size", *counts, "balance", "off_by"]].round(3).to_string(line_width=LINE))
    least, best = report.attrs["balance"], report.attrs["best_balance"]
    off = np.floor(100 * report.attrs["off_by"]) / 100  # what is below one person is not told as one
    print(f"\nThe count farthest from its group's share is {off:.2f} persons away from it.")
    print(f"The least balance of a cluster is {least:.3f}; that of the data, which no clustering exceeds, {best:.3f}.")
    if weights is not None:
        weighed = bf.fairness.balance(labels, groups, sample_weight=weights)
        print(f"All of this counts rows. By their weights the least balance is {weighed:.3f}.")


def print_summary(tree):
    """What a run took, the diagnostics of every scalar, and `print_verdict`; of a run that is not finished, how far it came."""
    view, cost = View.of(tree), cost_of(tree)
    if "unfinished" in tree.attrs:
        print(f"The run is not finished: it has {tree.attrs['unfinished']}. Go on with bayesfair resume.")
    if cost:
        print(f"Sampled in {cost}.")
    print(f"\nDiagnostics\n{scalar_table(view)}")
    print_verdict(view)


def print_verdict(tree):
    """The posterior in short, as reports have it, and what to do about the chains."""
    view = View.of(tree)
    said = [f"{note.headline} {note.text}" for note in brief(view)]
    print("", *(fill(text, LINE, break_on_hyphens=False) for text in [*said, judge(view).advice]), sep="\n")


def print_next_steps(path, of_table=""):
    """What can be typed next about the run that `path` holds; `of_table`: how its table is read, where that is known."""
    if path is None:
        return
    run = quote(str(path))
    print(f"\nGo on with\n  bayesfair summary {run}\n  bayesfair memberships {run}{of_table} --out clusters.csv")
    print(f"  bayesfair plot {run} --out pictures\n  bayesfair report {run} --out report.html")


def draw_pictures(tree, folder):
    """The PICTURES of a report that a tree has, as files in `folder`."""
    from bayesfair.reports import pictures
    from bayesfair.reports.contents import read_contents

    contents, drawn = read_contents(tree), []
    with progress(len(PICTURES), "pictures", shows_progress()) as bar:
        for name, draw in PICTURES.items():
            picture = getattr(pictures, draw)(contents)
            if picture is None:
                (folder / name).unlink(missing_ok=True)  # of an earlier run
            else:
                with writing():
                    write_whole([picture.png], folder / name)
                drawn.append(name)
            bar.update(1)
    print(f"drew {', '.join(drawn)} in {folder}")

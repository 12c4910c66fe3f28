"""Places of results: checked before any work; runs saved wherever possible; tables and verdicts in print."""

import os
import shutil
import sys
import tempfile
import warnings
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from io import StringIO
from itertools import count
from pathlib import Path
from shlex import quote
from textwrap import fill

import bayesfair as bf
from bayesfair._check import message
from bayesfair._files import check_destination, write_whole
from bayesfair._numbers import r_hat, rounded_down, rows, rows_away, signed_percent, significant
from bayesfair._progress import progress
from bayesfair.cli.entry import DONE, FAILED, WrongUse, in_shell, writing
from bayesfair.posterior.diagnostics import brief, judge, scalar_table
from bayesfair.posterior.schema import cost_of, groups_of, variable
from bayesfair.posterior.store import is_stored
from bayesfair.posterior.view import View

LINE = 80  # characters
PICTURES = {  # names of files, and what `bayesfair.reports.pictures` draws there
    "profile.png": "draw_traits",
    "clustering.png": "draw_uncertainty",
    "uncertainty_profile.png": "draw_profile",
    "co_clustering.png": "draw_co_clustering",
    "trace.png": "draw_trace",
    "modes.png": "draw_modes",
}
FIGURES = {  # of `bayesfair.compare_clusters`: in words, and how they are written
    "cost": ("cost (sum of squared distances)", significant),
    "fairness_cost": ("price of fairness, above k-means", signed_percent),
    "balance": ("least balance of a cluster", rounded_down),
    "bootstrap_ari": ("stability under new samples (1 is best)", significant),
    "doubt": ("mean probability of another cluster", significant),
    "modes": ("modes that were found", significant),
    "r_hat": ("largest R-hat (below 1.01 is good)", r_hat),
    "bic": ("BIC (less is better)", significant),
    "loo": ("expected log density (more is better)", significant),
    "converged": ("converged", lambda yes: "yes" if yes else "no"),
}


def place_for(path, option="--out"):
    """`path`, if a file can be written there, with its folder made if needed; else an error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        got, remedy = f"{str(path.parent)!r} ({error.strerror})", "Choose another folder."
        raise WrongUse(message(option, "be in a folder that exists or can be made", got, remedy)) from error
    return check_destination(path, option)


def to_go_on(run_file):
    """The path of a saved run to which results will be added; an error if its folder cannot be written."""
    run_file = Path(os.path.realpath(run_file)) if run_file.is_symlink() else run_file
    folder = run_file if run_file.is_dir() else run_file.parent
    if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
        rule, remedy = (
            "be in a folder that you may write to",
            "Copy the run to a folder of yours, and give its name there.",
        )
        raise WrongUse(message("RUN.nc", rule, repr(os.fspath(folder)), remedy))
    return run_file


def check_output(places, arguments, option="--out"):
    """Raise a WrongUse if a command would replace a file that it reads, or an existing one without `--overwrite`."""
    reads = [getattr(arguments, name, None) for name in ("run_file", "table")]
    for place in (place for place in places if place.exists()):
        got = repr(os.fspath(place))
        for file in reads:
            if file is not None and file.exists() and place.samefile(file):
                rule, remedy = f"differ from {os.fspath(file)!r}, which is read", "Choose another name."
                raise WrongUse(message(option, rule, got, remedy))
        if not arguments.overwrite:
            remedy = "Choose another name, or add --overwrite to replace the file."
            raise WrongUse(message(option, "name a file that does not exist yet", got, remedy))


@contextmanager
def replaced(path):
    """Within the block an earlier run is set aside under a free name.

    It comes back if no new run has begun by the end, for example if its settings are refused; otherwise it is deleted.
    """
    aside, moved = _free(path), path.exists()
    if moved:
        path.rename(aside)
    try:
        yield
    finally:
        if moved and path.exists():
            shutil.rmtree(aside) if aside.is_dir() else aside.unlink()
        elif moved:
            aside.rename(path)


def wrapped(text):
    """A text in lines that fit a terminal; options and file names stay whole."""
    return fill(text, LINE, break_on_hyphens=False)


def quietly(quiet):
    """A context that prints nothing if `quiet`."""
    return redirect_stdout(StringIO()) if quiet else nullcontext()


def shows_progress(quiet=False):
    """Is there a reader at standard error who wants progress?"""
    return not quiet and sys.stderr is not None and sys.stderr.isatty()


def save(estimator, path):
    """Save the run to `path`, or else beside it or among temporary files; return (where it is, exit status).

    A warning says if it is elsewhere or not whole; the place is None if every one failed.
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
            if place == path:
                print(f"saved the posterior to {place}")
                return place, DONE
            warnings.warn(f"The run is saved to {os.fspath(place)!r} instead.", RuntimeWarning, stacklevel=2)
            return place, FAILED  # as a warning, which --quiet prints too
    warnings.warn("The draws are lost: they could not be written anywhere.", RuntimeWarning, stacklevel=2)
    return None, FAILED


def _places(path):
    """`path`, then other places for a file; found one by one, as a full disk may have no room for a temporary folder."""
    yield path
    yield _free(path)
    with suppress(OSError):
        yield _free(Path(tempfile.gettempdir()) / path.name)


def _free(path):
    """The first of run-1.nc, run-2.nc, ... that does not exist yet."""
    names = (path.with_stem(f"{path.stem}-{number}") for number in count(1))
    return next(name for name in names if not name.exists())


def print_point_estimate(estimator):
    """Print the clusters of a posterior's point estimate."""
    tree = estimator.posterior_
    weight = variable(tree, "constant_data", "weight")
    weights = None if weight is None else weight.values
    print_clusters("Clusters of the point estimate", estimator.labels_, groups_of(tree), weights)


def print_clusters(title, labels, groups, weights):
    """Print sizes, groups and balance of clusters, by rows and by weights, if any; sizes alone without groups."""
    import pandas as pd

    print(f"\n{title}")
    if groups is None:
        sizes = pd.Series(labels, name="cluster").value_counts(sort=False).sort_index()
        print(sizes.reset_index(name="size").to_string(index=False))
        return
    report = bf.fairness.report(labels, groups)
    counts = [name for name in report if name.startswith("count[")]
    off = [name for name in report if name.startswith("off_by[")] or ["off_by"]
    written = {"balance": rounded_down} | dict.fromkeys(off, rows)
    print(report[["size", *counts, "balance", *off]].to_string(line_width=LINE, formatters=written))
    if groups.attributes:
        print("\nbalance looks at each attribute on its own, not at the combinations that are counted here.")
    told = [f"{rows_away(report.attrs[name])}{name[len('off_by') :].replace('[', ' for ').rstrip(']')}" for name in off]
    print(f"\n{wrapped(f'The count farthest from its share is off by {", ".join(told)}.')}")
    least, best = (rounded_down(report.attrs[name]) for name in ("balance", "best_balance"))
    print(f"The least balance of a cluster is {least}. No clustering exceeds that of the data, {best}.")
    if weights is not None:
        weighed = rounded_down(bf.fairness.balance(labels, groups, sample_weight=weights))
        print(f"These figures count rows. By weight, the least balance is {weighed}.")


def print_comparison(table):
    """Print the table of `bayesfair.compare_clusters`, and the number at its elbow."""
    import pandas as pd

    from bayesfair.estimators.comparison import elbow_of  # loads scikit-learn

    shown = pd.DataFrame({FIGURES[name][0]: table[name].map(FIGURES[name][1]) for name in table})
    print(f"\n{shown.T.rename_axis(columns='number of clusters').to_string(line_width=LINE)}")
    elbow = elbow_of(table)
    if elbow is not None:
        text = f"The elbow of the cost is at {elbow} clusters: from there on a further cluster saves less. "
        text += "Prefer a number at which clusters are stable and few rows are in doubt."
        print(f"\n{wrapped(text)}")


def print_summary(tree):
    """Print the cost of a run, the diagnostics of every scalar, and `print_verdict`."""
    view, cost = View.of(tree), cost_of(tree)
    if cost:
        print(f"Sampled in {cost}.")
    print(f"\nDiagnostics\n{scalar_table(view)}")
    print_verdict(view)


def print_verdict(tree):
    """Print the posterior in short, as in reports, and the advice about the chains."""
    view = View.of(tree)
    said = [f"{note.headline} {note.text}" for note in brief(view)]
    print("", *(wrapped(in_shell(text)) for text in [*said, judge(view).advice]), sep="\n")


def print_next_steps(path, of_table):
    """Print what can be typed next about the run in `path`; `of_table`: the options that read its table, if known."""
    run = quote(str(path))
    print(f"\nGo on with\n  bayesfair summary {run}\n  bayesfair memberships {run}{of_table} --out clusters.csv")
    print(f"  bayesfair plot {run} --out pictures\n  bayesfair report {run} --out report.html")


def draw_pictures(tree, folder):
    """Save the PICTURES of a report that a tree has as files in `folder`."""
    from bayesfair.reports import pictures
    from bayesfair.reports.contents import read_contents

    contents, drawn = read_contents(tree), []
    with progress(len(PICTURES), "pictures", shows_progress()) as bar:
        for name, draw in PICTURES.items():
            picture = getattr(pictures, draw)(contents)
            if picture is None:
                (folder / name).unlink(missing_ok=True)  # left from an earlier run
            else:
                with writing():
                    write_whole([picture.png], folder / name)
                drawn.append(name)
            bar.update(1)
    print(f"drew {', '.join(drawn)} in {folder}")

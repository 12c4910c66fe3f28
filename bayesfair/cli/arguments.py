"""What can be typed: commands, options, and their values from text."""

import argparse
import codecs
import csv
import re
from difflib import get_close_matches
from functools import partial
from pathlib import Path

import bayesfair
from bayesfair._check import check_integer, check_number, message
from bayesfair.cli import commands
from bayesfair.cli.columns import MISSING, THOUSANDS
from bayesfair.cli.exit_status import EXIT_STATUSES
from bayesfair.cli.methods import METHODS
from bayesfair.cli.processes import AUTO

__all__ = ["make_parser"]

LOSSES = ("kmeans", "manhattan", "minkowski", "kl", "itakura-saito", "binary")
COVARIANCES = ("isotropic", "diag", "full")
OBJECTIVES = ("kmeans", "kmedians", "ncut")
INFERENCES = ("nuts", "gibbs", "svi")
TARGETS = ("joint", "cut", "optimal", "labels")  # those of bayesfair.gibbs, which takes a second to import
LARGEST_SEED = 2**32 - 1


class _Parser(argparse.ArgumentParser):
    """argparse with one line per error, and the exit statuses below each help."""

    def __init__(self, **settings):
        settings |= {"formatter_class": argparse.RawDescriptionHelpFormatter, "epilog": EXIT_STATUSES}
        super().__init__(**settings)

    def parse_args(self, args=None, namespace=None):
        """As argparse, but what is not known is told by the command, with the option that it looks like."""
        arguments, unknown = self.parse_known_args(args, namespace)
        if unknown:
            command = self._subparsers._group_actions[0].choices[arguments.command]
            known = command._option_string_actions
            alike = [near for word in unknown for near in get_close_matches(word.split("=")[0], known, 1, 0.75)]
            hint = f". Did you mean {' '.join(alike)}?" if alike else ""
            command.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return arguments

    def error(self, message):
        text = re.sub(r"^argument [^`]+: (?=`)", "", message)  # our own messages name their argument already
        self.exit(2, f"{self.prog}: {text if text.endswith('?') else text.rstrip('.') + '.'} See {self.prog} --help.\n")


def make_parser():
    """The parser of `bayesfair`: what it returns has `command`, and `run` to be called with it."""
    parser = _Parser(prog="bayesfair", description="Bayesian fair clustering with uncertainty.")
    parser.add_argument("--version", action="version", version=f"bayesfair {bayesfair.__version__}")
    added = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_demo(added.add_parser("demo", help="run the main job on the bundled data, leave pictures and a posterior"))
    _add_fit(added.add_parser("fit", help="sample the posterior of a table (CSV, Parquet, Feather)"))
    _add_resume(added.add_parser("resume", help="go on with a run, in its file"))
    _add_summary(added.add_parser("summary", help="print the summary of a saved run"))
    _add_modes(added.add_parser("modes", help="print which modes a run found, and how much mass each has"))
    _add_memberships(added.add_parser("memberships", help="write who is where, how surely and where else, as a table"))
    _add_convert(added.add_parser("convert", help="write the draws of a saved run as a table, or the run by itself"))
    _add_plot(added.add_parser("plot", help="draw the pictures of a saved run"))
    _add_report(added.add_parser("report", help="write one self-contained HTML page about a saved run"))
    return parser


def _add_demo(parser):
    _add(parser, "--out", _path, default=Path("demo-output"), metavar="DIR")
    _add_overwrite(parser)
    defaults = {"num_chains": 4, "num_warmup": 1000, "num_draws": 500}  # enough, and seconds count here
    parser.set_defaults(run=commands.demo)
    _add_seed(_add_sampling(parser, **defaults))


def _add_fit(parser):
    _add(parser, "table", _path, metavar="TABLE.csv")
    where = (
        "where the posterior goes, RUN.nc or RUN.zarr, or the clusters of other methods, a .csv, .parquet or .feather"
    )
    _add(parser, "--out", _path, required=True, metavar="FILE", help=where)
    _add_overwrite(parser)
    _add_reading(parser)
    _add_clustering(parser.add_argument_group("clustering"))
    _add_engines(parser.add_argument_group("of some methods"))
    group = _add_sampling(parser)
    sweeps = "sweeps from draw to draw: a number, or auto, by the autocorrelation in the warm-up (default)"
    _add(group, "--thinning", _thinning, metavar="N", help=sweeps)
    copies = "copies of the chains at higher temperatures cross modes that nothing else does, at several times the cost"
    group.add_argument("--tempering", action="store_const", const=True, help=copies)
    as_made = "keep draws in --out, RUN.zarr, as they are made, not in memory"
    group.add_argument("--store", action="store_true", help=as_made)
    _add_processes(parser)
    _add_quiet(parser)
    parser.add_argument("--resume", nargs="?", type=_not_here, const="RUN.nc", help=argparse.SUPPRESS)
    parser.set_defaults(run=commands.fit)


def _not_here(run_file):
    raise argparse.ArgumentTypeError(
        message("--resume", "be a command", "an option", f"Type bayesfair resume {run_file}.")
    )


def _add_reading(parser):
    """How a table is read, and what of it."""
    _add_columns(parser.add_argument_group("columns (quote a name that holds a comma: '\"income, gross\",age')"))
    group = parser.add_argument_group("reading the table")
    _add_format(group)
    marks = "between groups of three digits: --thousands , reads 25,836 as 25836"
    _add(group, "--thousands", _thousands, metavar="CHAR", help=marks)
    missing = "cells that mean missing; empty cells always do, and in features NA, NaN, null and the like"
    _add(group, "--na", _names, default=[], metavar="TEXT[,TEXT]", help=missing)
    rows = "rows without a value: error, drop, or keep, for big-learn alone (default: error; keep for big-learn)"
    _add(group, "--missing", partial(_choice, choices=MISSING), metavar="NAME", help=rows)
    own = "put rows without a value in a sensitive column into a group of this name"
    _add(group, "--missing-group", _filled, metavar="NAME", help=own)


def _add_columns(group):
    columns = {"metavar": "COL[,COL]"}
    _add(group, "--sensitive", _names, required=True, help="protected attributes; several are crossed", **columns)
    standard = "default: every numeric column that is neither sensitive, nor constant, nor row names"
    _add(group, "--features", _names, help=standard, **columns)
    kinds = "features that are categories, of methods that take them: gibbs and the mixtures but big-learn"
    _add(group, "--categorical", _names, dest="categorical_features", help=kinds, **columns)
    counts = "how much each row counts, of methods but bayesian-mixture (default: 1)"
    _add(group, "--weights", _filled, metavar="COL", help=counts)
    _add_index(group)
    divide = "divide numeric features by their standard deviation first"
    group.add_argument("--standardize", action="store_true", help=divide)


def _add_index(group):
    names = "the column of row names, which is no feature; `memberships` gives them back"
    _add(group, "--index", _filled, metavar="COL", help=names)


def _add_format(group):
    """How CSV is written, in a file to be read or to be written."""
    _add(group, "--separator", _separator, default=",", metavar="CHAR", help="between columns: ';', '|', '\\t'")
    _add(group, "--decimal", _decimal, default=".", metavar="CHAR", help="of numbers, such as ',' (default: '.')")
    _add(group, "--encoding", _encoding, default="utf-8", help="of the file, such as cp1252 (default: utf-8)")


def _add_clustering(group):
    _add(group, "--n-clusters", _whole, required=True, metavar="K")
    _add_choice(group, "--method", METHODS, "gibbs", "the first two leave a posterior", default="gibbs")
    _add_choice(group, "--target", TARGETS, "joint", "of gibbs")
    _add_choice(group, "--loss", LOSSES, "kmeans", "of gibbs and balanced-kmeans")
    fairlets = (
        "members of each group per fairlet: auto, singletons, 9,8 (groups sorted), F=9,M=8, or a number of fairlets"
    )
    _add(group, "--composition", _composition, metavar="COUNTS", help=f"{fairlets} (default: auto)")
    of = "of balanced-kmeans and --target labels"
    least = f"{of}: exact, to within one person (default), or the least Balance of a cluster, such as 0.8"
    _add(group, "--min-balance", _min_balance, metavar="B", help=least)
    own = f"{of}: balance every sensitive column on its own, not their combinations"
    group.add_argument("--each-attribute", action="store_const", const=False, dest="crossed", help=own)
    merge = "merge groups of fewer rows into one"
    _add(group, "--merge-groups-below", _whole, dest="min_group_size", metavar="N", help=merge)
    _add(group, "--merged-group-name", _filled, metavar="NAME", help="of the merged group (default: other)")
    _add_seed(group)


def _add_engines(group):
    weight = "of variational and the mixtures: what fairness weighs against the loss"
    _add(group, "--fairness-weight", partial(_number, minimum=0), metavar="W", help=weight)
    _add(group, "--max-gap", _number, metavar="GAP", help="of fair-mixture: the largest gap (FMC, eq. 6)")
    error = "of variational: the largest KL error, met by the smallest weight that does"
    _add(group, "--max-fairness-error", _number, metavar="KL", help=error)
    _add_choice(
        group, "--covariance", COVARIANCES, "isotropic", "of the mixtures but big-learn", dest="covariance_type"
    )
    _add_choice(group, "--objective", OBJECTIVES, "kmeans", "of variational")
    _add_choice(group, "--inference", INFERENCES, "nuts", "of bayesian-mixture")
    _add(group, "--tilt", partial(_number, positive=False), metavar="T", help="of tilted-kmeans")
    _add(group, "--starts", _whole, dest="n_init", metavar="N", help="of methods without a posterior: restarts")
    _add(group, "--max-iter", _whole, metavar="N", help="of methods without a posterior: iterations at most")


def _add_sampling(parser, num_chains=None, num_warmup=None, num_draws=None):
    group = parser.add_argument_group("sampling a posterior")
    given = {"--num-chains": (1, num_chains, "4"), "--num-warmup": (0, num_warmup, "1000; bayesian-mixture: 500")}
    given["--num-draws"] = 1, num_draws, "1000; bayesian-mixture: 500"
    for option, (minimum, default, otherwise) in given.items():
        convert = partial(_whole, minimum=minimum)
        told = f"default: {otherwise if default is None else default}"
        _add(group, option, convert, default=default, metavar="N", help=told)
    return group


def _add_seed(group):
    convert = partial(_whole, minimum=0, maximum=LARGEST_SEED)
    repeat = "makes a run repeatable (default: 0)"
    _add(group, "--seed", convert, default=0, dest="random_state", metavar="N", help=repeat)


def _add_resume(parser):
    _add(parser, "run_file", _path, metavar="RUN.nc")
    missing = "draws per chain (default: those that an interrupted run was to make, or as many again)"
    _add(parser, "--num-draws", _whole, metavar="N", help=missing)
    _add_processes(parser)
    _add_quiet(parser)
    parser.set_defaults(run=commands.resume)


def _add_processes(parser):
    share = (
        f"processes that share the chains: so many on this machine, or {AUTO}, those that SLURM or Open MPI has started"
    )
    _add(parser, "--processes", _processes, default=1, metavar="N", help=f"{share} (default: 1)")


def _add_overwrite(parser):
    parser.add_argument("--overwrite", action="store_true", help="replace what is there; without it that is refused")


def _add_quiet(parser):
    parser.add_argument("--quiet", action="store_true", help="print nothing but warnings and errors")


def _add_summary(parser):
    _add(parser, "run_file", _path, metavar="RUN.nc")
    parser.set_defaults(run=commands.summary)


def _add_modes(parser):
    _add(parser, "run_file", _path, metavar="RUN.nc")
    parser.set_defaults(run=commands.modes)


def _add_memberships(parser):
    _add(parser, "run_file", _path, metavar="RUN.nc")
    ending = "CSV, Parquet or Feather, by its ending (default: CSV, printed)"
    _add(parser, "--out", _path, metavar="PEOPLE.csv", help=ending)
    _add_overwrite(parser)
    group = parser.add_argument_group("beside the columns of the table of the fit")
    _add(group, "--table", _path, metavar="TABLE.csv", help="the table; its rows are found by their names or places")
    _add_index(group)
    _add_format(parser.add_argument_group("reading that table, and writing CSV"))
    parser.set_defaults(run=commands.memberships)


def _add_convert(parser):
    _add(parser, "run_file", _path, metavar="RUN.nc")
    kinds = "a table, .csv, .parquet or .feather; or a run, .nc or .zarr"
    _add(parser, "out", _path, metavar="OUT", help=kinds)
    _add_overwrite(parser)
    what = "of a table: scalars, a column each; or labels, a column for each row of the fit"
    kind = partial(_choice, choices=("scalars", "labels"))
    _add(parser, "--what", kind, default="scalars", metavar="NAME", help=f"{what} (default: scalars)")
    _add_format(parser.add_argument_group("writing CSV"))
    parser.set_defaults(run=commands.convert)


def _add_plot(parser):
    _add(parser, "run_file", _path, metavar="RUN.nc")
    _add(parser, "--out", _path, required=True, metavar="DIR")
    _add_overwrite(parser)
    parser.set_defaults(run=commands.plot)


def _add_report(parser):
    _add(parser, "run_file", _path, metavar="RUN.nc")
    _add(parser, "--out", _path, required=True, metavar="REPORT.html")
    _add_overwrite(parser)
    parser.add_argument("--title", help="default: what was clustered into how many clusters")
    parser.set_defaults(run=commands.report)


def _add_choice(parser, option, choices, usual, about, **settings):
    convert, listed = partial(_choice, choices=choices), ", ".join(choices)
    _add(parser, option, convert, metavar="NAME", help=f"{about}: {listed} (default: {usual})", **settings)


def _add(parser, name, convert, **settings):
    """An argument whose text goes through `convert(name, text)`; what that raises is the message."""

    def parse(text):
        try:
            return convert(settings["metavar"] if name[0] != "-" else name, text)
        except (TypeError, ValueError) as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    parser.add_argument(name, type=parse, **settings)


def _filled(option, text):
    if not text.strip():
        raise ValueError(message(option, "not be empty", repr(text), "Name it, or leave the option out."))
    return text.strip()


def _path(option, text):
    try:
        return Path(_filled(option, text)).expanduser()  # the shell leaves the ~ of --out=~/run.nc as it is
    except RuntimeError:  # nobody of that name
        return Path(text)


def _whole(option, text, minimum=1, maximum=None):
    number = int(text) if re.fullmatch(r"[+-]?[0-9]{1,1000}", text) else text
    remedy = "Write a whole number in that range in digits."
    return check_integer(option, number, minimum=minimum, maximum=maximum, remedy=remedy)


def _number(option, text, **limits):
    try:
        number = float(text)
    except ValueError:
        number = text
    return check_number(option, number, **limits)


def _thinning(option, text):
    return text if text == "auto" else _whole(option, text)


def _min_balance(option, text):
    if text == "exact":
        return text
    try:
        return check_number(option, float(text))
    except ValueError:
        remedy = "1 is clusters of equal groups."
        raise ValueError(message(option, "be exact or a number above zero", repr(text), remedy)) from None


def _processes(option, text):
    return AUTO if text == AUTO else _whole(option, text)


def _fields(option, text):
    """The fields of a line of CSV, so that quoted names may hold commas."""
    fields = [field.strip() for row in csv.reader([text], skipinitialspace=True) for field in row]
    if not fields or not all(fields):
        raise ValueError(message(option, "be a list between commas", repr(text), "Leave no field empty."))
    return fields


def _names(option, text):
    names = _fields(option, text)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(message(option, "give each name once", f"{twice[0]!r} twice", "Leave one of them out."))
    return names


def _choice(option, text, choices):
    if text not in choices:
        raise ValueError(message(option, f"be one of {', '.join(choices)}", repr(text), "Choose one of them."))
    return text


def _separator(option, text):
    separator = "\t" if text in ("\\t", "tab") else text
    if len(separator) != 1 or separator in '"\r\n':
        raise ValueError(message(option, "be one character", repr(text), "Write ';' or '|', and '\\t' for tabs."))
    return separator


def _decimal(option, text):
    if text not in (",", "."):
        raise ValueError(message(option, "be ',' or '.'", repr(text), "Choose one of them."))
    return text


def _thousands(option, text):
    if text not in THOUSANDS:
        rule = f"be one of {', '.join(map(repr, THOUSANDS))}"
        raise ValueError(message(option, rule, repr(text), "Write --thousands , for 25,836."))
    return text


def _encoding(option, text):
    try:
        return codecs.lookup(text).name
    except LookupError as error:
        raise ValueError(message(option, "be known to Python", repr(text), "Try cp1252 or utf-16.")) from error


def _composition(option, text):
    """ "auto", "singletons", a number of fairlets, counts (p, q, ...), or {group: count}."""
    if text in ("auto", "singletons"):
        return text
    parts = [field.rpartition("=") for field in _fields(option, text)]
    groups, counts = [group.strip() for group, _, _ in parts], [count.strip() for _, _, count in parts]
    named = all(groups) and len(set(groups)) == len(groups)
    if not all(re.fullmatch("[0-9]{1,18}", count) for count in counts) or not (
        named or not any("=" in p for p in parts)
    ):
        rule = (
            "be auto, singletons, a number of fairlets, counts in the order of the sorted groups, or group=count pairs"
        )
        raise ValueError(message(option, rule, repr(text), "Write for example 9,8 or F=9,M=8."))
    if named:
        return dict(zip(groups, map(int, counts)))
    return int(counts[0]) if len(counts) == 1 else tuple(map(int, counts))

"""The command line: commands, options, and their values from text."""

import argparse
import codecs
import csv
import re
import shlex
from contextlib import suppress
from functools import partial, reduce
from math import inf
from operator import or_
from pathlib import Path
from types import FunctionType
from typing import Literal

import bayesfair
from bayesfair._check import message
from bayesfair._settings import Count, Declared, Length, Positive, Seed, declared
from bayesfair.cli import commands
from bayesfair.cli.columns import MISSING, THOUSANDS
from bayesfair.cli.exit_status import EXIT_STATUSES
from bayesfair.cli.options import METHODS, SETTINGS, takers_of

ABOUT = """\
Fair clusters, and how sure we are of them. bayesfair divides the rows of a
table into clusters in which protected groups, such as sex or age band, have the
shares that they have in the whole table. It guarantees that balance: under the
default target, labels, every cluster holds every group's share to within one
row. And it draws from a posterior over such clusterings, so that each row has a
cluster, a probability and a runner-up.
"""


class _Parser(argparse.ArgumentParser):
    """argparse with one line per error, and the exit statuses below each help."""

    def __init__(self, **settings):
        settings |= {"formatter_class": argparse.RawDescriptionHelpFormatter, "epilog": EXIT_STATUSES}
        super().__init__(**settings)

    def error(self, message):
        text = re.sub(r"^argument [^`]+: (?=`)", "", message)  # our own messages already name their argument
        self.exit(2, f"{self.prog}: {text.rstrip('.')}. See {self.prog} --help.\n")


def parse(argv):
    """The parsed command line, with `run` to be called with it.

    Only the command's own options are made: those of `fit` are read from the estimators, which are slow to import.
    """
    parser = _Parser(prog="bayesfair", description=ABOUT)
    parser.add_argument("--version", action="version", version=f"bayesfair {bayesfair.__version__}")
    added = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (add_options, about) in COMMANDS.items():
        command = added.add_parser(name, help=about)
        if argv[:1] == [name]:
            add_options(command)
            command.set_defaults(run=getattr(commands, name), typed=shlex.join(["bayesfair", *argv]))
    return parser.parse_args(_with_signs(argv))


def _with_signs(argv):
    """The words, values such as -9,-8 tied to the option before them: argparse takes those for options."""
    words = []
    for word in argv:
        if words and words[-1].startswith("--") and "=" not in words[-1] and re.match(r"-[\d.,]", word):
            words[-1] += f"={word}"
        else:
            words.append(word)
    return words


def _demo(parser):
    _add(parser, "--out", _path, default=Path("demo-output"), metavar="DIR")
    _share(parser, "--overwrite")
    _add_seed(parser)
    group, options = parser.add_argument_group("sampling a posterior"), SETTINGS["sampling a posterior"]
    for name, enough in {"num_chains": 4, "num_warmup": 1000, "num_draws": 500}.items():  # seconds count here
        _add_setting(group, name, options[name], enough)


def _fit(parser):
    _share(parser, "table")
    out = "a posterior: RUN.nc, or RUN.zarr, to which gibbs writes draws as they are made; clusters of other methods: a .csv, "
    out += ".parquet or .feather"
    _add(parser, "--out", _path, required=True, metavar="FILE", help=out)
    _share(parser, "--overwrite")
    _add_method(parser)
    _add(parser, "--n-clusters", Count, required=True, metavar="K")
    columns = _add_columns(parser)
    counts = "how much each row counts, of methods but bayesian-mixture (default: 1)"
    _add(columns, "--weights", _filled, metavar="COL", help=counts)
    _share(parser.add_argument_group("reading the table"), *READING)
    _add_settings(parser)
    _share(parser, "--quiet")


def _compare(parser):
    _share(parser, "table")
    numbers = "numbers of clusters: a range, 2-8, or a list, 3,5,10"
    _add(parser, "--n-clusters", _numbers, default="2-8", dest="numbers", metavar="K-K", help=numbers)
    also = "also write what is printed as a table: CSV, Parquet or Feather, by its ending"
    _add_table_out(parser, "COMPARISON.csv", also)
    _add_method(parser, "balanced-kmeans", "gibbs and bayesian-mixture add doubt and modes, and take minutes")
    samples = "samples of the rows by which each K shows how stable its clusters are; 0 saves most of the time"
    _add(parser, "--num-bootstraps", Length, default=5, metavar="N", help=samples)
    _add_columns(parser)
    _share(parser.add_argument_group("reading the table, and writing CSV"), *READING)
    _add_settings(parser)
    _share(parser, "--quiet")
    parser.set_defaults(n_clusters=None, weights=None)  # the first is each of `numbers` in turn


def _add_method(parser, default="gibbs", help="the first two leave a posterior"):
    _add(parser, "--method", Literal[*METHODS], default=default, metavar="NAME", help=help)
    _add_seed(parser)


def _add_settings(parser):
    for title, options in SETTINGS.items():
        group = parser.add_argument_group(title)
        for name, option in options.items():
            _add_setting(group, name, option)


def _add_seed(parser):
    _add(parser, "--seed", Seed, default=0, dest="random_state", metavar="N", help="makes a run repeatable")


def _add_columns(parser):
    group = parser.add_argument_group("columns (quote a name that holds a comma: '\"income, gross\",age')")
    columns = {"metavar": "COL[,COL]"}
    several = "protected attributes; several are balanced each and combined"
    _add(group, "--sensitive", _names, required=True, help=several, **columns)
    standard = "default: every numeric column that is neither sensitive, nor constant, nor row names"
    _add(group, "--features", _names, help=standard, **columns)
    _share(group, "--index", "--standardize")
    return group


def _add_table_out(parser, metavar, help="CSV, Parquet or Feather, by its ending (default: CSV, printed)"):
    _add(parser, "--out", _path, metavar=metavar, help=help)
    _share(parser, "--overwrite")


def _add_run(parser):
    _share(parser, "run_file")


def _resume(parser):
    _share(parser, "run_file")
    missing = "draws per chain (default: those that an interrupted run was to make, or as many again)"
    _add(parser, "--num-draws", Count, metavar="N", help=missing)
    _share(parser, "--quiet")


def _memberships(parser):
    _share(parser, "run_file")
    _add_table_out(parser, "PEOPLE.csv")
    group = parser.add_argument_group("beside the columns of the table of the fit")
    _add(group, "--table", _path, metavar="TABLE.csv", help="the table; rows are found by name, or by content")
    _share(group, "--index")
    own = [name for name in READING if name != "--missing"]
    _share(parser.add_argument_group("reading that table, and writing CSV"), *own)


def _assign(parser):
    _share(parser, "run_file")
    _add(parser, "table", _path, metavar="TABLE.csv", help="new rows, with the columns of the fit")
    _add_table_out(parser, "ASSIGNED.csv")
    together = (
        "place the rows together, as balanced as the fit guarantees; default: each row on its own, with no guarantee"
    )
    _add(parser, "--sensitive", _names, default=[], metavar="COL[,COL]", help=f"{together}. As in the fit")
    _share(parser, "--index")
    _share(parser.add_argument_group("reading the table, and writing CSV"), *READING)


def _convert(parser):
    _share(parser, "run_file")
    kinds = "a table, .csv, .parquet or .feather; or a run, .nc or .zarr"
    _add(parser, "out", _path, metavar="OUT", help=kinds)
    _share(parser, "--overwrite")
    what = "of a table: a column for each scalar, or for the label of each row of the fit"
    _add(parser, "--what", Literal["scalars", "labels"], default="scalars", metavar="NAME", help=what)
    _share(parser.add_argument_group("writing CSV"), *FORMAT)


def _plot(parser, metavar="DIR"):
    _share(parser, "run_file")
    _add(parser, "--out", _path, required=True, metavar=metavar)
    _share(parser, "--overwrite")


def _report(parser):
    _plot(parser, "REPORT.html")
    parser.add_argument("--title", help="default: what was clustered into how many clusters")


def _check(parser):
    _share(parser, "table")
    column = "the column of the clusters, text or numbers"
    _add(parser, "--clusters", _filled, required=True, metavar="COL", help=column)
    _add(parser, "--sensitive", _names, required=True, metavar="COL[,COL]", help="protected attributes")
    numbers = "numbers by which the clusters were made: for distances, and for who would move at what cost"
    _add(parser, "--features", _names, metavar="COL[,COL]", help=numbers)
    _share(parser, "--standardize", "--index")
    run = "a run of these rows: how likely each one's cluster is under the fair posterior"
    _add(parser, "--run", _path, dest="run_file", metavar="RUN.nc", help=run)
    least = "what balanced means: exact (to within one row), or the least Balance of a cluster"
    _add(parser, "--min-balance", Literal["exact"] | Positive, default="exact", metavar="B", help=least)
    own = "look at every sensitive column on its own, not at their combinations"
    parser.add_argument("--each-attribute", dest="crossed", action="store_false", help=own)
    _add(parser, "--out", _path, metavar="AUDIT.html", help="also write one self-contained page")
    _share(parser, "--overwrite")
    _share(parser.add_argument_group("reading the table"), *READING)


COMMANDS = {
    "demo": (_demo, "run the main job on the bundled data, leave pictures and a posterior"),
    "fit": (_fit, "sample the posterior of a table (CSV, Parquet, Feather)"),
    "compare": (_compare, "fit several numbers of clusters, and print what each costs and how stable it is"),
    "resume": (_resume, "go on with a run, in its file"),
    "summary": (_add_run, "print the summary of a saved run"),
    "modes": (_add_run, "print which modes a run found, and how much mass each has"),
    "memberships": (_memberships, "write who is where, how surely and where else, as a table"),
    "assign": (_assign, "put new rows into the clusters of a saved run, one by one or together and balanced"),
    "convert": (_convert, "write the draws of a saved run as a table, or the run by itself"),
    "plot": (_plot, "draw the pictures of a saved run"),
    "report": (_report, "write one self-contained HTML page about a saved run"),
    "check": (_check, "audit clusters that somebody else made: who is short of what, and what a repair takes"),
}


def _add_setting(group, name, option, default=None):
    """The option of a setting of estimators, which define its type, choices and default."""
    takers = takers_of(name)
    whose = [f"{method} {taker.rule}" if taker.of and taker.is_named else method for method, taker in takers.items()]
    about = option.help if default else ": ".join(filter(None, [f"of {', '.join(whose)}", option.help]))
    if option.metavar is None:
        group.add_argument(option.name, action="store_const", const=option.const, dest=name, help=about)
        return
    kind = READ.get(name) or reduce(or_, (declared(taker.parameter.annotation) for taker in takers.values()))
    values = {method: taker.usual for method, taker in takers.items() if taker.usual is not None}
    usual, *others = dict.fromkeys([default] if default else values.values()) or [None]
    if others:
        usual = ", ".join(f"{method} {value}" for method, value in values.items())
    _add(group, option.name, kind, help=about, usual=usual, default=default, dest=name, metavar=option.metavar)


def _share(parser, *names):
    """The arguments of several commands with these names."""
    for name in names:
        kind, metavar, help, default = SHARED[name]
        _add(parser, name, kind, metavar=metavar, help=help, default=default)


def _add(parser, name, kind, *, help="", usual=None, **settings):
    """An argument with the type of an annotation or of `kind(name, text)`, whose errors become the message; bool: a flag."""
    if kind is bool:
        parser.add_argument(name, action="store_true", help=help)
        return
    shown = settings["metavar"] if name[0] != "-" else name
    if not isinstance(kind, FunctionType):
        one = kind if isinstance(kind, Declared) else declared(kind)
        show = str if all(re.fullmatch(r"[\w-]+", str(choice)) for choice in one.choices) else repr
        kind, help = partial(_declared, one, show), ": ".join(filter(None, [help, one.words(show)]))
    usual = settings.get("default") if usual is None else usual
    if usual not in (None, []) and usual is not False:
        help += f" (default: {usual})"

    def parse(text):
        try:
            return kind(shown, text)
        except (TypeError, ValueError) as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    parser.add_argument(name, type=parse, help=help, **settings)


def _declared(one: Declared, show, option, text):
    """One of the choices, or a number."""
    value = text
    if any(number.whole for number in one.numbers) and re.fullmatch(r"[+-]?[0-9]{1,1000}", text):
        value = int(text)
    elif not all(number.whole for number in one.numbers):
        with suppress(ValueError):
            value = float(text)
    return one.check(option, value, show)


def _filled(option, text):
    if not text.strip():
        raise ValueError(message(option, "not be empty", repr(text), "Name it, or leave the option out."))
    return text.strip()


def _path(option, text):
    try:
        return Path(_filled(option, text)).expanduser()  # the shell leaves the ~ of --out=~/run.nc as it is
    except RuntimeError:  # no user of that name
        return Path(text)


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


def _separator(option, text):
    separator = "\t" if text in ("\\t", "tab") else text
    if len(separator) != 1 or separator in '"\r\n':
        raise ValueError(message(option, "be one character", repr(text), "Write ';' or '|', and '\\t' for tabs."))
    return separator


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
    named, unnamed = all(groups) and len(set(groups)) == len(groups), not any("=" in part for part in parts)
    if not ((named or unnamed) and all(re.fullmatch("[0-9]{1,18}", count) for count in counts)):
        rule = "be auto, singletons, a number of fairlets, counts of the sorted groups, or group=count pairs"
        raise ValueError(message(option, rule, repr(text), "Write for example 9,8 or F=9,M=8."))
    if named:
        return dict(zip(groups, map(int, counts)))
    return int(counts[0]) if len(counts) == 1 else tuple(map(int, counts))


def _numbers(option, text):
    """Whole numbers from a range or a list."""
    ends = re.fullmatch(r"([0-9]{1,6})-([0-9]{1,6})", text.strip())
    typed = range(int(ends[1]), int(ends[2]) + 1) if ends else _names(option, text)
    if not typed:
        raise ValueError(message(option, "be an increasing range", repr(text), "Write for example 2-8."))
    return [_count(option, str(one)) for one in typed]


def _count(option, text):
    return _declared(declared(Count), str, option, text)


def _temperature(option, text):
    """One of the names that the estimator takes, lambda, or (lambda_f, lambda_c)."""
    names = declared(takers_of("inverse_temperature")["gibbs"].parameter.annotation).choices
    if text in names:
        return text
    with suppress(ValueError):
        numbers = tuple(map(float, _fields(option, text)))
        if len(numbers) <= 2 and all(0 < number < inf for number in numbers):
            return numbers[0] if len(numbers) == 1 else numbers
    rule = f"be {', '.join(names)}, a number above zero, or two of them between a comma"
    raise ValueError(message(option, rule, repr(text), "Write for example 0.5, or 0.2,0.9 for fairlets."))


READ = {
    "composition": _composition,
    "categorical_features": _names,
    "merged_group_name": _filled,
    "keep_fairlets": _count,
    "inverse_temperature": _temperature,
}
FORMAT = "--separator", "--decimal", "--encoding"  # of CSV, in a file to be read or to be written
READING = *FORMAT, "--thousands", "--na", "--missing", "--missing-group"
SHARED = {  # {name: (kind, metavar, help, default)}
    "table": (_path, "TABLE.csv", "", None),
    "run_file": (_path, "RUN.nc", "", None),
    "--overwrite": (bool, None, "replace what is there; without it that is refused", None),
    "--quiet": (bool, None, "print nothing but warnings and errors", None),
    "--index": (_filled, "COL", "the column of row names, which is no feature; `memberships` gives them back", None),
    "--standardize": (bool, None, "divide numeric features by their standard deviation first", None),
    "--separator": (_separator, "CHAR", "between columns: ';', '|', '\\t'", ","),
    "--decimal": (Literal[".", ","], "CHAR", "of numbers", "."),
    "--encoding": (_encoding, None, "of the file, such as cp1252", "utf-8"),
    "--thousands": (Literal[*THOUSANDS], "CHAR", "between groups of digits: --thousands , reads 25,836 as 25836", None),
    "--na": (
        *(_names, "TEXT[,TEXT]"),
        "cells that mean missing, as text or as numbers, beside empty ones and, in features, NA and the like",
        [],
    ),
    "--missing": (Literal[*MISSING], "NAME", "rows without a value (default: error; big-learn keeps them)", None),
    "--missing-group": (_filled, "NAME", "put rows without a sensitive value into a group of this name", None),
}

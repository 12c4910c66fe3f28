"""The command line: commands, options, and their values from text.

The estimators define types, ranges, choices and defaults of their settings. Settings of a target, a loss or a search for modes
are options too: the shell makes the object that holds them.
"""

import argparse
import codecs
import csv
import re
import shlex
from contextlib import suppress
from functools import cache, partial, reduce
from inspect import Parameter, signature
from math import inf
from operator import or_
from pathlib import Path
from types import FunctionType
from typing import Literal, NamedTuple, get_args

import bayesfair as bf
from bayesfair._check import check_integer, message
from bayesfair._settings import Count, Declared, Length, Positive, Seed, declared
from bayesfair.cli.columns import CODES, QUARTILES, THOUSANDS
from bayesfair.cli.entry import EXIT_STATUSES, WITH_DRAWS, WITHOUT_DRAWS, WrongUse

ABOUT = """\
Fair clusters, and how sure we are of them. bayesfair divides the rows of a
table into clusters. In every cluster, protected groups such as sex or age band
have the shares that they have in the whole table. That balance is guaranteed:
by default to within one row. bayesfair draws from a posterior over such
clusterings, so each row has a cluster, a probability and a runner-up.
"""
WITHDRAWN = {  # {what was a command, or a method: what to use}
    "convert": "In Python, bayesfair.posterior.read_tree and write_tree copy a run, and xarray makes tables of its draws",
    "bayesian-mixture": "It is now --method mixture",
    "fairlet-kmeans": "Use bayesfair.FairletKMeans in Python",
    "variational": "Use bayesfair.VariationalFairClustering in Python",
    "fair-mixture": "Use bayesfair.FairMixture in Python",
    "tilted-kmeans": "Use bayesfair.TiltedKMeans in Python",
    "big-learn": "Use bayesfair.BigLearnMixture in Python",
}
METHODS = {"gibbs": "GibbsFairClustering", "mixture": "BayesianFairMixture", "balanced-kmeans": "BalancedKMeans"}


class Option(NamedTuple):
    """The form of a setting's option; one without a metavar takes no value and means `const`."""

    name: str
    metavar: str | None = None
    help: str = ""
    const: bool | None = None


SETTINGS = {  # {title in the help: {parameter: option}}
    "clustering": {
        "categorical_features": Option("--categorical", "COL[,COL]", "features that are categories"),
        "target": Option("--target", "NAME", "what the posterior is a law of; all but labels use fairlets"),
        "loss": Option("--loss", "NAME", "how dissimilar the rows of a cluster are"),
        "power": Option("--power", "P", "use the Minkowski norm of this power as the loss"),
        "composition": Option(
            "--composition",
            "COUNTS",
            "members of each group per fairlet: auto, singletons, 9,8 (groups sorted), F=9,M=8, or a number of fairlets",
        ),
        "min_balance": Option(
            "--min-balance", "B", "least Balance of a cluster; exact stands for shares to within one row"
        ),
        "crossed": Option("--each-attribute", None, "balance each sensitive column, not their combinations", False),
        "size_min": Option("--size-min", "N", "smallest number of rows in a cluster"),
        "size_max": Option("--size-max", "N", "largest number of rows in a cluster"),
        "min_group_size": Option("--merge-groups-below", "N", "merge groups with fewer rows into one group"),
        "merged_group_name": Option("--merged-group-name", "NAME", "name of the merged group"),
        "fairness_weight": Option("--fairness-weight", "W", "weight of fairness against the likelihood"),
        "covariance_type": Option("--covariance", "NAME", "form of each cluster's covariance matrix"),
        "n_init": Option("--starts", "N", "number of restarts"),
        "max_iter": Option("--max-iter", "N", "largest number of iterations"),
    },
    "sampling a posterior": {
        "inverse_temperature": Option(
            "--inverse-temperature",
            "LAMBDA",
            "weight of one unit of loss: dispersion, calibrated, holmes-walker, or a number such as 0.5. Targets over "
            "fairlets take two numbers, 0.2,0.9: for fairlets and for clusters. The unit is that of the features, after "
            "--standardize",
        ),
        "num_chains": Option("--num-chains", "N", "number of chains"),
        "num_warmup": Option("--num-warmup", "N", "steps of each chain before its first draw"),
        "num_draws": Option("--num-draws", "N", "draws of each chain"),
        "thinning": Option("--thinning", "N", "sweeps from one draw to the next; auto chooses after the warm-up"),
        "num_starts": Option("--num-starts", "N", "short runs that look for modes before the warm-up"),
        "n_jobs": Option("--n-jobs", "N", "chains that run at the same time; -1 runs one on each processor"),
        "inference": Option("--inference", "NAME", "how the mixture is sampled"),
        "tempering": Option("--tempering", None, "let hotter copies of the chains cross modes; costs much more", True),
        "fairlet_move": Option("--fairlet-move", "NAME", "rectangular-loop is the paper's Algorithm 1, and slow"),
        "keep_fairlets": Option("--keep-fairlets", "N", "keep the fairlets of this many draws of each chain"),
    },
}
OPTIONS = {name: option.name for options in SETTINGS.values() for name, option in options.items()} | {
    "favourable": "--favourable",
    "labels": "--clusters",
    "tree": "--run",
    "X": "--features",  # and what else the package's messages name
    "n_clusters": "--n-clusters",
    "n_components": "--n-clusters",
    "random_state": "--seed",
    "sample_weight": "--weights",
    "sensitive_features": "--sensitive",
    "store": "--out",
}


def estimator_class(method):
    return getattr(bf, METHODS[method])


class Taker(NamedTuple):
    """Where a method has a setting: in its estimator, or in objects of these `kinds`, which the parameter `of` takes."""

    parameter: Parameter
    of: Parameter | None = None
    kinds: dict[str, type] = {}  # noqa: RUF012

    @property
    def is_named(self):
        """Is the object chosen by its name, as a target is?"""
        return {*self.kinds} <= {*declared(self.of.annotation).choices}

    @property
    def usual(self):
        """The default; None for a setting of an object that exists only if the setting is typed."""
        return self.parameter.default if self.of is None or self.is_named else None

    @property
    def rule(self):
        """What must be typed beside the setting, or must not, in words."""
        option, (*others, last) = OPTIONS[self.of.name], self.kinds
        if not self.is_named:
            return f"without {option}"
        return f"with {option} {f'{", ".join(others)} or ' if others else ''}{last}"

    def kind(self, option, typed) -> type:
        """The class of the object that has the setting, by what was typed."""
        asked = typed.get(self.of.name, self.of.default)
        if self.is_named and asked in self.kinds:
            return self.kinds[asked]
        if not self.is_named and self.of.name not in typed:
            return next(iter(self.kinds.values()))
        got = f"{OPTIONS[self.of.name]} {asked}"
        raise WrongUse(message(option, f"come {self.rule}", got, "Leave one of them out."))


@cache
def takers_of(name) -> dict[str, Taker]:
    """{method: where it has a setting of this name}."""
    return {method: taker for method in METHODS if (taker := _taker_of(method, name)) is not None}


def _taker_of(method, name):
    own = signature(estimator_class(method)).parameters
    if name in own:
        return Taker(own[name])
    for of in own.values():
        classes = (one for one in get_args(of.annotation) if isinstance(one, type))
        ours = [one for one in classes if one.__module__.split(".")[0] == bf.__name__]  # targets, for example
        kinds = {kind.__name__.lower(): kind for kind in ours if name in signature(kind).parameters}
        if kinds:
            return Taker(signature(next(iter(kinds.values()))).parameters[name], of, kinds)
    return None


def settings_of_method(arguments):
    """{parameter: value} of the settings that were typed; an error for options that do not go together."""
    names = [name for options in SETTINGS.values() for name in options]
    typed = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    method, settings, objects = arguments.method, {}, {}
    for name, value in typed.items():
        takers = takers_of(name)
        if method not in takers:
            rule = f"come with --method {' or --method '.join(takers)}"
            raise WrongUse(message(OPTIONS[name], rule, f"--method {method}", "Leave one of them out."))
        of = takers[method].of
        if of is None:
            settings[name] = value
        else:
            objects.setdefault((of.name, takers[method].kind(OPTIONS[name], typed)), {})[name] = value
    if arguments.weights is not None and "sample_weight" not in signature(estimator_class(method).fit).parameters:
        raise WrongUse(f"--weights does not go with --method {method}, in which every row counts once. Leave it out.")
    parts = "n_clusters" if method in takers_of("n_clusters") else "n_components"
    made = {name: kind(**values) for (name, kind), values in objects.items()}
    return {parts: arguments.n_clusters, "random_state": arguments.seed, **settings, **made}


class _Parser(argparse.ArgumentParser):
    """argparse with one line per error, and the exit statuses below each help."""

    def __init__(self, **settings):
        settings |= {
            "formatter_class": argparse.RawDescriptionHelpFormatter,
            "epilog": EXIT_STATUSES.format(**WITH_DRAWS),
        }
        super().__init__(**settings)

    def error(self, message):
        text = re.sub(r"^argument [^`]+: (?=`)", "", message)  # our own messages already name their argument
        self.exit(2, f"{self.prog}: {text.rstrip('.')}. See {self.prog} --help.\n")


def parse(argv):
    """The parsed command line; `typed`: as it was typed.

    Only the command's own options are made: those of `fit` are read from the estimators, which are slow to import.
    """
    parser = _Parser(prog="bayesfair", description=ABOUT)
    parser.add_argument("--version", action="version", version=f"bayesfair {bf.__version__}")
    added = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (add_options, about) in COMMANDS.items():
        command = added.add_parser(name, help=about)
        if argv[:1] == [name]:
            add_options(command)
            command.epilog = EXIT_STATUSES.format(**WITH_DRAWS if name in MAKE_DRAWS else WITHOUT_DRAWS)
            command.set_defaults(typed=shlex.join(["bayesfair", *argv]))
    if argv[:1] == ["convert"]:
        parser.error(f"convert is withdrawn. {WITHDRAWN['convert']}")
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
    _share(parser, "--overwrite", "--seed")
    group = parser.add_argument_group("sampling a posterior")
    for name, enough in {"--num-chains": 4, "--num-warmup": 1000, "--num-draws": 500}.items():  # seconds count here
        _add(group, name, Count, metavar="N", default=enough)


def _fit(parser):
    _share(parser, "table")
    out = "RUN.nc or, with gibbs, RUN.zarr, which gets draws as they are made; with balanced-kmeans a table: .csv, "
    _add(parser, "--out", _path, required=True, metavar="FILE", help=f"{out}.parquet or .feather")
    _share(parser, "--overwrite")
    _add_method(parser, "gibbs", "the first two sample a posterior, the last finds one clustering")
    _add(parser, "--n-clusters", Count, required=True, metavar="K", help="number of clusters")
    group = _add_columns(parser)
    _add(group, "--weights", _name, metavar="COL", help="how much each row counts (for gibbs, balanced-kmeans)")
    _share(parser.add_argument_group("reading the table"), *READING)
    _add_settings(parser)
    _share(parser, "--quiet")


def _compare(parser):
    _share(parser, "table")
    numbers = "numbers of clusters: a range, 2-8, or a list, 3,5,10"
    _add(parser, "--n-clusters", _numbers, default="2-8", dest="numbers", metavar="K-K", help=numbers)
    also = "also write the printed table: CSV, Parquet or Feather, by its ending"
    _add(parser, "--out", _path, metavar="COMPARISON.csv", help=also)
    _share(parser, "--overwrite")
    _add_method(parser, "balanced-kmeans", "the first two also show how many rows are in doubt, and take minutes")
    samples = "bootstrap samples that show how stable the clusters of each K are; 0 saves most of the time"
    _add(parser, "--num-bootstraps", Length, default=5, metavar="N", help=samples)
    _add_columns(parser)
    _share(parser.add_argument_group("reading the table, and writing CSV"), *READING)
    _add_settings(parser)
    _share(parser, "--quiet")
    parser.set_defaults(n_clusters=None, weights=None)  # the first is each of `numbers` in turn


def _add_method(parser, default, help):
    _add(parser, "--method", _method, default=default, metavar="NAME", help=f"{', '.join(METHODS)}: {help}")
    _share(parser, "--seed")


def _add_columns(parser):
    group = parser.add_argument_group("columns (quote a name that holds a comma: '\"income, gross\",age')")
    several = "protected attributes; several are balanced each and combined"
    _add(group, "--sensitive", _names, required=True, help=several, metavar="COL[,COL]")
    usual = "default: every numeric column that is not sensitive, not constant and holds no row names"
    _add(group, "--features", _names, help=usual, metavar="COL[,COL]")
    _share(group, "--index", "--standardize")
    return group


def _add_settings(parser):
    """The options of estimators' settings, which define type, choices and default."""
    for title, options in SETTINGS.items():
        group = parser.add_argument_group(title)
        for name, option in options.items():
            takers = takers_of(name)
            whose = [f"{one} {taker.rule}" if taker.of and taker.is_named else one for one, taker in takers.items()]
            notes = [f"for {', '.join(whose)}"]
            if option.metavar is None:
                about = f"{option.help} ({notes[0]})"
                group.add_argument(option.name, action="store_const", const=option.const, dest=name, help=about)
                continue
            kind = READ.get(name) or reduce(or_, (declared(taker.parameter.annotation) for taker in takers.values()))
            values = {method: taker.usual for method, taker in takers.items() if taker.usual not in (None, False)}
            several = ", ".join(f"{method} {value}" for method, value in values.items())
            usual = {*values.values()} if len({*values.values()}) < 2 else {several}
            notes += [f"default: {one}" for one in usual]
            _add(group, option.name, kind, help=option.help, notes=notes, dest=name, metavar=option.metavar)


def _run(parser):
    _share(parser, "run_file")


def _resume(parser):
    _share(parser, "run_file", "--quiet")
    usual = "draws per chain (default: those that an interrupted run still lacks, or as many again)"
    _add(parser, "--num-draws", Count, metavar="N", help=usual)


def _memberships(parser):
    _share(parser, "run_file", "--out", "--overwrite")
    group = parser.add_argument_group("beside the columns of your table")
    found = "your table; its rows are found by name or, without names, by features and groups"
    _add(group, "--table", _path, metavar="TABLE.csv", help=found)
    _share(group, "--index")
    _share(parser.add_argument_group("reading that table, and writing CSV"), *FORMAT, *CELLS)


def _assign(parser):
    _share(parser, "run_file")
    _add(parser, "table", _table, metavar="TABLE.csv", help="new rows, with the columns of the fit")
    _share(parser, "--out", "--overwrite")
    together = "the sensitive columns of the fit: place the rows together, as balanced as the fit guarantees. "
    together += "Default: place each row by itself, without a guarantee"
    _add(parser, "--sensitive", _names, default=[], metavar="COL[,COL]", help=together)
    _share(parser, "--index")
    _share(parser.add_argument_group("reading the table, and writing CSV"), *READING)


def _calibrate(parser):
    _share(parser, "run_file")
    _add(parser, "--n-tables", _tables, default=50, metavar="N", help="number of simulated tables")
    usual = "what the inverse temperature is multiplied by, such as 0.5,1 (default: six from 0.25 to 1.4)"
    _add(parser, "--multiples", _multiples, metavar="M[,M]", help=usual)
    _add(
        parser, "--n-jobs", Count | Literal[-1], metavar="N", help="tables at the same time; -1: one on each processor"
    )
    _share(parser, "--seed")
    _add(parser, "--out", _path, metavar="FILE", help="also write the table: CSV, Parquet or Feather, by its ending")
    _share(parser, "--overwrite")
    _share(parser.add_argument_group("writing CSV"), *FORMAT)
    parser.set_defaults(table=None)  # that a file written is like


def _plot(parser):
    _share(parser, "run_file", "--overwrite")
    _add(parser, "--out", _path, required=True, metavar="DIR")


def _report(parser):
    _share(parser, "run_file", "--overwrite")
    _add(parser, "--out", _page, required=True, metavar="REPORT.html")
    parser.add_argument("--title", help="default: what was clustered into how many clusters")


def _check(parser):
    _share(parser, "table")
    column = "the column of the clusters, text or numbers"
    _add(parser, "--clusters", _name, required=True, metavar="COL", help=column)
    _add(parser, "--sensitive", _names, required=True, metavar="COL[,COL]", help="protected attributes")
    numbers = "numbers that the clusters were made from: adds distances, and the cost of a repair"
    _add(parser, "--features", _names, metavar="COL[,COL]", help=numbers)
    _share(parser, "--standardize", "--index")
    run = "a run of these rows: adds how likely each row's cluster is under the fair posterior"
    _add(parser, "--run", _path, dest="run_file", metavar="RUN.nc", help=run)
    least = "what counts as balanced: shares to within one row, or the least Balance of a cluster"
    _add(parser, "--min-balance", Literal["exact"] | Positive, default="exact", metavar="B", help=least)
    _add(parser, "--each-attribute", bool, help="look at each sensitive column, not at their combinations")
    good = "the clusters that it is good to be in: adds rates of selection and impact ratios"
    _add(parser, "--favourable", _names, metavar="NAME[,NAME]", help=good)
    bands = (
        "put the numbers of a sensitive column into bands: age=18,30,45,65, or age=quartiles; county=none if they are "
    )
    bands += "codes, each of which is a group; may be repeated"
    _add(parser, "--bins", _bins, metavar="COL=CUTS", help=bands, default=[], action="append")
    _add(parser, "--no-repair", bool, help="look for no repair")
    _share(parser, "--overwrite")
    out = "one self-contained page, or a table of all counts by attribute, cluster and group (.csv, .parquet or .feather). "
    out += "With --favourable each line of it has the rate and the impact ratio of its group too"
    group = parser.add_argument_group("results beside what is printed")
    _add(group, "--out", _path, metavar="AUDIT.html", help=out)
    who = "a table of the rows that the repair with the fewest moves takes from one cluster to another"
    _add(group, "--moves", _path, metavar="MOVES.csv", help=who)
    for option, about in PAGE.items():
        group.add_argument(option, metavar="TEXT", help=f"{about}, on the page")
    _share(parser.add_argument_group("reading the table"), *READING)


PAGE = {"--title": "a heading of your own", "--purpose": "what the audit is for", "--auditor": "who made it"}
MAKE_DRAWS = "demo", "fit", "resume"
COMMANDS = {
    "demo": (_demo, "cluster the bundled data; leave pictures and a posterior"),
    "fit": (_fit, "sample the posterior of a table (CSV, Parquet, Feather)"),
    "compare": (_compare, "fit several numbers of clusters; print what each costs and how stable it is"),
    "resume": (_resume, "make more draws of a run, in its file"),
    "summary": (_run, "print the summary of a saved run"),
    "modes": (_run, "print which modes a run found, and how much mass each has"),
    "memberships": (_memberships, "write each row's cluster, its probability and the runner-up, as a table"),
    "assign": (_assign, "put new rows into the clusters of a saved run, one by one or together and balanced"),
    "calibrate": (_calibrate, "say how often a run's probabilities are right, in simulated tables; the run keeps it"),
    "plot": (_plot, "draw the pictures of a saved run"),
    "report": (_report, "write one self-contained HTML page about a saved run"),
    "check": (_check, "audit clusters that somebody else made: which groups are short, and what a repair takes"),
}


def _share(parser, *names):
    """The arguments of several commands with these names."""
    for name in names:
        kind, metavar, help, *default = SHARED[name]
        _add(parser, name, kind, metavar=metavar, help=help, default=default[0] if default else None)


def _add(parser, name, kind, *, help="", notes=(), **settings):
    """An argument with the type of an annotation or of `kind(name, text)`, whose errors become the message; bool: a flag."""
    if kind is bool:
        parser.add_argument(name, action="store_true", help=help)
        return
    shown = settings["metavar"] if name[0] != "-" else name
    if not isinstance(kind, FunctionType):
        one = kind if isinstance(kind, Declared) else declared(kind)
        show = str if all(re.fullmatch(r"[\w-]+", str(choice)) for choice in one.choices) else repr
        kind, help = partial(_declared, one, show), ": ".join(filter(None, [help, one.words(show)]))
    default = settings.get("default")
    notes = notes or ([] if default in (None, []) else [f"default: {default}"])
    help += f" ({'; '.join(notes)})" if notes else ""

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


def _method(option, text):
    if text in WITHDRAWN:
        raise WrongUse(f"`{option}` {text} is withdrawn. {WITHDRAWN[text]}.")
    return _declared(declared(Literal[*METHODS]), str, option, text)


def _filled(option, text):
    if not text.strip():
        raise WrongUse(message(option, "not be empty", repr(text), "Name it, or leave the option out."))
    return text.strip()


def _table(option, text):
    return Path("/dev/stdin") if text == "-" else _path(option, text)


def _out(option, text):
    return None if text == "-" else _path(option, text)


def _path(option, text):
    try:
        return Path(_filled(option, text)).expanduser()  # the shell leaves the ~ of --out=~/run.nc as it is
    except RuntimeError:  # no user of that name
        return Path(text)


def _page(option, text):
    path = _path(option, text)
    if path.suffix.lower() != ".html":
        raise WrongUse(message(option, "end in .html", repr(text), "Print the page from a browser for a PDF."))
    return path


def _fields(option, text):
    """The fields of a line of CSV, so that quoted names may hold commas."""
    fields = [field.strip() for row in csv.reader([text], skipinitialspace=True) for field in row]
    if not fields or not all(fields):
        raise WrongUse(message(option, "be a list between commas", repr(text), "Leave no field empty."))
    return fields


def _name(option, text):
    """One name, which may be quoted as in a list."""
    text = _filled(option, text)
    return _fields(option, text)[0] if re.fullmatch('"([^"]|"")*"', text) else text


def _names(option, text):
    names = _fields(option, text)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise WrongUse(message(option, "give each name once", f"{twice[0]!r} twice", "Leave one of them out."))
    return names


def _bins(option, text):
    """(column, cuts in rising order, "quartiles" or "none")."""
    name, _, cuts = text.rpartition("=")
    if name.strip() and cuts.strip() in (QUARTILES, CODES):
        return _name(option, name), cuts.strip()
    with suppress(ValueError):
        numbers = [float(cut) for cut in cuts.split(",")]
        if name.strip() and numbers == sorted({*numbers}) and all(-inf < cut < inf for cut in numbers):
            return _name(option, name), numbers
    rule = f"be a column and cuts in rising order, {QUARTILES} or {CODES}"
    raise WrongUse(message(option, rule, repr(text), "Write for example age=18,30,45,65 or age=quartiles."))


def _separator(option, text):
    separator = "\t" if text in ("\\t", "tab") else text
    if len(separator) != 1 or separator in '"\r\n':
        raise WrongUse(message(option, "be one character", repr(text), "Write ';' or '|', and '\\t' for tabs."))
    return separator


def _encoding(option, text):
    try:
        return codecs.lookup(text).name
    except LookupError as error:
        raise WrongUse(message(option, "be known to Python", repr(text), "Try cp1252 or utf-16.")) from error


def _composition(option, text):
    """ "auto", "singletons", a number of fairlets, counts (p, q, ...), or {group: count}."""
    if text in ("auto", "singletons"):
        return text
    parts = [field.rpartition("=") for field in _fields(option, text)]
    groups, counts = [group.strip() for group, _, _ in parts], [count.strip() for _, _, count in parts]
    named, unnamed = all(groups) and len(set(groups)) == len(groups), not any("=" in part for part in parts)
    if not ((named or unnamed) and all(re.fullmatch("[0-9]{1,18}", count) for count in counts)):
        rule = "be auto, singletons, a number of fairlets, counts of the sorted groups, or group=count pairs"
        raise WrongUse(message(option, rule, repr(text), "Write for example 9,8 or F=9,M=8."))
    if named:
        return dict(zip(groups, map(int, counts)))
    return int(counts[0]) if len(counts) == 1 else tuple(map(int, counts))


def _numbers(option, text):
    """Whole numbers from a range or a list."""
    ends = re.fullmatch(r"([0-9]{1,6})-([0-9]{1,6})", text.strip())
    typed = range(int(ends[1]), int(ends[2]) + 1) if ends else _names(option, text)
    if not typed:
        raise WrongUse(message(option, "be an increasing range", repr(text), "Write for example 2-8."))
    return [_count(option, str(one)) for one in typed]


def _count(option, text):
    return _declared(declared(Count), str, option, text)


def _tables(option, text):
    return check_integer(option, _count(option, text), minimum=2, remedy="Two tables are the fewest.")


def _multiples(option, text):
    with suppress(ValueError):
        numbers = tuple(map(float, _fields(option, text)))
        if all(0 < number < inf for number in numbers):
            return numbers
    raise WrongUse(message(option, "be numbers above zero with commas between", repr(text), "Write for example 0.5,1."))


def _temperature(option, text):
    """One of the names that the estimator takes, lambda, or (lambda_f, lambda_c)."""
    names = declared(takers_of("inverse_temperature")["gibbs"].parameter.annotation).choices
    if text in names:
        return text
    with suppress(ValueError):
        numbers = tuple(map(float, _fields(option, text)))
        if len(numbers) <= 2 and all(0 < number < inf for number in numbers):
            return numbers[0] if len(numbers) == 1 else numbers
    rule = f"be {', '.join(names)}, a number above zero, or two of them with a comma between"
    raise WrongUse(message(option, rule, repr(text), "Write for example 0.5, or 0.2,0.9 for fairlets."))


READ = {
    "composition": _composition,
    "categorical_features": _names,
    "merged_group_name": _filled,
    "keep_fairlets": _count,
    "inverse_temperature": _temperature,
}
FORMAT = "--separator", "--decimal", "--encoding"  # of CSV, in a file to be read or to be written
CELLS = "--thousands", "--na", "--missing-group"
READING = *FORMAT, *CELLS, "--missing"
SHARED = {  # {name: (kind, metavar, help, default)}
    "table": (_table, "TABLE.csv", "a file, or - for standard input"),
    "run_file": (_path, "RUN.nc", ""),
    "--out": (_out, "FILE", "a table: CSV, Parquet or Feather, by its ending (default, or -: CSV, printed)"),
    "--overwrite": (bool, None, "replace an existing file; without it the command is refused"),
    "--quiet": (bool, None, "print nothing but warnings and errors"),
    "--seed": (Seed, "N", "makes a run repeatable", 0),
    "--index": (_name, "COL", "the column of row names, by which results name the rows"),
    "--standardize": (bool, None, "centre numeric features and divide them by their standard deviation"),
    "--separator": (_separator, "CHAR", "between columns, such as ';', '|' or '\\t'", ","),
    "--decimal": (Literal[".", ","], "CHAR", "the decimal point", "."),
    "--encoding": (_encoding, None, "how letters are stored, such as cp1252", "utf-8"),
    "--thousands": (Literal[*THOUSANDS], "CHAR", "between groups of digits, such as , in 25,836"),
    "--na": (_names, "TEXT[,TEXT]", "texts and numbers that also mean missing, as empty cells do", []),
    "--missing": (Literal["error", "drop"], "NAME", "refuse rows that lack a value, or leave them out", "error"),
    "--missing-group": (_filled, "NAME", "put rows without a sensitive value into a group of this name"),
}

"""The shell's names for the estimators and their settings; the estimators define types, ranges, choices and defaults.

Settings of a target, a loss or a search for modes are options too: the shell makes the object that holds them.
"""

from functools import cache
from inspect import Parameter, signature
from typing import NamedTuple, get_args

import bayesfair as bf
from bayesfair._check import message
from bayesfair._settings import declared

METHODS = {  # those with a posterior first
    "gibbs": "GibbsFairClustering",
    "bayesian-mixture": "BayesianFairMixture",
    "balanced-kmeans": "BalancedKMeans",
    "fairlet-kmeans": "FairletKMeans",
    "variational": "VariationalFairClustering",
    "fair-mixture": "FairMixture",
    "tilted-kmeans": "TiltedKMeans",
    "big-learn": "BigLearnMixture",
}


class Option(NamedTuple):
    """The form of a setting's option; one without a metavar takes no value and means `const`."""

    name: str
    metavar: str | None = None
    help: str = ""
    const: bool | None = None


SETTINGS = {  # {title in the help: {parameter: option}}
    "clustering": {
        "categorical_features": Option("--categorical", "COL[,COL]", "features that are categories"),
        "target": Option("--target", "NAME"),
        "loss": Option("--loss", "NAME"),
        "power": Option("--power", "P", "the loss is the Minkowski norm of this power"),
        "composition": Option(
            "--composition",
            "COUNTS",
            "members of each group per fairlet: auto, singletons, 9,8 (groups sorted), F=9,M=8, or a number of fairlets",
        ),
        "min_balance": Option("--min-balance", "B", "the least Balance of a cluster, or exact"),
        "crossed": Option("--each-attribute", None, "balance every sensitive column on its own", False),
        "size_min": Option("--size-min", "N", "the least rows of a cluster"),
        "size_max": Option("--size-max", "N", "the most rows of a cluster"),
        "min_group_size": Option("--merge-groups-below", "N", "merge groups of fewer rows into one"),
        "merged_group_name": Option("--merged-group-name", "NAME", "name of the merged group"),
    },
    "of some methods": {
        "fairness_weight": Option("--fairness-weight", "W", "what fairness weighs against the loss"),
        "max_gap": Option("--max-gap", "GAP", "the largest gap (FMC, eq. 6)"),
        "max_fairness_error": Option("--max-fairness-error", "KL", "the largest KL error, met by the least weight"),
        "covariance_type": Option("--covariance", "NAME"),
        "objective": Option("--objective", "NAME"),
        "affinity": Option("--affinity", "NAME", "of --objective ncut; precomputed: features are a symmetric matrix"),
        "n_neighbors": Option("--n-neighbors", "N", "to which --objective ncut ties each row"),
        "inference": Option("--inference", "NAME"),
        "tilt": Option("--tilt", "T"),
        "n_init": Option("--starts", "N", "restarts"),
        "max_iter": Option("--max-iter", "N", "iterations at most"),
    },
    "sampling a posterior": {
        "inverse_temperature": Option(
            "--inverse-temperature",
            "LAMBDA",
            "how much a unit of loss counts: dispersion, holmes-walker, or in units of the features as they are fitted one "
            "number with --target labels, 0.5, and else two, 0.2,0.9, of fairlets and of clusters",
        ),
        "num_chains": Option("--num-chains", "N"),
        "num_warmup": Option("--num-warmup", "N"),
        "num_draws": Option("--num-draws", "N"),
        "thinning": Option("--thinning", "N", "sweeps from draw to draw; auto goes by the warm-up's autocorrelation"),
        "num_starts": Option("--num-starts", "N", "short runs that look for modes before the warm-up"),
        "n_jobs": Option("--n-jobs", "N", "chains at once, -1 for as many as there are processors"),
        "tempering": Option("--tempering", None, "hotter copies of chains cross modes, at much higher cost", True),
        "fairlet_move": Option("--fairlet-move", "NAME", "rectangular-loop is the paper's Algorithm 1, and slow"),
        "keep_fairlets": Option("--keep-fairlets", "N", "keep the fairlets of so many draws of each chain"),
    },
}
OPTIONS = {name: option.name for options in SETTINGS.values() for name, option in options.items()} | {
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
        """The default; None where it is that of an object that is not made without the setting."""
        return self.parameter.default if self.of is None or self.is_named else None

    @property
    def rule(self):
        """What must be typed beside the setting, or must not, in words."""
        option, (*others, last) = OPTIONS[self.of.name], self.kinds
        if not self.is_named:
            return f"without {option}"
        return f"with {option} {f'{", ".join(others)} or ' if others else ''}{last}"

    def kind(self, option, typed) -> type:
        """The class that was typed, or is usual, and must have the setting; else the only one, whose name cannot be typed."""
        asked = typed.get(self.of.name, self.of.default)
        if self.is_named and asked in self.kinds:
            return self.kinds[asked]
        if not self.is_named and self.of.name not in typed:
            return next(iter(self.kinds.values()))
        got = f"{OPTIONS[self.of.name]} {asked}"
        raise ValueError(message(option, f"come {self.rule}", got, "Leave one of them out."))


@cache
def takers_of(name) -> dict[str, Taker]:
    """{method: where it has a setting of this name}."""
    return {method: taker for method in METHODS if (taker := _taker_of(method, name)) is not None}


def _taker_of(method, name):
    own = signature(estimator_class(method)).parameters
    if name in own:
        return Taker(own[name])
    for of in own.values():
        kinds = {kind.__name__.lower(): kind for kind in _classes(of) if name in signature(kind).parameters}
        if kinds:
            return Taker(signature(next(iter(kinds.values()))).parameters[name], of, kinds)
    return None


def _classes(parameter) -> list[type]:
    """Classes of the package whose objects a parameter takes, such as targets."""
    taken = get_args(parameter.annotation)
    return [one for one in taken if isinstance(one, type) and one.__module__.split(".")[0] == bf.__name__]


def settings_of_method(arguments):
    """{parameter: value} of the settings that were typed; an error for options that do not go together."""
    names = [name for options in SETTINGS.values() for name in options]
    typed = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    method = arguments.method
    for name in typed:
        takers = takers_of(name)
        if method not in takers:
            rule = f"come with --method {' or --method '.join(takers)}"
            raise ValueError(message(OPTIONS[name], rule, f"--method {method}", "Leave one of them out."))
    if arguments.weights is not None and "sample_weight" not in signature(estimator_class(method).fit).parameters:
        rule, remedy = f"not come with --method {method}", "Leave it out: every row counts once."
        raise ValueError(message("--weights", rule, "both", remedy))
    parts = "n_clusters" if method in takers_of("n_clusters") else "n_components"
    return {parts: arguments.n_clusters, "random_state": arguments.random_state, **_with_objects(method, typed)}


def _with_objects(method, typed):
    """The settings as the estimator takes them: those of a target, say, in an object of its class."""
    takers = {name: takers_of(name)[method] for name in typed}
    settings, fields = {name: value for name, value in typed.items() if takers[name].of is None}, {}
    for name, taker in takers.items():
        if taker.of is not None:
            kind = taker.kind(OPTIONS[name], typed)
            fields.setdefault((taker.of.name, kind), {})[name] = typed[name]
    return settings | {name: kind(**values) for (name, kind), values in fields.items()}

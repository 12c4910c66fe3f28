"""The shell's names for the estimators and their settings; the estimators define types, ranges, choices and defaults.

Settings of a target, a loss or a search for modes are options too: the shell makes the object that holds them.
"""

from functools import cache
from inspect import Parameter, signature
from typing import NamedTuple, get_args

import bayesfair as bf
from bayesfair._check import message
from bayesfair._settings import declared
from bayesfair.cli.entry import WrongUse

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
            "weight of one unit of loss: dispersion, holmes-walker, or a number such as 0.5. Targets over fairlets take two "
            "numbers, 0.2,0.9: for fairlets and for clusters. The unit is that of the features, after --standardize",
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

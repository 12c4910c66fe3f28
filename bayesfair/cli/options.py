"""The shell's names for the estimators and their settings; the estimators define types, ranges, choices and defaults."""

from inspect import Parameter, signature
from typing import NamedTuple

import bayesfair as bf
from bayesfair._check import message

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


OF_LABELS = "gibbs with --target labels alone"
OF_FAIRLETS = "composition", "fairlet_move", "keep_fairlets"
USUAL = {"target": "labels"}  # in the shell, whose readers are newcomers; the class has the paper's posterior
SETTINGS = {  # {title in the help: {parameter: option}}
    "clustering": {
        "categorical_features": Option("--categorical", "COL[,COL]", "features that are categories"),
        "target": Option("--target", "NAME"),
        "loss": Option("--loss", "NAME"),
        "composition": Option(
            "--composition",
            "COUNTS",
            "members of each group per fairlet, of gibbs with another --target than labels: auto, singletons, 9,8 (groups "
            "sorted), F=9,M=8, or a number of fairlets",
        ),
        "min_balance": Option("--min-balance", "B", f"the least Balance of a cluster, or exact; {OF_LABELS}"),
        "crossed": Option("--each-attribute", None, f"balance every sensitive column on its own; {OF_LABELS}", False),
        "size_min": Option("--size-min", "N", f"the least rows of a cluster; {OF_LABELS}"),
        "size_max": Option("--size-max", "N", f"the most rows of a cluster; {OF_LABELS}"),
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
            "how much a unit of loss counts: dispersion, holmes-walker, loss-likelihood-bootstrap, or in units of the features "
            "as they are fitted one number with --target labels, 0.5, and else two, 0.2,0.9, of fairlets and of clusters",
        ),
        "num_chains": Option("--num-chains", "N"),
        "num_warmup": Option("--num-warmup", "N"),
        "num_draws": Option("--num-draws", "N"),
        "thinning": Option("--thinning", "N", "sweeps from draw to draw; auto goes by the warm-up's autocorrelation"),
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


def takers_of(name) -> dict[str, Parameter]:
    """The methods with a setting of this name, and their declarations of it."""
    known = {method: signature(estimator_class(method)).parameters for method in METHODS}
    return {method: parameters[name] for method, parameters in known.items() if name in parameters}


def settings_of_method(arguments):
    """{parameter: value} of the settings that were typed; an error for options that do not go together."""
    names = [name for options in SETTINGS.values() for name in options]
    typed = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    method, target = arguments.method, typed.get("target", USUAL["target"])
    for name in typed:
        takers = takers_of(name)
        if method not in takers:
            those = " or ".join(f"--method {other}" for other in takers)
            got, remedy = f"--method {method}", "Leave one of them out."
            raise ValueError(message(OPTIONS[name], f"come with {those}", got, remedy))
        if method == "gibbs" and name in ("min_balance", "crossed", "size_min", "size_max") and target != "labels":
            remedy = "Clusters are made of whole fairlets there, as balanced as their --composition."
            raise ValueError(message(OPTIONS[name], "come with --target labels", f"--target {target}", remedy))
        if method == "gibbs" and name in OF_FAIRLETS and target == "labels":
            rule, remedy = "come with --target joint, cut or optimal", "Under labels there are no fairlets."
            raise ValueError(message(OPTIONS[name], rule, "--target labels", remedy))
    if arguments.weights is not None and "sample_weight" not in signature(estimator_class(method).fit).parameters:
        rule, remedy = f"not come with --method {method}", "Leave it out: every row counts once."
        raise ValueError(message("--weights", rule, "both", remedy))
    if "merged_group_name" in typed and "min_group_size" not in typed:
        got, remedy = repr(typed["merged_group_name"]), "Give the size below which groups are merged."
        raise ValueError(message("--merged-group-name", "come with --merge-groups-below", got, remedy))
    usual = USUAL if method == "gibbs" else {}
    parts = "n_clusters" if method in takers_of("n_clusters") else "n_components"
    return {parts: arguments.n_clusters, "random_state": arguments.random_state, **usual, **typed}

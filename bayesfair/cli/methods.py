"""Which estimator `--method` names, and which options are its own: those whose parameter it has."""

from inspect import signature

import bayesfair as bf
from bayesfair._check import message
from bayesfair.cli.exit_status import OPTIONS

__all__ = ["METHODS", "SETTINGS", "check_weights", "estimator_class", "settings_of_method", "takes"]

METHODS = {  # those that leave a posterior first
    "gibbs": "GibbsFairClustering",
    "bayesian-mixture": "BayesianFairMixture",
    "balanced-kmeans": "BalancedKMeans",
    "fairlet-kmeans": "FairletKMeans",
    "variational": "VariationalFairClustering",
    "fair-mixture": "FairMixture",
    "tilted-kmeans": "TiltedKMeans",
    "big-learn": "BigLearnMixture",
}
NOT_SETTINGS = {
    "X",
    "sensitive_features",
    "sample_weight",
    "store",
    "n_components",
}  # arguments of `fit`, and another name of one
SETTINGS = tuple(name for name in OPTIONS if name not in NOT_SETTINGS)
OF_LABELS = ("min_balance", "crossed")  # of gibbs, where the target has no fairlets


def estimator_class(method):
    return getattr(bf, METHODS[method])


def takes(method, name):
    """Whether a method's estimator has a parameter of this name."""
    return name in signature(estimator_class(method)).parameters


def settings_of_method(arguments):
    """{parameter: value} of the settings that were typed, under the names that the method's estimator gives them.

    Raises
    ------
    ValueError: an option of other methods, or one that says nothing without another.
    """
    typed = {name: getattr(arguments, name) for name in SETTINGS if getattr(arguments, name, None) is not None}
    method = arguments.method
    if not takes(method, "n_clusters"):
        typed["n_components"] = typed.pop("n_clusters")
    for name in typed:
        if not takes(method, name):
            those = " or ".join(f"--method {other}" for other in METHODS if takes(other, name))
            raise ValueError(
                message(OPTIONS[name], f"come with {those}", f"--method {method}", "Leave one of them out.")
            )
    if method == "gibbs":
        _check_target(typed)
    if "merged_group_name" in typed and "min_group_size" not in typed:
        got, remedy = repr(typed["merged_group_name"]), "Say below which size groups are merged."
        raise ValueError(message("--merged-group-name", "come with --merge-groups-below", got, remedy))
    return typed


def check_weights(method):
    """ValueError where the method's `fit` takes no weights."""
    if "sample_weight" not in signature(estimator_class(method).fit).parameters:
        remedy = "Leave it out: every row counts once."
        raise ValueError(message("--weights", f"not come with --method {method}", "both", remedy))


def _check_target(typed):
    target = typed.get("target", "joint")
    for name in OF_LABELS:
        if name in typed and target != "labels":
            remedy = "Clusters of fairlets are as balanced as their --composition."
            raise ValueError(message(OPTIONS[name], "come with --target labels", f"--target {target}", remedy))

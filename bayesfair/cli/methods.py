"""Which settings the estimator of a `--method` has."""

from inspect import Parameter, signature

import bayesfair as bf
from bayesfair._check import message
from bayesfair.cli.options import METHODS, OPTIONS, SETTINGS

__all__ = ["check_weights", "estimator_class", "settings_of_method", "takers_of"]


def estimator_class(method):
    return getattr(bf, METHODS[method])


def takers_of(name) -> dict[str, Parameter]:
    """The methods whose estimators have a setting of this name, and what they say of it."""
    known = {method: signature(estimator_class(method)).parameters for method in METHODS}
    return {method: parameters[name] for method, parameters in known.items() if name in parameters}


def settings_of_method(arguments):
    """{parameter: value} of the settings that were typed.

    Raises
    ------
    ValueError: an option of other methods, or one that says nothing without another.
    """
    names = [name for options in SETTINGS.values() for name in options]
    typed = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    method, target = arguments.method, typed.get("target", "joint")
    for name in typed:
        takers = takers_of(name)
        if method not in takers:
            those = " or ".join(f"--method {other}" for other in takers)
            raise ValueError(
                message(OPTIONS[name], f"come with {those}", f"--method {method}", "Leave one of them out.")
            )
        if method == "gibbs" and name in ("min_balance", "crossed") and target != "labels":
            remedy = "Clusters of fairlets are as balanced as their --composition."
            raise ValueError(message(OPTIONS[name], "come with --target labels", f"--target {target}", remedy))
    if "merged_group_name" in typed and "min_group_size" not in typed:
        got, remedy = repr(typed["merged_group_name"]), "Say below which size groups are merged."
        raise ValueError(message("--merged-group-name", "come with --merge-groups-below", got, remedy))
    parts = "n_clusters" if method in takers_of("n_clusters") else "n_components"
    return {parts: arguments.n_clusters, "random_state": arguments.random_state, **typed}


def check_weights(method):
    """ValueError where the method's `fit` takes no weights."""
    if "sample_weight" not in signature(estimator_class(method).fit).parameters:
        remedy = "Leave it out: every row counts once."
        raise ValueError(message("--weights", f"not come with --method {method}", "both", remedy))

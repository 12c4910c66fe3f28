"""Bayesian fair clustering with uncertainty.

Everything public hangs off this module and is imported on first use, so that `import bayesfair` stays light.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("bayesfair")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "unknown"

_ROOMS = (
    "datasets",
    "fairness",
    "distributed",
    "fairlets",
    "gibbs",
    "engines",
    "models",
    "posterior",
    "estimators",
    "plots",
    "reports",
    "cli",
)
_HOMES = {
    "BalancedKMeans": "bayesfair.engines",
    "BayesianFairMixture": "bayesfair.estimators",
    "BigLearnMixture": "bayesfair.engines",
    "FairMixture": "bayesfair.engines",
    "FairletKMeans": "bayesfair.engines",
    "GibbsFairClustering": "bayesfair.estimators",
    "TiltedKMeans": "bayesfair.engines",
    "VariationalFairClustering": "bayesfair.engines",
    "report": "bayesfair.reports",
}

__all__ = ["__version__", *_HOMES, *_ROOMS]


def __getattr__(name):
    if name in _ROOMS:
        return import_module(f"bayesfair.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'bayesfair' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)

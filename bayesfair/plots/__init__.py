"""Pictures: first arrays from an ArviZ tree (or from results), then matplotlib axes from arrays."""

from typing import TYPE_CHECKING

from bayesfair._lazy import lazily

_HOMES = {
    "calibration": "bayesfair.plots.calibration_plot",
    "cluster_comparison": "bayesfair.plots.costs",
    "co_clustering": "bayesfair.plots.pairs",
    "elbow": "bayesfair.plots.costs",
    "explore": "bayesfair.plots.exploring",
    "fairlets": "bayesfair.plots.pairs",
    "modes": "bayesfair.plots.scatter",
    "pareto": "bayesfair.plots.costs",
    "predictive": "bayesfair.plots.checks",
    "profile": "bayesfair.plots.profile_plot",
    "trace": "bayesfair.plots.checks",
    "uncertainty": "bayesfair.plots.scatter",
    "uncertainty_profile": "bayesfair.plots.scatter",
}

__all__ = [
    "calibration",
    "cluster_comparison",
    "co_clustering",
    "elbow",
    "explore",
    "fairlets",
    "modes",
    "pareto",
    "predictive",
    "profile",
    "trace",
    "uncertainty",
    "uncertainty_profile",
]

if TYPE_CHECKING:
    from bayesfair.plots.calibration_plot import calibration
    from bayesfair.plots.checks import predictive, trace
    from bayesfair.plots.costs import cluster_comparison, elbow, pareto
    from bayesfair.plots.exploring import explore
    from bayesfair.plots.pairs import co_clustering, fairlets
    from bayesfair.plots.profile_plot import profile
    from bayesfair.plots.scatter import modes, uncertainty, uncertainty_profile
else:
    __getattr__, __dir__ = lazily(__name__, _HOMES)

"""Pictures: first arrays from an ArviZ tree (or from results), then matplotlib axes from arrays."""

from typing import TYPE_CHECKING

from bayesfair._lazy import lazily

_HOMES = {
    "cluster_comparison": "bayesfair.plots.comparison",
    "co_clustering": "bayesfair.plots.matrix",
    "elbow": "bayesfair.plots.elbow_plot",
    "fairlets": "bayesfair.plots.fairlets_plot",
    "modes": "bayesfair.plots.modes_plot",
    "pareto": "bayesfair.plots.pareto_plot",
    "predictive": "bayesfair.plots.predictive_plot",
    "profile": "bayesfair.plots.profile_plot",
    "trace": "bayesfair.plots.diagnostics",
    "uncertainty": "bayesfair.plots.uncertainty_plot",
    "uncertainty_profile": "bayesfair.plots.uncertainty_plot",
}

__all__ = [
    "cluster_comparison",
    "co_clustering",
    "elbow",
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
    from bayesfair.plots.comparison import cluster_comparison
    from bayesfair.plots.diagnostics import trace
    from bayesfair.plots.elbow_plot import elbow
    from bayesfair.plots.fairlets_plot import fairlets
    from bayesfair.plots.matrix import co_clustering
    from bayesfair.plots.modes_plot import modes
    from bayesfair.plots.pareto_plot import pareto
    from bayesfair.plots.predictive_plot import predictive
    from bayesfair.plots.profile_plot import profile
    from bayesfair.plots.uncertainty_plot import uncertainty, uncertainty_profile
else:
    __getattr__, __dir__ = lazily(__name__, _HOMES)

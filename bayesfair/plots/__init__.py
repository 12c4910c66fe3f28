"""Pictures: first arrays from an ArviZ tree (or from results), then matplotlib axes from arrays."""

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

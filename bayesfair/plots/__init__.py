"""Pictures of a posterior: arrays from an ArviZ tree first, then matplotlib axes from arrays."""

from bayesfair.plots.diagnostics import trace
from bayesfair.plots.elbow import elbow
from bayesfair.plots.matrix import co_clustering
from bayesfair.plots.uncertainty import uncertainty, uncertainty_profile

__all__ = ["co_clustering", "elbow", "trace", "uncertainty", "uncertainty_profile"]

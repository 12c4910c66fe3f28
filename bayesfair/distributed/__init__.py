"""Several processes, one per machine or GPU, on JAX's own runtime: started, and told of each other's values and ends."""

from bayesfair.distributed.processes import ProcessLost, initialize, mesh
from bayesfair.distributed.rows import deal, gather

__all__ = ["ProcessLost", "deal", "gather", "initialize", "mesh"]

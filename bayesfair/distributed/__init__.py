"""Several processes, one per machine or GPU, on JAX's own runtime: starting them, sharing values, and ending them."""

import bayesfair._jax  # noqa: F401
from bayesfair.distributed.processes import ProcessLost, initialize, mesh
from bayesfair.distributed.rows import deal, gather

__all__ = ["ProcessLost", "deal", "gather", "initialize", "mesh"]

"""Several processes, one per machine or GPU, on JAX's own runtime: started, and told of each other's values and ends."""

from bayesfair.distributed.processes import ProcessLost, check_mesh, initialize, leave, lost_processes_told, mesh
from bayesfair.distributed.rows import deal, gather
from bayesfair.distributed.sharing import (
    agreed,
    axis_of,
    check_alike,
    digest,
    everybody,
    first_then_others,
    is_first,
    leads,
    over_chains,
    over_rows,
    shares_rows,
    sharing,
)

__all__ = [
    "ProcessLost",
    "agreed",
    "axis_of",
    "check_alike",
    "check_mesh",
    "deal",
    "digest",
    "everybody",
    "first_then_others",
    "gather",
    "initialize",
    "is_first",
    "leads",
    "leave",
    "lost_processes_told",
    "mesh",
    "over_chains",
    "over_rows",
    "shares_rows",
    "sharing",
]

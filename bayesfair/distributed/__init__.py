"""Several processes, one per machine or GPU, on JAX's own runtime: started, and told of each other's values and ends."""

from bayesfair.distributed.messages import (
    agreed,
    check_alike,
    digest,
    everybody,
    first_then_others,
    is_first,
    leads,
    over_chains,
    sharing,
)
from bayesfair.distributed.processes import (
    WHY_NO_ROWS,
    ProcessLost,
    check_mesh,
    initialize,
    leave,
    lost_processes_told,
    mesh,
)
from bayesfair.distributed.rows import deal, gather

__all__ = [
    "WHY_NO_ROWS",
    "ProcessLost",
    "agreed",
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
    "sharing",
]

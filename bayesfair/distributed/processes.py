"""Processes: started by JAX's own means, arranged in a mesh, and ended at once if one of them is lost."""

import os
import re
import sys
from contextlib import contextmanager, suppress

import jax
import numpy as np

from bayesfair._check import check_integer, message

HEARTBEAT_SECONDS = 30  # of silence after which JAX takes a process for lost
# Messages of gloo, NCCL and JAX's coordination service that a process is gone.
LOST = re.compile(r"gloo|nccl|coordination|connection (closed|reset|refused)|heartbeat|deadline", re.IGNORECASE)


class ProcessLost(RuntimeError):
    """Another process of the run has ended, so this one cannot continue."""


def initialize(coordinator_address=None, num_processes=None, process_id=None, **settings):
    """Make this process one of several.

    Call it first, before anything is computed. Without arguments JAX finds the processes by itself under SLURM, Open MPI and
    on TPUs. On CPUs gloo carries the messages. A process that shows no sign of life for 30 seconds
    (`heartbeat_timeout_seconds`) is lost.

    Parameters
    ----------
    coordinator_address : str, optional
        "host:port" at which process 0 can be reached.
    num_processes : int, optional
        Number of processes.
    process_id : int, optional
        The number of this process, from 0.
    **settings
        Further arguments of `jax.distributed.initialize`.

    Notes
    -----
    From then on a process that ends by an error ends at once, so that the others are told. On Linux it becomes a batch process
    (SCHED_BATCH, as `chrt --batch 0` makes them).

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.distributed.initialize("10.0.0.1:1234", num_processes=2, process_id=0)  # doctest: +SKIP
    """
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    if hasattr(jax.config, "jax_enable_preemption_service"):  # otherwise it would intercept SIGTERM
        jax.config.update("jax_enable_preemption_service", False)
    _do_not_interrupt()
    settings = {"heartbeat_timeout_seconds": HEARTBEAT_SECONDS, **settings}
    jax.distributed.initialize(coordinator_address, num_processes, process_id, **settings)
    told = sys.excepthook

    def end(kind, error, trace):
        if issubclass(kind, ProcessLost):
            print(f"{kind.__name__}: {error}", file=sys.stderr)
        else:
            told(kind, error, trace)
        leave(1)

    sys.excepthook = end


def _do_not_interrupt():
    """Keep threads from preempting a computing thread when they wake up, as gloo's would at every message.

    With as many cores as processes its polling would cost milliseconds per sum over processes.
    """
    with suppress(OSError):  # if the system lacks or forbids it, processes are only slower
        if hasattr(os, "SCHED_BATCH") and os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def leave(status: int):
    """End this process at once, without waiting for the others as JAX does at a normal end."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(status)


def mesh(*, rows) -> jax.sharding.Mesh:
    """The processes, with one device each, or all their devices, as a mesh that shares rows.

    `FairMixture`, `VariationalFairClustering`, `TiltedKMeans` and `BigLearnMixture` take it. The processes of a run are fixed:
    they are numbered as JAX numbers them.

    Parameters
    ----------
    rows : int
        How many share the rows: the number of processes, or that of all their devices.

    Returns
    -------
    jax.sharding.Mesh

    Raises
    ------
    ValueError
        If `rows` is neither of these numbers.

    Examples
    --------
    >>> import bayesfair as bf
    >>> dict(bf.distributed.mesh(rows=1).shape)
    {'rows': 1}
    """
    n_processes = jax.process_count()
    devices = sorted(jax.devices(), key=lambda device: (device.process_index, device.id))
    if check_integer("rows", rows) == n_processes:
        first = {device.process_index: device for device in reversed(devices)}
        devices = [first[process] for process in range(n_processes)]
    elif rows != len(devices):
        remedy = "Start as many processes, with bf.distributed.initialize in each."
        rule = f"be {n_processes}, the number of processes, or {len(devices)}, that of their devices"
        raise ValueError(message("rows", rule, rows, remedy))
    return jax.sharding.Mesh(np.array(devices, dtype=object), ("rows",))


def check_mesh(value):
    """Raise a TypeError or ValueError unless `value` is None or a mesh that gives rows to all processes."""
    if value is None:
        return
    remedy = f"Pass bf.distributed.mesh(rows={jax.process_count()})."
    if not isinstance(value, jax.sharding.Mesh):
        raise TypeError(message("mesh", "be None or a mesh of processes", repr(value), remedy))
    processes = {device.process_index for device in value.devices.flat}
    if value.axis_names != ("rows",) or len(processes) != jax.process_count():
        got = f"the axes {dict(value.shape)}"
        raise ValueError(message("mesh", "give rows to all processes", got, remedy))


@contextmanager
def lost_processes_told():
    """Turn the runtime's message that a process is gone into a one-line `ProcessLost`."""
    try:
        yield
    except (ValueError, RuntimeError) as error:
        if isinstance(error, ProcessLost) or jax.process_count() == 1 or not LOST.search(str(error)):
            raise
        why = str(error).split("\n")[0][:200]
        what = f"another of the {jax.process_count()} processes has ended, as process {jax.process_index()} learned"
        remedy = "Read that process's last output, then start all of them again."
        raise ProcessLost(f"{what} from: {why}. {remedy}") from None

"""Messages between processes: values of all, in the order of their numbers, so that all decide alike."""

import pickle
import signal
import threading
from contextlib import contextmanager
from functools import cache
from numbers import Integral
from typing import Any

import jax
import numpy as np

import bayesfair
from bayesfair._arrays import power_of_two
from bayesfair._check import message
from bayesfair._jit import jit
from bayesfair.distributed.processes import check_mesh, lost_processes_told

SMALLEST = 1 << 12  # bytes of a parcel; larger ones are powers of two, so that few programs compile
OWN = ("mesh", "progress_bar")  # settings in which processes may differ
_shared: list[tuple] = []  # while something is shared: along which axis, and whether this process was asked to stop


def everybody(value) -> list:
    """`value` (a picklable object) of every process, in order; all processes must call this together."""
    if jax.process_count() == 1:
        return [value]
    parcel = np.frombuffer(pickle.dumps(value), np.uint8)
    label = np.frombuffer(np.int64(len(parcel)).tobytes(), np.uint8)
    first = SMALLEST - len(label)
    told = _gathered(np.concatenate([label, parcel[:first]]), SMALLEST)
    sizes = told[:, : len(label)].copy().view(np.int64).ravel()
    rest = int(sizes.max()) - first
    parcels = [told[:, len(label) :]]
    if rest > 0:  # rarely needed
        parcels.append(_gathered(parcel[first:], max(SMALLEST, power_of_two(rest))))
    return [pickle.loads(part[:size].tobytes()) for part, size in zip(np.concatenate(parcels, 1), sizes)]


def _gathered(parcel, room):
    """Padded bytes of every process (processes, room)."""
    sharding, program = _gathering()
    filled = np.pad(parcel, (0, room - len(parcel)))[None]
    parcels = jax.make_array_from_process_local_data(sharding, filled, (jax.process_count(), room))
    return np.asarray(program(parcels).addressable_data(0))


@cache
def _gathering():
    """(sharding of parcels, the program that gathers them): that of `process_allgather`, made once for thousands of calls."""
    devices = np.array(jax.devices()).reshape(jax.process_count(), -1)
    mesh = jax.sharding.Mesh(devices, ("processes", "devices"))
    where = [jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes)) for axes in (("processes",), ())]
    return where[0], jit(_itself, out_shardings=where[1])


def _itself(parcels):
    return parcels


def check_alike(estimator, **told):
    """Refuse, in every process, versions, settings or data that differ between processes.

    `told` has the data, such as digests, or functions that return them, called only where processes share something.
    """
    if not _shared:
        return
    settings = {name: value for name, value in estimator.get_params(deep=False).items() if name not in OWN}
    if not isinstance(settings["random_state"], Integral):
        del settings["random_state"]  # all use the seed that process 0 draws from it
    versions = {"bayesfair": bayesfair.__version__, "jax": jax.__version__, "numpy": np.__version__}
    told = {name: value() if callable(value) else value for name, value in told.items()}
    tellings = everybody({name: repr(value) for name, value in {**versions, **settings, **told}.items()})
    for name in dict.fromkeys(name for telling in tellings for name in telling):
        said = [telling.get(name, "nothing") for telling in tellings]
        other = next((process for process, one in enumerate(said) if one != said[0]), None)
        if other is not None:
            got = f"{_short(said[0])} in process 0 and {_short(said[other])} in process {other}"
            remedy = "Start all of them with the same versions, settings and data."
            raise ValueError(message(name, "be the same in all processes", got, remedy))


def _short(text, most=20):
    return text if len(text) <= most else f"{text[:most]}..."


@contextmanager
def sharing(mesh, axis, *, stops=False):
    """Within the block the processes of `mesh` share chains or rows, whichever `axis` says; None: this one has them all.

    With `stops`, Ctrl-C, in whichever process, is kept for the next `agreed`, where all of them stop together.
    """
    check_mesh(mesh, axis)
    if mesh is None or jax.process_count() == 1:
        yield
        return
    asked, handles = threading.Event(), stops and threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, lambda *_: asked.set()) if handles else None
    _shared.append((axis, asked))
    try:
        with lost_processes_told():
            yield
    finally:
        _shared.pop()
        if handles:
            signal.signal(signal.SIGINT, before)


def is_first() -> bool:
    """Is this the process that prints?"""
    return jax.process_index() == 0


def leads() -> bool:
    """Does this process write shared output? The first one does; each one does if nothing is shared."""
    return not _shared or jax.process_index() == 0


def first_then_others(first, others, *arguments):
    """`first(...)` in the leading process; after it `others(...)` in the others."""
    made = first(*arguments) if leads() else None
    agreed(None)
    return made if leads() else others(*arguments)


def agreed(value):
    """`value` of process 0 if anything is shared, else `value`; KeyboardInterrupt in all if one was asked to stop."""
    if not _shared:
        return value
    tellings = everybody((value if is_first() else None, _shared[-1][1].is_set()))
    if any(asked for _, asked in tellings):
        _shared[-1][1].clear()
        raise KeyboardInterrupt
    return tellings[0][0]


def over_chains(program, chains) -> Any:
    """`program(chains)` of a tree with chains first; if they are shared, each process runs its own and gets all results."""
    if not _shared or _shared[-1][0] != "chains":
        return program(chains)
    n_chains, n_processes = len(jax.tree.leaves(chains)[0]), jax.process_count()
    size = -(-n_chains // n_processes)
    own = np.arange(jax.process_index() * size, (jax.process_index() + 1) * size) % n_chains
    ends = everybody(jax.tree.map(np.asarray, program(jax.tree.map(lambda part: np.asarray(part)[own], chains))))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:n_chains], *ends)

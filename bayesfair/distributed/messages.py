"""Messages between processes: values of all, in the order of their numbers, so that all decide alike."""

import pickle
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from numbers import Integral

import jax
import numpy as np

import bayesfair
from bayesfair._arrays import power_of_two
from bayesfair._check import message
from bayesfair._jit import jit
from bayesfair.distributed.processes import check_mesh, lost_processes_told

SMALLEST = 1 << 12  # bytes of a parcel; larger ones are powers of two, so that few programs compile
OWN = ("mesh", "progress_bar")  # settings in which processes may differ
_SHARES = ContextVar("_SHARES", default=False)  # do processes share the rows of the fit that runs?


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


@contextmanager
def sharing(mesh):
    """Within the block the processes of `mesh` share the rows of a fit; None: this one has them all."""
    check_mesh(mesh)
    if mesh is None or jax.process_count() == 1:
        yield
        return
    before = _SHARES.set(True)
    try:
        with lost_processes_told():
            yield
    finally:
        _SHARES.reset(before)


def check_alike(estimator, **told):
    """Refuse, in every process, versions, settings or columns (`told`) that differ between processes that share rows."""
    if not _SHARES.get():
        return
    settings = {name: value for name, value in estimator.get_params(deep=False).items() if name not in OWN}
    if not isinstance(settings["random_state"], Integral):
        del settings["random_state"]  # all use the seed that process 0 draws from it
    versions = {"bayesfair": bayesfair.__version__, "jax": jax.__version__, "numpy": np.__version__}
    tellings = everybody({name: repr(value) for name, value in {**versions, **settings, **told}.items()})
    for name in dict.fromkeys(name for telling in tellings for name in telling):
        said = [telling.get(name, "nothing") for telling in tellings]
        other = next((process for process, one in enumerate(said) if one != said[0]), None)
        if other is not None:
            got = f"{_short(said[0])} in process 0 and {_short(said[other])} in process {other}"
            remedy = "Start all of them with the same versions, settings and columns."
            raise ValueError(message(name, "be the same in all processes", got, remedy))


def _short(text, most=20):
    return text if len(text) <= most else f"{text[:most]}..."


def leads() -> bool:
    """Does this process do what one alone may do? The first one does; each one does if no rows are shared."""
    return not _SHARES.get() or jax.process_index() == 0


def agreed(value):
    """`value` of process 0 if rows are shared, else `value`."""
    return everybody(value if leads() else None)[0] if _SHARES.get() else value

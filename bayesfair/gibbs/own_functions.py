"""A function of two rows, written by the user: compiled, and sent to other processes."""

import linecache
import pickle
import re
from collections.abc import Callable
from functools import lru_cache

from numba import cfunc, njit, types

from bayesfair._check import Refusal
from bayesfair.gibbs.addresses import address_of

ALLOWED = (
    "Numba compiles numbers, loops, `math`, NumPy functions of arrays, and functions under numba.njit. "
    "The function takes two rows, float64 arrays, and returns one number."
)
_compiled: dict[Callable, int] = {}


def compiled(function: Callable) -> int:
    """The address of a function of two float64 rows, compiled once in a process.

    What it raises counts as NaN, which stops a run: Numba would print it and go on with 0.
    """
    if function not in _compiled:
        row = types.float64[::1]
        signature = types.float64(row, row)
        _compiled[function] = address_of(cfunc(signature, error_model="numpy")(_without_errors(function, signature)))
    return _compiled[function]


def _without_errors(function, signature):
    try:
        known = njit(signature, error_model="numpy")(function)
    except Exception as error:
        raise ValueError(Refusal(_explained(function, error))) from error

    def guarded(x, y):
        try:
            return known(x, y)
        except Exception:
            return float("nan")

    return guarded


def _explained(function, error) -> str:
    """The line that Numba cannot compile, its reason, and what is allowed."""
    code, text = getattr(function, "__code__", None), str(error)
    reason = text.split("\n\n")[0].removeprefix("Failed in nopython mode pipeline (step: nopython frontend)\n")
    reason = " ".join(reason.split(" Raised from")[0].split())
    found = re.search(rf", line (\d+)|{re.escape(code.co_filename)} \((\d+)\)", text) if code else None
    if found is None:
        return f"Numba cannot compile the function of `loss`: {reason}. {ALLOWED}"
    number = int(found[1] or found[2])
    line = linecache.getline(code.co_filename, number).strip()
    return f"Numba cannot compile line {number} of the function of `loss`, `{line}`: {reason}. {ALLOWED}"


def packed(own: int) -> bytes:
    """The function at an address, for another process."""
    from joblib.externals.loky.backend.reduction import dumps  # cloudpickle's, which takes functions of notebooks

    return bytes(dumps(next(function for function, known in _compiled.items() if known == own)))


@lru_cache(maxsize=16)
def unpacked(text: bytes):
    """Compiled once in a process, though every task brings it."""
    return compiled(pickle.loads(text))

"""Functions that only other compiled functions call: without what Python needs to call them, they compile in half the time."""

from numba import njit

inner = njit(nogil=True, cache=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)

"""How kernels are compiled: once per installation, without the GIL, and with NumPy's rules for divisions.

A function is compiled anew when its own file changes, not when that of a function changes that it calls: clear the cache, or
set NUMBA_CACHE_DIR to a new folder, after editing (the tests do).

Kernels fill arrays that Python made. They allocate none (`_nrt=False`), so Numba counts no references, which cost a quarter of
the time of draws and a third of that of compilation. `a[:] = b` allocates: kernels copy number by number.

LLVM optimises a function anew in every function that calls it, and unboxes every array of a tuple: so kernels are few, calls
are not deep, and what is rare is done in Python. Functions are compiled anew for other types, literals too: integers are
int64 in calls (`int64(label[i])`), and losses are called at their addresses.
"""

from numba import njit

_ALL = {"nogil": True, "cache": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_INNER = {**_ALL, "no_cpython_wrapper": True, "_nrt": False}

kernel = njit(**_ALL, _nrt=False)
#: For functions that Python calls once and that make arrays of their own.
allocating = njit(**_ALL)
#: For functions that only other kernels call: without what Python needs to call them, they compile in half the time.
inner = njit(**_INNER)
#: For short formulas in the loop over proposals: a call that hands over seven arrays takes 50 ns, as long as the formula.
inlined = njit(**_INNER, forceinline=True)
#: `inner`, with sums in any order, of several numbers at once. No infinities and no NaN may occur.
vector = njit(**_INNER, fastmath=True)

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

kernel = njit(nogil=True, cache=True, error_model="numpy", no_cfunc_wrapper=True, _nrt=False)
#: For functions that Python calls once and that make arrays of their own.
allocating = njit(nogil=True, cache=True, error_model="numpy", no_cfunc_wrapper=True)
#: For functions that only other kernels call: without what Python needs to call them, they compile in half the time.
inner = njit(nogil=True, cache=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)
#: For short formulas in the loop over proposals: a call that hands over seven arrays takes 50 ns, as long as the formula.
inlined = njit(
    nogil=True,
    error_model="numpy",
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
    _nrt=False,
    cache=True,
    forceinline=True,
)
#: `inner`, with sums in any order, of several numbers at once. No infinities and no NaN may occur.
vector = njit(
    nogil=True,
    cache=True,
    error_model="numpy",
    fastmath=True,
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
    _nrt=False,
)

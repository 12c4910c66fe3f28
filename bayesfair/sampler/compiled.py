"""How kernels are compiled: once per installation, without the GIL, and with NumPy's rules for divisions.

Arguments that hold many arrays are dear to hand over (Numba counts references to each), so what runs for every unit is
`inlined` into the loop that calls it.
"""

from numba import njit

kernel = njit(nogil=True, cache=True, error_model="numpy")
inlined = njit(nogil=True, cache=True, error_model="numpy", inline="always")

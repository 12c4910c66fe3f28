"""How kernels are compiled: once per installation, without the GIL, and with NumPy's rules for divisions.

Numba counts references wherever an array is taken out of a tuple: loops over units take arrays out beforehand.
"""

from numba import njit

kernel = njit(nogil=True, cache=True, error_model="numpy")

"""`jax.jit` for every program of the package: products of matrices in full single precision on any device."""

from functools import partial, wraps

from bayesfair._jax import jax
from bayesfair._usual import usual_settings


def jit(function=None, **options):
    """`jax.jit(function, **options)`, whose products keep 24 bits: GPUs and TPUs round the factors to ten or seven otherwise.

    A distance by `a @ b.T` would be off by a thousandth, and a posterior that multiplies it by lambda would be another one.
    """
    if function is None:
        return partial(jit, **options)

    @wraps(function)
    def exactly(*arguments, **keywords):
        with usual_settings(), jax.default_matmul_precision("highest"):
            return function(*arguments, **keywords)

    return jax.jit(exactly, **options)

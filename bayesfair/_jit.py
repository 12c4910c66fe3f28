"""`jax.jit` for every program of the package: products of matrices in full single precision on any device."""

from contextlib import ExitStack, contextmanager
from functools import partial, wraps

import jax
import numpy as np

_GUARDS = [f"jax_transfer_guard_{between}" for between in ("host_to_device", "device_to_device", "device_to_host")]


@contextmanager
def usual_settings():
    """What our code relies on where its user forbids it: JAX's promotion of types and ranks, transfers, NumPy's underflow to 0.

    What is not forbidden is left as it is, since programs are compiled again under other settings.
    """
    with ExitStack() as stack:
        if np.geterr()["under"] != "ignore":
            stack.enter_context(np.errstate(under="ignore"))
        if jax.config.jax_numpy_dtype_promotion != "standard":
            stack.enter_context(jax.numpy_dtype_promotion("standard"))
        if jax.config.jax_numpy_rank_promotion != "allow":
            stack.enter_context(jax.numpy_rank_promotion("allow"))
        if any(getattr(jax.config, name) not in (None, "allow") for name in _GUARDS):
            stack.enter_context(jax.transfer_guard("allow"))
        yield


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

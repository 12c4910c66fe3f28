"""The settings of NumPy and JAX that our code relies on."""

import sys
from contextlib import ExitStack, contextmanager

import numpy as np

_GUARDS = [f"jax_transfer_guard_{between}" for between in ("host_to_device", "device_to_device", "device_to_host")]


@contextmanager
def usual_settings():
    """What our code relies on where its user forbids it: JAX's promotion of types and ranks, transfers, NumPy's underflow to 0.

    What is not forbidden is left as it is, since programs are compiled again under other settings. JAX is not loaded for it.
    """
    with ExitStack() as stack:
        if np.geterr()["under"] != "ignore":
            stack.enter_context(np.errstate(under="ignore"))
        if "jaxlib" in sys.modules:  # ArviZ leaves a lazy `jax` there, which any look at it would load
            jax = sys.modules["jax"]
            if jax.config.jax_numpy_dtype_promotion != "standard":
                stack.enter_context(jax.numpy_dtype_promotion("standard"))
            if jax.config.jax_numpy_rank_promotion != "allow":
                stack.enter_context(jax.numpy_rank_promotion("allow"))
            if any(getattr(jax.config, name) not in (None, "allow") for name in _GUARDS):
                stack.enter_context(jax.transfer_guard("allow"))
        yield

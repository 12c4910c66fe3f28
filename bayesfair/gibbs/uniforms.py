"""Uniform numbers of single places, as if there were an array of them."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import threefry_2x32

__all__ = ["uniform_at"]


def uniform_at(key, places, dtype):
    """`jax.random.uniform(key, (n,), dtype)[places]` for any n that is larger than these places (m,), bit for bit, and without
    the other numbers, which take 20 bytes each as they are made."""
    n_bits, n_mantissa = jnp.finfo(dtype).bits, jnp.finfo(dtype).nmant
    places = places.astype(jnp.uint32)
    high, low = jnp.split(threefry_2x32(key[:2], jnp.concatenate([jnp.zeros_like(places), places])), 2)
    bits = high ^ low if n_bits == 32 else high.astype(jnp.uint64) << 32 | low.astype(jnp.uint64)
    one = jnp.asarray(np.ones((), dtype).view(bits.dtype))
    return jax.lax.bitcast_convert_type(bits >> (n_bits - n_mantissa) | one, dtype) - 1

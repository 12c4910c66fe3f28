"""Uniform numbers of some places are those of `jax.random.uniform`, so that runs draw what they drew."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesfair.gibbs.uniforms import uniform_at


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_they_are_those_of_the_whole_array(dtype):
    with jax.enable_x64(dtype == np.float64):
        key, places = jax.random.PRNGKey(7), jnp.asarray([0, 3, 3, 999, 500])
        whole = jax.random.uniform(key, (1000,), dtype)
        some = jax.jit(uniform_at, static_argnums=2)(key, places, dtype)
        assert some.dtype == dtype
        np.testing.assert_array_equal(some, whole[places])

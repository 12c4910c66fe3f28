"""Chains in threads: the same as at once, for any number of them, in the caller's precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesfair.gibbs.threads import in_threads, warn_of_gpu


def chains(number):
    keys = jax.vmap(lambda chain: jax.random.fold_in(jax.random.PRNGKey(0), chain))(jnp.arange(number))
    return keys, {"x": jnp.arange(number, dtype=jnp.float32)}


@jax.jit
def program(chains):
    keys, parts = chains
    return jax.vmap(lambda key, x: jax.random.normal(key, (3,)) + x)(keys, parts["x"])


@pytest.mark.parametrize("number", [1, 7])
def test_the_bits_of_a_chain_depend_on_nothing_but_itself(number):
    """One program of several chains may round otherwise: XLA's vectors hold parts of two chains there."""
    alone = [program(jax.tree.map(lambda part: part[at : at + 1], chains(number))) for at in range(number)]  # noqa: B023
    np.testing.assert_array_equal(in_threads(program, chains(number)), np.concatenate(alone))
    np.testing.assert_allclose(program(chains(number)), np.concatenate(alone), rtol=1e-6)


def test_threads_have_the_callers_precision(x64):
    made = in_threads(lambda chains: jnp.asarray(np.arange(2.0)) + chains[0].sum(), chains(2))
    assert made.dtype == np.float64


def test_an_error_in_a_thread_is_the_callers():
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda chains: 1 // 0, chains(4))


def test_a_gpu_is_told_to_be_slower(monkeypatch):
    warn_of_gpu()  # a warning is an error in tests
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with pytest.warns(UserWarning, match="Remedy: set JAX_PLATFORMS=cpu"):
        warn_of_gpu()

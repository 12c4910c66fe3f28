"""The counter of compiled programs counts."""

import jax
import jax.numpy as jnp
import numpy as np

from bayesfair._compilations import compilations


def scaled(x, factor):
    return x * factor


def test_programs_are_counted_once_for_each_shape():
    program = jax.jit(scaled)
    with compilations() as compiled:
        program(np.ones(3), 2.0)
    assert compiled == ["jit(scaled)"]
    with compilations() as compiled:
        program(np.zeros(3), 5.0)
        assert compiled == []
        program(np.ones(4), 2.0)
    assert compiled == ["jit(scaled)"]
    program(np.ones(5), 2.0)
    assert compiled == ["jit(scaled)"]  # after the block nothing is added


def test_data_in_closures_are_compiled_anew():
    """The bug that it is there to catch."""
    with compilations() as compiled:
        for data in (jnp.zeros(7), jnp.ones(7)):
            jax.jit(lambda x, data=data: x + data)(1.0)
    assert sum("lambda" in name for name in compiled) == 2

"""POT in the user's own code, after a decomposition in the same process."""

import subprocess
import sys

import pytest

PROGRAM = """
import os
before = dict(os.environ)
import bayesfair as bf
bf.fairlets.decompose([[0.0], [1.0], [5.0], [6.0]], ["a", "b", "a", "b"])
changed = {name for name in {*before, *os.environ} if before.get(name) != os.environ.get(name)}
assert not [name for name in changed if name.startswith("POT_")], changed
import jax.numpy as jnp
import ot
if "POT_BACKEND_DISABLE_JAX" not in os.environ:
    cost = ot.emd2(jnp.array([0.5, 0.5]), jnp.array([0.5, 0.5]), jnp.array([[1.0, 0.0], [0.0, 1.0]]))
    assert float(cost) == 0
"""


@pytest.mark.parametrize("own", [{}, {"POT_BACKEND_DISABLE_JAX": "1"}])
def test_a_decomposition_leaves_the_array_libraries_of_pot_as_they_were(own, monkeypatch):
    for name in ("PYTORCH", "JAX", "CUPY", "TENSORFLOW"):
        monkeypatch.delenv(f"POT_BACKEND_DISABLE_{name}", raising=False)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

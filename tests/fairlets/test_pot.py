"""POT in the user's own code, after a decomposition in the same process."""

import subprocess
import sys

import numpy as np
import pytest

from bayesfair.fairlets import decompose

PROGRAM = """
import os
before = dict(os.environ)
import bayesfair as bf
bf.fairlets.decompose([[0.0], [1.0], [5.0], [6.0]], ["a", "b", "a", "b"])
changed = {name for name in {*before, *os.environ} if before.get(name) != os.environ.get(name)}
assert not [name for name in changed if name.startswith("POT_")], changed
import jax.numpy as jnp
import ot
assert float(ot.emd2(jnp.array([0.5, 0.5]), jnp.array([0.5, 0.5]), jnp.array([[1.0, 0.0], [0.0, 1.0]]))) == 0
"""


@pytest.mark.slow
def test_a_decomposition_leaves_the_array_libraries_of_pot_as_they_were(monkeypatch):
    """Those that the user has switched off, and the others."""
    for name in ("PYTORCH", "JAX", "CUPY"):
        monkeypatch.delenv(f"POT_BACKEND_DISABLE_{name}", raising=False)
    monkeypatch.setenv("POT_BACKEND_DISABLE_TENSORFLOW", "1")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("composition", ["auto", 5])
def test_a_pot_without_the_private_function_finds_the_same_cost(composition, monkeypatch):
    import ot.lp.emd_wrap

    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(23, 2)), np.repeat(["a", "b"], (7, 16))
    found = decompose(X, groups, composition, random_state=0)
    monkeypatch.delattr(ot.lp.emd_wrap, "emd_c_sparse")
    other = decompose(X, groups, composition, random_state=0)
    assert other.cost == pytest.approx(found.cost)
    assert other.optimal == found.optimal == (composition == "auto")
    assert "POT's network simplex" in repr(found)

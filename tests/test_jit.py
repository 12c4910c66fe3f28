"""Programs of the package multiply in full single precision, whatever the device and the user's setting."""

import ast
from pathlib import Path

import jax
import numpy as np
import pytest

import bayesfair
from bayesfair._jit import jit, usual_settings

ROOT = Path(bayesfair.__file__).parent
X = np.ones((4, 3), np.float32)


def products(function, setting):
    """(how many, how many of them precise), those in programs within programs too."""
    with jax.default_matmul_precision(setting):
        text = str(jax.make_jaxpr(function)(X))
    return text.count("dot_general["), text.count("precision=(Precision.HIGHEST, Precision.HIGHEST)")


def products_and_their_gradient(x):
    def loop(total, row):
        return total + (jax.vmap(lambda one: one @ x.T)(x) * row.sum()).sum(), None

    return jax.value_and_grad(lambda x: jax.lax.scan(loop, 0.0, x)[0] + jax.numpy.einsum("nd,nd->", x, x))(x)


@pytest.mark.parametrize("setting", [None, "bfloat16"])
def test_every_product_is_precise(setting):
    many, precise = products(jit(products_and_their_gradient), setting)
    assert many == precise > 2
    assert products(jax.jit(products_and_their_gradient), setting) == (many, 0)


FORBIDDEN = {
    "types": jax.numpy_dtype_promotion("strict"),
    "ranks": jax.numpy_rank_promotion("raise"),
    "transfers": jax.transfer_guard("disallow"),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_what_users_forbid_of_their_own_programs_is_allowed_in_ours(what):
    ours = jit(lambda x, counts: x + counts[0] * counts.sum())  # float32 and int32; a row and a table
    theirs = jax.jit(lambda x, counts: x + counts[0] * counts.sum())
    counts = np.ones((2, 3), np.int32)
    with FORBIDDEN[what]:
        with pytest.raises((TypeError, ValueError, jax.errors.JaxRuntimeError)):
            theirs(X, counts)
        with usual_settings():
            np.testing.assert_array_equal(ours(X, counts), np.full((4, 3), 7.0))
        with pytest.raises((TypeError, ValueError, jax.errors.JaxRuntimeError)):
            theirs(X, counts)


def test_options_and_names_reach_jax():
    @jit(static_argnames="power")
    def raised(x, power):
        return x**power if power > 1 else x

    assert raised.__name__ == "raised"
    np.testing.assert_array_equal(raised(X * 2, power=2), X * 4)


def uses_of_jax_jit(code):
    """Lines that name `jax.jit`, or import `jit` from JAX."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and node.attr == "jit" and ast.unparse(node.value) == "jax":
            yield node.lineno
        if isinstance(node, ast.ImportFrom) and node.module == "jax" and "jit" in {name.name for name in node.names}:
            yield node.lineno


def test_no_module_compiles_with_less_precision():
    for planted in ("@jax.jit\ndef f(): ...", "f = partial(jax.jit, static_argnums=0)", "from jax import jit"):
        assert list(uses_of_jax_jit(planted)) == [1]
    used = [path.name for path in sorted(ROOT.rglob("*.py")) if list(uses_of_jax_jit(path.read_text()))]
    assert used == ["_jit.py"]

"""Rows in blocks and on several devices: the same as all at once, each counted once, and sums that do not drift."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engines.rows_of import in_order, rows_of

from bayesfair._rows import each, farthest, largest, total

CASES = [(1, 3), (7, 1), (16, 3), (50, 3)]  # rows, blocks
BLOCKS = [1, 3]


def table(n_rows):
    """Rows, their codes, and weights above zero; with what fills up, whose weights are zero."""
    rng = np.random.default_rng(n_rows)
    return (
        rng.normal(size=(n_rows, 3)).astype(np.float32),
        rng.integers(5, size=n_rows),
        1 + rng.random(n_rows).astype("f"),
    )


@pytest.mark.parametrize(("n_rows", "n_blocks"), CASES)
def test_every_row_is_counted_once_and_has_what_is_its_own(n_rows, n_blocks):
    x, code, weight = table(n_rows)
    rows, scale = rows_of((x, code, weight), n_blocks), np.float32(2)
    assert len(rows) == n_blocks

    def sums(block, scale):
        x, code, weight = block
        return {"first": scale * x @ weight, "held": weight @ (code == jnp.arange(5)[:, None]).T}

    found = jax.jit(lambda rows, scale: total(sums, rows, scale))(rows, scale)
    np.testing.assert_allclose(found["first"], 2 * weight @ x, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["held"], np.bincount(code, weight, 5), rtol=1e-5)
    own = jax.jit(lambda rows, scale: each(lambda block, scale: {"x": scale * block[0], "code": block[1]}, rows, scale))
    made = own(rows, scale)
    np.testing.assert_array_equal(in_order(made["x"], n_rows), 2 * x)
    np.testing.assert_array_equal(in_order(made["code"], n_rows), code)
    again = jax.jit(lambda rows: total(lambda block: block[1] @ block[0][2], rows))(
        rows.beside(np.asarray(made["code"], np.float32))
    )
    np.testing.assert_allclose(again, code @ weight, rtol=1e-5)


@pytest.mark.parametrize("n_blocks", BLOCKS)
def test_rows_are_taken_by_their_numbers(n_blocks):
    x, code, weight = table(50)
    numbers = np.array([49, 0, 7, 7])
    picked = rows_of((x, code, weight), n_blocks).pick(numbers)
    jax.tree.map(
        lambda ours, whole: np.testing.assert_array_equal(in_order(ours, 4), whole[numbers]),
        picked.parts,
        (x, code, weight),
    )


@pytest.mark.parametrize(("n_rows", "n_blocks"), CASES)
def test_the_largest_and_the_farthest_are_those_of_the_whole(n_rows, n_blocks):
    x, _, weight = table(n_rows)
    rows = rows_of((x, weight), n_blocks)

    @jax.jit
    def told(rows):
        values = each(lambda block: jnp.where(block[1] > 0, block[0][0], -9.0), rows)
        return largest(lambda block: jnp.where(block[1] > 0, block[0], -9.0).max(1), rows), farthest(values, rows, 3)[0]

    far, found = map(np.asarray, told(rows))
    np.testing.assert_array_equal(far, x.max(0))
    np.testing.assert_array_equal(found[: min(3, n_rows)], x[np.argsort(-x[:, 0])[:3]])


def test_sums_of_many_blocks_round_as_one_addition_does():
    x = np.random.default_rng(0).random((20_000 * 8, 2)).astype(np.float32)
    found = jax.jit(lambda rows: total(lambda block: block.sum(1), rows))(rows_of(x, 20_000))
    np.testing.assert_allclose(found, x.astype(np.float64).sum(0), rtol=1e-7)
    in_turn = jax.lax.scan(lambda sum, block: (sum + block.sum(0), None), jnp.zeros(2), x.reshape(20_000, 8, 2))[0]
    assert np.abs(np.asarray(in_turn, np.float64) / x.astype(np.float64).sum(0) - 1).max() > 1e-6  # what it is for


def test_some_of_the_blocks_are_summed():
    x = np.arange(12.0, dtype=np.float32)
    seen = jnp.array([True, False, True])
    found = jax.jit(lambda rows, seen: total(lambda block: block.sum(), rows, used=seen))(rows_of(x, 3), seen)
    assert found == x[0::3].sum() + x[2::3].sum()


@pytest.mark.parametrize("n_blocks", BLOCKS)
def test_gradients_are_those_of_all_rows_at_once(n_blocks):
    x, _, weight = table(50)

    def loss(center):
        return total(
            lambda block, c: block[1] @ jnp.square(block[0] - c[:, None]).sum(0), rows_of((x, weight), n_blocks), center
        )

    center = np.float32([0.3, -1.0, 2.0])
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(center), 2 * weight @ (center - x), rtol=1e-5)


def loops_around_sums(jaxpr, loops=0):
    """How many loops are around each sum over devices."""
    for equation in jaxpr.eqns:
        if equation.primitive.name.startswith("psum"):
            yield loops
        inner = loops + (equation.primitive.name in ("while", "scan"))
        for part in jax.tree.leaves(
            equation.params, is_leaf=lambda part: hasattr(part, "jaxpr") or hasattr(part, "eqns")
        ):
            if hasattr(part, "jaxpr") or hasattr(part, "eqns"):
                yield from loops_around_sums(getattr(part, "jaxpr", part), inner)


@pytest.mark.parametrize("n_blocks", BLOCKS)
def test_devices_tell_each_other_sums_once_a_pass(n_blocks):
    """Not once a block, as they did where gradients were added up over devices inside of the loop over blocks."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("rows",))
    x, _, weight = table(50)
    parts = rows_of((x, weight), n_blocks).parts
    rows = type(rows_of(x))(parts, mesh)

    def loss(center):
        def of_block(block, c):
            return block[1] @ jnp.square(block[0] - c["at"][:, None]).sum(0), c["number"].sum() * block[1].sum()

        one, other = total(of_block, rows, center)
        return one + other

    center = {"at": np.float32([0.3, -1.0, 2.0]), "number": np.float32([1.0, 2.0])}
    assert list(loops_around_sums(jax.make_jaxpr(jax.value_and_grad(loss))(center).jaxpr)) == [0, 0]
    plain = total(lambda block, c: block[1] @ jnp.square(block[0] - c[:, None]).sum(0), type(rows)(parts), center["at"])
    np.testing.assert_allclose(jax.jit(loss)(center), plain + 3 * weight.sum(), rtol=1e-5)

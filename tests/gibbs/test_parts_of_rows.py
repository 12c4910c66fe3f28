"""Rows a part at a time: the same as all at once, each counted once, and sums that do not drift."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesfair.gibbs.parts_of_rows import map_rows, sum_over_rows

SIZES = [16, 17, 50]  # of parts of 16 rows


@pytest.mark.parametrize("n_rows", SIZES)
def test_rows_of_parts_are_those_of_the_whole(n_rows):
    rng = np.random.default_rng(n_rows)
    x, code = rng.normal(size=(n_rows, 3)).astype(np.float32), rng.integers(5, size=n_rows)

    def of(rows, numbers):
        x, code = rows
        return {"number": numbers, "sum": x.sum(1), "named": x * code[:, None], "even": code % 2 == 0}

    parts = jax.jit(lambda rows: map_rows(of, rows, size=16))((x, code))
    jax.tree.map(np.testing.assert_array_equal, parts, jax.jit(of)((x, code), np.arange(n_rows)))


@pytest.mark.parametrize("n_rows", SIZES)
def test_every_row_is_counted_once(n_rows):
    numbers = np.arange(n_rows) + 1
    counted = jax.jit(lambda rows: sum_over_rows(lambda part, new: (part * new).sum(), rows, size=16))(numbers)
    assert counted == numbers.sum()
    forgotten = sum_over_rows(lambda part, new: part.sum(), numbers, size=16)  # what is in two parts
    assert (forgotten == numbers.sum()) == (n_rows % 16 == 0 or n_rows < 16)


def test_sums_of_many_parts_round_as_one_addition_does():
    values = np.full(1_000_000, 0.1, np.float32)
    truth = values.astype(float).sum()
    summed = jax.jit(lambda rows: sum_over_rows(lambda part, new: jnp.where(new, part, 0).sum(), rows, size=16))(values)
    assert abs(summed / truth - 1) < 2e-7
    in_turn = jax.lax.scan(lambda total, part: (total + part.sum(), None), np.float32(0), values.reshape(-1, 16))[0]
    assert abs(in_turn / truth - 1) > 1e-5


@pytest.mark.parametrize(("n_rows", "part"), [(16, 16), (17, 9), (33, 11)])
def test_few_rows_are_worked_on_twice(n_rows, part):
    seen = []
    map_rows(lambda rows, _: seen.append(len(rows)) or rows, np.arange(n_rows), size=16)
    assert set(seen) == {part} | ({1} if n_rows > 16 else set())  # one row tells what there is to be written

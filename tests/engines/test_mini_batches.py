"""Algorithm 3 against Algorithm 2, enumeration of its statistics, and steps of Adam by hand."""

import jax
import numpy as np
import optax
import pytest
from engines.rows_of import fair, loss_at, mixture_at, random_components, rows_of

import bayesfair as bf
from bayesfair.engines.families import COVARIANCE_TYPES, Family, Moments
from bayesfair.engines.fmc import Ascent, GroupedRows, Rule

N, K = 120, 3
RULE = Rule(*map(np.float32, (2.0, np.inf, 0.1, 0.3)))


def problem_in(n_batches):
    """Rows with some levels, and mini-batches of them."""
    rng = np.random.default_rng(0)
    group = np.arange(N) % 3 == 0
    X = (rng.normal(size=(N, 2)) + group[:, None] + 3 * rng.integers(2, size=(N, 1))).astype(np.float32)
    levels = rng.integers(2, size=(N, 1)).astype(np.int32)
    weight = rng.integers(1, 3, N).astype(np.float32)
    problem = fair(X, levels, group, weight)
    rows = GroupedRows(X, levels, group.astype(np.int32), weight)
    return problem._replace(batches=rows_of(rows, n_batches)) if n_batches else problem


def ran(family, problem, n_iter, solver="em"):
    """(losses, last state)."""
    parameters = random_components(family.covariance_type, K, 2, 2)
    step, losses = jax.jit(Ascent(family, solver)), []
    state = mixture_at(family, problem, parameters, RULE, solver)
    for _ in range(n_iter):
        state, loss = step(problem, state)
        losses.append(float(loss))
    return np.array(losses), state


@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_statistics_about_other_means_are_those_made_with_them(covariance_type):
    family, problem = Family(covariance_type, (2,)), problem_in(1)
    here, there = (random_components(covariance_type, K, 2, 2, seed) for seed in (0, 1))
    table = jax.tree.map(lambda part: part[0], problem.batches.parts).table(family)
    r = np.random.default_rng(2).dirichlet(np.ones(K), N).T.astype(np.float32)

    @jax.jit
    def both(here, there, table, r):
        return family.expected(here, table, r).about(there.mean - here.mean), family.expected(there, table, r)

    for ours, direct in zip(*both(here, there, table, r)):
        np.testing.assert_allclose(ours, direct, rtol=1e-4, atol=1e-2)


@pytest.mark.slow
def test_one_batch_of_all_rows_is_algorithm_2():
    family = Family("full", (2,))
    (_, whole), (_, batch) = (ran(family, problem_in(n), 3) for n in (0, 1))
    for ours, plain in zip(batch.parameters, whole.parameters):
        np.testing.assert_allclose(ours, plain, rtol=2e-3, atol=2e-3)


def test_the_free_energy_never_decreases_and_bounds_the_objective():
    """And statistics of the other batches that are forgotten, or left about old means, are seen."""
    family, problem = Family("diag", (2,)), problem_in(6)
    losses, state = ran(family, problem, 60)
    assert (np.diff(losses) <= 2e-6 * abs(losses[0])).all()
    objective = float(loss_at(family, state.parameters, problem, RULE))
    assert objective - 1e-5 <= losses[-1] < objective + 0.02

    def forgetful(known, move):
        return Moments(*(0 * part for part in known))._replace(mass=known.mass)

    for wrong in (forgetful, lambda known, move: known):

        class Anew(Family):
            """Compiled again."""

        with np.errstate(all="ignore"), pytest.MonkeyPatch.context() as patch:
            patch.setattr(Moments, "about", wrong)
            losses, _ = ran(Anew("diag", (2,)), problem, 60)
        assert not (np.diff(losses) <= 2e-6 * abs(losses[0])).all()


def test_the_gradient_solver_takes_steps_of_adam_and_no_m_step():
    """Ten of them, on all rows; refused where the objective would decrease."""
    family, problem = Family("diag", (2,)), problem_in(0)

    adam = optax.adam(0.02, b1=0.9, b2=0.99, eps=1e-5)

    def by_hand(_, now):
        parameters, state = now
        updates, state = adam.update(jax.grad(loss_at, 1)(family, parameters, problem, RULE), state)
        return optax.apply_updates(parameters, updates), state

    start = random_components("diag", K, 2, 2)
    parameters, _ = jax.jit(lambda now: jax.lax.fori_loop(0, 10, by_hand, now))((start, adam.init(start)))
    _, found = ran(family, problem, 1, "gradient")
    for ours, optax_s in zip(found.parameters, parameters):
        np.testing.assert_allclose(ours, optax_s, rtol=1e-3, atol=1e-4)
    assert (np.diff(ran(family, problem, 40, "gradient")[0]) <= 0).all()


def test_delta_is_measured_on_as_many_rows_as_asked_for(monkeypatch):
    from bayesfair.engines import fair_mixture

    sizes, at = [], fair_mixture.FairMixture._in_batches
    data = bf.datasets.make_vfc_synthetic()

    def looked_at(self, sample):
        sizes.append(float(at(self, sample).rows.counts.sum()))
        raise InterruptedError

    monkeypatch.setattr(fair_mixture.FairMixture, "_in_batches", looked_at)
    for size in (100, 0.5, None):
        est = bf.FairMixture(2, batch_size=40, gap_subsample=size, random_state=0)
        with pytest.raises(InterruptedError):
            est.fit(data.features, sensitive_features=data.sensitive)
    assert sizes == [100, 200, 400]


def test_its_size_is_checked():
    data = bf.datasets.make_vfc_synthetic()
    for settings, told in (({"gap_subsample": 50}, "batch_size"), ({"batch_size": 9, "gap_subsample": 1}, "2")):
        with pytest.raises(ValueError, match=f"(?s)gap_subsample.*{told}"):
            bf.FairMixture(2, **settings).fit(data.features, sensitive_features=data.sensitive)

"""Engines of rows in many blocks: the same numbers as of one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engines.rows_of import fair, in_order, mixture_at, random_components, targeted, tilted
from scipy.special import logsumexp

import bayesfair as bf
from bayesfair._arrays import aligned_empty
from bayesfair._rows import Rows
from bayesfair.engines import fair_mixture, fmc, optimize, tkm, variational
from bayesfair.engines.data import free, stratified, weights_as_of_all
from bayesfair.engines.families import Family
from bayesfair.engines.fmc import Ascent, Rule, e_step, penalty_of_shares, shares_of
from bayesfair.fairness import encode_groups

N, DIM, K = 700, 3, 4
LEVELS = (2, 3)
WEIGHT = np.resize([1.0, 3.0, 0.5, 2.0, 1.0, 1.0, 4.0], N)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    cluster = rng.integers(K, size=N)
    X = rng.normal(size=(N, DIM)) + 2.0 * rng.normal(size=(K, DIM))[cluster]
    group = np.where(rng.random(N) < 0.2 + 0.2 * cluster, "a", np.where(rng.random(N) < 0.3, "b", "c"))
    return X, group, np.stack([rng.integers(n, size=N) for n in LEVELS], 1)


def in_blocks(monkeypatch, size=128):
    """Tables of the size of `data` in blocks of so many rows."""
    monkeypatch.setattr("bayesfair.engines.data.ONE_BLOCK", N - 1)
    monkeypatch.setattr(variational, "BLOCK", size)
    monkeypatch.setattr(fmc, "BLOCK", size)


def test_aligned_arrays_are_arrays():
    array = aligned_empty((3, 5), np.int32)
    array[:] = 7
    assert (array.shape, array.dtype, array.ctypes.data % 64) == ((3, 5), np.int32, 0)
    np.testing.assert_array_equal(jax.device_put(array), np.full((3, 5), 7))


def mixture_problems(data, monkeypatch, covariance_type, size=128):
    """(family, parameters, the problem in one block, in several)."""
    X, group, levels = data
    n_levels = LEVELS if covariance_type == "diag" else ()
    given = X / 2, levels if n_levels else np.zeros((N, 0)), group, WEIGHT
    whole = fair(*given)
    in_blocks(monkeypatch, size)
    blocked = fair(*given)
    assert (len(whole.rows), len(blocked.rows)) == (1, -(-N // size))
    parameters = random_components(covariance_type, K, DIM, sum(n_levels), 1)
    return Family(covariance_type, n_levels), parameters, whole, blocked


RULE = Rule(*map(np.float32, (30.0, 0.02, 0.05, 0.3)))


def test_q_follows_from_expected_statistics(data, monkeypatch):
    family, old, whole, blocked = mixture_problems(data, monkeypatch, "diag")
    rows = jax.tree.map(lambda part: np.asarray(part)[0], whole.rows.parts)

    @jax.jit
    def told():
        table, known = rows.table(family), e_step(family, old, blocked, RULE.temperature)[0]
        responsibilities = rows.weight * jax.nn.softmax(family.log_joint(old, table), 0)
        places = old, family.m_step(old, known)
        q = [(responsibilities * family.log_joint(at, table)).sum() for at in places]
        return q, [family.expected_log_joint(at, old, known) for at in places]

    plainly, expected = told()
    np.testing.assert_allclose(expected, plainly, rtol=1e-4)


@pytest.mark.slow
def test_an_iteration_in_blocks_is_that_of_all_rows_at_once(data, monkeypatch):
    family, parameters, *problems = mixture_problems(data, monkeypatch, "diag")
    states, losses = [], []
    for problem in problems:
        state, loss = jax.jit(Ascent(family))(problem, mixture_at(family, problem, parameters, RULE))
        states.append(state)
        losses.append(float(loss))
    np.testing.assert_allclose(*losses, rtol=1e-4)
    for one, other in zip(states[0].parameters, states[1].parameters, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-2, atol=5e-3)
    ours = states[1]
    afresh = jax.jit(lambda: e_step(family, ours.parameters, problems[1], RULE.temperature))()
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5),
        (ours.known, ours.shares),
        afresh,
    )


def few_of_one_group(data):
    """Four rows in all, three of them in one of eleven blocks and one in another."""
    group = np.where(data[1] == "c", "a", data[1])
    group[[10, 21, 32, 200]] = "few"
    return data[0], group, data[2]


def test_parts_of_the_blocks_have_somebody_of_every_group(data, monkeypatch):
    monkeypatch.setattr(fmc, "FEWEST", 4)
    blocked = mixture_problems(few_of_one_group(data), monkeypatch, "isotropic", 64)[3]
    np.testing.assert_array_equal(fmc.first_of(blocked, 64).size[2], blocked.size[2])  # all of a small one
    assert fmc.first_of(blocked, 64).used.sum() == 3
    for inner, least in ((2, WEIGHT[200]), (3, float(blocked.size[2]))):
        monkeypatch.setattr(fmc, "INNER_BLOCKS", inner)
        for seed in range(8):
            some = fmc.some_of(blocked, jax.random.PRNGKey(seed))
            assert len(some.rows) == inner
            assert some.size[2] >= least


def test_a_group_that_no_block_has_leaves_shares_and_slopes_finite(data, monkeypatch):
    family, parameters, _, blocked = mixture_problems(few_of_one_group(data), monkeypatch, "isotropic", 64)
    some = blocked.take(np.arange(2))

    def loss(parameters):
        return penalty_of_shares(shares_of(family, parameters, some, RULE.temperature), RULE)

    assert float(some.size[2]) == 0
    assert all(np.isfinite(part).all() for part in jax.jit(jax.grad(loss))(parameters))


@pytest.mark.slow
def test_a_mixture_of_many_rows_is_fair_and_its_objective_never_decreases(data, monkeypatch):
    """More rows than were explored begin hot again: what is fair of few is so by chance. Then all rows do not."""
    X, group, _ = data
    runs, run = [], bf.FairMixture._run

    def counted(self, sample, parameters, rule, **settings):
        if sample.data.split.n_obs == N:  # of those explored there are fewer
            runs.append((rule.temperature, int(sample.rows.used.sum())))
        return run(self, sample, parameters, rule, **settings)

    two = np.where(group == "a", "a", "b")
    # Rounding decides which small steps are refused, and so how long the objective creeps: 21 to 136 iterations by seed.
    settings = {"max_gap": 0.05, "n_init": 2, "max_iter": 500, "random_state": 0}
    plain = bf.FairMixture(2, **settings).fit(X, sensitive_features=two)
    in_blocks(monkeypatch)
    monkeypatch.setattr(bf.FairMixture, "_run", counted)
    monkeypatch.setattr(fair_mixture, "EXPLORE_ROWS", 300)
    monkeypatch.setattr(fair_mixture, "MORE", 400)
    est = bf.FairMixture(2, **settings).fit(X, sensitive_features=two)
    few, every = -(-400 // 128), -(-N // 128)
    temperatures = fair_mixture.ANNEALING
    assert runs[: len(temperatures)] == [(temperature, few) for temperature in temperatures]
    assert {used for _, used in runs} == {few, every}
    assert max(est.gap_, est.hard_gap_) <= 0.05
    assert (np.diff(est.objective_trace_) >= -1e-5 * abs(est.objective_trace_[0])).all()
    np.testing.assert_allclose(est.objective_trace_[-1], plain.objective_trace_[-1], rtol=5e-3)
    np.testing.assert_array_equal(est.labels_, est.predict(X))
    np.testing.assert_allclose(est.gap_, bf.fairness.gap(est.predict_proba(X), two), atol=1e-5)


@pytest.mark.slow
def test_variational_steps_in_blocks_are_those_of_all_rows_at_once(data):
    (X, group, _), weight, objective = data, 100.0, "kmeans"
    groups, descent = encode_groups(group), variational.Descent(objective)
    given = X - X.mean(0), groups.code, groups.sizes / N, objective, WEIGHT / WEIGHT.mean()
    problems = targeted(*given), targeted(*given, n_blocks=11)
    starts = np.asarray(given[0][None, :K] + 0.3, np.float32), np.float32([weight]), np.float32([variational.START])
    whole, ours = (
        jax.tree.map(lambda part: np.asarray(part)[0], variational.start_states(descent, problem, *starts))
        for problem in problems
    )
    np.testing.assert_allclose(ours.lipschitz, whole.lipschitz, rtol=1e-4)
    for _ in range(12):
        whole, _, more = jax.jit(descent)(problems[0], whole)
        ours, loss, also_more = jax.jit(descent)(problems[1], ours)
        np.testing.assert_allclose(loss, whole.loss, rtol=1e-4)
        np.testing.assert_allclose(ours.centers, whole.centers, rtol=1e-3, atol=1e-3)
        assert bool(more) == bool(also_more)
    np.testing.assert_allclose(*(np.exp(in_order(one.log_s, N)) for one in (whole, ours)), atol=5e-3)


@pytest.mark.slow
def test_variational_clusters_of_many_rows_are_those_of_all_at_once(data, monkeypatch):
    (X, group, _), settings = data, {"max_fairness_error": 0.05}
    plain = bf.VariationalFairClustering(K, random_state=0, **settings).fit(X, sensitive_features=group)
    in_blocks(monkeypatch)
    monkeypatch.setattr(variational, "EXPLORE_ROWS", N - 100)
    est = bf.VariationalFairClustering(K, random_state=0, **settings).fit(X, sensitive_features=group)
    assert (np.diff(est.objective_trace_) <= 1e-6 * est.objective_trace_[0]).all()
    assert est.soft_assignment_.shape == (N, K)
    np.testing.assert_allclose(est.soft_assignment_.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(est.cost_, plain.cost_, rtol=0.03)
    np.testing.assert_array_equal(est.labels_, est.soft_assignment_.argmax(1))
    assert est.fairness_error_ <= 0.05


def test_a_sample_weighs_as_much_of_every_group_as_all_rows_do():
    rng = np.random.default_rng(0)
    code = (rng.random(N) < 0.05).astype(int)
    rows = stratified(rng.permutation(N), code, 100, 40)
    assert np.bincount(code[rows])[1] == min(40, code.sum())
    weight = weights_as_of_all(code[rows], WEIGHT[rows], np.bincount(code, WEIGHT))
    assert weight.mean() == pytest.approx(1)
    np.testing.assert_allclose(np.bincount(code[rows], weight) / len(rows), np.bincount(code, WEIGHT) / WEIGHT.sum())


@pytest.fixture(params=[1, 40])
def several(data, request):
    """(problem, centres, one of nobody; labels, some of which name no centre), of one block and of two."""
    X, weight = np.tile(data[0].astype(np.float32), (request.param, 1)), np.tile(WEIGHT, request.param)
    labels = np.random.default_rng(0).choice([*range(K), K + 1], len(X))
    problem = tilted(X, 0.1, 0.1, weight, n_blocks=-(-len(X) // 2**14))
    return problem, X, weight, X[: K + 1], labels


def blocked(problem, values):
    """Values of rows (obs,) as blocks hold them."""
    size = problem.rows.parts.weight.shape[1] * len(problem.rows)
    return np.pad(values, (0, size - len(values))).reshape(-1, len(problem.rows)).T


def test_tilted_moments_are_those_of_every_cluster_by_itself(several, monkeypatch):
    """Packs that a cluster does not fill, and several parts of packs."""
    monkeypatch.setattr(tkm, "MEMBERS", 16)
    monkeypatch.setattr(tkm, "PACKS", 8)
    problem, X, weights, centers, labels = several
    rows = problem.rows.beside((problem.rows.parts.weight, blocked(problem, labels)))
    mass, first, second = jax.jit(lambda *given: tkm.total(tkm.moments, *given))(rows, centers)
    for k in range(K + 1):
        own = labels == k
        offset, weight, scale = X[own] - centers[k], weights[own], max(weights[own].sum(), 1.0)
        np.testing.assert_allclose(mass[k], weight.sum(), rtol=1e-5)
        np.testing.assert_allclose(first[k] / scale, weight @ offset / scale, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(
            second[k] / scale, (weight[:, None] * offset).T @ offset / scale, rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("tilt", [0.1, 3.0])  # of the second, exponents beyond those of float32
def test_tilted_losses_and_their_slopes_are_the_definition(several, tilt):
    problem, X, weight, centers, own = several
    problem, labels = problem._replace(tilt=jnp.float32(tilt)), blocked(problem, own)
    distance = np.square(X.astype(float) - np.asarray(centers, float)[np.minimum(own, K)]).sum(1)
    assert (tilt * distance[own < K].max() > 100) == (tilt > 1)
    outside = np.array([np.log(weight[own != k].sum()) for k in range(K + 1)])
    exponents = [np.log(weight[own == k]) + tilt * distance[own == k] for k in range(K + 1)]
    held = np.array([np.logaddexp(out, logsumexp(inside)) for out, inside in zip(outside, exponents)])
    losses = jax.jit(tkm.cluster_losses)(problem, centers, labels)
    np.testing.assert_allclose(losses, (held - np.log(weight.sum())) / tilt, rtol=1e-4, atol=1e-6)
    slopes = in_order(jax.jit(tkm.tilted_weights)(problem, centers, labels), len(X))
    for k in range(K):
        np.testing.assert_allclose(slopes[own == k], np.exp(exponents[k] - held[k]), rtol=1e-3, atol=1e-7)


def test_rows_that_were_read_for_the_last_time_are_gone(data):
    problem = tilted(data[0], 0.1)
    free(problem.rows)
    assert all(part.is_deleted() for part in problem.rows.parts)


@pytest.mark.slow
def test_iterations_of_many_rows_hold_little_of_each():
    """By XLA's own account: beside what is given to them, less than two soft assignments (80 bytes a row), or twelve labels."""
    n_blocks, dim, k, size = 40, 5, 10, variational.BLOCK
    n_obs, struct = n_blocks * size, jax.ShapeDtypeStruct
    x, weight, number = (struct(shape, np.float32) for shape in ((n_blocks, dim, size), (n_blocks, size), ()))
    soft = Rows(variational.SoftRows(x, struct((n_blocks, size), np.uint8), weight))
    soft = variational.TargetedRows(soft, number, struct((2,), np.float32))
    starts = (struct(shape, np.float32) for shape in ((1, k, dim), (1,), (1,)))
    descent = variational.Descent("kmeans")
    start = jax.eval_shape(lambda *given: variational.start_states(descent, *given), soft, *starts)
    assert temporary(descent, soft, start) / n_obs < 80
    problem = tkm.TiltedRows(Rows(tkm.WeightedRows(x, weight, weight)), *[number] * 3)
    labels = struct((1, n_blocks, size), np.int32)
    state = tkm.Partition(
        struct((1, k, dim), np.float32), labels, struct((1, k), np.float32), struct((1, 2), np.uint32)
    )
    assert temporary(tkm.newton, problem, state) / n_obs < 48


def temporary(step, problem, states):
    """Bytes that a chunk of iterations of one run takes and gives back."""
    number, count = jax.ShapeDtypeStruct((1,), np.float32), jax.ShapeDtypeStruct((1,), np.int32)
    now = optimize._Progress(states, number, *[count] * 4)
    return (
        optimize._chunk.lower(step, problem, now, (1e-6, 0.0), 3, 100, 25)
        .compile()
        .memory_analysis()
        .temp_size_in_bytes
    )

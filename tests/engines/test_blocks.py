"""Engines that work block by block: the same numbers as those that have all rows at once."""

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import bayesfair as bf
from bayesfair._arrays import aligned_empty
from bayesfair.engines import Columns, Data, fmc_blocks, optimize, tilted_kmeans, variational, variational_blocks
from bayesfair.engines.blocks import sum_over_blocks, sum_over_rows
from bayesfair.engines.families import Components, Family
from bayesfair.engines.fmc import Ascent, GroupedRows, LearningRows, Rule, membership, penalty, start_state
from bayesfair.engines.fmc_blocks import BlockedAscent, BlockedRows, begun, shares_of, standing_of
from bayesfair.engines.samples import stratified, weights_as_of_all
from bayesfair.engines.shares import free, share_of
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


def test_sums_of_many_blocks_round_as_one_addition_does():
    x = np.random.default_rng(0).random((20_000, 8)).astype(np.float32)
    total = sum_over_blocks(lambda block: block, jnp.asarray(x))
    np.testing.assert_allclose(total, x.astype(np.float64).sum(0), rtol=1e-7)
    plain = jax.lax.scan(lambda sum, block: (sum + block, None), jnp.zeros(8), jnp.asarray(x))[0]
    assert np.abs(np.asarray(plain, np.float64) / x.astype(np.float64).sum(0) - 1).max() > 1e-6  # what it is for


def test_a_buffer_is_changed_block_by_block():
    x, buffer = jnp.arange(6.0).reshape(3, 2), jnp.ones((3, 2))
    total, new = sum_over_blocks(lambda block, part: (block.sum(), part + block), x, buffer=buffer)
    assert float(total) == 15
    np.testing.assert_array_equal(new, 1 + x)


def test_aligned_arrays_are_arrays():
    array = aligned_empty((3, 5), np.int32)
    array[:] = 7
    assert (array.shape, array.dtype, array.ctypes.data % 64) == ((3, 5), np.int32, 0)
    np.testing.assert_array_equal(jax.device_put(array), np.full((3, 5), 7))


def mixture_problems(data, monkeypatch, covariance_type, block=128):
    """(family, parameters, the problem at once, the problem in blocks)."""
    monkeypatch.setattr(fmc_blocks, "BLOCK", block)
    X, group, levels = data
    weight = WEIGHT.astype(np.float32)
    n_levels = LEVELS if covariance_type == "diag" else ()
    family, groups = Family(covariance_type, n_levels), encode_groups(group)
    x, n_blocks = (X / 2).astype(np.float32), -(-N // block)
    code = np.full(n_blocks * block, len(groups.names), np.int32)
    code[:N] = groups.code
    pad = ((0, n_blocks * block - N), (0, 0))
    parts = np.pad(x, pad), np.pad(levels if n_levels else np.zeros((N, 0), int), pad)
    parts = [part.reshape(n_blocks, block, -1) for part in parts]
    blocked = BlockedRows(
        parts[0],
        parts[1].astype(np.int32),
        code.reshape(n_blocks, -1),
        np.pad(weight, pad[0]).reshape(n_blocks, -1).astype(np.float32),
        *(
            np.stack([(each * (code.reshape(n_blocks, -1) == g)).sum(1) for g in range(len(groups.names))], 1)
            for each in (np.float32(1), np.pad(weight, pad[0]).reshape(n_blocks, -1))
        ),
        np.ones(n_blocks, bool),
    )
    table = fmc_blocks.table_of(family, jnp.asarray(x), levels)
    fair = GroupedRows(table, membership(groups.code, len(groups.names), weight), jnp.asarray(weight))
    rng = np.random.default_rng(1)
    spread = {"isotropic": (), "diag": (K, DIM), "full": (K, DIM, DIM)}[covariance_type]
    shapes = (K,), (K, DIM), spread, (K, sum(n_levels))
    parameters = Components(*(0.3 * rng.normal(size=shape).astype(np.float32) for shape in shapes))
    return (
        family,
        jax.tree.map(jnp.asarray, parameters),
        LearningRows(table, fair.weight, fair),
        jax.tree.map(jnp.asarray, blocked),
    )


every_covariance = pytest.mark.parametrize("covariance_type", ["isotropic", "diag", "full"])
RULE = Rule(*map(np.float32, (30.0, 0.02, 0.05, 0.3)))


@every_covariance
def test_the_objective_and_its_gradient_are_those_of_all_rows_at_once(data, monkeypatch, covariance_type):
    family, parameters, whole, blocked = mixture_problems(data, monkeypatch, covariance_type)

    def loss(parameters):
        shares = shares_of(family, parameters, blocked._replace(seen=None), RULE.temperature)
        return fmc_blocks.penalty_of_shares(shares.soft, shares.sharp, shares.total, RULE) - shares.log_density

    value, gradient = jax.jit(jax.value_and_grad(loss))(parameters)
    expected = jax.value_and_grad(lambda parameters: Ascent(family).loss(parameters, whole, RULE))(parameters)
    np.testing.assert_allclose(value, expected[0], rtol=1e-5)
    for ours, theirs in zip(gradient, expected[1]):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-5)


@every_covariance
def test_q_and_the_m_step_follow_from_expected_statistics(data, monkeypatch, covariance_type):
    family, old, whole, blocked = mixture_problems(data, monkeypatch, covariance_type)
    table = whole.rows
    responsibilities = whole.weight * jax.nn.softmax(family.log_joint(old, table), 0)
    known = jax.jit(lambda: standing_of(family, old, blocked, RULE.temperature).expected)()
    new = family.m_step(old, table, responsibilities)
    for ours, theirs in zip(family.m_step_of_expected(old, known), new):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=1e-3)
    for at in (old, new):
        q = (responsibilities * family.log_joint(at, table)).sum()
        np.testing.assert_allclose(family.expected_log_joint(at, old, known), q, rtol=1e-4)


@every_covariance
@pytest.mark.parametrize("solver", ["em", "gradient"])
def test_an_iteration_is_that_of_all_rows_at_once(data, monkeypatch, covariance_type, solver):
    family, parameters, whole, blocked = mixture_problems(data, monkeypatch, covariance_type)
    start = start_state(parameters, RULE, 0.02, 0)
    stacked = begun(jax.tree.map(lambda part: part[None], start), family, blocked)
    begin = jax.tree.map(lambda part: part[0], stacked)
    ours, loss = jax.jit(BlockedAscent(family, solver))(blocked, begin)
    theirs, expected = jax.jit(Ascent(family, solver))(whole, start)
    np.testing.assert_allclose(loss, expected, rtol=1e-4)
    for one, other in zip(ours.parameters, theirs.parameters):
        np.testing.assert_allclose(one, other, rtol=1e-2, atol=5e-3)
    afresh = jax.jit(lambda: standing_of(family, ours.parameters, blocked, RULE.temperature))()
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5), ours.standing, afresh)


def loops_around_sums(jaxpr, loops=0):
    """How many loops are around each sum over processes."""
    for equation in jaxpr.eqns:
        if equation.primitive.name.startswith("psum"):
            yield loops
        inner = loops + (equation.primitive.name in ("while", "scan"))
        for part in jax.tree.leaves(
            equation.params, is_leaf=lambda part: hasattr(part, "jaxpr") or hasattr(part, "eqns")
        ):
            if hasattr(part, "jaxpr") or hasattr(part, "eqns"):
                yield from loops_around_sums(getattr(part, "jaxpr", part), inner)


@pytest.mark.parametrize("solver", ["em", "gradient"])
def test_processes_tell_each_other_sums_once_a_pass(data, monkeypatch, solver):
    """Not once a block, as they did where gradients were added up over processes inside of the loop over blocks."""
    from bayesfair.engines.shares import StepInShares

    def sums():
        mesh = bf.distributed.mesh(rows=1)
        step = StepInShares(BlockedAscent(family, solver), mesh, fmc_blocks.SPECS, jax.sharding.PartitionSpec())
        return list(loops_around_sums(jax.make_jaxpr(step)(blocked, state).jaxpr))

    family, parameters, _, blocked = mixture_problems(data, monkeypatch, "isotropic")
    state = begun(
        jax.tree.map(lambda part: jnp.asarray(part)[None], start_state(parameters, RULE, 0.02, 0)), family, blocked
    )
    state = jax.tree.map(lambda part: part[0], state)
    assert sorted(sums()) == [0, 0, 0, 1, 1]  # M-step, end and blocks of the inner steps; theirs, and their gradients
    monkeypatch.setattr(fmc_blocks, "own_part", lambda parameters: parameters)
    assert max(sums()) > 1


def few_of_one_group(data):
    """Four rows in all, three of them in one block of 64 and one in another."""
    group = np.where(data[1] == "c", "a", data[1])
    group[[650, 651, 652, 200]] = "few"
    return data[0], group, data[2]


def test_parts_of_the_blocks_have_somebody_of_every_group(data, monkeypatch):
    monkeypatch.setattr(fmc_blocks, "FEWEST", 4)
    blocked = mixture_problems(few_of_one_group(data), monkeypatch, "isotropic", block=64)[3]
    np.testing.assert_array_equal(fmc_blocks.first_of(blocked, 64).size[2], blocked.size[2])  # all of a small one
    assert fmc_blocks.first_of(blocked, 64).seen.sum() == 3
    for inner, least in ((2, WEIGHT[200]), (3, float(blocked.size[2]))):
        monkeypatch.setattr(fmc_blocks, "INNER_BLOCKS", inner)
        for seed in range(8):
            some = fmc_blocks.some_of(blocked, jax.random.PRNGKey(seed))
            assert len(some.x) == inner
            assert some.size[2] >= least


def test_a_group_that_no_block_has_leaves_shares_and_slopes_finite(data, monkeypatch):
    family, parameters, _, blocked = mixture_problems(few_of_one_group(data), monkeypatch, "isotropic", block=64)
    some = blocked.take(np.arange(2))

    def loss(parameters):
        shares = shares_of(family, parameters, some, RULE.temperature)
        return fmc_blocks.penalty_of_shares(shares.soft, shares.sharp, shares.total, RULE)

    assert float(some.size[2]) == 0
    assert all(np.isfinite(part).all() for part in jax.grad(loss)(parameters))


def test_a_mixture_of_many_rows_is_fair_and_its_objective_never_decreases(data, monkeypatch):
    monkeypatch.setattr(fmc_blocks, "BLOCK", 128)
    from bayesfair.engines import fair_mixture

    X, group, _ = data
    two = np.where(group == "a", "a", "b")
    settings = {"max_gap": 0.05, "n_init": 4, "random_state": 0}
    plain = bf.FairMixture(2, **settings).fit(X, sensitive_features=two)
    monkeypatch.setattr(fair_mixture, "BLOCKED_FROM", N - 1)
    monkeypatch.setattr(fair_mixture, "PART", 500)
    est = bf.FairMixture(2, **settings).fit(X, sensitive_features=two)
    assert max(est.gap_, est.hard_gap_) <= 0.05
    assert (np.diff(est.objective_trace_) >= -1e-5 * abs(est.objective_trace_[0])).all()
    np.testing.assert_allclose(est.objective_trace_[-1], plain.objective_trace_[-1], rtol=5e-3)
    np.testing.assert_array_equal(est.labels_, est.predict(X))
    np.testing.assert_allclose(est.gap_, bf.fairness.gap(est.predict_proba(X), two), atol=1e-5)


def soft_problems(data, monkeypatch, block=64):
    monkeypatch.setattr(variational_blocks, "BLOCK", block)
    X, group, _ = data
    groups = encode_groups(group)
    target = groups.sizes / N
    middle = X.mean(0)
    rows = Data(Columns(X, np.empty((N, 0))), groups, WEIGHT, 0, share_of(None, groups)[1])
    blocked = variational_blocks.rows_in_blocks(rows, bf._units.Scaling(middle, 0), target)
    return variational.make_problem(X - middle, groups.code, target, "kmeans", rows.relative_weight), blocked


def test_rows_without_weights_hold_none():
    """Coordinates and a byte for the group: all else is as large for every table."""
    X, groups = (
        np.ones((3 * variational_blocks.BLOCK, DIM)),
        encode_groups(np.resize([0, 1], 3 * variational_blocks.BLOCK)),
    )
    rows = Data(Columns(X, np.empty((len(X), 0))), groups, None, 0, share_of(None, groups)[1])
    blocked = variational_blocks.rows_in_blocks(rows, bf._units.Scaling(np.zeros(DIM), 0), [0.5, 0.5])
    assert sum(part.nbytes for part in blocked) / len(X) < 4 * DIM + 2
    np.testing.assert_array_equal(rows.weight, 1)
    free(blocked)
    assert all(part.is_deleted() for part in blocked)


@pytest.mark.parametrize("weight", [0.0, 1.0, 100.0])
def test_variational_steps_are_those_of_all_rows_at_once(data, monkeypatch, weight):
    whole, blocked = soft_problems(data, monkeypatch)
    centers = np.asarray(whole.x[:K])
    descent, refused = variational.Descent("kmeans"), 0
    theirs = variational.start_state(descent, whole, centers, weight)
    ours = jax.tree.map(lambda part: part[0], variational_blocks.start_state(blocked, centers, weight))
    np.testing.assert_allclose(ours.lipschitz, theirs.lipschitz, rtol=1e-4)
    for _ in range(12):
        refused += float(ours.lipschitz) > float(theirs.lipschitz)
        theirs, _, more = jax.jit(descent)(whole, theirs)
        ours, loss, also_more = jax.jit(variational_blocks.descend)(blocked, ours)
        np.testing.assert_allclose(loss, theirs.loss, rtol=1e-4)
        np.testing.assert_allclose(ours.centers, theirs.centers, rtol=1e-3, atol=1e-3)
        assert bool(more) == bool(also_more)
    s = variational_blocks.soft_assignment(blocked, jax.tree.map(lambda part: part[None], ours), N)
    np.testing.assert_allclose(s, np.exp(theirs.log_s).T, atol=5e-3)


@pytest.mark.parametrize(
    "settings", [{}, {"fairness_weight": 20.0}, {"max_fairness_error": 0.05}, {"fairness_weight": 0.0}]
)
def test_variational_clusters_of_many_rows_are_those_of_all_at_once(data, monkeypatch, settings):
    X, group, _ = data
    plain = bf.VariationalFairClustering(K, random_state=0, **settings).fit(X, sensitive_features=group)
    monkeypatch.setattr(variational_blocks, "BLOCK", 128)
    monkeypatch.setattr(variational, "BLOCKED_FROM", N - 1)
    monkeypatch.setattr(variational, "EXPLORE_ROWS", N - 100)
    est = bf.VariationalFairClustering(K, random_state=0, **settings).fit(X, sensitive_features=group)
    assert (np.diff(est.objective_trace_) <= 1e-6 * est.objective_trace_[0]).all()
    assert est.soft_assignment_.shape == (N, K)
    np.testing.assert_allclose(est.soft_assignment_.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(est.cost_, plain.cost_, rtol=0.03)
    np.testing.assert_array_equal(est.labels_, est.soft_assignment_.argmax(1))
    if "max_fairness_error" in settings:
        assert est.fairness_error_ <= 0.05


def test_many_rows_that_are_not_fair_enough_are_refused_as_few_are(data, monkeypatch):
    """All rows at weights that are too small for them: what a part of them had needed is no promise."""
    monkeypatch.setattr(variational_blocks, "BLOCK", 128)
    monkeypatch.setattr(variational, "BLOCKED_FROM", N - 1)
    monkeypatch.setattr(variational, "HEAVIER", (1e-6, 2e-6))  # weights that move nobody
    X, group, _ = data
    with pytest.raises(ValueError, match=r"`max_fairness_error` must be reached on the path .*error found is 0\.\d"):
        bf.VariationalFairClustering(K, max_fairness_error=0.05, random_state=0).fit(X, sensitive_features=group)


def test_small_groups_are_all_among_the_rows_that_come_first(monkeypatch):
    """Six of 700 in one group, three in each of two even blobs: some draws of 300 have none of them in one."""
    monkeypatch.setattr(variational_blocks, "BLOCK", 128)
    monkeypatch.setattr(variational, "BLOCKED_FROM", N - 1)
    monkeypatch.setattr(variational, "EXPLORE_ROWS", 300)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2)) + 6.0 * (np.arange(N) % 2)[:, None]
    group = np.where(np.arange(N) % 5 < 2, "a", "b")
    group[[10, 20, 30, 11, 21, 31]] = "few"
    est = bf.VariationalFairClustering(2, max_fairness_error=0.01, random_state=0)
    assert est.fit(X, sensitive_features=group).fairness_error_ <= 0.01


def test_clusters_of_many_rows_that_repeat(monkeypatch):
    """Nine rows of 700 differ from the others: a tenth of them has too few."""
    monkeypatch.setattr(variational_blocks, "BLOCK", 128)
    monkeypatch.setattr(variational, "BLOCKED_FROM", N - 1)
    monkeypatch.setattr(variational, "EXPLORE_ROWS", 70)
    X, group = np.zeros((N, 2)), np.resize(["f", "m"], N)
    X[::80] = 5 + 3 * np.random.default_rng(0).normal(size=(9, 2))
    est = bf.VariationalFairClustering(6, fairness_weight=0.0, random_state=0, max_iter=50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some have nobody of a group, and fifty iterations are few
        est.fit(X, sensitive_features=group)
    assert len(np.unique(est.labels_)) == 6
    with pytest.raises(ValueError, match="`n_clusters` must be at most the number of distinct rows, 10, got 11"):
        bf.VariationalFairClustering(11).fit(X, sensitive_features=group)


def test_a_sample_weighs_as_much_of_every_group_as_all_rows_do():
    rng = np.random.default_rng(0)
    code = (rng.random(N) < 0.05).astype(int)
    rows = stratified(rng.permutation(N), code, 100, 40)
    assert np.bincount(code[rows])[1] == min(40, code.sum())
    weight = weights_as_of_all(code[rows], WEIGHT[rows], np.bincount(code, WEIGHT))
    assert weight.mean() == pytest.approx(1)
    np.testing.assert_allclose(np.bincount(code[rows], weight) / len(rows), np.bincount(code, WEIGHT) / WEIGHT.sum())


def test_the_penalty_is_one_function(data, monkeypatch):
    family, parameters, whole, blocked = mixture_problems(data, monkeypatch, "isotropic")
    shares = shares_of(family, parameters, blocked, RULE.temperature)
    ours = fmc_blocks.penalty_of_shares(shares.soft, shares.sharp, shares.total, RULE)
    np.testing.assert_allclose(ours, penalty(family.log_joint(parameters, whole.rows), whole.fair, RULE), rtol=1e-4)


def test_parts_of_rows_are_summed_once_each():
    x, y = jnp.arange(10.0), jnp.ones((10, 2))
    total = sum_over_rows(lambda part, new: (new @ part[0], new @ part[1]), (x, y), 4)
    np.testing.assert_array_equal(total[0], x.sum())
    np.testing.assert_array_equal(total[1], y.sum(0))


@pytest.fixture(params=[1, 40])
def tilted(data, request):
    """(problem, centres, one of nobody; labels, some of which name no centre), of rows of one part and of two."""
    X, weight = np.tile(data[0].astype(np.float32), (request.param, 1)), np.tile(WEIGHT, request.param)
    parts = X, (X**2).sum(1), np.float32(0.1), np.float32(0.1), weight.astype(np.float32)
    labels = np.random.default_rng(0).choice([*range(K), K + 1], len(X))
    return tilted_kmeans.TiltedRows(*map(jnp.asarray, parts)), jnp.asarray(X[: K + 1]), jnp.asarray(labels)


def test_tilted_moments_are_those_of_every_cluster_by_itself(tilted, monkeypatch):
    """Blocks that a cluster does not fill, and several parts of blocks."""
    monkeypatch.setattr(tilted_kmeans, "BLOCK", 16)
    monkeypatch.setattr(tilted_kmeans, "BLOCKS", 8)
    problem, centers, labels = tilted
    mass, first, second = jax.jit(tilted_kmeans.moments)(problem, problem.weight, centers, labels)
    X, weights = np.asarray(problem.x, float), np.asarray(problem.weight, float)
    for k in range(K + 1):
        own = np.asarray(labels) == k
        offset, weight, scale = X[own] - centers[k], weights[own], max(weights[own].sum(), 1.0)
        np.testing.assert_allclose(mass[k], weight.sum(), rtol=1e-5)
        np.testing.assert_allclose(first[k] / scale, weight @ offset / scale, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(
            second[k] / scale, (weight[:, None] * offset).T @ offset / scale, rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("tilt", [0.1, 3.0])  # of the second, exponents beyond those of float32
def test_tilted_losses_and_their_slopes_are_the_definition(tilted, tilt):
    problem, centers, labels = tilted
    problem = problem._replace(tilt=jnp.float32(tilt))
    X, weight, own = (np.asarray(part) for part in (problem.x.astype(float), problem.weight.astype(float), labels))
    distance = np.square(X - np.asarray(centers, float)[np.minimum(own, K)]).sum(1)
    assert (tilt * distance[own < K].max() > 100) == (tilt > 1)
    outside = np.array([np.log(weight[own != k].sum()) for k in range(K + 1)])
    exponents = [np.log(weight[own == k]) + tilt * distance[own == k] for k in range(K + 1)]
    held = np.array([np.logaddexp(out, logsumexp(inside)) for out, inside in zip(outside, exponents)])
    losses = jax.jit(tilted_kmeans.cluster_losses)(problem, centers, labels)
    np.testing.assert_allclose(losses, (held - np.log(weight.sum())) / tilt, rtol=1e-4, atol=1e-6)
    slopes = jax.jit(tilted_kmeans.tilted_weights)(problem, centers, labels)
    for k in range(K):
        np.testing.assert_allclose(slopes[own == k], np.exp(exponents[k] - held[k]), rtol=1e-3, atol=1e-7)


def test_tilted_steps_are_the_same_by_either_solver(tilted, monkeypatch):
    step = jax.jit(lambda *state: tilted_kmeans.newton_step(*state))(*tilted)
    monkeypatch.setattr(tilted_kmeans, "DIRECT", 0)
    again = jax.jit(lambda *state: tilted_kmeans.newton_step(*state))(*tilted)
    np.testing.assert_allclose(again[:K], step[:K], rtol=1e-3, atol=1e-4)
    assert np.abs(step[:K]).min() > 1e-3


def test_iterations_of_many_rows_hold_no_second_row():
    """By XLA's own account: beside what is given to them, less than the soft assignments (40 bytes a row) or two labels."""
    n_blocks, dim, k, size = 40, 5, 10, variational_blocks.BLOCK
    n_obs = n_blocks * size
    struct = jax.ShapeDtypeStruct
    x, code = struct((n_blocks, dim, size), np.float32), struct((n_blocks, size), np.uint8)
    number = struct((), np.float32)
    blocked = variational_blocks.BlockedRows(
        x, code, struct((n_blocks, 1), np.float32), struct((2,), np.float32), number
    )
    centers = struct((k, dim), np.float32)
    start = jax.eval_shape(partial(variational_blocks._start_states, None), blocked, centers, number)
    assert temporary(variational_blocks.descend, blocked, start) / n_obs < 20
    rows = struct((n_obs,), np.float32)
    tilted = tilted_kmeans.TiltedRows(struct((n_obs, dim), np.float32), rows, number, number, rows)
    state = tilted_kmeans.Partition(
        struct((1, k, dim), np.float32), struct((1, n_obs), np.int32), struct((1, 2), np.uint32)
    )
    assert temporary(tilted_kmeans.newton, tilted, state) / n_obs < 32


def temporary(step, problem, states):
    """Bytes that a chunk of iterations of one run takes and gives back."""
    number, count = jax.ShapeDtypeStruct((1,), np.float32), jax.ShapeDtypeStruct((1,), np.int32)
    now = optimize._Progress(states, number, *[count] * 4)
    return optimize._chunk.lower(step, problem, now, 1e-6, 3, 100, 25).compile().memory_analysis().temp_size_in_bytes

"""Engines whose rows are in several processes: what one process finds, but for rounding."""

import signal

import numpy as np
import pytest
from distributed.loopback import ends, found, said, start, wait_until

import bayesfair as bf

DATA = """
from bayesfair.engines import fmc_blocks, variational_blocks
fmc_blocks.BLOCK = variational_blocks.BLOCK = 64
data = bf.datasets.make_vfc_synthetic(unequal=True)
code = np.asarray(data.sensitive)
X, s, rows = bf.distributed.deal(data.features, code)
"""
FITS = """
one = bf.FairMixture(2, max_gap=0.05, n_init=2, max_iter=30, random_state=0, mesh=mesh)
given = {"sensitive_features": s, "sample_weight": 1.0 + rows % 3}
one.fit(X, **given)
other = bf.VariationalFairClustering(2, max_iter=60, random_state=0, mesh=mesh).fit(X, **given)
gather = bf.distributed.gather
made = {
    "means": one.means_, "weights": one.weights_, "covariances": one.covariances_, "objective": one.objective_trace_,
    "gap": one.gap_, "hard_gap": one.hard_gap_, "mixture_labels": gather(one.labels_, rows),
    "centers": other.cluster_centers_, "cost": other.cost_, "error": other.fairness_error_,
    "E": other.objective_trace_, "labels": gather(other.labels_, rows), "soft": gather(other.soft_assignment_, rows),
}
"""
MORE_FITS = """
gather, made, plain = bf.distributed.gather, {}, X.to_numpy()
for tilt in (0.5, 5.0):
    est = bf.TiltedKMeans(3, tilt=tilt, random_state=0, mesh=mesh).fit(X)
    names = ("cluster_centers_", "tilted_sse_", "inertia_", "within_cluster_variance_", "max_distance_")
    made |= {f"tilted {tilt} {name}": getattr(est, name) for name in names}
    made[f"tilted {tilt} labels"] = gather(est.labels_, rows)
lacking = plain / 8
lacking[(rows % 5 == 0) & (code[rows] == code[0]), 1] = np.nan
for name, table in {"whole": plain / 8, "lacking": lacking}.items():
    est = bf.BigLearnMixture(2, max_iter=10, random_state=0, mesh=mesh).fit(table)
    made |= {f"{name} {part}": getattr(est, part) for part in ("weights_", "means_", "covariances_", "objective_trace_")}
    made[f"{name} labels"] = gather(est.labels_, rows)
"""
# Rows at the border of two clusters see the rounding of every step; so do a mixture's parameters along which it is flat.
NEAR = dict.fromkeys(("soft", "means", "covariances", "gap"), 1e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("n_processes", "fits"), [(2, FITS), (3, MORE_FITS)])
def test_engines_by_rows_are_those_of_one_process(tmp_path, n_processes, fits, monkeypatch):
    from bayesfair.engines import fmc_blocks, variational_blocks

    monkeypatch.setattr(fmc_blocks, "BLOCK", 64)
    monkeypatch.setattr(variational_blocks, "BLOCK", 64)
    space = {"bf": bf, "np": np, "mesh": bf.distributed.mesh(rows=1)}
    exec(DATA + fits, space)
    code = DATA + "mesh = bf.distributed.mesh(rows=n_processes)" + fits + "np.savez(out, **made)"
    for process in found(code, n_processes, tmp_path):
        for name, values in space["made"].items():
            np.testing.assert_allclose(process[name], values, rtol=1e-5, atol=NEAR.get(name, 1e-5), err_msg=name)


SHARED_OUT = """
from bayesfair.distributed import everybody
from bayesfair.engines import base, fair_mixture
minimize, explored = base.minimize, []

def counted(step, problem, states, **settings):
    if settings["max_iter"] == fair_mixture.EXPLORE_ITERATIONS:
        explored.append(len(states.rate))
    return minimize(step, problem, states, **settings)

base.minimize = counted
est = bf.FairMixture(2, max_gap=0.05, n_init=6, max_iter=10, random_state=0, mesh=mesh).fit(X, sensitive_features=s)
base.minimize = minimize
rank = jax.process_index()
sent = [np.arange(size, dtype=np.uint8) * (1 + rank) for size in (*range(3900, 4200, 20), 9000)]
told = [[np.array_equal(one, np.arange(len(own), dtype=np.uint8) * (1 + at)) for at, one in enumerate(everybody(own))]
        for own in sent]
made = {"means": est.means_, "objective": est.objective_trace_, "explored": explored, "told": np.all(told)}
"""


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_processes_deal_the_starts_that_are_explored(tmp_path, monkeypatch):
    """Under each of the four rules; and what they tell each other arrives, in one parcel or in two."""
    import jax

    from bayesfair.engines import fmc_blocks, variational_blocks

    monkeypatch.setattr(fmc_blocks, "BLOCK", 64)
    monkeypatch.setattr(variational_blocks, "BLOCK", 64)
    space = {"bf": bf, "np": np, "jax": jax, "mesh": bf.distributed.mesh(rows=1)}
    exec(DATA + SHARED_OUT, space)
    assert space["made"]["explored"] == [1] * 24
    code = "import jax" + DATA + "mesh = bf.distributed.mesh(rows=n_processes)" + SHARED_OUT + "np.savez(out, **made)"
    for process in found(code, 2, tmp_path):
        assert process["explored"].tolist() == [1] * 12
        assert process["told"]
        for name in ("means", "objective"):
            np.testing.assert_allclose(process[name], space["made"][name], rtol=1e-5, atol=1e-5, err_msg=name)


FOR_EVER = """
est = bf.FairMixture(2, n_init=1, max_iter=5, random_state=0, mesh=bf.distributed.mesh(rows=n_processes))
while True:
    est.fit(X, sensitive_features=s)
    np.savez(out, done=True)
"""


@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_that_is_killed_ends_the_other(tmp_path, victim):
    """In one line, but where it was process 0, in which JAX's own service ran: JAX may be faster then, in words of its own."""
    started = start(DATA + FOR_EVER, 2, tmp_path)
    wait_until(lambda: all((tmp_path / f"{rank}.npz").exists() for rank in (0, 1)), started)
    started[victim].kill()
    status = ends(started)[1 - victim]
    if victim == 0:
        line = "another task died" if status == -signal.SIGABRT else "ProcessLost: another of the 2 processes has ended"
        assert status in (1, -signal.SIGABRT)
        assert line in said(tmp_path, 1)
        return
    assert status == 1
    lines = [line for line in said(tmp_path, 1 - victim).splitlines() if "[Gloo]" not in line]
    assert len(lines) == 1, lines
    assert lines[0].startswith("ProcessLost: another of the 2 processes has ended")


def test_rows_are_dealt_within_groups(monkeypatch):
    import jax

    groups = np.repeat(["a", "b", "c"], [50, 31, 7])
    X, whole = np.arange(88.0)[:, None], bf.distributed.deal(np.zeros((88, 1)), groups)[2]
    parts = []
    monkeypatch.setattr(jax, "process_count", lambda: 3)
    for rank in range(3):
        monkeypatch.setattr(jax, "process_index", lambda rank=rank: rank)
        mine, s, rows = bf.distributed.deal(X, groups)
        np.testing.assert_array_equal(mine[:, 0], rows)
        np.testing.assert_array_equal(s, groups[rows])
        for group, size in zip("abc", (50, 31, 7)):
            assert abs((s == group).sum() - size / 3) < 1.5
        parts.append(rows)
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    with pytest.raises(ValueError, match="`X` must have a row for each of the 3 processes"):
        bf.distributed.deal(X[:2])
    for unknown in (None, np.random):  # each process would deal in an order of its own
        with pytest.raises(ValueError, match="`random_state` must be the same in all processes"):
            bf.distributed.deal(X, random_state=unknown)


def test_one_process_deals_itself_all_rows_in_any_order():
    assert sorted(bf.distributed.deal(np.zeros((9, 1)), random_state=None)[2]) == list(range(9))


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        (bf.VariationalFairClustering(2, objective="ncut"), "mesh"),
        (bf.FairMixture(2, batch_size=10), "batch_size"),
    ],
)
def test_what_cannot_be_shared_is_refused(engine, name):
    data = bf.datasets.make_vfc_synthetic()
    with pytest.raises(ValueError, match=f"`{name}` must be (None|another) where"):
        engine.set_params(mesh=bf.distributed.mesh(rows=1)).fit(data.features, sensitive_features=data.sensitive)

"""Engines whose rows are in several processes: what one process finds, but for rounding."""

import os
import signal
import sys
import threading

import jax
import numpy as np
import pytest
from processes.loopback import ends, found, said, start, wait_until

import bayesfair as bf

DATA = """
data = bf.datasets.make_vfc_synthetic(unequal=True)
code = np.asarray(data.sensitive)
X, s, rows = bf.distributed.deal(data.features, code)
"""
SMALL = """
est = bf.TiltedKMeans(3, tilt=0.5, random_state=0, mesh=mesh).fit(X)
names = ("cluster_centers_", "tilted_sse_", "inertia_", "within_cluster_variance_", "max_distance_")
made = {f"tilted {name}": getattr(est, name) for name in names}
made["tilted labels"] = bf.distributed.gather(est.labels_, rows)
"""
FITS = """
import jax
from bayesfair._compilations import compilations
from bayesfair.engines import base, data as of_fit, fair_mixture, fmc, tilted_kmeans, variational

fmc.BLOCK = variational.BLOCK = tilted_kmeans.BLOCK = 64
of_fit.ONE_BLOCK = 300
variational.EXPLORE_ROWS = tilted_kmeans.EXPLORE_ROWS = 200
minimize, explored, gather = base.minimize, [], bf.distributed.gather

def counted(step, problem, states, **settings):
    if settings["max_iter"] == fair_mixture.EXPLORE_ITERATIONS:
        explored.append(len(states.rate))
    return minimize(step, problem, states, **settings)

base.minimize = counted
given = {"sensitive_features": s, "sample_weight": 1.0 + rows % 3}
one = bf.FairMixture(2, max_gap=0.05, n_init=2, max_iter=25, random_state=0, mesh=mesh).fit(X, **given)
base.minimize = minimize
names = ("means_", "weights_", "covariances_", "objective_trace_", "gap_", "hard_gap_")
made |= {f"mixture {name}": getattr(one, name) for name in names}
made |= {"mixture labels": gather(one.labels_, rows), "explored": sum(explored)}
with compilations() as compiled:
    est = bf.VariationalFairClustering(2, max_iter=60, random_state=0, mesh=mesh).fit(X, **given)
assert compiled.count("jit(_chunk)") <= 2  # where starts are explored, and of all rows, in however many chunks
names = ("cluster_centers_", "cost_", "fairness_error_", "objective_trace_")
made |= {f"kmeans {name}": getattr(est, name) for name in names}
made |= {f"kmeans {name}": gather(getattr(est, name), rows) for name in ("labels_", "soft_assignment_")}
lacking = X.to_numpy() / 8
lacking[(rows % 5 == 0) & (code[rows] == code[0]), 1] = np.nan
est = bf.BigLearnMixture(2, max_iter=10, random_state=0, mesh=mesh).fit(lacking)
made |= {f"lacking {part}": getattr(est, part) for part in ("weights_", "means_", "covariances_", "objective_trace_")}
made["lacking labels"] = gather(est.labels_, rows)
"""
TOLD = """
from bayesfair.distributed.messages import everybody

rank = jax.process_index()
sent = [np.arange(size, dtype=np.uint8) * (1 + rank) for size in (*range(3900, 4200, 20), 9000)]
told = [[np.array_equal(one, np.arange(len(own), dtype=np.uint8) * (1 + at)) for at, one in enumerate(everybody(own))]
        for own in sent]
made["told"] = np.all(told)
"""
# Rows at the border of two clusters see the rounding of every step; so do a mixture's parameters along which it is flat.
NEAR = dict.fromkeys(
    ("kmeans soft_assignment_", "mixture means_", "mixture covariances_", "mixture gap_", "mixture weights_"), 1e-3
)


@pytest.mark.slow
def test_engines_by_rows_are_those_of_one_process(tmp_path, monkeypatch):
    """A small table is one block on one device: each process fits it whole. Blocks of a large one are on two devices of each of
    two processes, which share the starts that a mixture explores; and what they tell arrives, in one parcel or in two."""
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "2")
    code = SMALL.replace("made =", "made |=").replace("tilted ", "blocked ")
    # One process with as many devices, of which it uses one: the first of the two finds its programs on disk.
    (expected,) = found(DATA + "mesh = None" + SMALL + FITS + code + "np.savez(out, **made)", 1, tmp_path / "alone")
    begin = "mesh = bf.distributed.mesh(rows=n_processes)" + SMALL + "mesh = bf.distributed.mesh(rows=2 * n_processes)"
    for process in found(DATA + begin + FITS + code + TOLD + "np.savez(out, **made)", 2, tmp_path):
        assert process.pop("told")
        assert 2 * process.pop("explored") == expected["explored"]
        for name, values in process.items():
            near = {"rtol": 1e-9} if name.startswith("tilted") else {"rtol": 1e-5, "atol": NEAR.get(name, 1e-5)}
            np.testing.assert_allclose(values, expected[name], **near, err_msg=name)
        assert process.keys() | {"explored"} == expected.keys()


FOR_EVER = """
est = bf.TiltedKMeans(2, random_state=0, mesh=bf.distributed.mesh(rows=n_processes))
while True:
    est.fit(X)
    np.savez(out, done=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_a_process_that_is_killed_ends_the_other(tmp_path, killed):
    """In one line; without process 0, where its own service is, JAX says more, and may abort the other."""
    started = start(DATA + FOR_EVER, 2, tmp_path)
    wait_until(lambda: all((tmp_path / f"{rank}.npz").exists() for rank in (0, 1)), started)
    started[killed].kill()
    status = ends(started)[1 - killed]
    if (killed, status) == (0, -signal.SIGABRT):
        return
    assert status == 1
    lines = [line for line in said(tmp_path, 1 - killed).splitlines() if "[Gloo]" not in line]
    assert [line for line in lines if line.startswith("ProcessLost: another of the 2 processes has ended")]
    assert killed == 0 or len(lines) == 1, lines


def test_rows_are_dealt_within_groups(monkeypatch):
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
    with pytest.raises(ValueError, match="`X` must have at least one row per process, 3"):
        bf.distributed.deal(X[:2])
    for unknown in (None, np.random):  # each process would deal in an order of its own
        with pytest.raises(ValueError, match="`random_state` must be the same in all processes"):
            bf.distributed.deal(X, random_state=unknown)


def test_one_process_deals_itself_all_rows_in_any_order():
    assert sorted(bf.distributed.deal(np.zeros((9, 1)), random_state=None)[2]) == list(range(9))


@pytest.mark.parametrize(
    ("engine", "name"),
    [(bf.VariationalFairClustering(2, objective="ncut"), "mesh"), (bf.FairMixture(2, batch_size=10), "batch_size")],
)
def test_what_cannot_be_shared_is_refused(engine, name):
    data = bf.datasets.make_vfc_synthetic()
    with pytest.raises(ValueError, match=f"`{name}` must be left out if"):
        engine.set_params(mesh=bf.distributed.mesh(rows=1)).fit(data.features, sensitive_features=data.sensitive)


def test_meshes_that_do_not_fit_are_refused():
    data = bf.datasets.make_vfc_synthetic()
    other = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("chains",))
    for mesh, error, told in [(2, TypeError, "be None or a mesh"), (other, ValueError, "give rows to all processes")]:
        with pytest.raises(error, match=f"`mesh` must {told}"):
            bf.TiltedKMeans(2, mesh=mesh).fit(data.features)
    with pytest.raises(ValueError, match=r"`rows` must be 1, the number of processes, .*got 3"):
        bf.distributed.mesh(rows=3)


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="only Linux has batch processes")
@pytest.mark.parametrize(("policy", "then"), [("SCHED_OTHER", "SCHED_BATCH"), ("SCHED_IDLE", "SCHED_IDLE")])
def test_threads_that_wake_do_not_interrupt_one_that_computes(monkeypatch, policy, then):
    """Those that JAX starts from then on; who has asked for something else has it."""
    found = []

    def look(*_, **__):
        thread = threading.Thread(target=lambda: found.append(os.sched_getscheduler(0)))
        thread.start()
        thread.join()

    def initialize():
        os.sched_setscheduler(0, getattr(os, policy), os.sched_param(0))
        bf.distributed.initialize()

    monkeypatch.setattr(jax.distributed, "initialize", look)
    monkeypatch.setattr(jax.config, "update", lambda *_: None)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    member = threading.Thread(target=initialize)  # a policy is a thread's own, and of those that it starts
    member.start()
    member.join()
    assert found == [getattr(os, then)]
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


DIFFERENT = """
for settings, columns in [({"tilt": 0.5 + rank}, X), ({}, X.iloc[:, : 2 - rank])]:
    try:
        bf.TiltedKMeans(2, random_state=0, mesh=bf.distributed.mesh(rows=n_processes), **settings).fit(columns)
    except ValueError as error:
        print(error)
"""


@pytest.mark.slow
def test_processes_that_were_given_different_things_refuse_to_start(tmp_path):
    assert ends(start(DATA + DIFFERENT, 2, tmp_path)) == [0, 0]
    for rank in (0, 1):
        for name in ("tilt", "X"):
            assert f"`{name}` must be the same in all processes" in said(tmp_path, rank)

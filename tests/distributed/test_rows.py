"""Engines whose rows are in several processes: what one process finds, but for rounding."""

import signal
import warnings

import numpy as np
import pytest
from distributed.loopback import ends, found, said, start, wait_until

import bayesfair as bf
from bayesfair.engines import fmc, row_split, tilted_kmeans, variational

DATA = """
data = bf.datasets.make_vfc_synthetic(unequal=True)
code = np.asarray(data.sensitive)
X, s, rows = bf.distributed.deal(data.features, code)
"""
FITS = """
gather, made, plain = bf.distributed.gather, {}, X.to_numpy()
given = {"sensitive_features": s, "sample_weight": 1.0 + rows % 3}
one = bf.FairMixture(2, max_gap=0.05, n_init=2, max_iter=30, random_state=0, mesh=mesh).fit(X, **given)
names = ("means_", "weights_", "covariances_", "objective_trace_", "gap_", "hard_gap_")
made |= {f"mixture {name}": getattr(one, name) for name in names}
made["mixture labels"] = gather(one.labels_, rows)
for objective in ("kmeans", "kmedians"):
    est = bf.VariationalFairClustering(2, objective=objective, max_iter=60, random_state=0, mesh=mesh).fit(X, **given)
    names = ("cluster_centers_", "cost_", "fairness_error_", "objective_trace_")
    made |= {f"{objective} {name}": getattr(est, name) for name in names}
    made |= {f"{objective} {name}": gather(getattr(est, name), rows) for name in ("labels_", "soft_assignment_")}
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
IN_BLOCKS = """
from bayesfair.engines import fmc, row_split, tilted_kmeans, variational
fmc.BLOCK = variational.BLOCK = tilted_kmeans.BLOCK = 64
row_split.ONE_BLOCK = 300
variational.EXPLORE_ROWS = tilted_kmeans.EXPLORE_ROWS = 200
"""
# Rows at the border of two clusters see the rounding of every step; so do a mixture's parameters along which it is flat.
NEAR = dict.fromkeys(
    ("kmeans soft_assignment_", "kmedians soft_assignment_", "mixture means_", "mixture covariances_"), 1e-3
)
NEAR |= {"mixture gap_": 1e-3, "mixture weights_": 1e-3}


@pytest.fixture(scope="module")
def alone():
    """What one process with one device finds, of rows in one block, and in several."""
    found, patch = {}, pytest.MonkeyPatch()
    for blocks in (False, True):
        if blocks:
            patch.setattr(row_split, "ONE_BLOCK", 300)
            for module in (fmc, variational, tilted_kmeans):
                patch.setattr(module, "BLOCK", 64)
            for module in (variational, tilted_kmeans):
                patch.setattr(module, "EXPLORE_ROWS", 200)
        space = {"bf": bf, "np": np, "mesh": None}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(DATA + FITS, space)
        found[blocks] = space["made"]
    patch.undo()
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("n_processes", "n_devices", "blocks"), [(2, 1, False), (2, 2, True)])
def test_engines_by_rows_are_those_of_one_process(tmp_path, n_processes, n_devices, blocks, alone, monkeypatch):
    """A small table is one block on one device: each process fits it whole."""
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", str(n_devices))
    begin = IN_BLOCKS * blocks + f"mesh = bf.distributed.mesh(rows={n_processes * n_devices})"
    for process in found(DATA + begin + FITS + "np.savez(out, **made)", n_processes, tmp_path):
        for name, values in alone[blocks].items():
            near = {"rtol": 1e-5, "atol": NEAR.get(name, 1e-5)} if blocks else {"rtol": 1e-9}
            np.testing.assert_allclose(process[name], values, **near, err_msg=name)


SHARED_OUT = """
import jax
from bayesfair.distributed.messages import everybody
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
made = {"explored": explored, "told": np.all(told)}
"""


@pytest.mark.slow
def test_processes_deal_the_starts_that_are_explored(tmp_path):
    """Under each of the four rules, once or more often; and what they tell each other arrives, in one parcel or in two."""
    begin = DATA + IN_BLOCKS + "mesh = bf.distributed.mesh(rows=n_processes)"
    for process in found(begin + SHARED_OUT + "np.savez(out, **made)", 2, tmp_path):
        assert set(process["explored"].tolist()) == {1}
        assert len(process["explored"]) in (12, 24, 36)  # as many others where clusters are not fair, twice at most
        assert process["told"]


FOR_EVER = """
est = bf.FairMixture(2, n_init=1, max_iter=5, random_state=0, mesh=bf.distributed.mesh(rows=n_processes))
while True:
    est.fit(X, sensitive_features=s)
    np.savez(out, done=True)
"""


@pytest.mark.slow
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
    with pytest.raises(ValueError, match=f"`{name}` must be left out where"):
        engine.set_params(mesh=bf.distributed.mesh(rows=1)).fit(data.features, sensitive_features=data.sensitive)

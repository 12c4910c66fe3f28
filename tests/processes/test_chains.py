"""Chains over processes: bit for bit the run of one process."""

import json
import os
import sys
import threading

import jax
import numpy as np
import pytest
from processes.loopback import found, said

import bayesfair as bf
from bayesfair.posterior.saved import STATE

DATA = """
data = bf.datasets.make_vfc_synthetic()
X, s = data.features.iloc[::8], data.sensitive.iloc[::8]
settings = dict(num_chains=3, num_warmup=40, num_draws=30, num_starts=0, random_state=0, progress_bar=False)
"""
RUNS = """
def everything_of(est):
    tree = est.posterior_
    scalars = {name: tree["sample_stats"][name].values for name in tree["sample_stats"].data_vars}
    modes = {"modes": tree["modes"]["log_mass"].values} if "modes" in tree.children else {}
    return {"labels": tree["posterior"]["labels"].values, **scalars, **modes}

runs = {"joint": {}, "optimal": {"num_starts": 6, "num_warmup": 100}, "labels": {}}
made = {}
for target, more in runs.items():
    est = bf.GibbsFairClustering(3, target=target, mesh=mesh, **{**settings, **more}).fit(X, sensitive_features=s)
    made |= {f"{target}/{name}": values for name, values in everything_of(est).items()}
"""
STORED = """
path = os.path.join(os.path.dirname(out), "run.zarr")
est = bf.GibbsFairClustering(3, mesh=mesh, **{**settings, "num_draws": 10}).fit(X, sensitive_features=s, store=path)
bf.GibbsFairClustering.load(path).set_params(mesh=mesh).resume(10)
"""
DIFFERENT = """
given = {"X": X, "sensitive_features": s, "num_draws": 30}
changed = {"X": X + rank, "sensitive_features": s[:: -1 if rank else 1].values, "num_draws": 30 + rank}
for name, value in changed.items():
    table = {**given, name: value}
    try:
        est = bf.GibbsFairClustering(3, mesh=mesh, **{**settings, "num_draws": table["num_draws"]})
        est.fit(table["X"], sensitive_features=table["sensitive_features"])
    except ValueError as error:
        print(error)
"""


def in_this_process(code, **names):
    space = {"bf": bf, "np": np, **names}
    exec(DATA + code, space)
    return space


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::RuntimeWarning")
def test_every_target_is_bit_for_bit_that_of_one_process(tmp_path):
    """Three chains over two processes, one of which fills up; once with a search for modes and jumps between them. A stored run
    goes on with as many processes, and with one alone; processes that were given different things refuse to start."""
    begin = DATA + "mesh = bf.distributed.mesh(chains=n_processes)"
    alone = in_this_process(RUNS, mesh=None)  # first: one of the two then finds its programs on disk
    code = begin + RUNS + STORED + DIFFERENT + "np.savez(out, **made)"
    processes = found(code, 2, tmp_path)
    for process in processes:
        assert set(process) == set(alone["made"])
        for name, values in alone["made"].items():
            np.testing.assert_array_equal(process[name], values, err_msg=name)
    goes_on = bf.GibbsFairClustering.load(tmp_path / "run.zarr").resume(10)
    for name, values in alone["everything_of"](goes_on).items():
        np.testing.assert_array_equal(values, alone["made"][f"joint/{name}"], err_msg=name)
    for rank in (0, 1):
        for name in ("X", "sensitive_features", "num_draws"):
            assert f"`{name}` must be the same in all processes" in said(tmp_path, rank)


def test_meshes_that_do_not_fit_are_refused():
    data = bf.datasets.make_vfc_synthetic()
    with pytest.raises(TypeError, match="`mesh` must be None or a mesh"):
        bf.GibbsFairClustering(2, mesh=2).fit(data.features, sensitive_features=data.sensitive)
    with pytest.raises(ValueError, match="`rows` must be given if chains is not"):
        bf.distributed.mesh()
    with pytest.raises(ValueError, match="got 2 x 1"):
        bf.distributed.mesh(chains=2, rows=1)
    with pytest.raises(ValueError, match="got 1 x 3"):
        bf.distributed.mesh(rows=3)


@pytest.mark.parametrize(
    ("estimator", "remedy"),
    [(bf.GibbsFairClustering(2), r"mesh\(chains=\.\.\.\), or no mesh"), (bf.BalancedKMeans(2), "Leave it out")],
)
def test_rows_of_methods_that_need_no_more_than_one_machine_are_not_shared(estimator, remedy):
    data = bf.datasets.make_vfc_synthetic()
    rows = jax.sharding.AbstractMesh((1, 2), ("chains", "rows"))
    why = r"(?=.*300 bytes.* 80 million.*FairMixture.*mesh\(rows=)"
    with pytest.raises(ValueError, match=rf"`mesh` must {why}.*{remedy}"):
        estimator.set_params(mesh=rows).fit(data.features, sensitive_features=data.sensitive)


@pytest.mark.slow
def test_runs_of_earlier_versions_whose_rows_were_shared_are_refused(tmp_path):
    fit = "est = bf.GibbsFairClustering(2, target='optimal', **settings).fit(X, sensitive_features=s)"
    tree = in_this_process(fit)["est"].posterior_
    settings, path = tree.attrs["settings"], tmp_path / "run.nc"
    for shared in (True, False):  # a share of the rows, or fairlets of several processes
        tree.attrs["settings"] = json.dumps(json.loads(settings) | {"shares": 2, "process": 0}) if shared else settings
        if not shared:
            tree[STATE]["fairlet_loss"] = 1.0
        bf.posterior.write_tree(tree, path)
        assert bf.posterior.read_tree(path)["posterior"].sizes["draw"] == 30
        with pytest.raises(ValueError, match=r"be a run of one process with all rows.*earlier version made with mesh"):
            bf.GibbsFairClustering.load(path)


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

"""Fits by rows that were cut off go on from their checkpoints, in as many processes or in others."""

import shutil
import signal

import numpy as np
import pytest
from distributed.loopback import ends, found, said, start

ENGINES = """
import pathlib
from bayesfair.engines import checkpoint as module, fmc_blocks, optimize, variational_blocks
fmc_blocks.BLOCK = variational_blocks.BLOCK = 64
module.EVERY, optimize.CHUNK = 0.0, 3
data = bf.datasets.make_vfc_synthetic(unequal=True)
mesh = bf.distributed.mesh(rows=n_processes)
X, s, rows = bf.distributed.deal(data.features / 8, np.asarray(data.sensitive))
folder, made = pathlib.Path(out).parent, {}
engines = {
    "mixture": bf.FairMixture(2, fairness_weight=1.0, n_init=1, max_iter=8, random_state=0, mesh=mesh),
    "big learn": bf.BigLearnMixture(2, max_iter=10, random_state=0, mesh=mesh),
    "tilted": bf.TiltedKMeans(3, tilt=50.0, n_init=3, random_state=0, mesh=mesh),
    "variational": bf.VariationalFairClustering(2, max_iter=40, random_state=0, mesh=mesh),
}
given = {"sensitive_features": s, "sample_weight": 1.0 + rows % 3}

def note(name, est):
    for attribute in ("labels_", "soft_assignment_"):
        if hasattr(est, attribute):
            made[f"{name} {attribute}"] = bf.distributed.gather(getattr(est, attribute), rows)
    for attribute in ("cluster_centers_", "means_", "objective_trace_", "n_iter_"):
        if hasattr(est, attribute):
            made[f"{name} {attribute}"] = getattr(est, attribute)
"""
CUT_OFF = """
whole_look, looks = module.Checkpoint.look, []

class Killed(BaseException):
    pass

def look(checkpoint, leaves, made, *, ended, together):
    "All are cut off together, but at the very end process 1 alone, by a signal that it cannot hear."
    whole_look(checkpoint, leaves, made, ended=ended, together=together)
    looks.append(together)
    if sum(looks) == 3:
        if name == "variational":
            os.kill(os.getpid(), 9) if rank == 1 else None
        else:
            raise Killed

for name, est in engines.items():
    note(name, est.fit(X, **given))
np.savez(out, **made)
module.Checkpoint.look = look
for name, est in engines.items():
    looks.clear()
    try:
        est.fit(X, checkpoint=folder / name, **given)
    except Killed:
        pass
"""
GO_ON = """
for name, est in engines.items():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        note(name, est.fit(X, checkpoint=folder / name, **given))
    if rank == 0:
        assert any("going on from" in str(one.message) for one in told), name
        assert not (folder / name).exists()
np.savez(out, **made)
"""


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fits_go_on_in_as_many_processes_or_in_others(tmp_path):
    cut = tmp_path / "cut"
    started = start(ENGINES + CUT_OFF, 2, cut)
    assert ends(started) == [1, -signal.SIGKILL], said(cut, 0)[-3000:]
    assert said(cut, 0).splitlines()[-1].startswith("ProcessLost: another of the 2 processes has ended")
    whole = dict(np.load(cut / "0.npz"))
    for n_processes in (2, 1, 3):
        folder = tmp_path / str(n_processes)
        shutil.copytree(cut, folder)
        for process in found(ENGINES + GO_ON, n_processes, folder):
            assert process.keys() == whole.keys()
            for name, values in whole.items():
                if n_processes == 2:
                    np.testing.assert_array_equal(process[name], values, err_msg=name)
                else:
                    atol = 1e-3 if name.endswith(("soft_assignment_", "means_", "covariances_")) else 1e-5  # as in `test_rows`
                    np.testing.assert_allclose(process[name], values, rtol=1e-5, atol=atol, err_msg=name)

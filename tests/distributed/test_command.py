"""`bayesfair fit --processes auto` under Open MPI: the run of one process; where one dies the others end, and it goes on."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from distributed.loopback import ends, free_port, wait_until

import bayesfair as bf
from bayesfair.cli import main

SETTINGS = ["--num-chains", "3", "--num-warmup", "20", "--target", "optimal"]
FEW = 6
LAST_PORTS = 65535 - 2**12 + 1  # among which JAX takes the one of Open MPI's job


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    data = bf.datasets.make_well_specified()
    path = tmp_path_factory.mktemp("table") / "people.csv"
    data.features.assign(group=data.sensitive).to_csv(path, index=False)
    return path


def command(table, out, num_draws):
    sizes = ["--num-draws", str(num_draws)]
    return ["fit", str(table), "--sensitive", "group", "--n-clusters", "2", "--out", str(out), *SETTINGS, *sizes]


def as_open_mpi_does(typed, n_processes=2):
    """The command in so many processes, in the environment of each what `mpirun` puts there."""
    job = (free_port(LAST_PORTS) - LAST_PORTS) * 2**12
    of_all = {"OMPI_MCA_orte_hnp_uri": f"{job}.0;tcp://127.0.0.1:1", "OMPI_COMM_WORLD_SIZE": str(n_processes)}
    started = []
    for rank in range(n_processes):
        own = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_RANK": str(rank), "OMPI_VERSION": "4.1"}
        program = [sys.executable, "-m", "bayesfair.cli", *typed, "--processes", "auto"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(program, env={**os.environ, **of_all, **own}, **pipes))
    return started


def labels_of(path):
    return bf.posterior.read_tree(path)["posterior"]["labels"].values


def draws_in(path):
    try:
        return bf.posterior.read_tree(path)["posterior"].sizes["draw"]
    except (OSError, ValueError):
        return 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_run_in_two_processes_is_that_of_one(table, tmp_path, capfd):
    assert main(command(table, tmp_path / "one.nc", FEW)) == 0
    printed = capfd.readouterr().out
    started = as_open_mpi_does(command(table, tmp_path / "two.nc", FEW))
    said = [process.communicate()[0] for process in started]
    assert [process.returncode for process in started] == [0, 0]
    first, second = ["".join(line for line in text.splitlines(True) if "[Gloo]" not in line) for text in said]
    assert (first.replace("two.nc", "one.nc"), second) == (printed, "")
    np.testing.assert_array_equal(labels_of(tmp_path / "two.nc"), labels_of(tmp_path / "one.nc"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_process_that_is_killed_ends_the_others_and_the_run_goes_on(table, tmp_path):
    """The one that has JAX's own service: test_rows.py kills the other."""
    stored, whole = tmp_path / "stored.zarr", tmp_path / "whole.nc"
    started = as_open_mpi_does(command(table, stored, 1_000_000))
    try:
        wait_until(lambda: draws_in(stored) >= FEW, started)
        started[0].send_signal(signal.SIGKILL)
    finally:
        statuses = ends(started)
    assert statuses[0] == -signal.SIGKILL
    assert statuses[1] in (3, -signal.SIGABRT)  # JAX may be faster to abort them
    done = draws_in(stored)
    assert done >= FEW
    assert main(["resume", str(stored), "--num-draws", "5"]) == 0
    assert main(command(table, whole, done + 5)) == 0
    np.testing.assert_array_equal(labels_of(stored), labels_of(whole))

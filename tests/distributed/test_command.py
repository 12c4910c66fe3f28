"""`bayesfair fit --processes N`: the run of one process; and one that dies ends the others, and the run goes on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from distributed.loopback import LIMIT, wait_until

import bayesfair as bf
from bayesfair.cli import main

SETTINGS = ["--num-chains", "3", "--num-warmup", "40", "--target", "optimal"]
FEW = 6


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    data = bf.datasets.make_well_specified()
    path = tmp_path_factory.mktemp("table") / "people.csv"
    data.features.assign(group=data.sensitive).to_csv(path, index=False)
    return path


def command(table, out, num_draws, n_processes, *more):
    sizes = ["--num-draws", str(num_draws), "--processes", str(n_processes)]
    return ["fit", str(table), "--sensitive", "group", "--n-clusters", "2", "--out", str(out), *SETTINGS, *sizes, *more]


def labels_of(path):
    return bf.posterior.read_tree(path)["posterior"]["labels"].values


def processes_of(parent):
    """Those that a process started, in that order."""
    listed = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    if not listed.exists():
        pytest.skip("this system does not tell which processes a process has started")
    return [int(process) for process in listed.read_text().split()]


def draws_in(path):
    try:
        return bf.posterior.read_tree(path)["posterior"].sizes["draw"]
    except (OSError, ValueError):
        return 0


@pytest.mark.filterwarnings("ignore")
def test_a_run_in_two_processes_is_that_of_one(table, tmp_path, capfd):
    assert main(command(table, tmp_path / "one.nc", FEW, 1)) == 0
    printed = capfd.readouterr().out
    assert main(command(table, tmp_path / "two.nc", FEW, 2)) == 0
    assert capfd.readouterr().out.replace("two.nc", "one.nc") == printed
    np.testing.assert_array_equal(labels_of(tmp_path / "two.nc"), labels_of(tmp_path / "one.nc"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_that_is_killed_ends_the_others_and_the_run_goes_on(table, tmp_path, victim):
    stored, whole = tmp_path / "stored.zarr", tmp_path / "whole.nc"
    program = [sys.executable, "-m", "bayesfair.cli", *command(table, stored, 1_000_000, 2, "--store")]
    parent = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: draws_in(stored) >= FEW, [parent])
        os.kill(processes_of(parent)[victim], signal.SIGKILL)
        _, said = parent.communicate(timeout=LIMIT)
    finally:
        parent.kill()
    lines = [line for line in said.splitlines() if "warning" not in line]
    assert parent.returncode == 1
    assert len(lines) == 1, lines
    assert f"process {victim} of 2 was killed (signal 9)" in lines[0]
    done = draws_in(stored)
    assert done >= FEW
    assert main(["resume", str(stored), "--num-draws", "5", "--processes", "3"]) == 0
    assert main(command(table, whole, done + 5, 1)) == 0
    np.testing.assert_array_equal(labels_of(stored), labels_of(whole))


def test_wrong_use_is_told_once(table, tmp_path, capfd):
    assert main(command(table, tmp_path / "run.nc", FEW, 2, "--features", "nothing")) == 2
    assert len(capfd.readouterr().err.splitlines()) == 1

"""Benchmarks that pages take figures from run, on tables so small that their figures mean nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "lines"),
    [
        (["scale.py", "--rows", "300", "--cells", "FairletKMeans", "posterior labels"], 5),
        (["calibration.py", "--truths", "1", "--dear", "0", "--rows", "30"], 9),
        (["processes.py", "--rows", "6000", "--processes", "1", "2", "--what", "variational"], 4),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_they_run_and_tell_every_cell(command, lines, tmp_path):
    settings = {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    command = [sys.executable, BENCHMARKS / command[0], *command[1:]]
    told = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=1800, check=True)
    assert len(told.stdout.splitlines()) == lines, told.stdout

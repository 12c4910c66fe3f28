"""Kernels are compiled once per installation: not for another table, number of clusters, loss or form of balance."""

import os
import subprocess
import sys

import pytest

RUN = """
import sys
import numpy as np
from bayesfair.fairness.groups import encode_groups
from bayesfair.gibbs import Joint, Labels
from bayesfair.gibbs.loss import resolve_loss
from bayesfair.gibbs.target import Dispersion, Room, Table

target, loss, K, N, least = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:5]), sys.argv[5]
X = np.random.default_rng(0).uniform(0.1, 0.9, (N, 3))
table = Table(X, encode_groups(np.arange(N) % 2), np.ones(N), K, resolve_loss(loss), Dispersion(), 3.0 * N / 2, 0)
law = (Joint() if target == "joint" else Labels(min_balance=least if least == "exact" else float(least))).prepare(table)
(state,) = law.starts(1)
if target == "labels":
    law.learn(state, 2)
room = Room(np.empty((2, N), np.int32), np.empty((0, N), np.int32), np.empty((2, len(law.statistics))))
assert law.advance(state, 1, 10**6, room, 0) == 2
"""


def compiled_by(folder, *arguments):
    """Names of the files of compiled functions, with what a process of its own adds."""
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    subprocess.run([sys.executable, "-c", RUN, *map(str, arguments)], env=settings, timeout=600, check=True)
    return {path.name for path in folder.rglob("*.nbc")}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["labels", "joint"])
def test_later_processes_compile_nothing(target, tmp_path):
    first = compiled_by(tmp_path, target, "kmeans", 2, 60, "exact")
    assert len(first) > 20
    assert compiled_by(tmp_path, target, "kmeans", 3, 90, "0.8") == first
    of_a_loss = "loss", "kl", "beta", "center", "half_step", "stirling"
    more = compiled_by(tmp_path, target, "kl", 2, 60, "exact") - first
    assert all(any(part in name for part in of_a_loss) for name in more), more

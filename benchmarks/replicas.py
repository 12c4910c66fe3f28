"""Up to how many rows replicas make round trips: python benchmarks/replicas.py [--sweeps 1000]

Manhattan distances, clumps one more than the clusters. A row for every size and target: round trips of a chain in the second
half of the trial, the share of exchanges accepted, and seconds, programs compiled before.
"""

import argparse
import time
import warnings
from unittest import mock

import numpy as np

from bayesfair.fairness import encode_groups
from bayesfair.gibbs import Settings, Table, replicas
from bayesfair.gibbs.losses import resolve_loss
from bayesfair.gibbs.problem import make_problem
from bayesfair.gibbs.run import start_run

N_FEATURES, N_CLUSTERS, CHAINS, SPREAD = 6, 4, 2, 2.0
SIZES = {"optimal": (50, 100, 200, 400), "labels": (50, 100, 200), "joint": (50, 100, 200, 400)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweeps", type=int, default=1000)
    sweeps = parser.parse_args().sweeps
    warnings.simplefilter("ignore")
    print(f"{'rows':>5} {'target':8} {'trips':>6} {'accepted':>8} {'seconds':>8}  used")
    for target, sizes in SIZES.items():
        for n_rows in sizes:
            problem, states = started(n_rows, target)
            replicas.temper(problem, states, replicas.FEWEST_SWEEPS)
            (accepted, trips), seconds, used = timed(problem, states, sweeps)
            print(f"{n_rows:5d} {target:8} {trips:6.1f} {accepted:8.2f} {seconds:8.1f}  {'yes' if used else 'no'}")


def started(n_rows, target):
    rng = np.random.default_rng(1)
    clumps = SPREAD * rng.normal(size=(N_CLUSTERS + 1, N_FEATURES))
    X = clumps[rng.integers(N_CLUSTERS + 1, size=n_rows)] + rng.normal(size=(n_rows, N_FEATURES))
    groups, loss = encode_groups(rng.integers(2, size=n_rows)), resolve_loss("manhattan")
    problem = make_problem(Table(X, groups), Settings(N_CLUSTERS, loss, target=target))
    return problem, start_run(problem, CHAINS).states


def timed(problem, states, sweeps):
    """((share accepted, round trips of a chain) in the last window, seconds, are replicas used)."""
    windows = []

    def watched(*args):
        windows.append(window(*args))
        return windows[-1]

    window, begun = replicas._window, time.perf_counter()
    with mock.patch.object(replicas, "_window", watched):
        used = replicas.temper(problem, states, sweeps) is not None
    _, accepted, trips = windows[-1]
    return (accepted.mean(), trips), time.perf_counter() - begun, used


if __name__ == "__main__":
    main()

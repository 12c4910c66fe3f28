"""A table whose rows are in several processes of one core each, against one process: processor seconds and wall time.

    python benchmarks/processes.py [--rows 1000000] [--processes 1 2] [--what mixture variational]

The table is like that of `scale.py`, and the same however many share it. `mixture`, `variational`: a whole fit of
FairMixture(10) and VariationalFairClustering(10): `first`, compilation counted in, which each process does for itself, and
once more. What counts is the busiest process; on a machine that others use too, wall time is theirs.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
import warnings

import numpy as np
from scale import K, clusters, drawn

WHAT = ["mixture", "variational"]
PIECES = 60  # in which the table is drawn, whatever the number of processes
# A thread for all compiled work, on the core that the process is bound to.
ONE_CORE = {
    "NPROC": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "OMP_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
}


def rows_of(rank, n_processes, n_rows):
    """This process's part of a table like that of `scale.py`: (X, groups)."""
    known, size = clusters(np.random.default_rng(0)), n_rows // PIECES // 2 * 2
    own = range(*(PIECES * one // n_processes for one in (rank, rank + 1)))
    parts = [drawn(np.random.default_rng([1, piece]), size, *known) for piece in own]
    return tuple(map(np.concatenate, zip(*parts)))


def spent(work):
    """(processor seconds of this process, wall seconds)."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def fit_seconds(estimator, X, groups, mesh):
    return spent(lambda: estimator.set_params(random_state=0, mesh=mesh).fit(X, sensitive_features=groups))


def engines():
    import bayesfair as bf

    return {
        "mixture": bf.FairMixture(K),
        "variational": bf.VariationalFairClustering(K),
    }


def member(arguments):
    """One of the processes: prints a line of JSON."""
    import bayesfair as bf

    rank, n_processes = arguments.rank, arguments.processes[0]
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    warnings.simplefilter("ignore")
    bf.distributed.initialize(arguments.address, n_processes, rank, cluster_detection_method="deactivate")
    mesh = bf.distributed.mesh(rows=n_processes)
    X, groups = rows_of(rank, n_processes, arguments.rows)
    told = {}
    for name, estimator in engines().items():
        if name in arguments.what:
            for which in (f"first {name}", name):
                told[which] = fit_seconds(estimator, X, groups, mesh)
    print(json.dumps(told))


def busiest(arguments, n_processes):
    """{what: (processor seconds of the busiest process, wall seconds)}."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    command = [sys.executable, __file__, "--rows", str(arguments.rows)]
    command += ["--processes", str(n_processes), "--address", address, "--what", *arguments.what]
    started = [
        subprocess.Popen(
            [*command, "--rank", str(rank)], env={**os.environ, **ONE_CORE}, stdout=subprocess.PIPE, text=True
        )
        for rank in range(n_processes)
    ]
    told = [json.loads(process.communicate()[0].splitlines()[-1]) for process in started]
    return {what: tuple(map(max, zip(*(one[what] for one in told)))) for what in told[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--what", nargs="+", default=WHAT, choices=WHAT)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--address")
    arguments = parser.parse_args()
    if arguments.rank is not None:
        return member(arguments)
    first = None
    for n_processes in arguments.processes:
        found = busiest(arguments, n_processes)
        first = first or found
        for what, (cpu, wall) in found.items():
            seconds = f"{cpu:8.3f} s of a processor each, {wall:8.3f} s"
            print(f"{what:17} {n_processes} processes: {seconds}; {first[what][0] / cpu:.2f} times as fast", flush=True)
    return None


if __name__ == "__main__":
    main()

"""Real processes on loopback: the same program in each, which says what it found in a file."""

import os
import socket
import subprocess
import sys
import time

import numpy as np

LIMIT = 3600  # seconds: the last guard against processes that wait for each other for ever
BEGINNING = """
import os, sys, warnings
rank, n_processes, address, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
import numpy as np
import bayesfair as bf
warnings.simplefilter("ignore")
bf.distributed.initialize(address, n_processes, rank, cluster_detection_method="deactivate")
"""


def free_port():
    """A port that nobody listens to."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start(code, n_processes, folder):
    """`code` in so many processes, their output in `folder`/process-<rank>.txt, what they save in <rank>.npz there.

    The first of them finds on disk what this one has compiled.
    """
    folder.mkdir(exist_ok=True)
    address = f"127.0.0.1:{free_port()}"
    started = []
    for rank in range(n_processes):
        arguments = [str(rank), str(n_processes), address, str(folder / f"{rank}.npz")]
        with open(folder / f"process-{rank}.txt", "w") as output:
            command = [sys.executable, "-c", BEGINNING + code, *arguments]
            one_core = {**os.environ, "OMP_NUM_THREADS": "1"}
            started.append(subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=one_core))
    return started


def wait_until(is_there, started):
    """Until `is_there()`; fails where one of the processes that were `started` has ended, or at the limit."""
    last = time.monotonic() + LIMIT
    while not is_there():
        assert all(process.poll() is None for process in started), "a process has ended"
        assert time.monotonic() < last, "what was waited for did not come"
        time.sleep(0.1)


def ends(started):
    """Exit statuses; whatever is still there at the limit is killed, which is a failure."""
    last = time.monotonic() + LIMIT
    try:
        return [process.wait(max(0.1, last - time.monotonic())) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


def said(folder, rank):
    return (folder / f"process-{rank}.txt").read_text()


def found(code, n_processes, folder):
    """What every one of the processes saved, by name."""
    statuses = ends(start(code, n_processes, folder))
    assert statuses == [0] * n_processes, "\n".join(said(folder, rank)[-3000:] for rank in range(n_processes))
    return [dict(np.load(folder / f"{rank}.npz", allow_pickle=False)) for rank in range(n_processes)]

"""A command in several processes: started here and watched, or joined where SLURM, Open MPI or this file started them."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections import deque
from contextlib import contextmanager, nullcontext, redirect_stdout
from io import StringIO

import bayesfair as bf
from bayesfair.cli.exit_status import DONE, FAILED, LOST, MEMBER

__all__ = ["AUTO", "in_processes", "leave_others"]

AUTO = "auto"
PROGRAM = "from bayesfair.cli import main; raise SystemExit(main())"
GRACE = 15.0  # seconds in which the others end by themselves when one has
TRACEBACK = 60  # lines
LOOK = 0.2  # seconds between two looks at them


def in_processes(arguments, work) -> int:
    """The exit status of `work(arguments, mesh)` in as many processes as `arguments.processes` says, of which the first one
    prints, unless it is to be `quiet`; in 1, the usual case, `mesh` is None."""
    with redirect_stdout(StringIO()) if arguments.quiet else nullcontext():
        return _in_processes(arguments, work)


def _in_processes(arguments, work):
    if arguments.processes == 1:
        return work(arguments, None)
    if MEMBER not in os.environ and arguments.processes != AUTO:
        return _started(arguments.typed, arguments.processes)
    _join()
    import jax

    with _only_the_first_prints():
        return work(arguments, bf.distributed.mesh(chains=jax.process_count()))


def leave_others(status: int) -> int:
    """The exit status of this process, which ends at once where it is one of several and failed: they are told by that."""
    from bayesfair.distributed.processes import leave

    if status != DONE and "jax" in sys.modules:
        import jax

        if jax.distributed.is_initialized():
            leave(status)
    return status


def _join():
    """By JAX's own detection, or as `Member` says: rank, how many there are, where the first one is."""
    if MEMBER not in os.environ:
        return bf.distributed.initialize()
    rank, n_processes, address = os.environ[MEMBER].split()
    return bf.distributed.initialize(address, int(n_processes), int(rank), cluster_detection_method="deactivate")


@contextmanager
def _only_the_first_prints():
    import jax

    if jax.process_index() == 0:
        yield
        return
    with redirect_stdout(StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Member:
    """One of the processes: what it says is passed on where it is the first.

    `said`: its last line on standard error; `below`: the last ones there that are not the command's, such as a traceback.
    """

    def __init__(self, typed, rank, n_processes, address):
        environment = {**os.environ, MEMBER: f"{rank} {n_processes} {address}", "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-c", PROGRAM, *typed]
        self.rank, self.said, self.below = rank, "", deque(maxlen=TRACEBACK)
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        pipes = (self.process.stdout, sys.stdout), (self.process.stderr, sys.stderr)
        self._readers = [threading.Thread(target=self._read, args=pipe, daemon=True) for pipe in pipes]
        for reader in self._readers:
            reader.start()

    def _read(self, pipe, to):
        """Passes on lines of the command itself: those of the runtime below it, about connections and their ends, stay away."""
        with pipe:
            for line in pipe:
                of_command = line.startswith("bayesfair ")
                if to is sys.stderr and of_command:
                    self.said = line.strip()
                elif to is sys.stderr:
                    self.below.append(line)
                if self.rank == 0 and (of_command or to is sys.stdout) and not line.startswith("[Gloo]"):
                    print(line, end="", file=to, flush=True)

    @property
    def status(self):
        return self.process.poll()

    def end(self):
        if self.status is None:
            self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join()


def _started(typed, n_processes) -> int:
    """Exit status of the command in new processes on this machine; where one dies, a line says which."""
    address = f"127.0.0.1:{_free_port()}"
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    members = []
    try:
        for rank in range(n_processes):
            members.append(Member(typed, rank, n_processes, address))
        failed = _first_that_failed(members)
        _wait_for(members, GRACE)
    finally:
        for member in members:
            member.end()
        signal.signal(signal.SIGTERM, before)
    own = members[0].status
    for member in members:
        if "this is a bug" in member.said:
            print("".join(member.below), end="", file=sys.stderr)
    if failed is None or own == DONE or (own > 0 and own != LOST and members[0].said):
        return own  # in its own words
    how = f"was killed (signal {-failed.status})" if failed.status < 0 else f"ended with status {failed.status}"
    words = f": {failed.said}" if failed.said and failed.rank else ""
    remedy = "A run with --store goes on with: bayesfair resume RUN.zarr, in any number of processes."
    print(
        f"bayesfair {typed[0]}: process {failed.rank} of {n_processes} {how}{words}; the others were ended. {remedy}",
        file=sys.stderr,
    )
    return FAILED


def _first_that_failed(members):
    """The process that failed first, None where none did; whoever is interrupted here passes it on to all."""
    while True:
        try:
            statuses = [member.status for member in members]
            ill = [member for member, status in zip(members, statuses) if status not in (None, DONE)]
            if ill:  # who was lost came before those that were told of it, some of which JAX aborts
                return min(ill, key=lambda member: member.status in (LOST, -signal.SIGABRT))
            if statuses == [DONE] * len(members):
                return None
            time.sleep(LOOK)
        except KeyboardInterrupt:
            for member in members:
                if member.status is None:
                    member.process.send_signal(signal.SIGINT)


def _wait_for(members, seconds):
    last = time.monotonic() + seconds
    while time.monotonic() < last and any(member.status is None for member in members):
        time.sleep(LOOK)


def _free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]

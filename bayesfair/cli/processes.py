"""A command in each of the processes started by SLURM or Open MPI: they share the chains, and the first one prints."""

import sys
import warnings
from contextlib import contextmanager, nullcontext, redirect_stdout
from io import StringIO

import bayesfair as bf
from bayesfair._check import message
from bayesfair.cli.exit_status import DONE

AUTO = "auto"


def in_processes(arguments, work) -> int:
    """The exit status of `work(arguments, mesh)`, in one process with `mesh` None, or in those that `--processes auto` joins.

    Of these the first one prints, unless it is `quiet`.
    """
    with quietly(arguments.quiet):
        if arguments.processes != AUTO:
            return work(arguments, None)
        _join()
        import jax

        with _only_the_first_prints():
            return work(arguments, bf.distributed.mesh(chains=jax.process_count()))


def quietly(quiet):
    """A context that prints nothing if `quiet`."""
    return redirect_stdout(StringIO()) if quiet else nullcontext()


def leave_others(status: int) -> int:
    """The exit status of this process. If it failed and is one of several, it ends at once, which tells the others."""
    from bayesfair.distributed.processes import leave

    if status != DONE and "jax" in sys.modules:
        import jax

        if jax.distributed.is_initialized():
            leave(status)
    return status


def _join():
    try:
        bf.distributed.initialize()
    except ValueError as error:
        rule = "be left out, as neither SLURM nor Open MPI started the command"
        raise ValueError(message("--processes", rule, AUTO, "One process has threads for chains.")) from error


@contextmanager
def _only_the_first_prints():
    import jax

    if jax.process_index() == 0:
        yield
        return
    with redirect_stdout(StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

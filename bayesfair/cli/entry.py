"""The entry point: arguments in, exit status out."""

import os
import sys
from contextlib import contextmanager

from bayesfair.cli.exit_status import guarded


def main(argv=None) -> int:
    """Run one command of the shell and return its exit status. Errors are printed, not raised.

    Parameters
    ----------
    argv : sequence of str, optional
        The words after `bayesfair`. By default those of the shell.

    Returns
    -------
    int
        The exit status, as `bayesfair --help` explains it.

    Examples
    --------
    >>> import bayesfair as bf
    >>> status = bf.cli.main(["demo", "--out", "demo-output"])  # doctest: +SKIP
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # for names that the terminal's encoding lacks
    with _pictures_to_files():
        return guarded("bayesfair", lambda: _run(argv))


@contextmanager
def _pictures_to_files():
    """Let matplotlib draw to files only: notebooks set MPLBACKEND for child processes, to a package that may be missing."""
    before = os.environ.get("MPLBACKEND")
    os.environ["MPLBACKEND"] = "Agg"
    try:
        yield
    finally:
        if before is None:
            del os.environ["MPLBACKEND"]
        else:
            os.environ["MPLBACKEND"] = before


def _run(argv):
    from bayesfair.cli.arguments import parse  # takes a moment in which Ctrl-C may come

    try:
        arguments = parse(list(sys.argv[1:] if argv is None else argv))
    except SystemExit as told:  # from argparse: help, or wrong use
        return told.code
    return guarded(f"bayesfair {arguments.command}", lambda: arguments.run(arguments))

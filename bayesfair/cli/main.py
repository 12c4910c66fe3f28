"""The door: arguments in, exit status out."""

import sys

from bayesfair.cli.outcome import guarded

__all__ = ["main"]


def main(argv=None) -> int:
    """Run one command and return its exit status, as `bayesfair --help` explains it; whatever fails is told, not raised."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # names of groups that the terminal's encoding lacks
    return guarded("bayesfair", lambda: _run(argv))


def _run(argv):
    from bayesfair.cli.arguments import make_parser  # takes a moment, in which Ctrl-C may come
    from bayesfair.cli.processes import leave_others

    try:
        arguments = make_parser().parse_args(argv)
    except SystemExit as told:  # by argparse: help, or wrong use
        return told.code
    arguments.typed = list(sys.argv[1:] if argv is None else argv)
    return leave_others(guarded(f"bayesfair {arguments.command}", lambda: arguments.run(arguments)))

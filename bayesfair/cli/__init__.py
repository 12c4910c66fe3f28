"""The command line, `bayesfair demo | fit | compare | assign | ...`. Everything it does is one or two calls of the package."""

from bayesfair.cli.entry import main

__all__ = ["main"]

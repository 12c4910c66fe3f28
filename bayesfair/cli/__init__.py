"""The command line, `bayesfair fit | summary | ...`. Everything it does is one or two calls of the package."""

from bayesfair.cli.entry import main

__all__ = ["main"]

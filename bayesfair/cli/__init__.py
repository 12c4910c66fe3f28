"""The command line: `bayesfair demo | fit | summary | plot | report`. Everything it does is one or two calls of the package."""

from bayesfair.cli.entry import main

__all__ = ["main"]

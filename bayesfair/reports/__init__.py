"""One page for readers: everything a posterior says, in one HTML file that needs nothing else."""

from bayesfair.reports.page import report

__all__ = ["report"]

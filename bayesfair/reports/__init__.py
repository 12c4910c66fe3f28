"""One HTML page that needs nothing else: everything that a posterior says, or an audit of anybody's clusters."""

from bayesfair.reports.auditing import Audit, audit
from bayesfair.reports.page import report

__all__ = ["Audit", "audit", "report"]

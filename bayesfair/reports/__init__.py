"""One self-contained HTML page: everything that a posterior says, or an audit of given clusters."""

from bayesfair.reports.auditing import Audit, audit
from bayesfair.reports.page import report

__all__ = ["Audit", "audit", "report"]

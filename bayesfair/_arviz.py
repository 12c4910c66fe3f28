"""ArviZ as this package means it, whatever its user has set for ArviZ's own functions."""

_SETTINGS = {
    "data.index_origin": 0,
    "data.sample_dims": ["chain", "draw"],
    "stats.ci_kind": "eti",
    "stats.ci_prob": 0.89,
    "stats.module": "base",
    "stats.round_to": "4g",
}


def own_settings():
    """A context in which trees, summaries and tail quantiles do not depend on the user's `arviz_base.rcParams`."""
    from arviz_base import rc_context

    return rc_context(_SETTINGS)

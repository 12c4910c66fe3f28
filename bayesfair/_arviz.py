"""ArviZ as this package means it: loaded without JAX, and whatever its user has set for ArviZ's own functions."""

import sys
from importlib import import_module
from types import ModuleType

from bayesfair._check import Refusal
from bayesfair._interrupts import interrupts_held

_SETTINGS = {
    "data.index_origin": 0,
    "data.sample_dims": ["chain", "draw"],
    "stats.ci_kind": "eti",
    "stats.ci_prob": 0.89,
    "stats.module": "base",
    "stats.round_to": "4g",
}
_FOREIGN = "jax", "numpyro"


class _OnUse(ModuleType):
    """A module that is imported when something of it is asked for."""

    def __getattr__(self, name):
        with interrupts_held():
            return getattr(import_module(self.__name__), name)


def load_arviz():
    """Import ArviZ without the lazy `jax` that it leaves in `sys.modules`: SciPy and Matplotlib would load it."""
    absent = [name for name in _FOREIGN if name not in sys.modules]
    try:
        sys.modules.update({name: _OnUse(name) for name in absent})
        import arviz_base  # noqa: F401
    finally:
        for name in absent:
            sys.modules.pop(name, None)


def load_arviz_stats():
    """`load_arviz` for its statistics. Raises a ValueError under `python -OO`, before ArviZ fails in its own words."""
    if __doc__ is None:
        raise ValueError(
            Refusal("ArviZ needs docstrings, which `python -OO` removes. Run Python with -O or unset PYTHONOPTIMIZE.")
        )
    load_arviz()


def own_settings():
    """A context in which trees, summaries and tail quantiles do not depend on the user's `arviz_base.rcParams`."""
    load_arviz()
    from arviz_base import rc_context

    return rc_context(_SETTINGS)

"""Imports JAX with Ctrl-C held back: after an interrupted import every program of the process would fail to compile.

The rooms that use JAX import this module first.
"""

from contextlib import suppress
from importlib import import_module

from bayesfair import _cache
from bayesfair._interrupts import interrupts_held

with interrupts_held():
    import jax  # noqa: F401

    for _name in ("mhlo", "builtin"):  # which the first compilation would import
        with suppress(ImportError):
            import_module(f"jaxlib.mlir.dialects.{_name}")

if _cache.by_itself:
    _cache.enable_compilation_cache()

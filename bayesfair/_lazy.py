"""Names that a package imports on first use, so that it is light until then."""

import sys
from importlib import import_module

from bayesfair._interrupts import interrupts_held


def lazily(package: str, homes: dict[str, str]):
    """(`__getattr__`, `__dir__`) of a package; `homes`: {name: the module that holds it, or that it is}."""

    def find(name):
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with interrupts_held():
            module = import_module(homes[name])
        return module if homes[name] == f"{package}.{name}" else getattr(module, name)

    def names():
        return sorted(sys.modules[package].__all__)

    return find, names

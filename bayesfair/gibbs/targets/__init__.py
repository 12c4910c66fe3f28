"""The targets of the package, one file each."""

from bayesfair._check import message
from bayesfair.gibbs.target import Target
from bayesfair.gibbs.targets.cut import Cut
from bayesfair.gibbs.targets.fixed_units import FixedUnits
from bayesfair.gibbs.targets.joint import Joint
from bayesfair.gibbs.targets.labels import Labels

__all__ = ["TARGETS", "resolve_target"]

TARGETS = {"joint": Joint, "cut": Cut, "optimal": FixedUnits, "labels": Labels}


def resolve_target(target) -> type[Target]:
    """The class of the target with this name, or the `Target` subclass itself."""
    if isinstance(target, type) and issubclass(target, Target):
        return target
    if not (isinstance(target, str) and target in TARGETS):
        remedy = "'joint' is eq. (9) of the paper; see the docstring for the others."
        raise ValueError(message("target", f"be one of {tuple(TARGETS)}, or a Target class", repr(target), remedy))
    return TARGETS[target]

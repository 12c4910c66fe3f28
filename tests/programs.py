"""How many programs the fast tests of a file may compile: all that XLA is asked for, those on disk too."""

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent
MOST = 3_000  # of all files together
USUAL = 8  # of a file that is not named here
BUDGET = {}


def budget_of(path):
    return BUDGET.get(path.relative_to(TESTS).as_posix(), USUAL)


def complaint(path, compiled):
    """What is wrong with the names of programs that the fast tests of a file compiled, or nothing."""
    name, may = path.relative_to(TESTS).as_posix(), budget_of(path)
    if len(compiled) <= may:
        return ""
    often = ", ".join(f"{name} {times}" for name, times in Counter(compiled).most_common(5))
    return (
        f"The fast tests of {name} compiled {len(compiled)} programs and may compile {may}; most often {often}. Pass tables to "
        "compiled functions as arguments, not in closures; use NumPy, or one jitted function, where single operations of "
        f"jax.numpy run one by one; mark cases that catch nothing more as slow; or change BUDGET in {Path(__file__).name}."
    )

"""How many programs the fast tests of a file compile: all that XLA is asked for in their process, those on disk too."""

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent
ROOM = 60  # single operations that a file compiles where no other one has before it
FEW = 40  # that any file may compile, in one process that runs all fast tests
PROGRAMS = {  # likewise, of files that compile more than those
    "engines/test_big_learn.py": 45,
    "engines/test_blocks.py": 55,
    "engines/test_check_engine.py": 65,
    "engines/test_every_engine.py": 70,
    "engines/test_fair_mixture.py": 58,
    "engines/test_mini_batches.py": 60,
    "estimators/test_bayesian_fair_mixture.py": 75,
    "gibbs/test_check.py": 100,
    "gibbs/test_exactness.py": 100,
    "gibbs/test_parts_of_rows.py": 41,
    "test_rows.py": 56,
}


def budget_of(path):
    return PROGRAMS.get(path.relative_to(TESTS).as_posix(), FEW) * 5 // 4 + ROOM


def complaint(path, compiled):
    """What is wrong with the names of programs that the fast tests of a file compiled, or nothing."""
    name, may = path.relative_to(TESTS).as_posix(), budget_of(path)
    if len(compiled) <= may:
        return ""
    often = ", ".join(f"{name} {times}" for name, times in Counter(compiled).most_common(5))
    return (
        f"The fast tests of {name} compiled {len(compiled)} programs and may compile {may}; most often {often}. Pass tables to "
        "compiled functions as arguments, not in closures; use NumPy, or one jitted function, where single operations of "
        "jax.numpy run one by one, and `on_device` for `jnp.asarray`, which is one of them; mark cases that catch nothing "
        f"more as slow; or change PROGRAMS in {Path(__file__).name}."
    )

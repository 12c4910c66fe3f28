"""How many programs the fast tests of a file compile: all that XLA is asked for in their process, those on disk too."""

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent
MOST = 3_000  # of all files together
ROOM = 60  # single operations that a file compiles where no other one has before it
PROGRAMS = {  # in one process that runs all fast tests; a file that is not named compiles none
    "cli/test_methods.py": 5,
    "engines/test_big_learn.py": 43,
    "engines/test_blocks.py": 55,
    "engines/test_check_engine.py": 65,
    "engines/test_every_engine.py": 70,
    "engines/test_fair_mixture.py": 42,
    "engines/test_graphs.py": 10,
    "engines/test_mini_batches.py": 35,
    "engines/test_optimize.py": 19,
    "engines/test_sample_weight.py": 6,
    "engines/test_tilted_kmeans.py": 22,
    "engines/test_variational.py": 41,
    "estimators/test_bayesian_fair_mixture.py": 56,
    "models/test_exchange.py": 20,
    "models/test_labels.py": 17,
    "models/test_mixtures.py": 34,
    "models/test_posteriors.py": 2,
    "models/test_priors.py": 50,
    "models/test_sparse.py": 12,
    "posterior/test_arviz.py": 8,
}


def budget_of(path):
    return PROGRAMS.get(path.relative_to(TESTS).as_posix(), 0) * 5 // 4 + ROOM


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

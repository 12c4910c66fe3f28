"""How many programs the fast tests of a file compile: all that XLA is asked for in their process, those on disk too."""

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent
MOST = 3_000  # of all files together
ROOM = 60  # single operations that a file compiles where no other one has before it
PROGRAMS = {  # in one process that runs all fast tests; a file that is not named compiles none
    "cli/test_cli.py": 12,
    "cli/test_endings.py": 5,
    "cli/test_methods.py": 5,
    "cli/test_results.py": 5,
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
    "estimators/test_comparison.py": 1,
    "estimators/test_gibbs_fair_clustering.py": 18,
    "estimators/test_keep_fairlets.py": 2,
    "estimators/test_labels_target.py": 3,
    "estimators/test_new_rows.py": 6,
    "estimators/test_no_argument_is_ignored.py": 1,
    "estimators/test_pipelines.py": 8,
    "estimators/test_store.py": 6,
    "estimators/test_weights_and_categories.py": 11,
    "gibbs/test_border.py": 11,
    "gibbs/test_check.py": 82,
    "gibbs/test_exactness.py": 70,
    "gibbs/test_float32.py": 20,
    "gibbs/test_jump_matrix.py": 36,
    "gibbs/test_labels_exactness.py": 21,
    "gibbs/test_labels_sampler.py": 5,
    "gibbs/test_many_rows.py": 1,
    "gibbs/test_mean_field.py": 20,
    "gibbs/test_mode_jumps.py": 17,
    "gibbs/test_mode_search.py": 16,
    "gibbs/test_pair_draws.py": 51,
    "gibbs/test_parts_of_rows.py": 41,
    "gibbs/test_replicas.py": 9,
    "gibbs/test_sampler.py": 10,
    "gibbs/test_temperature.py": 34,
    "gibbs/test_threads.py": 29,
    "gibbs/test_toys.py": 11,
    "gibbs/test_warm_up.py": 3,
    "models/test_exchange.py": 20,
    "models/test_labels.py": 17,
    "models/test_mixtures.py": 34,
    "models/test_posteriors.py": 2,
    "models/test_sparse.py": 12,
    "posterior/test_arviz.py": 8,
    "posterior/test_parts_and_merges.py": 8,
    "test_compilations.py": 6,
    "test_progress.py": 8,
    "test_rows.py": 56,
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

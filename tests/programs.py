"""How many programs the fast tests of a file may compile: all that XLA is asked for, those on disk too."""

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent
MOST = 4_700  # of all files together; 3,000 is the aim
USUAL = 6  # of a file that is not named here
BUDGET = {
    "balanced/test_annealing.py": 15,
    "cli/test_cli.py": 45,
    "cli/test_endings.py": 45,
    "cli/test_methods.py": 10,
    "cli/test_results.py": 20,
    "datasets/test_tables.py": 15,
    "distributed/test_chains.py": 20,
    "distributed/test_command.py": 15,
    "engines/test_balanced_kmeans.py": 30,
    "engines/test_big_learn.py": 95,
    "engines/test_blocks.py": 100,
    "engines/test_check_engine.py": 80,
    "engines/test_every_engine.py": 115,
    "engines/test_fair_mixture.py": 115,
    "engines/test_optimize.py": 30,
    "engines/test_sample_weight.py": 25,
    "engines/test_tilted_kmeans.py": 50,
    "engines/test_variational.py": 95,
    "estimators/test_after_sampling.py": 100,
    "estimators/test_bayesian_fair_mixture.py": 135,
    "estimators/test_gibbs_fair_clustering.py": 105,
    "estimators/test_labels_target.py": 20,
    "estimators/test_new_rows.py": 35,
    "estimators/test_pipelines.py": 20,
    "estimators/test_store.py": 30,
    "estimators/test_weights_and_categories.py": 45,
    "fairlets/test_rectangular_loop.py": 35,
    "fairness/test_balanced.py": 30,
    "gibbs/test_border.py": 110,
    "gibbs/test_check.py": 335,
    "gibbs/test_exactness.py": 250,
    "gibbs/test_float32.py": 30,
    "gibbs/test_jump_matrix.py": 245,
    "gibbs/test_labels_exactness.py": 125,
    "gibbs/test_labels_sampler.py": 45,
    "gibbs/test_losses.py": 15,
    "gibbs/test_mode_jumps.py": 180,
    "gibbs/test_mode_search.py": 75,
    "gibbs/test_parts_of_rows.py": 75,
    "gibbs/test_replicas.py": 120,
    "gibbs/test_sampler.py": 55,
    "gibbs/test_temperature.py": 45,
    "gibbs/test_threads.py": 50,
    "gibbs/test_toys.py": 160,
    "gibbs/test_uniforms.py": 30,
    "gibbs/test_warm_up.py": 25,
    "models/test_exchange.py": 300,
    "models/test_labels.py": 25,
    "models/test_mixtures.py": 120,
    "models/test_sparse.py": 115,
    "plots/test_pareto.py": 20,
    "posterior/test_arviz.py": 70,
    "posterior/test_parts_and_merges.py": 45,
    "test_compilations.py": 15,
    "test_progress.py": 35,
    "test_rows.py": 85,
}


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

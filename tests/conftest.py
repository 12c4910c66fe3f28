"""What every test shares: compiled programs."""

import os
from pathlib import Path

import jax
import pytest

COMPILED = Path(__file__).parents[1] / ".pytest_cache" / "compiled"
COMPILED_QUICKLY = {  # files of many programs that run for milliseconds: compiling them takes a third less time so
    "test_after_sampling.py",
    "test_arviz.py",
    "test_bayesian_fair_mixture.py",
    "test_chains.py",
    "test_every_engine.py",
    "test_gibbs_fair_clustering.py",
    "test_labels_target.py",
    "test_parts_and_merges.py",
}
MANY_MAPS = 10_000  # about a gigabyte; the largest modules add 9,000


def pytest_configure():
    """Workers, notebooks and commands, of this run and of later ones, compile a program once: JAX keeps it on disk.

    Its name there is a digest of the program, of JAX's version and of the processor: what has changed is compiled anew.
    """
    folder = os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(COMPILED))
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    jax.config.update("jax_compilation_cache_dir", folder)  # JAX may have read the environment before
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)


@pytest.fixture(scope="module", autouse=True)
def _compile_quickly(request):
    quickly = request.path.name in COMPILED_QUICKLY
    jax.config.update("jax_disable_most_optimizations", quickly)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module", autouse=True)
def _forget_compiled_programs():
    """A program in memory holds memory maps, of which Linux gives a process 65,530: past them XLA aborts."""
    yield
    maps = Path("/proc/self/maps")
    if not maps.exists() or maps.read_bytes().count(b"\n") > MANY_MAPS:
        jax.clear_caches()

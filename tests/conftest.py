"""What every test shares: compiled programs."""

import os
from pathlib import Path

import jax
import pytest

COMPILED = Path(__file__).parents[1] / ".pytest_cache" / "compiled"
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
def _forget_compiled_programs():
    """A program in memory holds memory maps, of which Linux gives a process 65,530: past them XLA aborts."""
    yield
    maps = Path("/proc/self/maps")
    if not maps.exists() or maps.read_bytes().count(b"\n") > MANY_MAPS:
        jax.clear_caches()

"""What every test shares."""

import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def _forget_compiled_programs():
    """A compiled program holds memory maps, of which Linux gives a process 65,530: past them XLA aborts, and the whole
    suite compiles that much in one worker."""
    yield
    jax.clear_caches()

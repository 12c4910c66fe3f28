"""One folder of compiled programs for all tests and workers of a run: most of the time goes to compiling the same ones."""

import os
import shutil
import tempfile

CACHE = "JAX_COMPILATION_CACHE_DIR"
_made = tempfile.mkdtemp(prefix="bayesfair-tests-") if CACHE not in os.environ else None
if _made is not None:  # before JAX is imported; workers of xdist and notebooks' processes inherit it
    os.environ[CACHE] = _made
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


def pytest_sessionfinish(session):
    if _made is not None:
        shutil.rmtree(_made, ignore_errors=True)

"""What every test shares: compiled programs, and how many there may be."""

import gc
import hashlib
import os
import platform
import time
from itertools import chain
from pathlib import Path

import jax
import jaxlib
import pytest
from programs import complaint

KEPT_FOR = 30 * 24 * 3600  # seconds that a compiled program is kept on disk
COMPILED_QUICKLY = {  # folders and files of many programs that run for milliseconds: compiling them takes a third less time so
    "cli",
    "estimators",
    "test_arviz.py",
    "test_big_learn.py",
    "test_chains.py",
    "test_check.py",
    "test_check_engine.py",
    "test_every_engine.py",
    "test_examples.py",
    "test_mini_batches.py",
    "test_parts_and_merges.py",
    "test_progress.py",
    "test_sample_weight.py",
    "test_tilted_kmeans.py",
    "test_variational.py",
}
MANY_MAPS = 10_000  # about a gigabyte; the largest modules add 9,000


def compiled_folder() -> Path:
    """Where compiled programs are kept: in the user's cache folder, for these versions of JAX and this processor's features;
    beside the tests where nobody may write there."""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    key = hashlib.sha256(f"{jax.__version__} {jaxlib.__version__} {features}".encode()).hexdigest()[:16]
    try:
        folder = (
            Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bayesfair" / "compiled-for-tests" / key
        )
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"written-by-{os.getpid()}").touch()
        (folder / f"written-by-{os.getpid()}").unlink()
    except (OSError, RuntimeError):  # no home, or none of one's own
        return Path(__file__).parents[1] / ".pytest_cache" / "compiled" / key
    return folder


def _digest_of_kernels() -> str:
    """Of the package's code: Numba compiles a kernel anew when its own file changes, but not when one does that it calls."""
    code = sorted(Path(__file__).parents[1].glob("bayesfair/**/*.py"))
    return hashlib.sha256(
        b"".join(
            path.read_bytes()
            for path in code
            if b"numba" in path.read_bytes() or b"compiled import" in path.read_bytes()
        )
    ).hexdigest()[:16]


def pytest_configure(config):
    """Workers, notebooks and commands, of this run and of later ones, compile a program once: JAX keeps it on disk."""
    folder = os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(compiled_folder()))
    if not hasattr(config, "workerinput"):
        for old in Path(folder).glob("*"):
            if old.is_file() and time.time() - old.stat().st_mtime > KEPT_FOR:
                old.unlink(missing_ok=True)
    os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(folder).parent / f"numba-{_digest_of_kernels()}"))
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    # A small program is compiled whole in less time than in 32 parts.
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_parallel_codegen_split_count=1".strip()
    gc.set_threshold(20_000, 20, 100)  # tracing makes many objects and few cycles
    jax.config.update("jax_traceback_in_locations_limit", 0)
    jax.config.update("jax_compilation_cache_dir", folder)  # JAX may have read the environment before
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)


class Programs:
    """Names of those that the fast tests of the file that runs had compiled."""

    compiled, counts = [], False


def pytest_sessionstart():
    from bayesfair._compilations import COMPILED

    def listen(event, duration, **about):
        if event == COMPILED and Programs.counts:
            Programs.compiled.append(about.get("fun_name", "without a name"))

    jax.monitoring.register_event_duration_secs_listener(listen)


def pytest_terminal_summary(terminalreporter):
    """What each tier costs: with two workers `make test` is to take ten minutes from an empty cache."""
    minutes = {False: 0.0, True: 0.0}
    for report in chain.from_iterable(terminalreporter.stats.values()):
        minutes["slow" in getattr(report, "keywords", ())] += getattr(report, "duration", 0.0) / 60
    terminalreporter.write_line(f"Minutes of workers: fast tests {minutes[False]:.1f}, slow ones {minutes[True]:.1f}.")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    Programs.counts = item.get_closest_marker("slow") is None


@pytest.fixture(scope="module", autouse=True)
def _few_programs(request):
    """A part of the file, or programs that are in memory from others, only lower the number: any order, any worker will do."""
    Programs.compiled.clear()
    yield
    if told := complaint(request.path, Programs.compiled):
        pytest.fail(told, pytrace=False)


@pytest.fixture(scope="module", autouse=True)
def _compile_quickly(request):
    """Processes that a test starts do so too: a program compiled otherwise rounds otherwise."""
    quickly = not COMPILED_QUICKLY.isdisjoint({request.path.name, request.path.parent.name})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", str(int(quickly)))
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

"""JAX's compilation cache in a folder of the package's own: a second process does not compile the same programs again."""

import hashlib
import os
import platform
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

FOLDER, LEAST_SECONDS = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
LARGEST = 500_000_000  # bytes of all entries, beyond which those that were not used for longest are deleted
WORTH_KEEPING = 0.1  # seconds that a program takes to compile; JAX's own limit is 1
CHECKED = "checked"  # a file as old as the last look for damaged entries

by_itself = False  # whether the first import of JAX enables the cache; the shell sets it


def enable_compilation_cache() -> Path | None:
    """Keep what JAX compiles on disk, so that a second process fits engines and models without compiling again.

    The folder lies in the user's cache folder. It is of one version of jaxlib and one kind of processor alone, and takes at
    most 500 MB. The shell calls this by itself. A folder that you have set, by JAX_COMPILATION_CACHE_DIR or
    `jax_compilation_cache_dir`, stays the one that is used.

    Returns
    -------
    pathlib.Path or None
        The folder that is used. None if none can be written; then every process compiles.

    Examples
    --------
    >>> import bayesfair as bf
    >>> folder = bf.enable_compilation_cache()
    """
    chosen = _chosen()
    if chosen:
        return Path(chosen)
    import pooch

    root = Path(pooch.os_cache("bayesfair")) / "compiled"
    folder = root / _key()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _drop_damaged(folder)
        _prune(root)
        (folder / CHECKED).touch()
    except OSError:
        return None
    os.environ[FOLDER] = str(folder)
    os.environ.setdefault(LEAST_SECONDS, str(WORTH_KEEPING))
    if "jaxlib" in sys.modules:  # which read the environment when it was imported
        _tell_jax(folder)
    return folder


def _chosen():
    """The folder that JAX uses already."""
    return sys.modules["jax"].config.jax_compilation_cache_dir if "jaxlib" in sys.modules else os.environ.get(FOLDER)


def _tell_jax(folder):
    from jax.experimental.compilation_cache import compilation_cache

    from bayesfair._jax import jax

    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", float(os.environ[LEAST_SECONDS]))
    compilation_cache.reset_cache()  # JAX decides at the first program whether it uses a cache


def _key():
    """The version of jaxlib and the processor: a program for another one may end the process."""
    cpu, names = Path("/proc/cpuinfo"), ("vendor_id", "cpu family", "model", "flags", "Features", "CPU ")
    lines = cpu.read_text().split("\n\n")[0].splitlines() if cpu.exists() else []
    known = [line for line in lines if line.startswith(names)] or [platform.processor(), platform.platform()]
    compression = f"{sys.version_info[:2]} {find_spec('zstandard') is not None}"  # of the entries
    digest = hashlib.sha256("\n".join([compression, platform.machine(), *known]).encode()).hexdigest()
    return f"jaxlib-{version('jaxlib')}-{digest[:16]}"


def _drop_damaged(folder):
    """Delete entries written since the last look that cannot be read: JAX would neither use nor replace them."""
    last = (folder / CHECKED).stat().st_mtime_ns if (folder / CHECKED).exists() else 0
    for entry in [path for path in folder.glob("*-cache") if path.stat().st_mtime_ns >= last]:
        if not _is_whole(entry):
            entry.unlink(missing_ok=True)


def _is_whole(entry):
    from jax._src.compilation_cache import decompress_executable

    import bayesfair._jax  # noqa: F401

    try:
        return bool(decompress_executable(entry.read_bytes()))
    except Exception:  # zlib, zstandard and compression.zstd have errors of their own
        return False


def _prune(root):
    """Delete the entries that were not used for longest, of any key, until the rest is small enough."""
    entries = [(path, path.stat()) for path in root.glob("*/*-cache")]
    total = sum(about.st_size for _, about in entries)
    for path, about in sorted(entries, key=lambda entry: max(entry[1].st_atime, entry[1].st_mtime)):
        if total <= LARGEST:
            break
        path.unlink(missing_ok=True)
        total -= about.st_size

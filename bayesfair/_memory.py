"""Memory and disk that are free, for what is predicted before it is taken, and memory given back."""

import ctypes
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

_CGROUPS = (  # of a container, in both versions: folder, limit, use, and what of it are files that are kept in memory
    ("/sys/fs/cgroup", "memory.max", "memory.current", "file"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"),
)


def free_memory():
    """Bytes that may be taken before the system swaps or kills, by what it says; None where it says nothing."""
    said = [_available(), *(_left(*where) for where in _CGROUPS)]
    return min((bytes_ for bytes_ in said if bytes_ is not None), default=None)


def free_disk(path):
    """Bytes that are free in the folder of `path`."""
    return shutil.disk_usage(Path(path).absolute().parent).free


def give_back_freed():
    """Memory of arrays that are no more goes back to the system, where the C library keeps it: glibc does, where they had less
    than 32 MB and others stand behind them."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def in_words(bytes_):
    """A number of bytes as people say it."""
    return f"{bytes_ / 1e9:,.1f} GB" if bytes_ >= 1e8 else f"{bytes_ / 1e6:,.1f} MB"


def _available():
    """What the kernel says, files that it only keeps in memory counted as free; physical memory on other systems."""
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def _left(folder, limit, used, files):
    folder = Path(folder)
    with suppress(OSError, ValueError, KeyError):  # no such file, or "max"
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return max(int((folder / limit).read_text()) - int((folder / used).read_text()) + int(stat[files]), 0)
    return None


def peak_memory():
    """The most bytes of memory that this process has held so far; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

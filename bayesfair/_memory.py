"""Free memory and disk space, for checks before work begins; and memory returned to the system."""

import ctypes
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

_CGROUPS = (  # of a container, in both versions: folder, limit, use, and the part of it that is cached files
    ("/sys/fs/cgroup", "memory.max", "memory.current", "file"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"),
)


def free_memory():
    """Bytes that can be allocated before the system swaps or kills, by its own account; None if it gives none."""
    said = [_available(), *(_left(*where) for where in _CGROUPS)]
    return min((bytes_ for bytes_ in said if bytes_ is not None), default=None)


def free_disk(path):
    """Free bytes in the folder of `path`."""
    return shutil.disk_usage(Path(path).absolute().parent).free


def give_back_freed():
    """Return freed memory to the operating system: glibc keeps freed blocks below 32 MB unless it is asked to trim."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def in_words(bytes_):
    """A number of bytes in words."""
    return f"{bytes_ / 1e9:,.1f} GB" if bytes_ >= 1e8 else f"{bytes_ / 1e6:,.1f} MB"


def _available():
    """The kernel's figure, with cached files counted as free; physical memory on other systems."""
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
    """The peak memory of this process so far, in bytes; 0 if the system does not report it."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

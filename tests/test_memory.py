"""What is free: by the kernel, and by the container where that has a limit."""

import platform
from pathlib import Path

import numpy as np
import pytest

from bayesfair import _memory


@pytest.fixture
def container(tmp_path, monkeypatch):
    def of(limit, used, files):
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "memory.current").write_text(f"{used}\n")
        (tmp_path / "memory.stat").write_text(f"anon 5\nfile {files}\n")
        monkeypatch.setattr(_memory, "_CGROUPS", [(tmp_path, "memory.max", "memory.current", "file")])

    return of


def test_a_container_has_what_its_limit_leaves_and_what_are_only_files(container, monkeypatch):
    monkeypatch.setattr(_memory, "_available", lambda: 1000)
    container(800, 700, 250)
    assert _memory.free_memory() == 350
    container(8000, 700, 0)
    assert _memory.free_memory() == 1000  # the machine has less
    container("max", 700, 0)
    assert _memory.free_memory() == 1000
    monkeypatch.setattr(_memory, "_available", lambda: None)
    assert _memory.free_memory() is None


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries give memory back by themselves")
def test_memory_of_arrays_that_are_no_more_is_given_back():
    arrays = [np.ones(8_000) for _ in range(1_000)]  # 64 MB, and the last one stays
    arrays = arrays[-1:]
    before = anonymous()
    _memory.give_back_freed()
    assert before - anonymous() > 4e7
    assert arrays[0].all()


def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def test_this_machine_has_some_of_both(tmp_path):
    assert _memory.free_memory() > 1e6
    assert _memory.free_disk(tmp_path / "run.nc") > 1e6
    assert (_memory.in_words(2.5e9), _memory.in_words(3e6)) == ("2.5 GB", "3.0 MB")

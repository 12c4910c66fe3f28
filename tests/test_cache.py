"""JAX's compilation cache: whose folder is used, what is kept in it, and a damaged entry."""

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import bayesfair as bf
from bayesfair import _cache


@pytest.fixture
def unset(monkeypatch, tmp_path):
    """A process in which no folder is set, and a cache folder of its own."""
    monkeypatch.setattr(_cache, "_chosen", lambda: None)
    monkeypatch.setattr(_cache, "_tell_jax", lambda folder: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in (_cache.FOLDER, _cache.LEAST_SECONDS):
        monkeypatch.setenv(name, "")  # undone after the test
        monkeypatch.delenv(name)
    return tmp_path


def test_a_folder_that_is_set_stays_the_one_that_is_used(monkeypatch):
    before = os.environ[_cache.FOLDER]  # by conftest.py
    assert bf.enable_compilation_cache() == Path(before)
    assert os.environ[_cache.FOLDER] == before
    import jax

    assert jax.config.jax_compilation_cache_dir == before


def test_the_folder_is_of_one_processor_and_old_entries_make_room(unset, monkeypatch):
    folder = bf.enable_compilation_cache()
    assert folder.is_relative_to(unset)
    assert os.environ[_cache.FOLDER] == str(folder)
    monkeypatch.setattr(_cache.platform, "machine", lambda: "another")
    assert bf.enable_compilation_cache().name != folder.name
    for age, name in enumerate(("new", "old", "older")):
        (folder / f"{name}-cache").write_bytes(zlib.compress(os.urandom(1000)))
        os.utime(folder / f"{name}-cache", (1e9 - age, 1e9 - age))
    monkeypatch.setattr(_cache, "LARGEST", 2_500)
    bf.enable_compilation_cache()  # by the other processor
    assert {path.name for path in folder.glob("*-cache")} == {"new-cache", "old-cache"}


def test_entries_that_cannot_be_read_are_deleted(unset):
    folder = bf.enable_compilation_cache()
    whole = zlib.compress(os.urandom(1000))
    (folder / "whole-cache").write_bytes(whole)
    (folder / "half-cache").write_bytes(whole[:500])
    bf.enable_compilation_cache()
    assert {path.name for path in folder.glob("*-cache")} == {"whole-cache"}


def test_a_folder_that_cannot_be_written_is_none(unset, monkeypatch):
    (unset / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(unset / "file"))
    assert bf.enable_compilation_cache() is None
    assert _cache.FOLDER not in os.environ


FIT = """
import numpy as np
import bayesfair as bf
import jax
jax.jit(lambda x: x + 1)(1.0)  # JAX may have compiled before
bf.enable_compilation_cache()
X = np.random.default_rng(0).normal(size=(60, 2)) + 4 * (np.arange(60) % 2)[:, None]
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if "cache_hits" in event else None)
est = bf.FairMixture(2, fairness_weight=0.1, random_state=0).fit(X, sensitive_features=np.arange(60) // 2 % 2)
print(len(hits), est.labels_.tolist())
"""


@pytest.mark.slow
def test_a_second_process_takes_the_programs_of_the_first_and_a_damaged_entry_is_compiled_anew(tmp_path):
    unset = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    unset |= {"XDG_CACHE_HOME": str(tmp_path), _cache.LEAST_SECONDS: "0"}  # whatever the clock says

    def fit():
        call = [sys.executable, "-W", "error::UserWarning", "-c", FIT]
        done = subprocess.run(call, capture_output=True, text=True, env=unset)
        assert done.returncode == 0, done.stderr[-2000:]
        hits, labels = done.stdout.split(" ", 1)
        return int(hits), labels

    (none, labels), (hits, again) = fit(), fit()
    assert none == 0 < hits
    assert again == labels
    damaged = sorted(tmp_path.rglob("*-cache"))
    for entry in damaged:
        entry.write_bytes(entry.read_bytes()[:-20])
    assert fit() == (0, labels)
    assert sorted(tmp_path.rglob("*-cache")) == damaged
    assert fit() == (hits, labels)


def test_the_shell_uses_it_where_jax_is_imported_and_only_there(tmp_path):
    unset = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    unset |= {"XDG_CACHE_HOME": str(tmp_path)}
    begin = (
        "from bayesfair.cli.entry import main; main(['check', 'missing.csv', '--clusters', 'a', '--sensitive', 'b'])"
    )

    def folders(then):
        subprocess.run([sys.executable, "-c", begin + then], env=unset, check=True, capture_output=True)
        return list((tmp_path / "bayesfair" / "compiled").glob("*"))

    assert not folders("")
    assert len(folders("; import bayesfair.models")) == 1

"""Files: everything comes back, damage is told, and a write that fails or is killed loses nothing."""

import hashlib
import importlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from draws import draws_of

from bayesfair._files import check_destination
from bayesfair.posterior import files, read_tree, write_tree
from bayesfair.posterior.tree import build_tree

ROOT = Path(__file__).parents[2]


@pytest.fixture
def saved(tmp_path):
    """A tree with groups, density and a sampler's state, and the file it was written to."""
    rng = np.random.default_rng(1)
    draws = draws_of(rng.integers(3, size=(2, 40, 8)).astype(np.int8), lp=rng.normal(size=(2, 40)))
    tree = build_tree(draws, rng.normal(size=(8, 2)), list("abcabcab"), facts={"loss": "kmeans"}, n_clusters=3)
    state = {"key": ("word", np.array([1, 2**32 - 1], np.uint32)), "step": 7, "flag": ("word", np.array([True, False]))}
    tree["sampler_state"] = xr.DataTree(xr.Dataset(state))
    write_tree(tree, tmp_path / "run.nc")
    return tree, tmp_path / "run.nc"


def names_beside(path):
    return sorted(entry.name for entry in path.parent.iterdir())


def run_python(code, *arguments):
    """The finished process of `code` in a new interpreter, its text on standard output and error."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_files_bring_back_every_group_value_type_and_attribute(saved):
    tree, path = saved
    again = read_tree(path)
    xr.testing.assert_identical(again, tree)
    for node in tree.subtree:
        for name, values in node.data_vars.items():
            assert again[node.path][name].dtype == values.dtype, name
    assert names_beside(path) == ["run.nc"]


LACKED = [  # by netCDF: an attribute's value, and the text that is stored for it
    (None, "null"),
    (True, "true"),
    (np.bool_(False), "false"),
    ({"a": [1, None]}, '{"a": [1, null]}'),
    ([1, "a"], '[1, "a"]'),
    ([[1], [2, 3]], "[[1], [2, 3]]"),
    (pd.Timestamp("2020-01-02"), '"2020-01-02 00:00:00"'),
    (np.datetime64("2020-01-02"), '"2020-01-02"'),
    ("a\0b", '"a\\u0000b"'),
    ("\ud800", '"\\ud800"'),
    ({1, 2}, '"{1, 2}"'),
    ({(1, 2): 3}, "{(1, 2): 3}"),
]


@pytest.mark.parametrize("place", ["/", "/sample_stats/lp"])
def test_attributes_that_netcdf_lacks_lose_no_draws(saved, tmp_path, place):
    tree = saved[0].copy(deep=True)
    owner = tree if place == "/" else tree[place]
    odd = {f"mine {number}": value for number, (value, _) in enumerate(LACKED)}
    owner.attrs |= {**odd, "kept": ["a", "b"], "number": 2.5}
    with pytest.warns(UserWarning, match=rf"stored as text: .*'mine 0' of {place}"):
        write_tree(tree, tmp_path / "odd.nc")
    again = read_tree(tmp_path / "odd.nc")
    attrs = (again if place == "/" else again[place]).attrs
    assert [attrs[name] for name in odd] == [stored for _, stored in LACKED]
    assert (list(attrs["kept"]), attrs["number"]) == (["a", "b"], 2.5)
    xr.testing.assert_equal(again, tree)
    assert all(owner.attrs[name] is value for name, value in odd.items())  # the user's own tree stays


def test_attributes_whose_name_netcdf_lacks_lose_no_draws(saved, tmp_path):
    tree = saved[0].copy(deep=True)
    tree.attrs |= {1: 1, "": 1, "a\0b": 1, "\ud800": 1}
    with pytest.warns(UserWarning, match="left out"):
        write_tree(tree, tmp_path / "odd.nc")
    again = read_tree(tmp_path / "odd.nc")
    xr.testing.assert_equal(again, tree)
    assert set(again.attrs) == set(saved[0].attrs)


def test_other_programs_read_the_file_and_what_they_write_is_taken_in(saved, tmp_path):
    tree, path = saved
    with xr.open_datatree(path, engine="h5netcdf") as file:
        theirs = file.load()
    xr.testing.assert_identical(theirs, tree)
    xr.testing.assert_identical(az.from_netcdf(path), tree)
    theirs.to_netcdf(tmp_path / "theirs.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match=r"written by another program.*use write_tree\(xarray.open_datatree"):
        read_tree(tmp_path / "theirs.nc")
    with xr.open_datatree(tmp_path / "theirs.nc", engine="h5netcdf") as file:
        write_tree(file.load(), tmp_path / "ours.nc")
    xr.testing.assert_identical(read_tree(tmp_path / "ours.nc"), tree)


def test_a_file_becomes_a_zarr_folder_and_the_other_way_round(saved, tmp_path):
    tree, path = saved
    write_tree(read_tree(path), tmp_path / "run.zarr")
    write_tree(read_tree(tmp_path / "run.zarr"), tmp_path / "again.nc")
    for made in (read_tree(tmp_path / "run.zarr"), read_tree(tmp_path / "again.nc")):
        xr.testing.assert_identical(made, tree)
    with pytest.raises(FileExistsError, match="`path` must name a folder that does not exist yet"):
        write_tree(tree, tmp_path / "run.zarr")
    theirs = xr.open_datatree(tmp_path / "run.zarr", engine="zarr")
    assert theirs["posterior"].to_dataset().equals(tree["posterior"].to_dataset())
    tree.to_zarr(tmp_path / "theirs.zarr", zarr_format=3, consolidated=False)
    with pytest.raises(ValueError, match=r"written by another program, whose trees write_tree imports"):
        read_tree(tmp_path / "theirs.zarr")


def test_no_damage_is_silent_or_raw_and_without_the_checksum_a_flipped_bit_is(saved, monkeypatch):
    """A bit of `lp`, and three damages of each kind of benchmarks/damaged_files.py."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    benchmark, rng = importlib.import_module("damaged_files"), np.random.default_rng(0)
    tree, path = saved
    whole = path.read_bytes()
    for damage in 3 * benchmark.DAMAGES:
        path.write_bytes(damage(rng, whole))
        assert benchmark.read(path, tree) in ("refused", "harmless"), damage
    start = whole.index(tree["sample_stats"]["lp"].values.tobytes())
    path.write_bytes(whole[: start + 9] + bytes([whole[start + 9] ^ 1]) + whole[start + 10 :])
    with pytest.raises(ValueError, match=r"run\.nc' cannot be read as a saved posterior: it is damaged.*fit and save"):
        read_tree(path)
    monkeypatch.setattr(files, "read_tree", benchmark.open_unchecked)
    assert benchmark.read(path, tree) == "silent"


DAMAGES = [
    (lambda whole: whole[:-1], "no checksum at its end"),
    (lambda whole: whole[: len(whole) // 2], "no checksum at its end"),
    (lambda whole: whole + b"\n", "no checksum at its end"),
    (lambda whole: b"", "no checksum at its end"),
    (lambda whole: whole + whole, "its checksum is wrong"),
    (lambda whole: whole[:-2] + b"z\n", "its checksum is wrong"),
    (lambda whole: whole[-90:], "its checksum is wrong"),
    (lambda whole: whole[:500] + b"?" + whole[501:], "its checksum is wrong"),
]


def test_nothing_parses_files_that_are_cut_off_appended_to_or_changed(saved, monkeypatch):
    """One copied block sent HDF5 into a loop of minutes: it must not see damaged bytes at all."""
    _, path = saved
    whole = path.read_bytes()
    monkeypatch.setattr(xr, "open_datatree", lambda *_, **__: pytest.fail("parsed a damaged file"))
    for change, text in DAMAGES:
        path.write_bytes(change(whole))
        with pytest.raises(ValueError, match=rf"run\.nc' cannot be read as a saved posterior.*{text}"):
            read_tree(path)


def test_files_that_are_missing_or_hold_something_else_are_told(tmp_path):
    write_tree(xr.DataTree(xr.Dataset({"labels": ("x", [1, 2])})), tmp_path / "other.nc")
    with pytest.raises(ValueError, match=r"other\.nc' holds data but not a saved posterior"):
        read_tree(tmp_path / "other.nc")
    (tmp_path / "made up.nc").write_bytes(b"HDF" + files._trailer(hashlib.sha256(b"HDF")))
    with pytest.raises(ValueError, match="cannot be read as a saved posterior, though its checksum is right"):
        read_tree(tmp_path / "made up.nc")
    (tmp_path / "old.nc").write_bytes(b"bayesfair run that is not finished, format 1\n" + bytes(100))
    with pytest.raises(ValueError, match=r"old\.nc' cannot be read .* did not finish can be finished by that version"):
        read_tree(tmp_path / "old.nc")
    with pytest.raises(FileNotFoundError, match=r"no file .*nothing\.nc"):
        read_tree(tmp_path / "nothing.nc")
    with pytest.raises(IsADirectoryError, match="`path` must be a file that can be read"):
        read_tree(tmp_path)


DESTINATIONS = [
    ("", ValueError, "`path` must name a file, got ''"),
    ("folder", IsADirectoryError, r"got the folder '.*folder'\. Name a file in it"),
    ("missing/run.nc", FileNotFoundError, "There is no folder '.*missing'. Make it first"),
    ("file/run.nc", FileNotFoundError, "There is no folder '.*file'"),
    ("n" * 300, OSError, "`path` must be a file that can be written, got '.*name too long"),
    ("a\0b", ValueError, "`path` must be a file that can be written"),
    ("/dev/null", OSError, "`path` must name an ordinary file, got '/dev/null'"),
]


def test_destinations_are_checked_before_anything_is_written(saved, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    before = names_beside(tmp_path / "file")
    for name, error, text in DESTINATIONS:
        for attempt in (check_destination, lambda path: write_tree(saved[0], path)):
            with pytest.raises(error, match=text) as told:
                attempt(name and tmp_path / name)
            assert ".part" not in str(told.value)
    assert names_beside(tmp_path / "file") == before


def test_a_folder_that_may_not_be_written_to_is_told(tmp_path, monkeypatch):
    assert check_destination(tmp_path / "run.nc") == tmp_path / "run.nc"
    monkeypatch.setattr(os, "access", lambda *_: False)  # as root every folder may be written to
    with pytest.raises(PermissionError, match=r"`path` must be in a folder that you may write to, got '.*run\.nc'"):
        check_destination(tmp_path / "run.nc")


def test_a_new_file_has_the_permissions_of_any_other_and_an_earlier_one_keeps_its_own(saved, tmp_path):
    tree, path = saved
    (tmp_path / "plain").touch()
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode
    path.chmod(0o600)  # the file holds the data
    write_tree(tree, path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_run_behind_a_symbolic_link_is_written_and_the_link_stays(saved, tmp_path):
    tree, path = saved
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    latest, new = folder / "latest.nc", folder / "new.nc"
    latest.symlink_to(path)
    new.symlink_to("../not-yet.nc")
    for link, target in ((latest, path), (new, tmp_path / "not-yet.nc")):
        tree.attrs["written_to"] = link.name
        write_tree(tree, link)
        assert link.is_symlink()
        assert read_tree(target).attrs["written_to"] == link.name
    assert sorted(entry.name for entry in folder.iterdir()) == ["latest.nc", "new.nc"]
    (folder / "nowhere.nc").symlink_to("missing/run.nc")
    with pytest.raises(FileNotFoundError, match=r"There is no folder '.*missing'"):
        write_tree(tree, folder / "nowhere.nc")


@pytest.mark.parametrize("ending", [".nc", ".zarr"])
def test_a_run_without_all_of_its_draws_says_so_in_memory_and_in_files(tmp_path, ending):
    draws = draws_of(np.zeros((2, 40, 8), np.int8))
    for wanted, said in ((100, "40 of 100 draws per chain"), (40, None)):
        tree = build_tree(draws, np.eye(8), None, facts={"n_draws_wanted": wanted}, n_clusters=3)
        write_tree(tree, tmp_path / f"{wanted}{ending}")
        for one in (tree, read_tree(tmp_path / f"{wanted}{ending}")):
            assert one.attrs.get("unfinished") == said


def test_a_failed_write_leaves_the_old_file_alone(saved, monkeypatch):
    tree, path = saved
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patched:
            patched.setattr(os, step, full)
            with pytest.raises(
                OSError, match=r"got '.*/run\.nc' \(No space left on device\).*nothing in memory is lost"
            ):
                write_tree(tree, path)
        assert path.read_bytes() == before
        assert names_beside(path) == ["run.nc"]


FAILED_WRITES = """
import gc, os, resource, signal, sys
from bayesfair.posterior import files, read_tree, write_tree
path, damaged = sys.argv[1:]
tree = read_tree(path)
few = tree.isel(draw=slice(9))
write_tree(few, path)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
try:
    write_tree(tree, path)
except OSError as error:
    print(error, flush=True)
assert read_tree(path).identical(few)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
write_tree(tree, path)
assert read_tree(path).identical(tree)
odd = tree.copy()
odd["posterior"]["unsaveable"] = ("obs", [{}] * odd["posterior"].sizes["obs"])
for attempt in (lambda: write_tree(odd, path), lambda: read_tree(damaged)):
    try:
        attempt()
    except ValueError as error:
        print("ValueError", flush=True)
    gc.collect()
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
class Dying:
    def __buffer__(self, flags):
        die()
files._trailer = lambda body: Dying()
write_tree(few, path)
"""


def test_a_full_disk_what_cannot_be_saved_and_a_kill_while_saving_lose_nothing(tmp_path):
    """HDF5 ended the process with a segmentation fault when it wrote to a full disk itself, and closing a half-written or
    unreadable file at garbage collection put h5netcdf's own errors on the screen."""
    labels = np.random.default_rng(0).integers(2, size=(2, 500, 400)).astype(np.int8)
    tree = build_tree(draws_of(labels), np.zeros((400, 2)), None, n_clusters=2)
    write_tree(tree, tmp_path / "run.nc")
    before = (tmp_path / "run.nc").read_bytes()
    (tmp_path / "damaged.nc").write_bytes(before[:300] + b"?" * 900 + before[1200:])
    done = run_python(FAILED_WRITES, tmp_path / "run.nc", tmp_path / "damaged.nc")
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, "")
    assert re.search(r"got '.*run\.nc' \(File too large\)\. An earlier file there is unchanged", done.stdout)
    assert done.stdout.count("ValueError") == 2
    xr.testing.assert_identical(read_tree(tmp_path / "run.nc"), tree)
    (left,) = set(names_beside(tmp_path / "run.nc")) - {"damaged.nc", "run.nc"}
    with pytest.warns(UserWarning, match=rf"writing was cut off: .*{re.escape(left)}\. Delete them") as told:
        write_tree(tree, tmp_path / "run.nc")
    assert told[0].filename == __file__
    (tmp_path / left).unlink()
    write_tree(tree, tmp_path / "run.nc")


def test_a_tilde_is_the_home_folder(saved, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write_tree(saved[0], "~/mine.nc")
    write_tree(saved[0], "~/mine.zarr")
    assert {"mine.nc", "mine.zarr"} <= set(names_beside(saved[1]))
    for name in ("~/mine.nc", "~/mine.zarr"):
        xr.testing.assert_equal(read_tree(name)["posterior"].to_dataset().load(), saved[0]["posterior"].to_dataset())

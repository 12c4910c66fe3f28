"""Draws that go to a file as they are made: the same posterior, readable at any time, resumed bit for bit after any end."""

import errno
import os
import shutil
from collections import Counter

import numpy as np
import pytest
import xarray as xr
from zarr.storage import LocalStore

import bayesfair as bf
from bayesfair.estimators import GibbsFairClustering
from bayesfair.estimators import base as memory
from bayesfair.estimators import gibbs_fair_clustering as module
from bayesfair.posterior import read_tree
from bayesfair.posterior import store as stores
from bayesfair.posterior.store import is_stored
from bayesfair.posterior.zarr_folder import read_root
from bayesfair.reports import pictures

SHORT = {"num_chains": 2, "num_warmup": 6, "num_draws": 40, "modes": None, "random_state": 0, "progress_bar": False}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few draws


COST = "sampling_time", "peak_memory"


def fit(data, store=None, **settings):
    est = GibbsFairClustering(2, **{**SHORT, **settings})
    return est.fit(data.features, sensitive_features=data.sensitive, store=store)


@pytest.fixture(scope="module")
def whole(data):
    """The tree of a run of these settings."""
    return fit(data).posterior_


def same_tree(one, other):
    """The same posterior, sampler's state and settings; ArviZ stamps trees with the time."""
    assert one.attrs == other.attrs
    plain = [
        xr.DataTree.from_dict({n.path: n.to_dataset(inherit=False).drop_attrs() for n in tree.subtree})
        for tree in (one, other)
    ]
    xr.testing.assert_identical(*plain)
    for group in ("posterior", "sample_stats"):
        for name, values in one[group].data_vars.items():
            assert values.dtype == other[group][name].dtype, name
            assert values.attrs == other[group][name].attrs, name


def page(tree, folder):
    """The report, without the time at which the tree was made, and what that took."""
    tree = tree.copy()
    for node in tree.subtree:
        node.attrs = {name: value for name, value in node.attrs.items() if name not in ("created_at", *COST)}
    return bf.report(tree, folder / "page.html").read_text()


def unfinished(data, store, monkeypatch, **settings):
    """A run whose end was cut off after its draws."""

    def cut_off(*_):
        raise RuntimeError("cut off")

    with monkeypatch.context() as patched:
        patched.setattr(stores.StoredRun, "finish", cut_off)
        with pytest.raises(RuntimeError, match="cut off"):
            fit(data, store, **settings)


@pytest.mark.slow
def test_a_stored_fit_is_the_fit_in_memory_and_goes_on_like_it(data, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "render", lambda *_: (b"", ""))
    store = tmp_path / "run.zarr"
    stored, plain = fit(data, store), fit(data)
    assert is_stored(stored.posterior_)
    assert not is_stored(plain.posterior_)
    seconds = [0.0, 0.0]
    for more in (7, None):
        costs = [fit.posterior_["sample_stats"].attrs for fit in (stored, plain)]
        assert all(set(COST) <= set(cost) and cost["peak_memory"] > 1e8 for cost in costs)
        before, seconds = seconds, [cost["sampling_time"] for cost in costs]
        assert all(now > then for now, then in zip(seconds, before))  # of all runs so far
        same_tree(stored.posterior_, plain.posterior_)
        for name in ("labels_", "misclassification_probability_", "cluster_centers_"):
            np.testing.assert_array_equal(getattr(stored, name), getattr(plain, name), err_msg=name)
        with xr.open_datatree(store, engine="zarr") as theirs:  # what other programs read
            for group in ("posterior", "sample_stats", "observed_data", "constant_data"):
                assert theirs[group].to_dataset().equals(plain.posterior_[group].to_dataset()), group
        loaded = GibbsFairClustering.load(store)
        same_tree(loaded.posterior_, plain.posterior_)
        stored, plain = loaded.resume(more), plain.resume(more)
    assert [path.name for path in tmp_path.iterdir()] == ["run.zarr"]
    assert page(stored.posterior_, tmp_path) == page(plain.posterior_, tmp_path)
    stored.save(tmp_path / "copy.nc")
    same_tree(GibbsFairClustering.load(tmp_path / "copy.nc").resume(3).posterior_, plain.resume(3).posterior_)


def test_what_is_there_at_any_moment_lacks_no_finished_chunk_and_no_bit(data, whole, tmp_path, monkeypatch):
    """What others read, and what `kill -9` leaves: copies of the folder within its writes and before the steps of its end.

    tests/cli/test_endings.py has a real one."""
    store, copies, calls = tmp_path / "run.zarr", [], Counter()

    def copied_before(step, every):
        real = getattr(stores, step)

        def then(*arguments):
            if (store / "zarr.json").exists() and calls[step] % every == 0:
                copies.append((step, read_root(store)[1]["draws"], tmp_path / f"{len(copies)}.zarr"))
                shutil.copytree(store, copies[-1][-1])
            calls[step] += 1
            return real(*arguments)

        patched.setattr(stores, step, then)

    with monkeypatch.context() as patched:
        for step, every in {"_extend": 8, "write_root": 2, "_fill": 1, "delete_chunks": 1}.items():
            copied_before(step, every)
        fit(data, store)
    assert len({done for _, done, _ in copies}) > 2
    assert Counter(step for step, *_ in copies) >= Counter(_extend=3, write_root=2, _fill=1, delete_chunks=1)
    for step, done, copy in copies:
        tree, first = read_tree(copy), whole.isel(draw=slice(done))
        if step == "delete_chunks":
            same_tree(tree, whole)
            continue
        assert (tree.attrs["unfinished"], tree["posterior"].sizes["draw"]) == (f"{done} of 40 draws per chain", done)
        with xr.open_datatree(copy, engine="zarr") as theirs:
            assert theirs.attrs["draws"] == done
            for made in (tree, theirs):
                for group, name in (("sample_stats", "lp"), ("posterior", "lambda_c")):
                    np.testing.assert_array_equal(made[group][name], first[group][name])
        np.testing.assert_array_equal(bf.posterior.co_clustering(tree), bf.posterior.co_clustering(first))
    copy = next(path for step, done, path in copies if step == "_extend" and done > 1)
    same_tree(GibbsFairClustering.load(copy).resume().posterior_, whole)


@pytest.mark.slow
def test_a_run_that_is_not_finished_is_a_tree_like_any_other(data, whole, tmp_path, monkeypatch):
    """All its draws are there, so that every summary is that of the finished one."""
    unfinished(data, tmp_path / "run.zarr", monkeypatch)
    tree = read_tree(tmp_path / "run.zarr")
    assert tree.attrs.pop("unfinished") == "40 of 40 draws per chain"
    for summary in (bf.posterior.summary, bf.posterior.modes, bf.posterior.co_clustering):
        np.testing.assert_array_equal(summary(tree), summary(whole))
    other = bf.posterior.map_partition(whole)
    for group in ("posterior", "constant_data"):
        assert bf.posterior.relabel(tree, other)[group].equals(bf.posterior.relabel(whole, other)[group])
    bf.posterior.write_tree(tree, tmp_path / "copy.nc")
    same_tree(read_tree(tmp_path / "copy.nc"), whole)


def test_ctrl_c_keeps_the_draws_and_resume_makes_the_others(data, whole, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(module.Chains, "draws", interrupted_after(20))
        with pytest.warns(RuntimeWarning, match=r"kept the \d+ of 40 draws"):
            est = fit(data, tmp_path / "run.zarr")
    done = est.posterior_["posterior"].sizes["draw"]
    assert 20 <= done < 40
    assert est.posterior_.attrs["unfinished"] == f"{done} of 40 draws per chain"
    same_tree(est.resume().posterior_, whole)


def interrupted_after(least):
    """`Chains.draws` with Ctrl-C once so many draws are made after the warm-up."""
    draws, made = module.Chains.draws, []

    def then(chains, n_draws, thinning):
        if sum(made) >= SHORT["num_warmup"] // 2 + least:
            raise KeyboardInterrupt
        made.append(n_draws)
        return draws(chains, n_draws, thinning)

    return then


def test_a_store_that_is_there_is_refused_and_left_alone(data, tmp_path):
    store = tmp_path / "run.zarr"
    store.write_text("precious")
    with pytest.raises(
        FileExistsError, match=r"`store` must name a folder that does not exist yet.*load\(path\)\.resume\(\)"
    ):
        fit(data, store)
    assert store.read_text() == "precious"
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        fit(data, tmp_path / "nowhere" / "run.zarr")


def test_a_full_disk_is_told_and_the_run_goes_on_from_what_it_holds(data, whole, tmp_path, monkeypatch):
    store, put, written = tmp_path / "run.zarr", LocalStore.set, []

    async def full(*arguments):
        written.append(arguments)
        if len(written) > room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return await put(*arguments)

    for room in (3, 150):  # not even for the first draws
        with monkeypatch.context() as patched:
            patched.setattr(LocalStore, "set", full)
            with pytest.raises(OSError, match=r"No space"):
                fit(data, store)
        assert [path.name for path in tmp_path.iterdir()] == ["run.zarr"] * (room == 150)
    assert 0 < read_tree(store)["posterior"].sizes["draw"] < 40
    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "set", full)
        with pytest.raises(OSError, match=r"No space.*it holds \d+ draws.*resume\(\)"):
            GibbsFairClustering.load(store).resume()
        patched.setattr(stores, "_fill", lambda *_: full_disk())
        patched.setattr(LocalStore, "set", put)
        with pytest.raises(OSError, match=r"No space.*it holds 40 draws.*resume\(\)"):
            GibbsFairClustering.load(store).resume()  # its draws are made, and are there
    assert read_tree(store).attrs["unfinished"] == "40 of 40 draws per chain"
    same_tree(GibbsFairClustering.load(store).resume().posterior_, whole)


def full_disk():
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_run_that_may_not_be_written_to_or_whose_table_is_another_is_told(data, tmp_path, monkeypatch):
    est = fit(data, tmp_path / "run.zarr", num_draws=1)
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda *_: False)  # as root every folder may be written to
        with pytest.raises(PermissionError, match=r"`path` must be a run that you may write to"):
            est.resume(3)
        with pytest.raises(PermissionError, match=r"`path` must be in a folder that you may write to"):
            fit(data, tmp_path / "new.zarr")
    est.posterior_["observed_data"]["X"] = est.posterior_["observed_data"]["X"] + 1.0
    with pytest.raises(ValueError, match="`X` must be unchanged since the fit"):
        est.resume(2)


@pytest.mark.slow
def test_two_processes_do_not_write_to_one_run(data, tmp_path, monkeypatch):
    store = tmp_path / "run.zarr"
    unfinished(data, store, monkeypatch)
    one, two = GibbsFairClustering.load(store), GibbsFairClustering.load(store)
    writing = stores.continue_run(store)
    with pytest.raises(BlockingIOError, match=r"no process is working on.*read_tree"):
        one.resume()
    writing.close()
    one.resume()
    with pytest.raises(ValueError, match=r"`store` must be unchanged since it was read.*Load it again"):
        two.resume()
    with pytest.raises(ValueError, match=r"written to since it was read.*Load it again"):
        bf.posterior.summary(two.posterior_)


@pytest.mark.slow
def test_what_an_estimator_does_to_its_own_run_is_not_taken_for_anothers(data, tmp_path, monkeypatch):
    """Begun to be gone on with and interrupted before the first draws: the file has what the estimator has."""
    est, plain = fit(data, tmp_path / "run.zarr"), fit(data)
    with pytest.raises(FileExistsError, match="`path` must name a folder that does not exist yet"):
        est.save(tmp_path / "run.zarr")
    same_tree(est.resume(3).posterior_, plain.resume(3).posterior_)
    with monkeypatch.context() as patched:
        patched.setattr(module, "draw", interrupted)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                est.resume(5)
    same_tree(est.resume(5).posterior_, plain.resume(5).posterior_)
    with monkeypatch.context() as patched:
        patched.setattr(stores.StoredRun, "finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            est.resume(5)
    with pytest.raises(ValueError, match="Load it again"):
        est.resume(5)  # from before its draws
    assert GibbsFairClustering.load(tmp_path / "run.zarr").resume().posterior_["posterior"].sizes["draw"] == 53


def interrupted(*_, **__):
    raise KeyboardInterrupt


def test_a_file_that_appears_during_the_warm_up_is_left_alone(data, tmp_path, monkeypatch):
    store, warm_up = tmp_path / "run.zarr", module.warm_up

    def meanwhile(*arguments):
        store.write_text("precious")
        return warm_up(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(module, "warm_up", meanwhile)
        with pytest.raises(FileExistsError, match="`store` must name a folder that does not exist yet"):
            fit(data, store)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["precious"]


@pytest.mark.slow
def test_a_run_whose_folder_was_replaced_does_not_end_with_the_draws_of_another(data, tmp_path, monkeypatch):
    store, other, draw = tmp_path / "run.zarr", tmp_path / "other.zarr", module.draw
    unfinished(data, other, monkeypatch, random_state=1)
    whole = read_tree(other).load()

    def then_replaced(*arguments):
        draw(*arguments)
        shutil.rmtree(store)
        other.rename(store)

    monkeypatch.setattr(module, "draw", then_replaced)
    with pytest.raises(FileNotFoundError, match=r"`store` must stay in its place until the run is finished"):
        fit(data, store)
    same_tree(read_tree(store).load(), whole)


def test_damage_is_told_wherever_it_is(data, tmp_path, monkeypatch):
    """Nothing of a run whose bytes have changed is taken for a draw: one bit of every chunk and of the root, one by one."""
    store, rng = tmp_path / "run.zarr", np.random.default_rng(0)
    unfinished(data, store, monkeypatch)
    chunks = [path for path in store.rglob("*") if path.is_file() and path.name != "zarr.json"]
    assert len(chunks) > 30
    for file in [*chunks, *[store / "zarr.json"] * 10]:
        whole = file.read_bytes()
        at = rng.integers(len(whole))
        for damaged in (whole[:at] + bytes([whole[at] ^ 1 << rng.integers(8)]) + whole[at + 1 :], whole[:at], None):
            file.unlink() if damaged is None else file.write_bytes(damaged)
            if file.name == "zarr.json" and damaged is None:
                continue
            with pytest.raises(ValueError, match=r"run\.zarr' cannot be read as a saved posterior.*Restore it") as told:
                read_tree(store)
            assert file.name in str(told.value)
        file.write_bytes(whole)
    assert read_tree(store)["posterior"].sizes["draw"] == 40


def test_more_draws_than_there_is_room_for_are_refused_before_sampling(data, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_LARGE", 0)
    monkeypatch.setattr(memory, "free_memory", lambda: 60_000.0)
    monkeypatch.setattr(module, "starts_of", lambda *_: pytest.fail("went on"))
    with pytest.raises(ValueError, match=r"fit into the 0\.1 MB that the memory has free, got 2 chains of 1,000 draws of "
                       r"100 rows, which take 0\.6 MB\. Pass fit\(\.\.\., store='run\.zarr'\)"):  # fmt: skip
        fit(data, num_draws=1000)
    monkeypatch.setattr(memory, "free_memory", lambda: None)  # nobody knows
    monkeypatch.setattr(memory, "free_disk", lambda path: 100_000)
    with pytest.raises(ValueError, match=r"that the disk of '.*run\.zarr' has free, got .* which take 0\.4 MB"):
        fit(data, tmp_path / "run.zarr", num_draws=1000)

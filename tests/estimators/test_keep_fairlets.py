"""Draws that keep their fairlets: all or some of them, in memory and on disk, the same however a run is cut."""

import numpy as np
import pytest
import xarray as xr

from bayesfair.estimators import GibbsFairClustering
from bayesfair.estimators import base as memory
from bayesfair.estimators.base import check_disk, check_memory, fairlet_bytes
from bayesfair.gibbs import Joint
from bayesfair.gibbs import run as gibbs_run
from bayesfair.gibbs.run import KeepFairlets
from bayesfair.posterior import read_tree
from bayesfair.posterior.store import is_stored

SHORT = {"num_chains": 2, "num_warmup": 6, "num_draws": 40, "modes": None, "random_state": 0, "progress_bar": False}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few draws


def fit(data, store=None, keep_fairlets=False, fairlet_move="swaps", **settings):
    target = Joint(keep_fairlets=keep_fairlets, fairlet_move=fairlet_move)
    est = GibbsFairClustering(2, target=target, **{**SHORT, **settings})
    return est.fit(data.features, sensitive_features=data.sensitive, store=store)


def fairlet_of(est):
    return est.posterior_["posterior"]["fairlet"]


@pytest.fixture(scope="module")
def whole(data):
    return fit(data, keep_fairlets=True)


@pytest.fixture(scope="module")
def some(data):
    return fit(data, keep_fairlets=7)


@pytest.mark.slow
def test_every_draw_is_a_decomposition_whose_fairlets_are_whole_in_clusters(data, whole):
    fairlet, labels = fairlet_of(whole), whole.posterior_["posterior"]["labels"].values
    assert fairlet.dims == ("chain", "draw", "obs")
    assert fairlet.dtype == np.int8
    code = whole.posterior_["constant_data"]["group"].values
    for draw, cluster in zip(fairlet.values.reshape(-1, 100), labels.reshape(-1, 100)):
        for group in (0, 1):
            np.testing.assert_array_equal(np.bincount(draw[code == group], minlength=50), 1)
        assert all(len(set(cluster[draw == one])) == 1 for one in range(50))
    assert (fairlet == fairlet[0, 0]).all(("chain", "draw")).values[code == 0].all()  # an anchor's is its own
    assert not (fairlet == fairlet[0, 0]).all()
    plain = fit(data).posterior_  # nothing else changes
    assert "fairlet" not in plain["posterior"]
    assert whole.posterior_["posterior"].to_dataset().drop_vars("fairlet").equals(plain["posterior"].to_dataset())


@pytest.mark.slow
def test_some_draws_are_evenly_spaced_and_those_of_all(data, some, whole):
    kept = fairlet_of(some)
    assert kept.dims == ("chain", "kept_draw", "obs")
    np.testing.assert_array_equal(kept["kept_draw"], [0, 6, 12, 18, 23, 29, 35])
    np.testing.assert_array_equal(kept, fairlet_of(whole).isel(draw=kept["kept_draw"].values))
    assert fairlet_of(fit(data, keep_fairlets=40, num_draws=10)).dims == ("chain", "draw", "obs")  # all there are


@pytest.mark.parametrize(("number", "of"), [(1, 1), (7, 40), (1, 9), (5, 6)])
def test_so_many_of_every_so_many_are_kept_wherever_one_begins(number, of):
    kept = KeepFairlets(number, of).among(5 * of)
    assert len(kept) == 5 * number
    assert set(np.diff(kept)) <= {of // number, -(-of // number)}
    for done in range(of + 1):
        later = KeepFairlets(number, of, done)
        np.testing.assert_array_equal(done + later.among(5 * of - done), kept[kept >= done])


def same_draws(est, other):
    """The same posterior, fairlets and their numbers included."""
    one, two = (fit.posterior_["posterior"].to_dataset().drop_attrs() for fit in (est, other))
    xr.testing.assert_identical(one[sorted(one.data_vars)].load(), two[sorted(two.data_vars)].load())
    assert fairlet_of(est).dtype == fairlet_of(other).dtype


@pytest.mark.slow
def test_on_disk_and_in_files_and_resumed_they_are_the_same(data, some, tmp_path, monkeypatch):
    draws = gibbs_run.Chains.draws

    def interrupted(chains, n_draws, thinning):
        if chains.keep is not None and chains.keep.done >= 20:
            raise KeyboardInterrupt
        return draws(chains, n_draws, thinning)

    with monkeypatch.context() as patched:
        patched.setattr(gibbs_run.Chains, "draws", interrupted)
        with pytest.warns(RuntimeWarning, match=r"kept the \d+ of 40 draws"):
            cut = fit(data, keep_fairlets=7)
        with pytest.warns(RuntimeWarning, match=r"kept the \d+ of 40 draws"):
            stored = fit(data, tmp_path / "run.zarr", keep_fairlets=7)
    assert is_stored(stored.posterior_)
    assert not fairlet_of(stored).variable._in_memory
    same_draws(cut.resume(), some)
    same_draws(GibbsFairClustering.load(tmp_path / "run.zarr").resume(), some)
    stored = GibbsFairClustering.load(tmp_path / "run.zarr")
    cut.save(tmp_path / "run.nc")
    stored.save(tmp_path / "copy.zarr")
    for path in ("run.nc", "copy.zarr"):
        loaded = GibbsFairClustering.load(tmp_path / path)
        same_draws(loaded, some)
        same_draws(loaded.resume(20), stored.resume(20) if path == "run.nc" else stored)
    np.testing.assert_array_equal(fairlet_of(stored)["kept_draw"], [0, 6, 12, 18, 23, 29, 35, 40, 46, 52, 58])
    chunk = tmp_path / "copy.zarr/posterior/fairlet/c/0/0/0"
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"?")
    with pytest.raises(ValueError, match="checksum of 'posterior/fairlet"):
        read_tree(tmp_path / "copy.zarr")


@pytest.mark.slow
def test_steps_of_the_published_loop_take_the_place_of_swaps(data, whole):
    def by_steps(**settings):
        return fit(data, fairlet_move="rectangular-loop", keep_fairlets=True, **settings)

    est = by_steps()
    stats = est.posterior_["sample_stats"]
    assert 0 < stats["swap_rate"].mean() < 1
    moved = [(fairlet_of(one).diff("draw") != 0).mean() for one in (est, whole)]
    assert 0 < moved[0] < 0.2 * moved[1]  # two of a hundred steps in a sweep propose anything
    same_draws(by_steps(num_draws=25).resume(15), est)


def test_the_room_they_take_is_told_beforehand(monkeypatch, data, tmp_path):
    fairlets = fairlet_bytes(4, 1_000, 100_000)
    assert fairlets == 4 * 4 * 1_000 * 100_000
    rest = 4 * 1_000 * 100_000 * 2 + 300 * 100_000 + 16 * 4 * 1_000 * 3 * 4
    monkeypatch.setattr(memory, "free_memory", lambda: rest + fairlets)
    check_memory((4, 1_000, 100_000), 3, 4, fairlets=fairlets)
    with pytest.raises(ValueError, match="4 chains of 1,000 draws"):
        check_memory((4, 1_000, 100_000), 3, 4, fairlets=fairlets + 1)
    monkeypatch.setattr(memory, "free_memory", lambda: None)
    monkeypatch.setattr(memory, "free_disk", lambda _: 1e9)
    check_disk("run.zarr", (4, 1_000, 100_000), 3, 4)
    with pytest.raises(ValueError, match=r"disk of 'run\.zarr'"):
        check_disk("run.zarr", (4, 1_000, 100_000), 3, 4, fairlets=fairlets)
    monkeypatch.setattr(memory, "_LARGE", 0)
    monkeypatch.setattr(memory, "free_memory", lambda: 100_000.0)
    fit(data, num_draws=1)
    with pytest.raises(ValueError, match="that the memory has free"):
        fit(data, keep_fairlets=True, num_draws=700)

"""Runs on disk, without a sampler: the tree in memory, whatever the run is of, and memory that labels have no part in."""

import gc
import pickle
import tracemalloc

import numpy as np
import pytest
import xarray as xr
from draws import draws_of
from tiers import tiers

from bayesfair import _arrays
from bayesfair.estimators.base import sampler_bytes
from bayesfair.fairness import Groups
from bayesfair.posterior import draws as blocks
from bayesfair.posterior import misclassification_probability, read_tree, summary
from bayesfair.posterior import store as stores
from bayesfair.posterior.schema import Column, state_dataset
from bayesfair.posterior.store import begin_run, continue_run, is_stored, open_store, write_store
from bayesfair.posterior.tree import build_tree

RNG = np.random.default_rng(0)
SETTINGS = {"n_draws_wanted": 5, "estimator": "none", "prior": "(1, None)"}


def crossed(n):
    """Groups of two attributes, each balanced on its own."""
    parts = tuple(
        Groups(np.array(code), names) for code, names in (([0, 0, 1, 1], ("F", "M")), ([0, 1, 0, 1], ("old", "young")))
    )
    return Groups(RNG.integers(4, size=n).astype(np.int32), ("F, old", "F, young", "M, old", "M, young"), parts)


def modes(n, n_clusters):
    figures = {name: ("mode", np.zeros(2)) for name in ("log_mass", "lower", "upper", "se", "lp", "loss")}
    counts = {name: ("mode", np.ones(2, int)) for name in ("starts", "chains")}
    labels = ("mode", "obs"), RNG.integers(n_clusters, size=(2, n)).astype(np.int16)
    return xr.Dataset(
        figures | counts | {"labels": labels}, attrs={"num_starts": 8, "masses": "not known", "path_length": 0}
    )


def chunk(draws, which):
    return draws._replace(
        labels=draws.labels[:, which], scalars={name: v[:, which] for name, v in draws.scalars.items()}
    )


@pytest.mark.parametrize(
    ("about", "n_clusters"),
    tiers(
        [("attributes", 128), ("modes", 3), ("names", 1), ("modes", 300)],
        [("attributes", 128), ("modes", 3), ("names", 1)],
    ),
)
def test_a_run_on_disk_is_the_tree_in_memory(tmp_path, about, n_clusters):
    n, num_draws = 301, 5
    labels = RNG.integers(n_clusters, size=(3, num_draws, n)).astype(np.int8 if n_clusters <= 127 else np.int16)
    lp = RNG.normal(size=(3, num_draws)).astype(np.float32)
    lp[1, 2] = np.nan
    draws = draws_of(labels, lp=lp, lambda_f=1e300 * RNG.normal(size=(3, num_draws)), swap_rate=lp)
    X, groups = RNG.normal(size=(n, 2)), crossed(n) if about == "attributes" else Groups(np.arange(n) % 2, ("a", "b"))
    given = {
        "columns": [Column("x"), Column("größe")] if about == "names" else None,
        "obs_names": [f"Zoë {row}" for row in range(n)] if about == "names" else None,
        "n_clusters": n_clusters,
        "modes": modes(n, n_clusters) if about == "modes" else None,
    }
    state = {"fairlet": labels[:, 0].astype(np.int32), "key": np.ones((3, 2), np.uint32), "flag": np.array(True)}
    first = build_tree(chunk(draws, slice(0, 1)), X, groups, facts=SETTINGS, point=None, **given)
    first["sampler_state"] = state_dataset(state, {"fairlet": ("chain", "obs")})
    run = begin_run(tmp_path / "run.zarr", first, num_draws)
    run.append(chunk(draws, slice(1, 5)), {**state, "flag": np.array(False)})
    state["flag"] = np.array(False)
    so_far = read_tree(tmp_path / "run.zarr")
    so_far["posterior"].load()
    run.finish({})
    run.close()
    tree = read_tree(tmp_path / "run.zarr")
    known = build_tree(draws, X, groups, facts=SETTINGS, **given)
    assert is_stored(tree)
    write_store(tmp_path / "copy.zarr", tree)
    assert open_store(tmp_path / "copy.zarr").identical(tree)
    for made in (so_far, tree):
        assert made.attrs == known.attrs | ({"unfinished": "5 of 5 draws per chain"} if made is so_far else {})
        for group in known.children:
            assert made[group].equals(known[group]), group
        for name, array in state.items():
            np.testing.assert_array_equal(made["sampler_state"][name], array)
        assert made["sampler_state"]["fairlet"].dims == ("chain", "obs")
        assert made["posterior"]["labels"].dtype == known["posterior"]["labels"].dtype


def test_labels_that_were_read_are_refused_after_any_number_of_renumberings(tmp_path):
    """Chunks have two names in turn: after two renumberings there are again chunks of the first names, with other numbers."""
    path, labels = tmp_path / "run.zarr", np.array([[[0, 0, 0, 1], [1, 1, 1, 0]]], np.int8)
    draws = draws_of(labels, lp=np.zeros((1, 2)))
    first = build_tree(draws, RNG.normal(size=(4, 2)), None, facts=SETTINGS, n_clusters=2, point=None)
    first["sampler_state"] = state_dataset({"key": np.ones(2)})
    run, read = begin_run(path, first, 2), []
    for _ in range(4):
        read.append(read_tree(path))
        run.finish({})
        run.close()
        read.append(read_tree(path))
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(read[-1]))["posterior"]["labels"][0, 1], labels[0, 0])
        run = continue_run(path, 99)
        run.append(draws, {"key": np.ones(2)})
        for tree in read[:-1]:
            with pytest.raises(ValueError, match=r"written to since it was read.*Load it again"):
                tree["posterior"]["labels"].load()
        assert read[-1]["posterior"]["labels"].values.any()  # draws were added, and its own are as they were
    run.close()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_draws(tmp_path, monkeypatch):
    """150 bytes of labels a row, and 16 of features: finished, read and summarised in less than 120 a row each."""
    monkeypatch.setattr(_arrays, "BLOCK", 1_000)
    monkeypatch.setattr(blocks, "BLOCK", 2_000)
    monkeypatch.setattr(stores, "ROWS", 800)
    peak_of_a_run(tmp_path / "imports.zarr", 100, num_draws=10)
    few, many = [peak_of_a_run(tmp_path / f"{rows}.zarr", rows) for rows in (2_000, 4_000)]
    assert (many - few) / 2_000 < 120, (few, many)


def peak_of_a_run(path, rows, num_draws=150):
    rng = np.random.default_rng(0)
    distinct = rng.integers(2, size=(1, num_draws, 100)).astype(np.int8)  # histories
    draws = draws_of(np.tile(distinct, (1, 1, rows // 100)), lp=rng.normal(size=(1, num_draws)))
    groups = Groups(np.arange(rows, dtype=np.int32) % 2, ("a", "b"))
    X = np.zeros((rows, 4), np.float32)
    tree = build_tree(draws, X, groups, facts=SETTINGS, n_clusters=2, point=None)
    run = begin_run(path, tree, num_draws)
    del draws, tree
    steps = (
        lambda: run.finish({}),
        run.close,
        lambda: misclassification_probability(read_tree(path)),
        lambda: summary(read_tree(path)),
    )
    tracemalloc.start()
    try:
        for step in steps:
            gc.collect()  # trees are cycles: how many of them are held at once depends on when the collector last ran
            step()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("moves_fairlets", "measured"), [(False, 103), (True, 1760)])
def test_a_sampler_takes_no_more_than_is_predicted(moves_fairlets, measured):
    """Bytes of a further row of 25 features with 4 chains, measured up to a million rows, and to 120,000 with fairlets."""
    assert measured <= sampler_bytes(4, 25, moves_fairlets=moves_fairlets) <= 1.25 * measured
    assert sampler_bytes(1, 25, moves_fairlets=moves_fairlets) < sampler_bytes(2, 25, moves_fairlets=moves_fairlets)

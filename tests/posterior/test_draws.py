"""Labels in blocks: what arrays say, from memory, from disk, and renumbered as they are read."""

import numpy as np
import pytest
import xarray as xr

from bayesfair.posterior import draws as module
from bayesfair.posterior.draws import LabelDraws, as_labels, is_on_disk
from bayesfair.posterior.relabelling import apply_permutations, renumber
from bayesfair.posterior.tables import distinct_observations

SHAPE = 3, 7, 50


@pytest.fixture
def flat():
    """Labels (draws, obs) as any array has them."""
    return np.random.default_rng(0).integers(4, size=SHAPE).astype(np.int8).reshape(-1, SHAPE[2])


def on_disk(flat, folder):
    """A variable that is read as it is indexed."""
    folder /= "labels.zarr"
    xr.Dataset({"labels": (("chain", "draw", "obs"), flat.reshape(SHAPE))}).to_zarr(
        folder, zarr_format=3, consolidated=False
    )
    return xr.open_dataset(folder, engine="zarr", consolidated=False, cache=False)["labels"]


@pytest.fixture(params=["in memory", "two dimensions", "on disk", "in strides", "renumbered", "one draw at a time"])
def labels(request, flat, tmp_path, monkeypatch):
    whole = flat.reshape(SHAPE)
    if request.param == "one draw at a time":
        monkeypatch.setattr(module, "BLOCK", 1)
    monkeypatch.setattr(module, "CHUNK", 3)
    if request.param == "two dimensions":
        return as_labels(flat)
    if request.param == "on disk":
        return LabelDraws(on_disk(flat, tmp_path))
    if request.param == "in strides":
        return LabelDraws(np.ascontiguousarray(whole.transpose(1, 0, 2)).transpose(1, 0, 2))
    if request.param == "renumbered":
        permutations = np.stack([np.random.default_rng(t).permutation(4) for t in range(len(flat))]).astype(np.int8)
        before = apply_permutations(np.argsort(permutations, axis=1).astype(np.int8), flat)
        return LabelDraws(renumber(on_disk(before, tmp_path), permutations))
    return LabelDraws(whole)


def test_labels_are_what_an_array_of_them_is(labels, flat):
    assert (labels.shape, labels.dtype, len(labels)) == (flat.shape, flat.dtype, len(flat))
    assert (labels.max(), labels.min()) == (3, 0)
    np.testing.assert_array_equal(labels, flat)
    np.testing.assert_array_equal(np.stack(list(labels)), flat)
    np.testing.assert_array_equal(np.concatenate(list(labels.blocks())), flat)
    np.testing.assert_array_equal(labels[np.int64(9)], flat[9])
    np.testing.assert_array_equal(labels[-1], flat[-1])
    for rows in ([4, 0, 4], [], np.arange(50)):
        np.testing.assert_array_equal(labels.columns(rows), flat[:, np.asarray(rows, int)])


def test_some_draws_are_labels_too(labels, flat):
    for which in ([5, 2, 2, 20], [], slice(3, 11), slice(None, None, 4), [6, 7, 8]):
        some, expected = labels[which], flat[which]
        assert isinstance(some, LabelDraws)
        np.testing.assert_array_equal(some, expected)
        np.testing.assert_array_equal(some.columns([3, 1]), expected[:, [3, 1]])
        np.testing.assert_array_equal(some[:1], expected[:1])


def test_what_is_on_disk_is_known(flat, tmp_path):
    stored = on_disk(flat, tmp_path)
    assert is_on_disk(stored)
    assert is_on_disk(stored[:, 1:, ::2])
    assert not is_on_disk(stored.load())
    assert not is_on_disk(flat)


def test_labels_on_disk_are_renumbered_as_they_are_read_and_in_memory_at_once(flat, tmp_path):
    permutations = np.tile(np.array([2, 3, 1, 0], np.int16), (len(flat), 1))
    at_once = renumber(flat.reshape(SHAPE), permutations)
    later = renumber(on_disk(flat, tmp_path), permutations)
    assert (is_on_disk(at_once), is_on_disk(later)) == (False, True)
    assert at_once.dtype == later.dtype == np.int16
    data = xr.DataArray(later)
    for part in (np.s_[1, 2], np.s_[:, 3, 4:9], np.s_[..., -1], np.s_[1:0]):
        np.testing.assert_array_equal(data[part], at_once.values[part])
    some = at_once.values[np.ix_([2, 0], [1, 1, 5])][..., ::7]
    np.testing.assert_array_equal(data[[2, 0], [1, 1, 5], ::7], some)
    twice = renumber(data, np.argsort(permutations, axis=1).astype(np.int8))
    np.testing.assert_array_equal(twice.values.reshape(-1, SHAPE[2]), flat)


@pytest.mark.parametrize(("kind", "num_draws"), [(np.int8, 1), (np.int8, 9), (np.int32, 8), (np.int64, 40)])
def test_distinct_observations_by_brute_force(kind, num_draws):
    rng = np.random.default_rng(num_draws)
    labels = np.repeat(rng.integers(2, size=(num_draws, 30)), 4, axis=1)[:, rng.permutation(120)].astype(kind)
    columns, weight, inverse = distinct_observations(labels)
    seen = {}
    expected = np.array([seen.setdefault(history.tobytes(), len(seen)) for history in np.ascontiguousarray(labels.T)])
    np.testing.assert_array_equal(inverse, expected)
    np.testing.assert_array_equal(labels[:, columns][:, inverse], labels)
    np.testing.assert_array_equal(weight, np.bincount(expected))
    np.testing.assert_array_equal(columns, np.unique(expected, return_index=True)[1])

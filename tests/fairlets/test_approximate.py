"""Nearly optimal decompositions of large tables: against the exact one, with bounds that hold and bounds that must not."""

import os

import numpy as np
import pytest

import bayesfair.fairlets.approximate as module
import bayesfair.fairlets.near_pairs as near_pairs
from bayesfair.fairlets import Dissimilarity, decompose, resolve_dissimilarity
from bayesfair.fairlets.auction import auction, make_arcs
from bayesfair.fairlets.transport import transport

KMEANS = resolve_dissimilarity("kmeans")


@pytest.fixture
def small(monkeypatch):
    """Tables of hundreds of rows are cut into leaves, and bounds are sampled where a test says so."""
    monkeypatch.setattr(near_pairs, "ALL_PAIRS", 0)
    monkeypatch.setattr(near_pairs, "LEAF", 128)
    return monkeypatch


def tables():
    rng = np.random.default_rng(0)
    clumps = np.repeat(5 * rng.normal(size=(4, 3)), 200, 0)
    jitter = 1e-5 * rng.normal(size=clumps.shape)
    return {
        "1:1": (rng.normal(size=(600, 3)), [300, 300]),
        "floor and ceiling": (rng.normal(size=(600, 3)), [170, 430]),
        "three groups": (rng.normal(size=(600, 3)), [110, 183, 307]),
        "tiny group": (rng.normal(size=(600, 3)), [5, 595]),
        "one anchor": (rng.normal(size=(60, 3)), [1, 59]),
        "apart": (np.vstack([rng.normal(size=(200, 3)), rng.normal(size=(400, 3)) + [3, 0, 0]]), [200, 400]),
        "duplicates": (rng.integers(0, 3, (600, 3)).astype(float), [230, 370]),
        "all equal": (np.ones((300, 2)), [120, 180]),
        "constant column": (np.column_stack([rng.normal(size=600), np.full(600, 7.0)]), [280, 320]),
        "tight clumps": (clumps + jitter, [390, 410]),
        "far row": (np.vstack([rng.normal(size=(599, 3)), [[1e4, 0, 0]]]), [270, 330]),
    }


@pytest.mark.filterwarnings("ignore:Group")
@pytest.mark.parametrize("name", tables())
@pytest.mark.parametrize("single", [False, True])
def test_the_gap_is_never_below_the_distance_from_the_exact_optimum(name, single, small):
    X, sizes = tables()[name]
    code = np.repeat(np.arange(len(sizes)), sizes)
    X = X.astype(np.float32) if single else X
    best, found = decompose(X, code), decompose(X, code, exact_up_to=0, random_state=0)
    assert best.optimal
    assert found.lower_bound <= best.cost * (1 + 1e-9) <= found.cost * (1 + 1e-6)
    assert found.gap >= (found.cost - best.cost) / max(found.cost, 1e-300) - 1e-6
    np.testing.assert_array_equal(found.composition.sum(0), sizes)
    assert (found.composition.min(0) >= best.composition.min(0)).all()
    assert (found.composition.max(0) <= best.composition.max(0)).all()

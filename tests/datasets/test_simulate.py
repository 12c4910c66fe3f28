"""Simulators: counts exactly, laws against their quantiles over many seeds, seeds that decide."""

from functools import cache

import numpy as np
import pytest

from bayesfair.datasets import make_gmm_grid, make_misspecified, make_vfc_synthetic, make_well_specified

MAKERS = [make_well_specified, make_misspecified, make_vfc_synthetic, make_gmm_grid]
CELLS = {(1, "1"): (20, 4.0), (1, "2"): (30, 2.0), (2, "1"): (30, 10.0), (2, "2"): (20, 8.0)}


def cells(data):
    """{(cluster, group): points}."""
    points = data.features.groupby([data.target, data.sensitive])
    return {key: frame.to_numpy() for key, frame in points}


@pytest.mark.parametrize("make", MAKERS)
def test_the_seed_alone_decides(make):
    np.random.seed(1)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    first, again, other = make(seed=4), make(seed=4), make(seed=5)
    assert first.features.equals(again.features)
    assert first.sensitive.equals(again.sensitive)
    assert not first.features.equals(other.features)
    assert make().features.equals(make(seed=0).features)
    assert len(first.description) > 40
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


@cache
def noise_of(make):
    """The points of 200 data sets less their cell's centre, per cell."""
    parts = [cells(make(seed=seed)) for seed in range(200)]
    return {key: np.concatenate([part[key] for part in parts]) - centre for key, (_, centre) in CELLS.items()}


def radii_of(noise, scale):
    return np.square(noise).sum(1) / scale


@pytest.mark.parametrize(
    ("make", "scale", "inverse"),
    [
        (make_well_specified, 4.0, lambda p: -2 * np.log(1 - p)),  # |x - mu|^2 / 4 is chi-square with 2
        (make_misspecified, 3.0, lambda p: 2 * p / (1 - p)),  # |x - mu|^2 / (2 * 3) is F(2, 2), with law x / (1 + x)
    ],
)
def test_gibbs_simulations_have_the_printed_law_and_sizes(make, scale, inverse):
    """4,000 to 6,000 radii a cell: the share below a quantile is within 4 standard errors (fails 1 in 2,000)."""
    for key, noise in noise_of(make).items():
        radii = radii_of(noise, scale)
        assert len(radii) == 200 * CELLS[key][0]
        for quantile in (0.25, 0.5, 0.75, 0.95):
            error = abs((radii < inverse(quantile)).mean() - quantile)
            assert error < 4 * np.sqrt(quantile * (1 - quantile) / len(radii))


def test_the_law_test_tells_a_wrong_scale():
    radii = radii_of(np.concatenate([*noise_of(make_misspecified).values()]), 4.0)
    assert abs((radii < 2).mean() - 0.5) > 0.05


def test_t_noise_is_bivariate():
    """A common divisor makes the coordinates' sizes dependent; independent t draws would not be."""
    noise = np.concatenate([*noise_of(make_misspecified).values()])
    large = np.abs(noise) > 5
    assert (large[:, 0] & large[:, 1]).mean() > 3 * large[:, 0].mean() * large[:, 1].mean()


@pytest.mark.parametrize(("unequal", "sizes"), [(False, {"a": 200, "b": 200}), (True, {"a": 300, "b": 100})])
def test_vfc_synthetic(unequal, sizes):
    data = make_vfc_synthetic(unequal, seed=2)
    assert data.sensitive.value_counts().to_dict() == sizes
    assert data.target.value_counts().to_dict() == {"left": 200, "right": 200}
    shares = data.sensitive.groupby(data.target).value_counts(normalize=True)
    assert shares["left", "a"] == shares["right", "a"] == sizes["a"] / 400  # the fair clustering is perfectly fair
    deviation = 0.13 if unequal else 0.1
    corners = {("left", "a"): (1, 1), ("right", "a"): (2.1, 1)}
    corners |= {("left", "b"): (1, 3.5 if unequal else 5), ("right", "b"): (2.1, 3.5 if unequal else 5)}
    for key, points in cells(data).items():
        assert np.abs(points.mean(axis=0) - corners[key]).max() < 5 * deviation / np.sqrt(len(points))
        assert points.std() == pytest.approx(np.hypot(deviation, np.std(corners[key])), rel=0.25)


def test_gmm_grid():
    data = make_gmm_grid(seed=1, n_samples=25_000)
    centre = data.features.groupby(data.target).mean().round().astype(int)
    assert {tuple(row) for row in centre.to_numpy().tolist()} == {
        (x, y) for x in range(-4, 5, 2) for y in range(-4, 5, 2)
    }
    residual = data.features - data.features.groupby(data.target).transform("mean")
    assert residual.to_numpy().std() == pytest.approx(0.3, rel=0.02)
    assert data.target.value_counts(normalize=True).between(0.035, 0.045).all()
    share = (data.sensitive == "a").groupby(data.target).mean()
    expected = np.where(np.add(*np.divmod(share.index.to_numpy(), 5)) % 2 == 0, 0.7, 0.3)
    assert np.abs(share - expected).max() < 5 * np.sqrt(0.21 / 900)
    assert len(make_gmm_grid()) == 2500


def test_gmm_grid_refuses_a_size_that_is_none():
    with pytest.raises(ValueError, match="`n_samples` must be an integer, at least 1"):
        make_gmm_grid(n_samples=0)

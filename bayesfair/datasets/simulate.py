"""The papers' simulated experiments; each call has its own random generator, so the same seed gives the same data."""

import numpy as np
import pandas as pd

from bayesfair._check import check_integer, generator_of
from bayesfair.datasets.base import Dataset

# Gibbs paper, sections 4.1 and 4.2: (cluster, group a, members, mean of both coordinates)
_GIBBS_CELLS = ((1, 1, 20, 4.0), (1, 2, 30, 2.0), (2, 1, 30, 10.0), (2, 2, 20, 8.0))


def make_well_specified(seed: int = 0) -> Dataset:
    """100 points in two clusters and two groups, with normal noise.

    The noise has covariance 4 I. Cluster 1 has 20 points of group 1 around (4, 4) and 30 of group 2 around (2, 2).
    Cluster 2 has 30 points of group 1 around (10, 10) and 20 of group 2 around (8, 8). The true clusters have
    balance 2/3.

    Parameters
    ----------
    seed : int, default 0
        Seed of the simulation.

    Returns
    -------
    Dataset
        The target is the true cluster.

    References
    ----------
    The Gibbs paper, section 4.1.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.datasets.make_well_specified().sensitive.value_counts().to_dict()
    {'1': 50, '2': 50}
    """
    noise = 2.0 * generator_of(seed, "seed").standard_normal((100, 2))
    return _gibbs_simulation("well-specified", "normal, covariance 4 I (section 4.1)", noise)


def make_misspecified(seed: int = 0) -> Dataset:
    """100 points in the layout of `make_well_specified`, with bivariate Student t noise.

    The noise has 2 degrees of freedom and scale matrix 3 I. Its variance does not exist, so expect outliers. Both
    coordinates of a point share one chi-square divisor, which makes the noise bivariate t.

    Parameters
    ----------
    seed : int, default 0
        Seed of the simulation.

    Returns
    -------
    Dataset
        The target is the true cluster.

    References
    ----------
    The Gibbs paper, section 4.2.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.datasets.make_misspecified().features.shape
    (100, 2)
    """
    rng = generator_of(seed, "seed")
    normal, chi_square = rng.standard_normal((100, 2)), rng.chisquare(2, size=(100, 1))
    noise = np.sqrt(3.0) * normal / np.sqrt(chi_square / 2)
    return _gibbs_simulation("misspecified", "t with 2 degrees of freedom, scale 3 I (section 4.2)", noise)


def make_vfc_synthetic(unequal: bool = False, seed: int = 0) -> Dataset:
    """400 points in the plane where a plain clustering finds the groups and a fair one finds the clusters.

    Four isotropic normal blobs lie at the corners of a rectangle. The clusters are 1.1 apart along x. The groups are
    4 apart along y with standard deviation 0.1, or 2.5 apart with 0.13 where they are unequal. Each group is split
    evenly between the two clusters.

    Parameters
    ----------
    unequal : bool, default False
        Whether the groups have 300 and 100 points (VFC's Synthetic-unequal) instead of 200 and 200 (Synthetic).
    seed : int, default 0
        Seed of the simulation.

    Returns
    -------
    Dataset
        The target is the true cluster, left or right.

    Notes
    -----
    VFC gives the sizes; the positions follow the authors' code.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.datasets.make_vfc_synthetic(unequal=True).sensitive.value_counts().to_dict()
    {'a': 300, 'b': 100}
    """
    sizes, apart, deviation = ((150, 50), 2.5, 0.13) if unequal else ((100, 100), 4.0, 0.1)
    group, cluster = np.repeat([0, 0, 1, 1], np.repeat(sizes, 2)), np.repeat([0, 1, 0, 1], np.repeat(sizes, 2))
    centre = np.column_stack([1 + 1.1 * cluster, 1 + apart * group])
    points = centre + deviation * generator_of(seed, "seed").standard_normal((400, 2))
    name = "vfc-synthetic-unequal" if unequal else "vfc-synthetic"
    kind = "Synthetic-unequal" if unequal else "Synthetic"
    text = f"Like VFC's {kind}: deviation {deviation}, blobs at x = 1, 2.1 and y = 1, {1 + apart}. Seed {seed}."
    return _simulated(name, points, np.array(["a", "b"])[group], np.array(["left", "right"])[cluster], text)


def make_gmm_grid(seed: int = 0, n_samples: int = 2500) -> Dataset:
    """Draws of a mixture of 25 normal components on a 5 x 5 grid.

    Weights are equal, means are all pairs of -4, -2, 0, 2, 4, and covariances are 0.3^2 I. A point is in group "a"
    with probability 0.7 in the components whose row and column add to an even number, and with probability 0.3 in
    the others, so that the true clusters are unfair.

    Parameters
    ----------
    seed : int, default 0
        Seed of the simulation.
    n_samples : int, at least 1, default 2500
        Number of points.

    Returns
    -------
    Dataset
        The target is the component.

    Notes
    -----
    BigLearn-EM, figures 1 and 2, shows the grid without numbers and without groups. Both are ours.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.datasets.make_gmm_grid(n_samples=50).features.shape
    (50, 2)
    """
    n_samples = check_integer("n_samples", n_samples)
    rng = generator_of(seed, "seed")
    component = rng.integers(25, size=n_samples)
    row, column = np.divmod(component, 5)
    means = 2.0 * np.column_stack([column, row]) - 4.0
    points = means + 0.3 * rng.standard_normal((n_samples, 2))
    in_a = rng.random(n_samples) < np.where((row + column) % 2 == 0, 0.7, 0.3)
    text = f"25 Gaussians on a grid of step 2, standard deviation 0.3 (after BigLearn-EM, Figure 1). Seed {seed}."
    return _simulated("gmm-grid", points, np.where(in_a, "a", "b"), component, text)


def _gibbs_simulation(name, law, noise):
    cluster, group, size, mean = (np.array(column) for column in zip(*_GIBBS_CELLS))
    points = np.repeat(mean, size)[:, None] + noise
    text = f"Simulation of the Gibbs posterior paper: {law}. Two clusters of 50, two groups of 50."
    return _simulated(name, points, np.repeat(group, size).astype(str), np.repeat(cluster, size), text)


def _simulated(name, points, group, target, description):
    return Dataset(
        name=name,
        features=pd.DataFrame(points, columns=["x1", "x2"]),
        sensitive=pd.Series(group, name="group"),
        target=pd.Series(target, name="cluster"),
        description=description,
    )

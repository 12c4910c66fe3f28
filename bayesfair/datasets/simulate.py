"""The papers' simulated experiments; each call has its own random generator, so the same seed gives the same data."""

import numpy as np
import pandas as pd

from bayesfair._check import check_integer, generator_of
from bayesfair.datasets.base import Dataset

# Gibbs paper, sections 4.1 and 4.2: (cluster, group a, members, mean of both coordinates)
_GIBBS_CELLS = ((1, 1, 20, 4.0), (1, 2, 30, 2.0), (2, 1, 30, 10.0), (2, 2, 20, 8.0))


def make_well_specified(seed: int = 0) -> Dataset:
    """100 points in two clusters and two groups of 50, normal with covariance 4 I. Gibbs paper, section 4.1.

    Cluster 1: 20 of a = 1 about (4, 4) and 30 of a = 2 about (2, 2); cluster 2: 30 of a = 1 about (10, 10) and 20 of
    a = 2 about (8, 8). Target: the cluster. The clusters themselves have balance 2/3.
    """
    rng = generator_of(seed, "seed")
    return _gibbs_simulation(
        "well-specified", "normal, covariance 4 I (section 4.1)", 2.0 * rng.standard_normal((100, 2))
    )


def make_misspecified(seed: int = 0) -> Dataset:
    """The layout of `make_well_specified` with bivariate Student t noise: 2 degrees of freedom, scale matrix 3 I.

    Gibbs paper, section 4.2. The variance does not exist: expect outliers. Both coordinates of a point share one
    chi-square divisor, which makes the noise bivariate t and not two independent ones.
    """
    rng = generator_of(seed, "seed")
    normal, chi_square = rng.standard_normal((100, 2)), rng.chisquare(2, size=(100, 1))
    noise = np.sqrt(3.0) * normal / np.sqrt(chi_square / 2)
    return _gibbs_simulation("misspecified", "t with 2 degrees of freedom, scale 3 I (section 4.2)", noise)


def make_vfc_synthetic(unequal: bool = False, seed: int = 0) -> Dataset:
    """400 points, two clusters that a fair clustering finds and two groups that a plain one finds. VFC's Synthetic.

    The paper gives 400 points in the plane, two clusters, groups of 200 and 200, or 300 and 100 (`unequal`, VFC's
    Synthetic-unequal). The rest follows the authors' code: four isotropic normal blobs at the corners of a rectangle,
    the clusters 1.1 apart along x, the groups 4 apart along y with standard deviation 0.1 (`unequal`: 2.5 and 0.13),
    each group split evenly between the clusters. Target: the cluster, left or right.
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
    """`n_samples` draws of a 25-component Gaussian mixture on a 5 x 5 grid. BigLearn-EM, Figures 1 and 2.

    The paper shows the grid without numbers; ours: equal weights, means at {-4, -2, 0, 2, 4}^2, covariance 0.3^2 I.
    BigLearn has no groups; ours: a point is in group "a" with probability 0.7 in the components whose row and column
    add to an even number, 0.3 in the others, else in "b", so that the true clusters are unfair. Target: the component.
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

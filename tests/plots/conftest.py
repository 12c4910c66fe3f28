import matplotlib
import pytest
from draws import KINDS, draws_of

from bayesfair.posterior.tree import build_tree


@pytest.fixture(autouse=True)
def closed_figures():
    """Pictures are drawn off screen and closed; the back end of whoever runs the tests is put back."""
    from matplotlib import pyplot as plt

    before = matplotlib.get_backend()
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    plt.switch_backend(before)


@pytest.fixture(scope="session")
def make_tree():
    import numpy as np

    def make(n_obs=60, n_clusters=3, n_groups=2, dim=4, seed=0):
        """Draws around a truth, one observation in five unsure."""
        rng = np.random.default_rng(seed)
        truth = np.arange(n_obs) % n_clusters
        X = 4 * rng.normal(size=(n_clusters, dim))[truth] + rng.normal(size=(n_obs, dim))
        unsure = rng.random(n_obs) < 0.2
        moved = (rng.random((2, 25, n_obs)) < 0.4) & unsure
        labels = np.where(moved, (truth + 1) % n_clusters, truth).astype(np.int8)
        scalars = {name: rng.normal(size=(2, 25)) for name in ("lp", *KINDS)}
        groups = rng.integers(n_groups, size=n_obs)
        names = [f"f{j}" for j in range(dim)]
        return build_tree(
            draws_of(labels, **scalars), X, groups, settings={}, feature_names=names, n_clusters=n_clusters
        )

    return make

import numpy as np
import pytest
from draws import KINDS, draws_of

from bayesfair.posterior.tree import build_tree


@pytest.fixture(scope="session")
def make_tree():
    def make(n_obs=60, n_clusters=3, n_groups=2, dim=4, chains=2, draws=25, shift=0.0, settings=None, **names):
        """Draws around a truth, one observation in five unsure; `shift` moves the scalars of each chain apart."""
        rng = np.random.default_rng(0)
        truth = np.arange(n_obs) % n_clusters
        X = 4 * rng.normal(size=(n_clusters, dim))[truth] + rng.normal(size=(n_obs, dim))
        moved = (rng.random((chains, draws, n_obs)) < 0.4) & (rng.random(n_obs) < 0.2)
        labels = np.where(moved, (truth + 1) % n_clusters, truth).astype(np.int8)
        apart = shift * np.arange(chains)[:, None]
        scalars = {name: rng.normal(size=(chains, draws)) + apart for name in ("lp", *KINDS)}
        group_names = names.pop("group_names", [f"group {j}" for j in range(n_groups)])
        groups = [group_names[row] for row in rng.integers(n_groups, size=n_obs)] if n_groups else None
        names = {"feature_names": [f"f{j}" for j in range(dim)], **names}
        return build_tree(
            draws_of(labels, **scalars), X, groups, settings=settings or {}, n_clusters=n_clusters, **names
        )

    return make


@pytest.fixture(scope="session")
def hostile():
    """A name that would change the title of a page that does not escape it."""
    return '"><img src=x onerror="document.title=1"><script>document.title=1</script>'


@pytest.fixture(scope="session")
def hostile_tree(make_tree, hostile):
    return make_tree(
        feature_names=[f"f{j} {hostile}" for j in range(4)],
        obs_names=[f"row {i} {hostile}" for i in range(60)],
        group_names=[f"a {hostile}", f"$\\frac b {hostile}"],
        settings={"estimator": hostile, "parameters": {hostile: hostile, "target": hostile}},
    )

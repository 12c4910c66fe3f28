"""Newton's step on the duals of many groups, against the dense solve."""

import numpy as np
import pytest

from bayesfair.fairness import balance_constraint, encode_groups
from bayesfair.gibbs.cooling import Multipliers


@pytest.mark.parametrize(("n_groups", "n_clusters"), [(1, 3), (2, 2), (7, 4), (40, 3)])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.filterwarnings("ignore:Groups with fewer members")
def test_the_step_by_groups_is_that_of_the_dense_solve(n_groups, n_clusters, hard):
    rng = np.random.default_rng(0)
    code = np.concatenate([np.arange(n_groups), rng.integers(n_groups, size=300)])
    multipliers = Multipliers.of(balance_constraint(encode_groups(code), n_clusters=n_clusters))
    soft = rng.dirichlet(np.full(n_clusters, 0.01 if hard else 1.0), (2, len(code)))
    member = code[:, None] == np.arange(n_groups)
    counts = np.einsum("tik,ig->tgk", soft, member)
    slope = np.einsum("tgk,kl->tgkl", counts, np.eye(n_clusters)) - np.einsum("tik,til,ig->tgkl", soft, soft, member)
    mu = rng.normal(size=(2, n_groups, n_clusters))
    found, dense = (one.newton(mu, counts, slope) for one in (multipliers, multipliers._replace(share=None)))
    np.testing.assert_allclose(multipliers.alpha(found), multipliers.alpha(dense), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found, dense, rtol=1e-6, atol=1e-6)

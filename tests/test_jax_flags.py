"""Every estimator under the flags of JAX that change dtypes, or look for NaN: a tiny fit of each, in a process of its own."""

import os
import subprocess
import sys

import pytest

FITS = """
import sys, warnings
import numpy as np
import bayesfair as bf

warnings.simplefilter("ignore")
rng = np.random.default_rng(1)
table = np.vstack([rng.normal(3, 0.5, (20, 2)), rng.normal(6, 0.5, (20, 2))])
groups = np.array(["f", "m"] * 20)
guide = dict(num_draws=6, num_chains=1, random_state=0, progress_bar=False)
chains = dict(num_warmup=6, **guide)
engine = dict(random_state=0, max_iter=5)
KINDS = {
    "engines": [
        lambda: bf.BigLearnMixture(2, **engine),
        lambda: bf.TiltedKMeans(2, **engine),
        lambda: bf.FairMixture(2, n_init=3, random_state=0),
        lambda: bf.BalancedKMeans(2, random_state=0),
        lambda: bf.FairletKMeans(2, random_state=0),
        *[lambda o=o: bf.VariationalFairClustering(2, objective=o, n_init=2, **engine) for o in ("kmeans", "ncut")],
    ],
    "gibbs": [
        *[lambda t=t: bf.GibbsFairClustering(2, target=t, **chains) for t in ("joint", "cut", "optimal", "labels")],
        *[lambda l=l: bf.GibbsFairClustering(2, loss=l, **chains) for l in ("manhattan", "kl")],
    ],
    "mixtures": [
        lambda: bf.BayesianFairMixture(2, inference="gibbs", **chains),
        lambda: bf.BayesianFairMixture(2, inference="svi", **guide),
        lambda: bf.BayesianFairMixture(2, covariance_type="full", **chains),
    ],
}
kind, *dtypes = sys.argv[1:]
for dtype in dtypes:
    for make in KINDS[kind]:
        est, X = make(), table.astype(dtype)
        print(dtype, est, flush=True)
        if isinstance(est, bf.BigLearnMixture):
            est.fit(X)
            X[3, 1] = np.nan
        est.fit(X, sensitive_features=groups)
        if isinstance(est, bf.FairMixture):
            X = np.column_stack([X, np.arange(len(X)) % 2])
            est.set_params(categorical_features=[2]).fit(X, sensitive_features=groups)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["engines", "gibbs", "mixtures"])
@pytest.mark.parametrize(
    ("flag", "dtypes"), [("JAX_ENABLE_X64", ["float64", "float32"]), ("JAX_DEBUG_NANS", ["float64"])]
)
def test_every_estimator_fits_under_the_flag(flag, dtypes, kind):
    """Whether it fits at all, so that programs are compiled the quick way. Without 64 bits JAX makes one of both dtypes."""
    settings = {**os.environ, flag: "1", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    command = [sys.executable, "-c", FITS, kind, *dtypes]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-200:] + done.stderr[-3000:]

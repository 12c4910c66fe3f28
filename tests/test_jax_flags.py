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
gibbs, mixture = bf.GibbsFairClustering, bf.BayesianFairMixture
ESTIMATORS = [
    bf.BigLearnMixture(2, **engine),
    bf.TiltedKMeans(2, **engine),
    bf.FairMixture(2, covariance_type="full", categorical_features=[2], n_init=3, random_state=0),
    bf.BalancedKMeans(2, random_state=0),
    bf.FairletKMeans(2, random_state=0),
    *(bf.VariationalFairClustering(2, objective=objective, n_init=2, **engine) for objective in ("kmeans", "ncut")),
    *(gibbs(2, target=target, **chains) for target in ("joint", "labels")),
    *(gibbs(2, target=target, loss=loss, **chains) for target, loss in (("cut", "manhattan"), ("optimal", "kl"))),
    mixture(2, inference="gibbs", starts=("random",), **chains),
    mixture(2, inference="svi", starts=("random",), **guide),
]
dtypes = sys.argv[1:]
for number, est in enumerate(ESTIMATORS):
    dtype = dtypes[number % len(dtypes)]
    print(dtype, est, flush=True)
    X = table.astype(dtype)
    if isinstance(est, bf.BigLearnMixture):
        est.fit(X)
        X[3, 1] = np.nan
    if isinstance(est, bf.FairMixture):
        X = np.column_stack([X, np.arange(len(X)) % 2])
    est.fit(X, sensitive_features=groups)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flag", "dtypes"), [("JAX_ENABLE_X64", ["float64", "float32"]), ("JAX_DEBUG_NANS", ["float64"])]
)
def test_every_estimator_fits_under_the_flag(flag, dtypes):
    """Whether it fits at all, so that programs are compiled the quick way. With 64 bits estimators have either dtype in turn;
    without, JAX makes one of both."""
    settings = {**os.environ, flag: "1", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    command = [sys.executable, "-c", FITS, *dtypes]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-200:] + done.stderr[-3000:]

"""Shapes that annotations tell are those of real fits, which also run under the flags of JAX that change dtypes or look for
NaN: a process in which every call of the package is checked makes them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOMS = (
    "datasets",
    "fairness",
    "distributed",
    "fairlets",
    "engines",
    "models",
    "posterior",
    "estimators",
    "plots",
    "reports",
)
FILES = "_arrays", "_draws", "_partitions", "_rows", "_scaling", "_tables"
EVERYTHING = " ".join(
    f"bayesfair.{name}" for name in (*ROOMS, *FILES)
)  # but for Numba's kernels, which no hook may wrap
FEW = "bayesfair.engines.families bayesfair.engines.fmc bayesfair.fairness.balanced"
HOOK = """
import sys, warnings
from itertools import cycle
from jaxtyping import TypeCheckError, install_import_hook

install_import_hook(sys.argv[1:], "shapes.checked")

import jax.numpy as jnp
import numpy as np
import shapes
import bayesfair as bf
"""
PLANTED = """
from bayesfair.engines.families import Components, EncodedTable, Family
from bayesfair.engines.fmc import bounds_by_size
from bayesfair.fairness.balanced import balance_constraint, nearest_counts
from bayesfair.fairness.groups import encode_groups

shapes.check_interfaces()
people = encode_groups(np.resize(["f", "m"], 40))
parts = Components(np.zeros(2), np.zeros((2, 2)), np.zeros(()), np.zeros((2, 0)))
rows = EncodedTable(np.ones((40, 2)), np.ones(40), np.zeros((40, 0)))
log_joint = Family("isotropic").log_joint
PLANTED = {
    "an argument": lambda: nearest_counts(balance_constraint(people), people.sizes, people.sizes / 2),
    "a result": lambda: bounds_by_size(0.1, np.full((2, 2), 0.5)),
    "a field": lambda: log_joint(parts._replace(spread=None), rows),
    "fields that differ": lambda: log_joint(parts._replace(log_mixing=np.zeros(1)), rows),
    "records that differ": lambda: log_joint(parts._replace(mean=np.zeros((2, 1))), rows),
}
log_joint(parts, rows)
for name, call in PLANTED.items():
    try:
        call()
    except TypeCheckError:
        print("caught", name)
"""
FITS = """
warnings.simplefilter("ignore")
assert all(hasattr(bf, name) for name in bf.__all__)  # imports them
shapes.check_interfaces()
rng = np.random.default_rng(1)
table = np.vstack([rng.normal(3, 0.5, (20, 2)), rng.normal(6, 0.5, (20, 2))])
lacking = np.where(np.arange(80).reshape(40, 2) == 7, np.nan, table)
mixed = np.column_stack([table, np.resize([0, 1, 2], 40)])
zeros_and_ones = (rng.random((40, 3)) < np.repeat([[0.2], [0.8]], 20, 0)) * 1.0
unequal = np.repeat(["f", "m"], [17, 23])
two, three, weight = np.resize(["f", "m"], 40), np.resize(["a", "b", "b", "c"], 40), np.resize([1.0, 2.0, 0.5], 40)

engine = dict(random_state=0, max_iter=3)
draws = dict(num_draws=4, num_chains=2, random_state=0, progress_bar=False)
chains = dict(num_warmup=4, **draws)
gibbs, mixture = bf.GibbsFairClustering, bf.BayesianFairMixture
more, dtypes = dict(groups=three, sample_weight=weight), cycle(["float64", "float32"])


def fit(estimator, X=table, groups=two, **more):
    X = X.astype(next(dtypes))
    print(X.dtype, type(estimator).__name__, estimator.get_params(), list(more), flush=True)
    estimator.fit(X, sensitive_features=groups, **more)
    if hasattr(estimator, "posterior_"):
        str(bf.posterior.summary(estimator.posterior_))
        bf.posterior.reference_partition(estimator.posterior_)
        estimator.predict_proba(X)


for objective in ("kmeans", "kmedians", "ncut"):
    fit(bf.VariationalFairClustering(2, objective=objective, n_init=2, **engine), **more)
fit(bf.FairMixture(2, solver="gradient", batch_size=10, n_init=2, **engine), **more)
fit(bf.FairMixture(2, covariance_type="full", categorical_features=[2], n_init=2, **engine), mixed, **more)
fit(bf.BigLearnMixture(2, **engine), lacking)
for solver in ("newton", "sgd"):
    fit(bf.TiltedKMeans(2, solver=solver, n_init=2, **engine), **more)
fit(bf.BalancedKMeans(2, size_min=[5, 6], n_init=1, random_state=0), **more)
fit(bf.FairletKMeans(2, random_state=0), **more)

fit(gibbs(2, target="joint", categorical_features=[2], **chains), mixed, **more)
fit(gibbs(2, target="labels", **chains), **more)
fit(gibbs(2, target="optimal", loss="itakura-saito", **chains))
fit(gibbs(2, target="cut", loss="binary", thinning="auto", **chains), zeros_and_ones, unequal)
fit(gibbs(2, target=bf.gibbs.Labels(min_balance=0.5, size_max=30), loss="manhattan", **chains))

fit(mixture(2, inference="svi", starts=("k-means",), **draws))
fit(mixture(2, inference="gibbs", categorical_features=[2], starts=("random",), **chains), mixed, three)
fit(mixture(2, covariance_type="full", starts=("random",), tempering=True, **chains))
"""


def printed(program, modules, **flags):
    """Where calls of these modules are checked. Whether fits run at all, so that programs are compiled the quick way."""
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    settings = {**os.environ, "PYTHONPATH": path, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1", **flags}
    command = [sys.executable, "-c", HOOK + program, *modules.split()]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr[-3000:]
    return done.stdout


def test_wrong_shapes_are_caught_and_right_ones_are_not():
    told = printed(PLANTED, FEW).splitlines()
    caught = [line.removeprefix("caught ") for line in told]
    assert caught == ["an argument", "a result", "a field", "fields that differ", "records that differ"]


@pytest.mark.slow
def test_real_fits_have_the_shapes_that_annotations_tell_with_64_bits_too_and_make_no_nan():
    """Tables have either dtype in turn. Where a fit fails, `JAX_ENABLE_X64=0` or `JAX_DEBUG_NANS=0` tells why."""
    printed(FITS, EVERYTHING, JAX_ENABLE_X64="1", JAX_DEBUG_NANS="1")

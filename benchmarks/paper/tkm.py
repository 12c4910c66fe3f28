"""Tilted k-means on Bank and Adult: the deterministic solver against the paper's stochastic gradients, by tilt.

Columns are standardised, K = 4. Prints; asserts nothing.

BAYESFAIR_DATA=... python benchmarks/paper/tkm.py [--seed 0]
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import bayesfair as bf

TILTS = (0.01, 0.05, 0.1, 0.2)
SOLVERS = ("newton", "sgd")


def standardized(data):
    X = np.asarray(data.features, np.float64)
    return (X - X.mean(0)) / X.std(0)


def fit(X, tilt, solver, seed):
    """The fitted estimator and its seconds; sgd keeps its step, so that it runs to max_iter and warns."""
    est = bf.TiltedKMeans(4, tilt=tilt, solver=solver, random_state=seed)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if solver == "sgd" else "default", ConvergenceWarning)
        est.fit(X)
    return est, time.perf_counter() - start


def row(name, X, tilt, seed):
    fits = [fit(X, tilt, solver, seed) for solver in SOLVERS]
    losses = "".join(f"{est.tilted_sse_:>12.4f}" for est, _ in fits)
    spread = "".join(f"{np.nanmean(est.within_cluster_variance_):>12.3f}" for est, _ in fits)
    seconds = "".join(f"{wall:>9.1f}" for _, wall in fits)
    return f"{name:<8}{tilt:>6}{losses}{spread}{seconds}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    print(f"{'':<14}{'tilted SSE':>24}{'variance of d^2':>24}{'seconds':>18}")
    print(f"{'data':<8}{'tilt':>6}" + f"{'newton':>12}{'sgd':>12}" * 2 + f"{'newton':>9}{'sgd':>9}")
    for name, load in (("Bank", bf.datasets.load_bank), ("Adult", bf.datasets.load_adult)):
        try:
            X = standardized(load())
        except (FileNotFoundError, OSError, RuntimeError) as error:
            print(f"{name} is left out: {error}")
            continue
        for tilt in TILTS:
            print(row(name, X, tilt, seed), flush=True)


if __name__ == "__main__":
    main()

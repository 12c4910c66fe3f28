"""Seconds and memory of every engine to convergence, and of a sweep of the sampler, on rows simulated like Census 1990.

python benchmarks/scale.py [--whole] [--engines FairMixture ...] [--rows 10000 100000]

25 float32 columns, two groups 48:52, ten clusters that overlap and hold from 38% to 58% of the first group. Every cell is a
process of its own; memory is its peak beyond the table and what a fit of 2,000 rows has left (programs, libraries), in bytes
a row. What is compiled for the table's shape is counted in. `slope`: of log seconds on log rows, from the first to the last.
"""

import argparse
import gc
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

ROWS, WHOLE = (10_000, 100_000, 1_000_000), 2_458_285
DIM, K, SHARE = 25, 10, 0.48


def table(n_obs, seed=0):
    """(X float32 (N, 25), group (N,))."""
    rng = np.random.default_rng(seed)
    centers, size = rng.normal(0, 0.5, (K, DIM)), rng.dirichlet(np.full(K, 5.0))
    label = rng.choice(K, n_obs, p=size).astype(np.int8)
    group = rng.random(n_obs) < (SHARE + np.linspace(-0.1, 0.1, K))[label]
    X = np.empty((n_obs, DIM), np.float32)
    for start in range(0, n_obs, 100_000):
        rows = slice(start, start + 100_000)
        X[rows] = centers[label[rows]] + rng.normal(0, 0.8, (len(label[rows]), DIM))
    return X, np.array(["f", "m"])[group.astype(np.int8)]


def fits(bf):
    """name: (n_obs) -> nothing, a fit on data given."""
    settings = {"random_state": 0}
    return {
        "FairMixture": bf.FairMixture(K, max_gap=0.01, **settings),
        "VariationalFairClustering": bf.VariationalFairClustering(K, **settings),
        "BigLearnMixture": bf.BigLearnMixture(K, **settings),
        "TiltedKMeans": bf.TiltedKMeans(K, tilt=0.1, **settings),
        "BalancedKMeans": bf.BalancedKMeans(K, **settings),
        "FairletKMeans": bf.FairletKMeans(K, **settings),
    }


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def measure(name, n_obs):
    """Prints seconds, bytes a row, and what the fit says of itself."""
    import bayesfair as bf

    warnings.simplefilter("ignore")
    engine = fits(bf)[name]
    small, groups = table(2_000)
    type(engine)(**engine.get_params()).fit(small, sensitive_features=groups)
    X, groups = table(n_obs)
    gc.collect()
    before = resident()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    start, start_cpu = time.perf_counter(), time.process_time()
    engine.fit(X, sensitive_features=groups)
    seconds, extra = time.perf_counter() - start, (peak() - before) / n_obs
    cpu = time.process_time() - start_cpu
    text = (
        f"{engine.n_iter_} iterations, converged {engine.converged_}, gap {bf.fairness.gap(engine.labels_, groups):.4f}"
    )
    print(f"{seconds:.3f} {extra:.0f} {cpu:.1f} s of processors, {text}, {engine.objective_trace_[-1]:.6g}")


def sweep(n_obs):
    """Prints seconds of a sweep under "labels" and bytes a row of the state beyond the table."""
    import jax

    import bayesfair as bf

    warnings.simplefilter("ignore")
    X, groups = table(n_obs)
    settings = {"num_chains": 1, "num_starts": 0, "random_state": 0, "progress_bar": False, "target": "labels"}
    before = resident()
    seconds = []
    for num_draws in (10, 30):  # the difference is 20 sweeps: compiling, starting and summarising are in both
        est = bf.GibbsFairClustering(K, num_warmup=5, num_draws=num_draws, **settings)
        start = time.perf_counter()
        est.fit(X, sensitive_features=groups)
        seconds.append(time.perf_counter() - start)
    jax.clear_caches()
    print(f"{(seconds[1] - seconds[0]) / 20:.4f} {(peak() - before) / n_obs:.0f} of a chain, stored draws included")


def cell(name, n_obs):
    """(seconds, bytes a row, text) of a process of its own."""
    call = [sys.executable, __file__, "--cell", name, str(n_obs)]
    done = subprocess.run(call, capture_output=True, text=True)
    if done.returncode:
        return np.nan, np.nan, done.stderr.strip().splitlines()[-1]
    seconds, extra, text = done.stdout.strip().splitlines()[-1].split(" ", 2)
    return float(seconds), float(extra), text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", action="store_true", help=f"{WHOLE:,} rows too")
    parser.add_argument("--engines", nargs="+")
    parser.add_argument("--rows", nargs="+", type=int)
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cell:
        name, n_obs = arguments.cell[0], int(arguments.cell[1])
        return sweep(n_obs) if name == "sweep" else measure(name, n_obs)
    import bayesfair as bf

    rows = arguments.rows or [*ROWS, *([WHOLE] if arguments.whole else [])]
    for name in arguments.engines or [*fits(bf), "sweep"]:
        found = []
        for n_obs in rows:
            seconds, extra, text = cell(name, n_obs)
            found.append((n_obs, seconds))
            print(f"{name:<26}{n_obs:>10,}{seconds:>10.2f} s {extra:>8.0f} bytes a row   {text}", flush=True)
        if len(found) > 1:
            n, s = np.log(np.array(found)[[0, -1]]).T
            print(f"{name:<26}slope {(s[1] - s[0]) / (n[1] - n[0]):.2f}", flush=True)


if __name__ == "__main__":
    main()

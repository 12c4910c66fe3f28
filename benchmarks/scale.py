"""Seconds and memory of every engine to convergence, of posteriors and of what is read from them, on rows
simulated like Census 1990.

python benchmarks/scale.py [--whole] [--cells FairMixture "posterior labels" ...] [--rows 10000 100000]

25 float32 columns, two groups 48:52, ten clusters that overlap and hold from 38% to 58% of the first group. Every cell is a
process of its own; memory is its anonymous peak beyond the table and what a fit of 2,000 rows has left (programs, libraries),
in bytes a row. What is compiled for the table's shape is counted in. A posterior is 2 chains x (100 + 100), its draws on disk;
"summary" and "report" are of it. `slope`: of log seconds of processors on log rows, from the first to the last, and from the
last but one to the last, where compilation counts for little; `further row`: bytes between these two, which leaves out what is
as large for every table.
"""

import argparse
import ctypes
import gc
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import sklearn.base

ROWS, WHOLE = (10_000, 100_000, 1_000_000), 2_458_285
DIM, K, SHARE = 25, 10, 0.48
TARGETS = "optimal", "labels"


def table(n_obs, seed=0):
    """(X float32 (N, 25), group (N,))."""
    rng = np.random.default_rng(seed)
    return drawn(rng, n_obs, *clusters(rng))


def clusters(rng):
    """(centres, shares) of the clusters."""
    return rng.normal(0, 0.5, (K, DIM)), rng.dirichlet(np.full(K, 5.0))


def drawn(rng, n_obs, centers, size):
    """A table of those clusters."""
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


POSTERIOR = {"num_chains": 2, "num_warmup": 100, "num_draws": 100, "random_state": 0, "progress_bar": False}


class Peak(threading.Thread):
    """The most anonymous memory of this process since the thread began, beyond what it had then."""

    def __init__(self):
        super().__init__(daemon=True)
        self.start_at = self.most = anonymous()
        self.start()

    def run(self):
        while True:
            self.most = max(self.most, anonymous())
            time.sleep(0.003)

    @property
    def extra(self):
        return max(self.most, anonymous()) - self.start_at


def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def timed(name, n_obs, work, text=lambda result: ""):
    """`work()`, told in a line; what glibc has kept of freed memory, which it would use first, is given back before."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    peak, start, start_cpu = Peak(), time.perf_counter(), time.process_time()
    result = work()
    seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    print(f"{name}|{seconds:.3f}|{cpu:.3f}|{peak.extra / n_obs:.0f}|{text(result)}", flush=True)
    return result


def engine_cell(bf, name, n_obs):
    engine = fits(bf)[name]
    small, groups = table(2_000)
    type(engine)(**engine.get_params()).fit(small, sensitive_features=groups)
    X, groups = table(n_obs)

    def text(engine):
        gap = bf.fairness.gap(engine.labels_, groups)
        return f"{engine.n_iter_} iterations, converged {engine.converged_}, gap {gap:.4f}, {engine.objective_trace_[-1]:.6g}"

    engine = timed(name, n_obs, lambda: engine.fit(X, sensitive_features=groups), text)
    timed(f"{name}.predict", n_obs, lambda: engine.predict(X))


def posterior_cell(bf, target, n_obs):
    est = bf.GibbsFairClustering(K, target=target, **POSTERIOR)
    small, groups = table(2_000)
    sklearn.base.clone(est).fit(small, sensitive_features=groups)
    X, groups = table(n_obs)
    name = f"posterior {target}"
    with tempfile.TemporaryDirectory() as folder:
        timed(name, n_obs, lambda: est.fit(X, sensitive_features=groups, store=Path(folder) / "run.zarr"))
        timed(f"{name}.summary", n_obs, lambda: bf.posterior.summary(est.posterior_))
        timed(f"{name}.report", n_obs, lambda: bf.report(est.posterior_, Path(folder) / "run.html"))


KINDS = {"posterior": posterior_cell}


def measure(name, n_obs):
    """Prints lines of name, seconds, seconds of processors, bytes a row, and what the cell says of itself."""
    import bayesfair as bf

    warnings.simplefilter("ignore")
    kind, _, target = name.partition(" ")
    KINDS[kind](bf, target, n_obs) if target else engine_cell(bf, name, n_obs)


def cell(name, n_obs):
    """{name: (seconds, of processors, bytes a row, text)} of a process of its own."""
    call = [sys.executable, __file__, "--cell", name, str(n_obs)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        return {name: (np.nan, np.nan, np.nan, done.stderr.strip().splitlines()[-1])}
    lines = (line.split("|", 4) for line in done.stdout.strip().splitlines())
    return {name: (*map(float, numbers), text) for name, *numbers, text in lines}


def tell_growth(name, found):
    """How the figures of one name grow: `found` is {rows: (seconds, of processors, bytes a row, text)}."""
    rows = list(found)
    cpu, extra = (np.array([found[n][at] for n in rows]) for at in (1, 2))
    slope, last = (np.log(cpu[-1] / cpu[at]) / np.log(rows[-1] / rows[at]) for at in (0, -2))
    further = (extra[-1] * rows[-1] - extra[-2] * rows[-2]) / (rows[-1] - rows[-2])
    slopes = f"slope {slope:.2f}, {last:.2f} from {rows[-2]:,} rows"
    print(f"{name:<28} {slopes}, {further:.0f} bytes for every further row", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", action="store_true", help=f"{WHOLE:,} rows too")
    parser.add_argument("--cells", nargs="+")
    parser.add_argument("--rows", nargs="+", type=int)
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cell:
        return measure(arguments.cell[0], int(arguments.cell[1]))
    import bayesfair as bf

    rows = arguments.rows or [*ROWS, *([WHOLE] if arguments.whole else [])]
    for name in arguments.cells or [*fits(bf), *(f"{kind} {target}" for kind in KINDS for target in TARGETS)]:
        found = {}
        for n_obs in rows:
            for part, figures in cell(name, n_obs).items():
                found.setdefault(part, {})[n_obs] = figures
                line = "{:>10.4g} s {:>9.4g} s of processors {:>7.0f} bytes a row   {}".format(*figures)
                print(f"{part:<28}{n_obs:>10,}{line}", flush=True)
        for part, figures in found.items():
            if len(figures) > 1:
                tell_growth(part, figures)


if __name__ == "__main__":
    main()

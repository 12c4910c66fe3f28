"""Memory and time of a stored posterior beyond its table and its draws, from 10^5 rows to 10^6: no sampler, made-up draws.

Draws of --n-clusters clusters, a tenth of the rows of each elsewhere than in the first, are written as a run is, chunk by
chunk; then the run is finished, summarised and put on a page. Each step is a process of its own. `peak`: the most memory at
any time that the process did not share with a file (RssAnon), less what it had when its libraries were loaded.

python benchmarks/posterior_memory.py [--rows 100000 1000000] [--draws 200] [--chains 2] [--dim 25] [--n-clusters 10]
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd

STEPS = "write", "finish", "read", "summary", "partitions", "report"
MB = 1e6


def table(arguments):
    """A table and its groups, the same in every process."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(arguments.rows, arguments.dim)), rng.integers(2, size=arguments.rows).astype(np.int32)


def chunk(arguments, which, first):
    from bayesfair._draws import Draws, Statistic

    rng = np.random.default_rng(which)
    labels = np.tile(first, (arguments.chains, 1, 1))
    for chain in labels:
        moved = rng.integers(arguments.rows, size=arguments.rows // 10)
        chain[0, moved] = rng.integers(arguments.n_clusters, size=len(moved))
    lp = rng.normal(size=(arguments.chains, 1)).astype(np.float32)
    return Draws(labels, {"lp": lp}, {"lp": Statistic("quantity")})


def write(arguments, path):
    from bayesfair.fairness import Groups
    from bayesfair.posterior.schema import state_dataset
    from bayesfair.posterior.store import begin_run
    from bayesfair.posterior.tree import build_tree

    X, group = table(arguments)
    first = np.random.default_rng(1).integers(arguments.n_clusters, size=(1, arguments.rows)).astype(np.int8)
    cluster = np.tile(first.astype(np.int32), (arguments.chains, 1))
    state = {"key": np.zeros((arguments.chains, 2), np.uint32), "cluster": cluster}
    settings = {"n_clusters": arguments.n_clusters, "point": None}
    tree = build_tree(chunk(arguments, 0, first), X, Groups(group, ("a", "b")), **settings)
    tree["sampler_state"] = state_dataset(state)
    run = begin_run(path, tree, arguments.draws)
    for draw in range(1, arguments.draws):
        run.append(chunk(arguments, draw, first), state)
    run.close()


def finish(arguments, path):
    from bayesfair.posterior.store import continue_run

    run = continue_run(path, arguments.draws)
    run.finish({})
    run.close()


def read(arguments, path):
    from bayesfair.posterior import misclassification_probability, read_tree

    misclassification_probability(read_tree(path))


def summary(arguments, path):
    from bayesfair.posterior import read_tree, summary

    summary(read_tree(path))


def partitions(arguments, path):
    from bayesfair.posterior import credible_ball, dahl_partition, read_tree

    tree = read_tree(path)
    dahl_partition(tree)
    credible_ball(tree)


def report(arguments, path):
    import bayesfair as bf

    bf.report(bf.posterior.read_tree(path), path.with_suffix(".html"))


class Peak(threading.Thread):
    """The most anonymous memory of this process from now on."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most, self.going = anonymous(), True

    def run(self):
        while self.going:
            self.most = max(self.most, anonymous())
            time.sleep(0.005)


def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def one_step(arguments):
    """Make one step here; print its peak and its time."""
    import arviz_stats.base  # noqa: F401
    import h5netcdf  # noqa: F401
    import h5py  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import pandas  # noqa: F401
    import sklearn.exceptions  # noqa: F401
    import xarray  # noqa: F401
    import zarr  # noqa: F401

    import bayesfair as bf

    _ = bf.report, bf.posterior, bf.gibbs
    before, peak, began = anonymous(), Peak(), time.perf_counter()
    peak.start()
    globals()[arguments.step](arguments, Path(arguments.path))
    peak.going = False
    print(peak.most - before, time.perf_counter() - began)


def measured(arguments, rows, step, path):
    settings = ["--draws", arguments.draws, "--chains", arguments.chains, "--dim", arguments.dim]
    command = [sys.executable, __file__, "--rows", rows, *settings, "--n-clusters", arguments.n_clusters]
    command += ["--step", step, "--path", path]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    peak, seconds = map(float, done.stdout.split()[-2:])
    own = 8 * rows * arguments.dim if step == "write" else 0  # the table itself
    return {
        "rows": rows,
        "step": step,
        "peak MB": (peak - own) / MB,
        "bytes a row": (peak - own) / rows,
        "seconds": seconds,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    for name, default in (("draws", 200), ("chains", 2), ("dim", 25), ("n-clusters", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--step", choices=STEPS)
    parser.add_argument("--path")
    parser.add_argument("--folder", default=None, help="where files go, which take twice the draws")
    arguments = parser.parse_args()
    if arguments.step:
        (arguments.rows,) = arguments.rows
        return one_step(arguments)
    found = []
    for rows in arguments.rows:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            for step in STEPS:
                found.append(measured(arguments, rows, step, Path(folder) / "run.zarr"))
                print("{rows:>9,} {step:<10} {peak MB:7.0f} MB {seconds:7.1f} s".format(**found[-1]), flush=True)
    every = pd.DataFrame(found)
    print(
        f"{arguments.chains} chains of {arguments.draws} draws, {arguments.dim} features, {arguments.n_clusters} clusters"
    )
    print(every.pivot(index="rows", columns="step", values=["bytes a row", "seconds"]).round(1).to_string())
    peaks = every.pivot(index="rows", columns="step", values="peak MB")
    if len(peaks) > 1:
        slope = (peaks.iloc[-1] - peaks.iloc[0]) * MB / (peaks.index[-1] - peaks.index[0])
        print("bytes for every further row:", slope.round(0).to_dict())


if __name__ == "__main__":
    main()

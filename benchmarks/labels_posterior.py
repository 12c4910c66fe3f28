"""The posterior on balanced labellings, to the summary, and a sweep at a million rows in Lloyd iterations.

BAYESFAIR_DATA=... python benchmarks/labels_posterior.py adult|bank2000 [--warmup 1000] [--draws 1000] [--seed 0]
python benchmarks/labels_posterior.py sweep [--rows 1000000]
"""

import argparse
import resource
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import bayesfair as bf
from bayesfair.fairness import encode_groups
from bayesfair.gibbs import KMeansLoss, Settings, Table
from bayesfair.gibbs.labellings import Labelling
from bayesfair.gibbs.problem import make_problem
from bayesfair.gibbs.sweep import run_chunk

sys.path.insert(0, str(Path(__file__).parent / "paper"))
import mixing
from sheet import normalised

LLOYD_ITERATIONS, SWEEPS = 10, 5


def peak():
    """GiB that the process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def posterior(arguments):
    if arguments.what == "adult":
        data = bf.datasets.load_adult()
        X, groups, n_clusters = normalised(data.features), data.sensitive, 10
    else:
        (X, groups), n_clusters = mixing.table(arguments.what, arguments.seed), 4
    length = {"num_warmup": arguments.warmup, "num_draws": arguments.draws}
    begin = time.perf_counter(), time.process_time()
    est = bf.GibbsFairClustering(n_clusters, target="labels", **length, random_state=arguments.seed)
    est.fit(X, sensitive_features=groups)
    summary = bf.posterior.summary(est.posterior_)
    seconds, spent = time.perf_counter() - begin[0], time.process_time() - begin[1]
    print(summary.round(3).to_string())
    print(summary.attrs["guarantee"])
    least = summary.loc[~summary.index.str.startswith("lp, chain"), "ess_bulk"].min()
    print(f"largest R-hat {summary['r_hat'].max():.3f}; smallest bulk ESS {least:.0f}; {est.thinning_} sweeps a draw")
    print(f"all in all {seconds:.0f} s, {spent:.0f} processor s; peak memory {peak():.2f} GiB")


def sweep(arguments):
    from sklearn.cluster import KMeans

    rng = np.random.default_rng(0)
    X = (rng.normal(size=(arguments.rows, 6)) + rng.integers(10, size=(arguments.rows, 1))).astype(np.float32)
    groups = encode_groups(rng.choice(["a", "b"], arguments.rows, p=[0.33, 0.67]))
    problem = make_problem(Table(X.astype(float), groups), Settings(10, KMeansLoss(), target="labels"))
    target, label = problem.target, np.empty(arguments.rows, np.int32)
    for group in range(2):
        rows = np.flatnonzero(groups.code == group)
        label[rows[np.argsort(X[rows].sum(1))]] = np.arange(len(rows)) * 10 // len(rows)
    states = Labelling(jnp.asarray(label)[None], jnp.full(1, target.degrees / len(X) / 6))
    moves, keys = target.moves(problem.settings), jax.random.split(jax.random.PRNGKey(0), 1)

    def run(first):
        return jax.block_until_ready(run_chunk(target, (keys, states), (first, SWEEPS, 1), moves, SWEEPS))

    run(0)
    before, begin = peak(), time.perf_counter()
    _, rows, report = run(SWEEPS)
    own = (time.perf_counter() - begin) / SWEEPS
    assert np.asarray(target.constraint.satisfied(target.counts(jnp.asarray(rows["labels"][0, -1], jnp.int32)))).all()
    begin = time.perf_counter()
    lloyd = KMeans(10, init="random", n_init=1, max_iter=LLOYD_ITERATIONS, tol=0, random_state=0).fit(X)
    theirs = (time.perf_counter() - begin) / lloyd.n_iter_
    print({name: round(float(np.mean(values)), 4) for name, values in report.items()})
    print(
        f"{arguments.rows:,} rows: a sweep {own * 1e3:.0f} ms, a Lloyd iteration {theirs * 1e3:.0f} ms, "
        f"{own / theirs:.1f} of them"
    )
    memory = run_chunk.lower(target, (keys, states), (0, SWEEPS, 1), moves, SWEEPS).compile().memory_analysis()
    print(
        f"temporary memory of a chain: {memory.temp_size_in_bytes / arguments.rows:.0f} bytes a row; process {before:.2f} GiB"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("adult", "bank2000", "sweep"))
    for name, default in (("warmup", 1000), ("draws", 1000), ("seed", 0), ("rows", 1_000_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    (sweep if arguments.what == "sweep" else posterior)(arguments)


if __name__ == "__main__":
    main()

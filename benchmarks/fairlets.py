"""Fairlets of large tables: seconds, seconds of processors, bytes a row beyond the table, and what is known of the optimum.

python benchmarks/fairlets.py [--rows 10000 100000 1000000] [--exact-up-to 50000]
python benchmarks/fairlets.py --beside-the-optimum 20000

Rows simulated like Census 1990, as in `scale.py`; all of Adult, exact, is in `adult_fairlets.py`. Beside the optimum: costs of
blocks and of SciPy's exact assignment, so many rows in each of two groups that are distributed differently, in 8 dimensions.
"""

import argparse
import time
from functools import partial

import numpy as np
from scale import table, timed
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from bayesfair.fairlets import decompose


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--exact-up-to", type=int, default=50_000)
    parser.add_argument("--beside-the-optimum", type=int, metavar="ROWS")
    arguments = parser.parse_args()
    if arguments.beside_the_optimum:
        return beside_the_optimum(arguments.beside_the_optimum)
    settings = {"exact_up_to": arguments.exact_up_to, "random_state": 0}
    decompose(*table(2_000), **{**settings, "exact_up_to": 0})  # libraries
    for n_obs in arguments.rows:
        work = partial(decompose, *table(n_obs), **settings)
        timed(f"{n_obs:,}", n_obs, work, lambda found: f"{found}, {found.method}")


def beside_the_optimum(half, dim=8):
    """Prints what blocks cost beside the optimum, and both in seconds of processors."""
    for name, sides in differently_distributed(half, dim):
        start = time.process_time()
        found = decompose(np.vstack(sides), np.repeat([0, 1], half), exact_up_to=0, random_state=0)
        middle = time.process_time()
        print(f"{name}: blocks {found.cost:.6g} in {middle - start:.1f} s", end=", ", flush=True)
        costs = cdist(*sides, "sqeuclidean")
        best = costs[linear_sum_assignment(costs)].sum()
        print(f"exact {best:.6g} in {time.process_time() - middle:.1f} s: {found.cost / best - 1:+.2%}", flush=True)


def differently_distributed(half, dim):
    """(name, rows of both groups) of three tables."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, half, dim))
    yield "shifted and scaled", (first, 1 + second * np.linspace(0.5, 2, dim))
    yield "heavy tails", (first, rng.standard_t(3, (half, dim)))
    centers = 3 * rng.normal(size=(6, dim))
    unequal = rng.choice(6, half, p=[0.4, 0.2, 0.2, 0.1, 0.05, 0.05])
    yield "clusters", (first + centers[unequal], second + centers[rng.choice(6, half)])


if __name__ == "__main__":
    main()

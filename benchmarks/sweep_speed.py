"""A full sweep (swaps and blocked reallocation) against one Lloyd iteration of scikit-learn, on the same points, in one run.

    python benchmarks/sweep_speed.py [--fairlets 500000] [--scaling]

`--scaling` also fits the slope of log time on log size from 10^4 to 10^6 fairlets. Fairlets are pairs, d = 6, K = 10, float32.
"""

import argparse
import resource
import time

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.cluster import KMeans

from bayesfair.fairlets.compositions import capacities
from bayesfair.gibbs import Settings, Table
from bayesfair.gibbs.losses import resolve_loss
from bayesfair.gibbs.moves.blocked import BlockedReallocation, GivenCenters
from bayesfair.gibbs.moves.matchings import neighbour_matchings
from bayesfair.gibbs.moves.swaps import Swaps
from bayesfair.gibbs.states import FairletState, InverseTemperatures
from bayesfair.gibbs.sweep import run_chunk
from bayesfair.gibbs.targets.joint import Joint

DIM, CLUSTERS, REPEATS, DRAWS = 6, 10, 7, 11


def problem(n_fairlets, seed=0):
    """Pairs of near points around ten centres: the sampler's cost does not depend on how good the pairs are."""
    rng = np.random.default_rng(seed)
    cluster = rng.integers(CLUSTERS, size=n_fairlets)
    centers = 3 * rng.normal(size=(CLUSTERS, DIM))
    anchors = centers[cluster] + rng.normal(size=(n_fairlets, DIM))
    X = np.concatenate([anchors, anchors + 0.3 * rng.normal(size=(n_fairlets, DIM))]).astype(np.float32)
    held = capacities(np.array([n_fairlets, n_fairlets]))
    matchings = neighbour_matchings(anchors, np.zeros(n_fairlets, int), rng)
    asked = Settings(CLUSTERS, resolve_loss("kmeans"), (2.0, 1.0))
    target = Joint.of(Table(X, None), held, asked, matchings)
    members = np.arange(2 * n_fairlets, dtype=np.int32).reshape(2, n_fairlets).T
    lambdas = InverseTemperatures(jnp.float32(2.0), jnp.float32(1.0))
    return X, centers, target, FairletState(jnp.asarray(members), jnp.asarray(cluster, jnp.int32), lambdas)


def seconds(function, repeats=REPEATS):
    """Median wall time of calls after one that warms up."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def sweep_seconds(target, state):
    """One sweep (a round of swaps, a reallocation) inside a compiled chunk, as the sampler runs it: DRAWS less one."""
    moves = (GivenCenters((Swaps(), BlockedReallocation())),)
    keys, states = jax.random.PRNGKey(0)[None], jax.tree.map(lambda part: part[None], state)

    def draw(n_draws):
        jax.block_until_ready(run_chunk(target, (keys, states), (0, n_draws, 1), moves, DRAWS))

    return (seconds(lambda: draw(DRAWS)) - seconds(lambda: draw(1))) / (DRAWS - 1)


def lloyd_seconds(X, centers):
    """One Lloyd iteration, from the time of a whole fit less that of a fit of one iteration."""

    def fit(iterations):
        return KMeans(CLUSTERS, init=start, n_init=1, max_iter=iterations, tol=0, algorithm="lloyd").fit(X)

    start = (centers + 1.0).astype(np.float32)
    iterations = fit(DRAWS).n_iter_ - 1  # it stops early where no label changes
    return (seconds(lambda: fit(DRAWS)) - seconds(lambda: fit(1))) / iterations


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fairlets", type=int, default=500_000)
    parser.add_argument("--scaling", action="store_true")
    arguments = parser.parse_args()
    sweep_seconds(*problem(1_000)[2:])  # loads the compiler, whose memory is not the sampler's
    X, centers, target, state = problem(arguments.fairlets)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    one_sweep = sweep_seconds(target, state)
    extra = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / len(X) - DRAWS
    lloyd = lloyd_seconds(X, centers)
    print(f"{arguments.fairlets} fairlets: sweep {1e3 * one_sweep:.1f} ms, Lloyd iteration {1e3 * lloyd:.1f} ms")
    print(
        f"ratio {one_sweep / lloyd:.1f}; peak memory rose by {extra:.0f} bytes an observation besides the stored draws"
    )
    if arguments.scaling:
        sizes = np.array([10_000, 31_623, 100_000, 316_228, 1_000_000])
        times = []
        for size in sizes:
            _, _, target, state = problem(size)
            times.append(sweep_seconds(target, state))
            print(f"{size:>9} fairlets: {1e3 * times[-1]:8.2f} ms a sweep")
        print(f"slope of log time on log size: {np.polyfit(np.log(sizes), np.log(times), 1)[0]:.2f}")


if __name__ == "__main__":
    main()

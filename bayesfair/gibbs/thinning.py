"""Sweeps between draws, from the autocorrelation of the warm-up's second half: pure NumPy, no clock."""

import numpy as np
from jaxtyping import Int, Real

from bayesfair._draws import COMPARED
from bayesfair.gibbs.sweep import statistics_of

WORTH = 0.5  # independent draws per draw: 4 x 500 draws are worth 1,000, with R-hat below 1.01
# Looks at a row and a centre between draws: two to four minutes on two cores with 4 x 1,000 draws.
BUDGET = 4_000_000
A_SWEEP = 100_000  # looks that take as long as a sweep of a very small table
SHORTEST = 50  # least number of sweeps in the second half of the warm-up
SIZE = "cluster_size_"
TRIPS = "round_trips"  # states of the chain so far that travelled from the hottest replica to the coldest


def suitable_thinning(scalars, moves, target) -> int:
    """Sweeps per draw that make each worth about half an independent one, within BUDGET; 1 after a short warm-up.

    The slowest of the sizes of clusters and of the `scalars` (reports of `warm_up`) that are declared as parameters or
    quantities decides, and with replicas the time of a round trip.
    """
    compared = {name for name, statistic in statistics_of(target, moves).items() if statistic.kind in COMPARED}
    kept = [values for name, values in scalars.items() if name in compared or name.startswith(SIZE)]
    n_sweeps = kept[0].shape[1] if kept else 0
    if n_sweeps < 2 * SHORTEST:
        return 1
    slowest = max(autocorrelation_time(values[:, n_sweeps // 2 :]) for values in kept)
    if TRIPS in scalars:  # modes may differ although every scalar is alike
        made = (scalars[TRIPS][:, -1] - scalars[TRIPS][:, 0]).mean()
        slowest = max(slowest, n_sweeps / max(made, 1.0))
    affordable = BUDGET / (A_SWEEP + target.n_obs * target.looks_per_row)
    return max(1, int(min(np.ceil(WORTH * slowest), affordable)))


def autocorrelation_time(values: Real[np.ndarray, "chains sweeps"]) -> float:
    """1 + 2 sum of autocorrelations, around each chain's own mean and averaged over chains; 1 if nothing varies.

    They are summed by the initial monotone sequence of Geyer (1992, Statistical Science 7). The mean of a chain of n sweeps
    hides a share time / n of the variance in all autocovariances, which is added again.
    """
    values = np.asarray(values, dtype=float)
    values = values - values.mean(1, keepdims=True)
    n_sweeps = values.shape[1]
    spectrum = np.abs(np.fft.rfft(values, 2 * n_sweeps, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum, axis=1)[:, :n_sweeps].mean(0)
    if not covariance[0] > 0 or not np.isfinite(covariance[0]):
        return 1.0
    pairs = covariance[: n_sweeps // 2 * 2].reshape(-1, 2).sum(1) / covariance[0]
    positive = np.append(pairs, -1.0) <= 0
    pairs = np.minimum.accumulate(pairs[: positive.argmax()])
    hidden = np.clip((2 * pairs.sum() - 1) / n_sweeps, 0, 0.5)
    return max(1.0, float(2 * ((1 - hidden) * pairs + 2 * hidden).sum() - 1))


def cluster_sizes(labels, n_clusters: int) -> dict[str, Int[np.ndarray, "chains draws"]]:
    """Sizes of the clusters of labels (chains, draws, obs), from the largest down: invariant under renumbering."""
    sizes = -np.sort(-np.stack([(labels == k).sum(2) for k in range(n_clusters)]), axis=0)
    return {f"{SIZE}{rank}": values for rank, values in enumerate(sizes, 1)}

"""How many sweeps from one draw to the next, from the autocorrelation of the warm-up's second half: pure NumPy, no clock."""

import numpy as np
from jaxtyping import Int, Real

from bayesfair._draws import COMPARED
from bayesfair.gibbs.sweep import statistics_of

WORTH = 0.5  # independent draws for a draw: 4 x 500 are 1,000, with which R-hat is below 1.01
# Looks at a row and a centre from one draw to the next: with 4 x 1,000 draws about a minute on two cores.
BUDGET = 2_500_000
A_SWEEP = 100_000  # as many looks take as long as a sweep of a very small table
SHORTEST = 50  # sweeps in the second half of the warm-up, below which they tell nothing
SIZE = "cluster_size_"
TRIPS = "round_trips"  # in the chain so far, states that came from the hottest replica to the coldest


def suitable_thinning(scalars, moves, target) -> int:
    """Sweeps per draw with which each is worth about half of an independent one, within BUDGET; how many draws will be made
    has no say, so that two runs, one after the other, are one longer run.

    scalars: what `warm_up` handed out, {name: (chains, sweeps)}. The slowest of the sizes of clusters and of the scalars that
    `target` and `moves` declare as parameters or quantities decides, and of replicas the time of a round trip. 1 after a
    warm-up of fewer than 100 sweeps.
    """
    compared = {name for name, statistic in statistics_of(target, moves).items() if statistic.kind in COMPARED}
    kept = [values for name, values in scalars.items() if name in compared or name.startswith(SIZE)]
    n_sweeps = kept[0].shape[1] if kept else 0
    if n_sweeps < 2 * SHORTEST:
        return 1
    slowest = max(autocorrelation_time(values[:, n_sweeps // 2 :]) for values in kept)
    if TRIPS in scalars:  # modes may differ in what no scalar tells
        made = (scalars[TRIPS][:, -1] - scalars[TRIPS][:, 0]).mean()
        slowest = max(slowest, n_sweeps / max(made, 1.0))
    affordable = BUDGET / (A_SWEEP + target.n_obs * target.looks_per_row)
    return max(1, int(min(np.ceil(WORTH * slowest), affordable)))


def autocorrelation_time(values: Real[np.ndarray, "chains sweeps"]) -> float:
    """1 + 2 sum of autocorrelations of stationary chains, at least 1; 1 where nothing varies.

    Autocovariances around each chain's own mean, averaged over chains (what differs between chains is for R-hat), as far as
    sums of neighbours stay above zero, and never rising (Geyer 1992, Statistical Science 7, initial monotone sequence).
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
    return max(1.0, float(2 * np.minimum.accumulate(pairs[: positive.argmax()]).sum() - 1))


def cluster_sizes(labels, n_clusters: int) -> dict[str, Int[np.ndarray, "chains draws"]]:
    """Sizes of the clusters of labels (chains, draws, obs), from the largest down: what no renumbering changes."""
    sizes = -np.sort(-np.stack([(labels == k).sum(2) for k in range(n_clusters)]), axis=0)
    return {f"{SIZE}{rank}": values for rank, values in enumerate(sizes, 1)}

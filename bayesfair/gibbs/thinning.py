"""Sweeps between draws, from the autocorrelation of the warm-up's second half: pure NumPy, no clock."""

import numpy as np
from jaxtyping import Int, Real

from bayesfair._draws import COMPARED, SIZE

WORTH = 0.25  # independent draws per draw: 4 x 1,000 draws are worth 1,000, with R-hat below 1.01
BUDGET = 1_000_000  # looks at a row and a coordinate of a centre between draws: about two milliseconds
SHORTEST = 50  # least number of sweeps in the second half of the warm-up


def suitable_thinning(reports, law) -> int:
    """Sweeps per draw that make each worth about a quarter of an independent one, within BUDGET; 1 after a short warm-up.

    The slowest of the sizes of clusters and of the `reports` of the warm-up {name: (chains, sweeps)} decides, if they are
    parameters or quantities.
    """
    compared = {name for name, statistic in law.statistics.items() if statistic.kind in COMPARED}
    kept = [values for name, values in reports.items() if name in compared or name.startswith(SIZE)]
    if not kept or kept[0].shape[1] < SHORTEST:
        return 1
    slowest = max(map(autocorrelation_time, kept))
    return max(1, int(min(np.ceil(WORTH * slowest), BUDGET / law.looks_per_sweep)))


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

"""What the display tells of chains while they make draws: their densities, and the slowest scalar so far."""

import numpy as np

from bayesfair._arviz import load_arviz_stats
from bayesfair._draws import COMPARED, Draws, in_words
from bayesfair._numbers import r_hat, significant
from bayesfair.gibbs.thinning import cluster_sizes

FIRST, FURTHER = 20, 1.5  # draws at the first look, and the factor to the next one: few looks, whatever the length
MOST = 4_000  # draws of a chain that are looked at; of more every second, fourth, ... one is


class Convergence:
    """Collects the scalars of draws. Sizes of clusters are among them, from the largest down: their numbers mean nothing."""

    def __init__(self, n_clusters: int):
        self._n_clusters, self._scalars, self._every = n_clusters, {}, 1
        self._done, self._next, self._slowest = 0, FIRST, ""

    def told(self, draws: Draws) -> tuple[str, str]:
        """After these further draws: R-hat and ESS of the slowest scalar, and the log density of each chain."""
        self._collect(draws)
        if self._done >= self._next:
            self._next, self._slowest = int(FURTHER * self._done), self._look()
        density = draws.scalars.get("lp")
        last = "" if density is None else f"lp {', '.join(significant(value) for value in density[:, -1])}"
        return self._slowest, last

    def _collect(self, draws):
        compared = {name: one for name, one in draws.scalars.items() if draws.statistics[name].kind in COMPARED}
        new = np.arange(self._done, self._done + draws.labels.shape[1]) % self._every == 0
        self._done += len(new)
        for name, values in (compared | cluster_sizes(draws.labels, self._n_clusters)).items():
            earlier = self._scalars.get(name, values[:, :0])
            self._scalars[name] = np.concatenate([earlier, values[:, new]], axis=1)
        while self._done > MOST * self._every:
            self._every *= 2
            self._scalars = {name: values[:, ::2] for name, values in self._scalars.items()}

    def _look(self):
        load_arviz_stats()
        from arviz_stats.base import array_stats

        moving = {name: values.astype(float) for name, values in self._scalars.items() if np.ptp(values) > 0}
        sizes = {name: float(array_stats.ess(values, method="bulk")) for name, values in moving.items()}
        sizes = {name: size for name, size in sizes.items() if np.isfinite(size)}
        if not sizes:
            return ""
        slowest = min(sizes, key=sizes.get)
        agreed = f"R-hat {r_hat(float(array_stats.rhat(moving[slowest])))}, " if len(moving[slowest]) > 1 else ""
        return f"slowest: {in_words(slowest)}, {agreed}{sizes[slowest]:,.0f} effective draws"

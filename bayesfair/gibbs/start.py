"""Where chains start: the optimal (or best found) decomposition, and k-means++ clusterings that differ by chain.

Different starts make a second mode show as a large R-hat instead of as silence.
"""

import jax
import jax.numpy as jnp
import numpy as np

from bayesfair.gibbs.sampler import ChainState
from bayesfair.gibbs.target import Allocation, InverseTemperatures, Target

__all__ = ["fill_empty_clusters", "start_clusterings", "start_states"]


def start_clusterings(target: Target, members, num_chains: int, rng: np.random.Generator):
    """One clustering of the fairlets per chain (chains, fairlets): a k-means++ restart each, every cluster used."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    units = _units(target, members)
    centers, weights = np.asarray(units.center, np.float64), np.asarray(units.weight, np.float64)
    n_distinct = len(np.unique(centers, axis=0))
    seeds = rng.integers(2**31 - 1, size=num_chains)
    with threadpool_limits(1):  # bit-identical starts whatever the number of threads
        fits = [
            KMeans(min(target.n_clusters, n_distinct), n_init=1, random_state=int(seed)).fit(
                centers, sample_weight=weights
            )
            for seed in seeds
        ]
    return np.stack([fill_empty_clusters(fit.labels_, target.n_clusters) for fit in fits])


@jax.jit
def _units(target: Target, members):
    return target.units(target.rows(members), jnp.zeros(len(members), jnp.int32))


def fill_empty_clusters(labels, n_clusters: int):
    """Labels with every cluster used: an empty one takes a unit from the largest."""
    labels = np.array(labels, dtype=np.int32)
    for empty in np.setdiff1d(np.arange(n_clusters), labels):
        largest = np.bincount(labels, minlength=n_clusters).argmax()
        labels[np.flatnonzero(labels == largest)[-1]] = empty
    return labels


def start_states(target: Target, members, clusters, temperatures: InverseTemperatures) -> ChainState:
    """Stacked states: the same decomposition in every chain, its own clustering each."""
    n_chains = len(clusters)
    repeat = lambda part: jnp.broadcast_to(jnp.asarray(part), (n_chains, *jnp.shape(part)))  # noqa: E731
    temperatures = InverseTemperatures(*(repeat(jnp.asarray(part, target.x.dtype)) for part in temperatures))
    return ChainState(Allocation(repeat(members), jnp.asarray(clusters)), temperatures)

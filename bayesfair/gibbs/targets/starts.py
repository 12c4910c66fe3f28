"""Where chains over fairlets start: the decomposition found, and k-means++ clusterings that differ by chain."""

import jax
import jax.numpy as jnp
import numpy as np

from bayesfair._arrays import on_device, row_blocks
from bayesfair._check import message
from bayesfair._jit import jit
from bayesfair.gibbs.relocations import annealed_centers, few_rows, has_distinct_rows, relocated_centers
from bayesfair.gibbs.states import FairletState, InverseTemperatures
from bayesfair.gibbs.target import Settings, Table
from bayesfair.gibbs.temperature import holmes_walker, loss_likelihood_bootstrap

NO_LOSS = 1e-10  # share of the loss of one cluster below which a loss is rounding
LEAST_SHAPE = 0.25  # shape of the gamma law of lambda: smaller shapes give draws of 0 in float32


def start_states(target, table: Table, settings: Settings, members, num_chains: int):
    """The fairlets of these `members`, a clustering of them for every chain, and temperatures that suit the best one."""
    rng, n_clusters = np.random.default_rng(settings.seed), target.n_clusters
    centers, weights = _places(target, members)
    n_found = n_clusters if has_distinct_rows(centers, n_clusters) else len(np.unique(centers, axis=0))
    clusters = k_means(centers, weights, ["k-means++"] * num_chains, n_found, n_clusters, rng)
    if settings.has_fixed_pair:
        return stacked_states(target, members, clusters, InverseTemperatures(*settings.inverse_temperature))
    losses = [target.total_loss(jax.tree.map(float, _losses(target, members, cluster))) for cluster in clusters]
    best = int(np.argmin(losses))
    labels = np.asarray(_labels(target, members, clusters[best]))
    dispersion = start_dispersion(target, table, settings.inverse_temperature, labels, losses[best])
    return stacked_states(target, members, clusters, target.of_dispersion(dispersion))


# Compiled as one: compiling operation by operation takes seconds.
@jit
def _losses(target, members, cluster):
    return target.losses(target.open(FairletState(members, cluster, None)))


@jit
def _labels(target, members, cluster):
    return target.labels(FairletState(members, cluster, None))


@jit
def _units(target, members):
    nowhere = jnp.zeros(target.n_fairlets, jnp.int32)
    return target.units_of(target.open(FairletState(members, nowhere, None)))


def k_means(X, weights, inits, n_found: int, n_clusters: int, rng: np.random.Generator):
    """Clusterings (starts, N) by Lloyd's algorithm from each of `inits`, all clusters used; many rows: centres of some."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    seeds, some = rng.integers(2**31 - 1, size=len(inits)), few_rows(len(X), rng)
    with threadpool_limits(1):  # bit-identical starts whatever the number of threads
        fits = [
            KMeans(n_found, init=init, n_init=1, random_state=int(seed)).fit(X[some], sample_weight=weights[some])
            for init, seed in zip(inits, seeds)
        ]
        labels = [fit.labels_ if len(fit.labels_) == len(X) else fit.predict(X) for fit in fits]
    return np.stack([fill_empty_clusters(each, n_clusters) for each in labels])


def _places(target, members):
    """Centres and weights of the fairlets, in double precision."""
    units = _units(target, members)
    return np.asarray(units.center, np.float64), np.asarray(units.weight, np.float64)


def further_states(target, best: FairletState, most: int, rng):
    """Clusterings of the `best` state's fairlets: from annealed centres, and from its own with one relocated."""
    members = jax.tree.map(on_device, best.members)
    centers, weights = _places(target, members)
    if target.n_clusters == 1 or not has_distinct_rows(centers, target.n_clusters + 1):
        return None
    annealed = [annealed_centers(centers, weights, target.n_clusters, rng) for _ in range(most // 2)]
    labels = np.asarray(best.cluster)
    moved = relocated_centers(centers, weights, labels, target.n_clusters, most - len(annealed), rng)
    clusters = k_means(centers, weights, [*annealed, *moved], target.n_clusters, target.n_clusters, rng)
    return stacked_states(target, members, clusters, best.lambdas)


def fill_empty_clusters(labels, n_clusters: int):
    """Labels with every cluster used: an empty cluster takes a unit from the largest."""
    labels = np.array(labels, dtype=np.int32)
    for empty in np.setdiff1d(np.arange(n_clusters), labels):
        largest = np.bincount(labels, minlength=n_clusters).argmax()
        labels[np.flatnonzero(labels == largest)[-1]] = empty
    return labels


def stacked_states(target, members, clusters, lambdas: InverseTemperatures):
    """The same decomposition and temperatures in every chain, each with its own clustering."""
    n_chains = len(clusters)
    members = jax.tree.map(lambda part: on_device(np.broadcast_to(part, (n_chains, *part.shape))), members)
    lambdas = (on_device(np.full(n_chains, part), target.x.dtype) for part in lambdas)
    return FairletState(members, on_device(clusters), InverseTemperatures(*lambdas))


def start_dispersion(target, table: Table, inverse_temperature, labels, loss) -> float:
    """lambda by the residuals around the clusters, if asked for, or at the mean of its law given this `loss`."""
    if inverse_temperature == "holmes-walker":
        return holmes_walker(target.loss, np.asarray(table.X), labels, dim=table.dim, weight=table.weight)
    if inverse_temperature == "loss-likelihood-bootstrap":
        return loss_likelihood_bootstrap(target.loss, np.asarray(table.X), labels, weight=table.weight)
    total, shape = inverse_temperature.rate + loss, inverse_temperature.shape + target.degrees
    if total <= NO_LOSS * _loss_of_one_cluster(target.loss.dissimilarity, table):
        rule = "not be 'dispersion' if clusters fit the data without any loss"
        remedy = "Ask for fewer clusters than there are distinct rows, or fix inverse_temperature."
        bad = f"a loss of {total:.3g} at the start (n_samples = {len(table.X)})"
        raise ValueError(message("inverse_temperature", rule, bad, remedy))
    if shape < LEAST_SHAPE:
        rule = "not be 'dispersion' if rows have almost no weight"
        remedy = "Divide sample_weight by its mean, or fix inverse_temperature."
        raise ValueError(message("inverse_temperature", rule, f"weights of {table.weight.sum():.3g} in all", remedy))
    return shape / total


def _loss_of_one_cluster(dissimilarity, table: Table) -> float:
    """Weighted sum of the rows' costs for their mean."""
    X, blocks = table.X, row_blocks(len(table.X))

    def weight(rows):
        return np.ones(rows.stop - rows.start) if table.weight is None else table.weight[rows]

    mean = sum(weight(rows) @ X[rows] for rows in blocks) / sum(weight(rows).sum() for rows in blocks)
    return float(sum(weight(rows) @ dissimilarity.to_center(X[rows], mean) for rows in blocks))

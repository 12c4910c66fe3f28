"""Tiny posteriors, enumerated with naive losses, and transition matrices built from the laws that kernels publish."""

from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np

from bayesfair._arrays import on_device
from bayesfair.fairlets.compositions import anchor_group, capacities
from bayesfair.fairlets.members import member_table
from bayesfair.gibbs import Settings, Table
from bayesfair.gibbs.loss import cluster_means
from bayesfair.gibbs.losses import resolve_loss
from bayesfair.gibbs.poisson_binomial import split_law
from bayesfair.gibbs.run import Run, chain_keys, draw
from bayesfair.gibbs.states import FairletState, InverseTemperatures
from bayesfair.gibbs.targets import TARGETS
from bayesfair.gibbs.targets.starts import stacked_states

CASES = {  # group sizes, composition, clusters
    "1:1": ((3, 3), "auto", 2),
    "floor/ceil": ((3, 4), 3, 2),
    "floor/ceil hubs": ((4, 5), 2, 1),
    "three groups": ((3, 3, 3), "auto", 2),
    "unequal, one alone": ((3, 3), ((1, 2), (1, 0), (1, 1)), 2),
    "unequal, a group of one, weighted": ((1, 4), ((1, 1), (0, 2), (0, 1)), 2),
    "unequal hubs, one lacks a group": ((3, 4), ((2, 1), (0, 2), (1, 1)), 2),
    "1:1, weighted": ((3, 3), "auto", 2),
    "floor/ceil, weighted": ((3, 4), 3, 2),
    "two-member hubs, weighted": ((6,), 3, 2),
}
LOSSES = ("kmeans", "manhattan", "minkowski", "kl", "itakura-saito", "binary")
TOLERANCE, CAUGHT = 1e-10, 1e-4  # of invariance_error: exact kernels, planted bugs
TEMPERATURES = InverseTemperatures(0.7, 1.9)
# Laws are evaluated once: what counts is the compilation. In double precision nothing depends on the optimisations.
QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


@dataclass(frozen=True, eq=False)
class Tiny:
    """A target with all of its states: which fairlet each observation is in, which cluster each fairlet is in.

    Each is made once and told apart by identity, so that what follows from it can be kept.
    """

    target: object
    X: np.ndarray
    code: np.ndarray
    weight: np.ndarray  # (obs,), whole numbers: how many rows each is
    capacities: object
    fairlets: np.ndarray  # (states, obs)
    clusters: np.ndarray  # (states, fairlets)
    members: np.ndarray  # (states, fairlets, slots)
    index: dict

    def state(self, s):
        return FairletState(on_device(self.members[s]), on_device(self.clusters[s]), TEMPERATURES)

    def opened(self, state, centers=None):
        """The state within a sweep, given centres where there are some."""
        opened = self.target.open(state)
        return opened if centers is None else opened._replace(centers=centers)

    def key(self, members, cluster):
        fairlet = np.empty(len(self.X) + 1, int)
        fairlet[np.asarray(members)] = np.arange(len(members))[:, None]
        return (*fairlet[:-1].tolist(), *np.asarray(cluster).tolist())

    def state_of(self, members, cluster):
        return self.index[self.key(members, cluster)]


def tiny(case, loss="kmeans", name="joint", dtype=np.float64, prior=None):
    return _tiny(case, loss, name, dtype, prior, jax.config.jax_enable_x64)


@cache
def _tiny(case, loss, name, dtype, prior, x64):
    sizes, composition, n_clusters = CASES[case]
    rng = np.random.default_rng(len(case))
    X = rng.uniform(0.05, 0.95, (sum(sizes), 2))
    if loss in ("kmeans", "manhattan", "minkowski"):
        X = 2 * X
    elif loss in ("kl", "itakura-saito"):
        X = 3 * X
    code = np.repeat(np.arange(len(sizes)), sizes)
    held = capacities(np.array(sizes), composition)
    m = len(held.lower)
    pool = np.array([_mates(code if anchor_group(held) is None else np.zeros(m, int))])
    weight = weights_of(case, len(X))
    asked = Settings(n_clusters, resolve_loss(loss, 3.0), prior or TEMPERATURES)
    table = Table(X, None, None if (weight == 1).all() else weight)
    decompositions = _decompositions(code, held)
    clusterings = [c for c in product(range(n_clusters), repeat=m) if len(set(c)) == n_clusters]
    states = [(f, c) for f in decompositions for c in clusterings]
    fairlets = np.array([f for f, _ in states])
    clusters = np.array([c for _, c in states], dtype=np.int32)
    tables = {f: member_table(np.array(f), code, held.upper) for f in decompositions}
    members = np.stack([tables[f] for f, _ in states])
    index = {(*f, *c): s for s, (f, c) in enumerate(states)}
    if name == "optimal":  # that is, at the first of all decompositions
        target = TARGETS[name].of(table._replace(members=members[0]), held, asked, dtype)
    else:
        target = TARGETS[name].of(table, held, asked, pool, dtype)
    return Tiny(target, X, code, weight, held, fairlets, clusters, members, index)


def weights_of(case, n_obs):
    return np.resize([2.0, 1.0, 3.0, 1.0, 1.0, 4.0, 2.0], n_obs) if "weighted" in case else np.ones(n_obs)


def again(t, rows):
    """Some of the table's rows, each as often as it weighs."""
    return np.repeat(t.X[rows], t.weight[rows].astype(int), axis=0)


def _mates(group):
    """A fixed matching: neighbours in row order within each group."""
    mate = np.arange(len(group))
    for value in np.unique(group):
        rows = np.flatnonzero(group == value)
        for a, b in zip(rows[::2], rows[1::2]):
            mate[a], mate[b] = b, a
    return mate


def _decompositions(code, held):
    """All ways to fill fairlets within the capacities; with anchors, fairlet i keeps the i-th of them."""
    m = len(held.lower)
    anchor = anchor_group(held)
    per_group = []
    for group in range(held.lower.shape[1]):
        size = int((code == group).sum())
        choices = [tuple(range(size))] if group == anchor else product(range(m), repeat=size)
        bounds = held.lower[:, group], held.upper[:, group]
        per_group.append([c for c in choices if _fits(np.bincount(c, minlength=m), *bounds)])
    return [sum(parts, ()) for parts in product(*per_group)]


def _fits(count, lower, upper):
    return (count >= lower).all() and (count <= upper).all()


# The oracle: losses by double loops over points, from the formulas of the papers.


def divergence(loss, x, y):
    if loss == "kmeans":
        return ((x - y) ** 2).sum()
    if loss == "kl":
        return (x * np.log(x / y) - x + y).sum()
    if loss == "itakura-saito":
        return (x / y - np.log(x / y) - 1).sum()
    if loss == "binary":
        return (x * np.log(x / y) + (1 - x) * np.log((1 - x) / (1 - y))).sum()
    power = 1.0 if loss == "manhattan" else 3.0
    return (np.abs(x - y) ** power).sum() ** (1 / power)


def is_norm(loss):
    return loss in ("manhattan", "minkowski")


def naive_fairlet_loss(t: Tiny, loss, fairlet):
    anchor, total = t.target.anchor, 0.0
    for i in range(fairlet.max() + 1):
        rows = np.flatnonzero(fairlet == i)
        if anchor is None:
            center = again(t, rows).mean(0)
            total += sum(divergence(loss, x, center) for x in again(t, rows))
            continue
        (a,) = [j for j in rows if t.code[j] == anchor]
        for j in rows:
            if j == a:
                continue
            pair = 2 * t.weight[j] * t.weight[a] / (t.weight[j] + t.weight[a])
            if is_norm(loss):
                total += pair * divergence(loss, t.X[j], t.X[a])
            else:
                middle = (t.X[j] + t.X[a]) / 2
                total += pair * 2 * (divergence(loss, t.X[j], middle) + divergence(loss, t.X[a], middle))
    return total


def naive_units(t: Tiny, fairlet):
    m = fairlet.max() + 1
    centers = np.array([again(t, fairlet == i).mean(0) for i in range(m)])
    weights = np.bincount(fairlet, t.weight) * m / len(fairlet)
    return centers, weights


def naive_clustering_loss(t: Tiny, loss, fairlet, cluster):
    centers, weights = naive_units(t, fairlet)
    total = 0.0
    for k in range(cluster.max() + 1):
        rows = np.flatnonzero(cluster == k)
        if is_norm(loss):
            pairs = sum(weights[i] * weights[j] * divergence(loss, centers[i], centers[j]) for i in rows for j in rows)
            total += pairs / (2 * weights[rows].sum())
        else:
            mean = (weights[rows, None] * centers[rows]).sum(0) / weights[rows].sum()
            total += sum(weights[i] * divergence(loss, centers[i], mean) for i in rows)
    return total


@cache
def naive_losses(t: Tiny, loss):
    """(L_f, L_c) of every state."""
    of_fairlets = {f: naive_fairlet_loss(t, loss, np.array(f)) for f in set(map(tuple, t.fairlets.tolist()))}
    fairlet = np.array([of_fairlets[tuple(f)] for f in t.fairlets.tolist()])
    clustering = np.array([naive_clustering_loss(t, loss, f, c) for f, c in zip(t.fairlets, t.clusters)])
    return fairlet, clustering


def normalise(log_weights):
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def joint(t: Tiny, loss, lambdas=TEMPERATURES):
    fairlet, clustering = naive_losses(t, loss)
    return normalise(-lambdas.fairlet * fairlet - lambdas.clustering * clustering)


def naive_augmented(t, loss, centers, lambdas=TEMPERATURES):
    """p(state | m) for fixed centres: exp(-lambda_f L_f - lambda_c sum_i w_i d(u_i, m)) / prod_k g_k, by hand."""
    fairlet_losses, _ = naive_losses(t, loss)
    log, centers = -lambdas.fairlet * fairlet_losses, np.asarray(centers)
    for s, (fairlet, cluster) in enumerate(zip(t.fairlets, t.clusters)):
        units, weights = naive_units(t, fairlet)
        if t.target.loss.translation_invariant:
            units = units - t.X.mean(0)
        log[s] -= lambdas.clustering * sum(
            weights[i] * divergence(loss, units[i], centers[k]) for i, k in enumerate(cluster)
        )

    return normalise(log - log_normalizers(t, lambdas.clustering, all_states))


@cache
def log_normalizers(t, lambda_c, all_states):
    """The package's log g of every state."""

    def of_state(state):
        means = cluster_means(t.target.units_of(t.target.open(state)), t.target.n_clusters)
        return t.target.loss.log_normalizer(lambda_c, means).sum()

    return all_states(t, of_state)


def some_centers(t, seed=0):
    rng = np.random.default_rng(seed)
    X = t.X - t.X.mean(0) if t.target.loss.translation_invariant else t.X
    return on_device(X[rng.choice(len(X), t.target.n_clusters, replace=False)] * 0.9 + 0.02)


def invariance_error(pi, P):
    """How far pi P is from pi, after checking that P is a transition matrix."""
    np.testing.assert_allclose(P.sum(1), 1, atol=1e-9)
    assert P.min() >= -1e-12
    return np.abs(pi @ P - pi).max()


def with_rest(P):
    """The matrix with whatever the rows lack on the diagonal."""
    P = P.copy()
    P[np.diag_indices(len(P))] += 1 - P.sum(1)
    return P


def matrix_of(t: Tiny, members, clusters, probabilities):
    """The transition matrix of moves to these tables and clusters with these probabilities, (states, choices, ...)."""
    P, clusters = np.zeros((len(t.fairlets),) * 2), np.broadcast_to(clusters, members.shape[:-1])
    for at in zip(*np.nonzero(probabilities)):
        P[at[0], t.state_of(members[at], clusters[at])] += probabilities[at]
    return with_rest(P)


def all_states(t: Tiny, function):
    """`function(state)` of every state, stacked, in one compiled call."""

    def one(members, cluster):
        return function(FairletState(members, cluster, TEMPERATURES))

    compiled = jax.jit(jax.vmap(one), compiler_options=QUICKLY)
    return jax.tree.map(np.asarray, compiled(t.members, t.clusters))


def trials_law(tree, trials):
    """The probability that `drawn_trials` ends at these trials (trials,), given their sum: a product over the splits."""
    probability, counts = 1.0, trials
    for law in tree[:-1]:
        left, right, total = counts[0::2], counts[1::2], counts[0::2] + counts[1::2]
        mass = split_law(law[0::2], law[1::2], total)
        probability *= (jnp.take_along_axis(mass, left[:, None], -1)[:, 0] / mass.sum(-1)).prod()
        counts = left + right
    return probability


def settings(t, **choices):
    return Settings(t.target.n_clusters, t.target.loss, **choices)


# The sampler against its law.

# 40,000 draws (`many_draws`) on at most 60 labellings: independent draws stay below 0.02 but for one run in a thousand, and
# these kernels forget within a few sweeps. Of at most 30 labellings half as many draws do.
NOISE = 0.03
CHAINS = 100


def many_draws(run, target, total=40_000):
    """400 draws of each of 100 chains, after 100 sweeps: many short chains take a tenth of the time of two long ones."""
    run, _ = draw(run, target, 100)
    return draw(run, target, total // CHAINS)[1]


def start(t, num_chains=2, seed=0, **choices):
    members = () if t.target.keeps_fairlets else t.members[0]
    states = stacked_states(t.target, members, t.clusters[[0] * num_chains], TEMPERATURES)
    return Run(chain_keys(seed, num_chains), 0, states, t.target.moves(settings(t, **choices)))


def label_law(t, pi):
    return law_of(np.take_along_axis(t.clusters, t.fairlets, 1), pi)


def law_of(labels, pi):
    law = Counter()
    for row, probability in zip(labels.tolist(), pi):
        law[tuple(row)] += probability
    return law


def distance_to(law, draws):
    """Total variation between drawn labels and their law."""
    drawn = Counter(map(tuple, draws.labels.reshape(-1, draws.labels.shape[2]).tolist()))
    total = sum(drawn.values())
    return 0.5 * sum(abs(drawn[row] / total - law[row]) for row in set(drawn) | set(law))

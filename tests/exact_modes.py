"""Posteriors of ten observations with two modes, enumerated, and exact draws from them."""

from dataclasses import dataclass, replace
from functools import cache
from itertools import permutations, product
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
from exact import TEMPERATURES, normalise
from exact_labels import balanced_labellings

from bayesfair._arrays import on_device
from bayesfair.fairlets.compositions import capacities
from bayesfair.fairlets.members import member_table
from bayesfair.fairness import Groups
from bayesfair.fairness.balanced import balance_constraint
from bayesfair.gibbs import Dispersion, Settings, Table, masses
from bayesfair.gibbs.labellings import Labelling
from bayesfair.gibbs.loss import cluster_means
from bayesfair.gibbs.losses import resolve_loss
from bayesfair.gibbs.moves import mode_jumps
from bayesfair.gibbs.moves.mode_jumps import Modes, Place
from bayesfair.gibbs.states import FairletState, InverseTemperatures
from bayesfair.gibbs.targets import TARGETS

CODE = np.tile([0, 1], 5)
PLACES = {  # two bumps, and one between them that belongs to either
    "kmeans": (-1.2, 0.0, 1.45),
    "kl": (2.6, 5.0, 9.5),
}
SIZES = 6, 2, 2  # observations at each place
LAMBDA = {"kmeans": 2.0, "kl": 2.5}


@dataclass(frozen=True, eq=False)
class Far:
    """A target with all of its states, the law of the states (lambda integrated out where it is sampled), and its modes."""

    target: object
    X: np.ndarray
    states: object  # stacked, without temperatures
    labels: np.ndarray  # (states, obs)
    law: np.ndarray
    loss: np.ndarray  # total loss of each
    modes: Modes

    def drawn(self, size, rng):
        """Exact draws: states stacked."""
        which = rng.choice(len(self.law), size, p=self.law)
        dispersion = np.full(size, float(self.modes.dispersion[0]))
        if self.target.prior is not None:
            dispersion = rng.gamma(self.target.degrees, 1 / self.loss[which])
        return self.at(which, dispersion)

    def at(self, which, dispersion):
        states = jax.tree.map(lambda part: on_device(np.asarray(part)[np.asarray(which)]), self.states)
        lambdas = temperatures_of(self.target, np.asarray(dispersion, self.target.x.dtype))
        return states._replace(lambdas=jax.tree.map(on_device, lambdas))


def temperatures_of(target, dispersion):
    lambdas = target.of_dispersion(dispersion)
    if type(target).__name__ == "Cut":  # whose lambda_f stays where it is
        return InverseTemperatures(0 * dispersion + 1, lambdas.clustering)
    return lambdas


def log_density(target, state, place: Place):
    """log p(z, lambda) - lambda_c sum W d(ubar, m) - sum log g + log mu, written out; of an inverse temperature that is fixed,
    given it."""
    means, centers = cluster_means(target.units_of(state), 2), target.loss.centers_at(place.coordinates)
    total = -state.lambda_c * (means.mass * target.loss.divergence(means.mean, centers)).sum()
    total += target.loss.log_measure(place.coordinates) - target.loss.log_normalizer(state.lambda_c, means).sum()
    power = target.degrees - 1 if target.prior is not None else 0
    return total + power * jnp.log(place.dispersion) - place.dispersion * target.total_loss(target.losses(state))


def far(name="optimal", loss="kmeans", prior=None, dtype=np.float64, apart=1.0, middle=0.0) -> Far:
    """`apart`: how many times as far the places are; `middle`: by how much the one between is moved. Each is made once."""
    return _far(name, loss, prior, dtype, apart, middle, jax.config.jax_enable_x64)


@cache
def _far(name, loss, prior, dtype, apart, middle, x64):
    rng = np.random.default_rng(3)
    center = np.repeat(np.add(PLACES[loss], (0.0, middle, 0.0)), SIZES)
    X = center * (1 + 0.02 * rng.normal(size=len(center))) + 0.02 * rng.normal(size=len(center)) * (loss == "kmeans")
    X = apart * X[:, None]
    groups = Groups(CODE.astype(np.int32), ("a", "b"))
    table, asked = Table(X, groups), Settings(2, resolve_loss(loss), prior or TEMPERATURES)
    if name == "labels":
        constraint = balance_constraint(groups, "exact")
        target = TARGETS[name].of(table, constraint, asked, dtype)
        labels = balanced_labellings(groups, constraint, 2)
        states = Labelling(labels, None)
    else:
        held = capacities(groups.sizes, "auto")
        states, labels = _clusterings(name, held)
        if name == "optimal":
            table, more = table._replace(members=np.asarray(states.members[0])), ()
            states = states._replace(members=())
        else:
            more = (np.array([[1, 0, 3, 2, 4]]),)
        target = TARGETS[name].of(table, held, asked, *more, dtype=dtype)
    return _with_law(target, name, X, states, labels, LAMBDA[loss])


def _clusterings(name, held):
    """All decompositions into pairs (one alone where B is fixed), all clusterings of each."""
    n_pairs = len(held.lower)
    mates = list(permutations(range(n_pairs))) if name != "optimal" else [tuple(range(n_pairs))]
    clusters = [c for c in product(range(2), repeat=n_pairs) if len(set(c)) == 2]
    members, cluster, labels = [], [], []
    for mate in mates:
        fairlet = np.empty(2 * n_pairs, int)
        fairlet[0::2], fairlet[1::2] = np.arange(n_pairs), mate
        table = member_table(fairlet, CODE, held.upper)
        for one in clusters:
            members.append(table)
            cluster.append(one)
            labels.append(np.array(one)[fairlet])
    return FairletState(np.stack(members), np.array(cluster, np.int32), None), np.stack(labels)


@jax.jit
def _losses(target, states):
    return jax.vmap(lambda state: target.losses(target.open(state)))(states)


def _with_law(target, name, X, states, labels, inverse_dispersion) -> Far:
    losses = jax.tree.map(np.asarray, _losses(target, states))
    total = np.asarray(target.total_loss(losses))
    lambdas = temperatures_of(target, np.asarray(inverse_dispersion, target.x.dtype))
    if target.prior is not None:
        log_law = -target.degrees * np.log(total)
    else:
        lambda_c = lambdas if name == "labels" else lambdas.clustering
        log_law = -lambda_c * losses.clustering
        if name == "joint":
            log_law = log_law - lambdas.fairlet * losses.fairlet
    law = normalise(log_law)
    if name == "cut":
        law = _cut(target, losses, law, log_law, lambdas.fairlet, labels, states)
    modes = _modes(target, states, labels, law, total, inverse_dispersion)
    return Far(target, X, states, labels, law, total, modes)


def _cut(target, losses, law, log_law, lambda_f, labels, states):
    """p(B) p(C | B)."""
    _, which = np.unique(np.asarray(states.members).reshape(len(law), -1), axis=0, return_inverse=True)
    which = which.ravel()
    of_b = np.bincount(which, law)
    first = np.unique(which, return_index=True)[1]
    return normalise(-lambda_f * losses.fairlet[first])[which] * law / of_b[which]


@jax.jit
def _drawn_centers(target, state, dispersion):
    """Coordinates (500, clusters, 1) of centres given the state."""
    state = target.open(state._replace(lambdas=temperatures_of(target, dispersion)))
    means = cluster_means(target.units_of(state), 2)
    keys = jax.random.split(jax.random.PRNGKey(0), 500)
    return jax.vmap(lambda key: target.loss.coordinates(target.loss.draw_centers(key, state.lambda_c, means)))(keys)


def _modes(target, states, labels, law, total, inverse_dispersion) -> Modes:
    """Around the likeliest state in which the middle place goes with the first, and with the last."""
    centers, spreads, dispersions = [], [], []
    for here in sides(labels):
        best = int(np.argmax(np.where(here, law, 0)))
        dispersion = target.degrees / total[best] if target.prior is not None else inverse_dispersion
        state = jax.tree.map(lambda part: np.asarray(part)[best], states)  # noqa: B023
        drawn = _drawn_centers(target, state, np.asarray(dispersion, target.x.dtype))
        centers.append(np.asarray(drawn).mean(0))
        spreads.append(np.asarray(drawn).std(0))
        dispersions.append(dispersion)
    first = np.argsort(
        np.asarray(centers)[:, :, 0], axis=1
    )  # clusters in order, so that they are partners as they stand
    centers, spreads = (np.take_along_axis(np.asarray(part), first[:, :, None], 1) for part in (centers, spreads))
    partner = on_device(np.broadcast_to(np.arange(2, dtype=np.int32), (2, 2, 2)))
    told = (np.asarray(part, target.x.dtype) for part in (centers, spreads, dispersions))
    return Modes(*map(on_device, told), partner)


SAMPLED = Dispersion()
EVERY = [  # every target, losses whose lambda is fixed and sampled
    ("optimal", "kl", None),
    ("cut", "kmeans", SAMPLED),
    ("joint", "kmeans", SAMPLED),
    ("labels", "kmeans", SAMPLED),
]

BUGS = {  # what is told in the place of what `moved_place` tells
    "no Jacobian": lambda here, there, log_jacobian, leads_back: (there, 0.0 * log_jacobian, leads_back),
    "lambda is not carried along": lambda here, there, *told: (there._replace(dispersion=here.dispersion), *told),
    "nobody looks whether it leads back": lambda here, there, log_jacobian, leads_back: (
        there,
        log_jacobian,
        jnp.ones_like(leads_back),
    ),
}


def plant(bug, monkeypatch):
    """One of `BUGS` in the map between modes."""
    right = mode_jumps.moved_place

    def planted(target, modes, here, *rest):
        return BUGS[bug](here, *right(target, modes, here, *rest))

    monkeypatch.setattr(mode_jumps, "moved_place", planted)


def wrongly_told(f: Far) -> Far:
    """Modes may be told wrongly without harm: with a second one too wide and too cold every part of the map counts."""
    spread, dispersion = map(np.asarray, f.modes[1:3])
    wide, cold = np.array([1.0, 2.5])[:, None, None], np.array([1.0, 1.6])
    modes = f.modes._replace(spread=on_device(spread * wide), dispersion=on_device(dispersion * cold))
    return replace(f, modes=modes)


def jumps_measured_by(measured, monkeypatch):
    """In place of pools of chains and the works of their jumps: `measured(here, there, length)`."""

    def pool(mode, number, chains):
        return SimpleNamespace(mode=mode, target=chains.target, run=SimpleNamespace(keys=np.zeros(4), states=()))

    monkeypatch.setattr(masses, "Pool", pool)
    monkeypatch.setattr(masses, "_measured", measured)


def sides(labels):
    """(does the middle place go with the first?, with the last?)"""
    return tuple((labels[..., 6:8] == labels[..., at : at + 1]).all(-1) for at in (0, 8))


def middle_goes_left(labels):
    return sides(labels)[0]

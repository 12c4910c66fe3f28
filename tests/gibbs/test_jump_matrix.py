"""Jumps between modes as a transition matrix: centres summed over a lattice that the map takes onto itself.

On such a lattice the sum is no approximation of what is to be shown: what flows from a mode's part of the lattice to the
image of that part comes back from there, or the posterior is not invariant.
"""

from typing import NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import QUICKLY, some_centers, tiny
from exact_modes import BUGS, EVERY, SAMPLED, far, log_density, plant, temperatures_of, wrongly_told
from tiers import tiers

from bayesfair.gibbs.moves import mode_jumps
from bayesfair.gibbs.moves.mode_jumps import Place, by_path, jump, nearest_mode
from bayesfair.gibbs.moves.swaps import Swaps
from bayesfair.gibbs.states import FairletState
from bayesfair.gibbs.sweep import adjoint

DEVIATIONS = np.linspace(-3.5, 3.5, 8)  # of a centre, in units of its mode's spread
RATIOS = 0.8, 1.3  # of a sampled lambda to its mode's
CLUSTERINGS = 30  # of five fairlets, none of the two clusters empty


class Lattice(NamedTuple):
    """theta around both modes, (modes, points, ...): what leads from mode 0 to the same point of mode 1, and back."""

    coordinates: np.ndarray  # (2, points, clusters, 1)
    dispersion: np.ndarray  # (2, points)
    volume: np.ndarray  # (2, 1), each point's cell
    level: np.ndarray  # (points,), which of the lambdas
    in_mode: np.ndarray  # (2, points), whether the mode is the nearest one, its clusters numbered as meant


def lattice(f) -> Lattice:
    """Both numberings of the clusters, every lambda."""
    modes = jax.tree.map(np.asarray, f.modes)
    ratios = (1.0,) if f.target.prior is None else RATIOS
    first, second, level = (part.ravel() for part in np.meshgrid(DEVIATIONS, DEVIATIONS, range(len(ratios))))
    points = modes.center[:, None] + modes.spread[:, None] * np.stack([first, second], -1)[..., None]
    points = np.concatenate([points, points[:, :, ::-1]], 1)
    level = np.tile(level, 2)
    dispersion = modes.dispersion[:, None] * np.asarray(ratios)[level]
    cell = modes.spread.prod((1, 2)) * (1.0 if f.target.prior is None else modes.dispersion)
    nearest, number = nearest_modes(f.modes, points)
    numbering = np.repeat([[0, 1], [1, 0]], len(level) // 2, axis=0)
    in_mode = (nearest == np.arange(2)[:, None]) & (number == numbering).all(-1)
    return Lattice(points, dispersion, cell[:, None], level, np.asarray(in_mode))


@jax.jit
def nearest_modes(modes, points):
    return jax.vmap(jax.vmap(lambda one: nearest_mode(modes, one)))(points)


def states_and_ends(f):
    """Numbers of the states that are looked at, (states,), and of those that one jump may lead to, (states, ends).

    Labels alone are drawn anew, and only where clusters are independent: other decompositions are further such posteriors.
    """
    states = np.arange(len(f.law))[: 3 * CLUSTERINGS]
    if not f.target.clusters_are_independent:
        return states, states[:, None]
    first = states - states % CLUSTERINGS
    return states, first[:, None] + np.arange(CLUSTERINGS)


def opened(f, which, dispersion):
    states = jax.tree.map(lambda part: jnp.asarray(part)[which], f.states)
    return f.target.open(states._replace(lambdas=temperatures_of(f.target, dispersion)))


def log_chosen(f, state, place: Place):
    """Log probability of the labels of `state` where each is drawn by itself given centres."""
    loss, units = f.target.loss, f.target.units_of(state)
    apart = jnp.stack([loss.divergence(units.center, m[None]) for m in loss.centers_at(place.coordinates)], -1)
    logits = -state.lambda_c * units.weight[:, None] * apart
    return (jnp.take_along_axis(logits, units.cluster[:, None], 1)[:, 0] - jax.nn.logsumexp(logits, 1)).sum()


def flows(f, states, ends, points: Lattice):
    """(the mass of every state at every point of either mode, (modes, points, states); what of it jumps to each end)."""

    def one(which, end, here, there):
        state, last = opened(f, which, here.dispersion), opened(f, end, there.dispersion)
        centers = f.target.loss.centers_at(here.coordinates)
        with (
            mock.patch.object(type(f.target.loss), "draw_centers", return_value=centers),
            mock.patch.object(mode_jumps, "draw_cluster", return_value=f.target.units_of(last).cluster),
        ):
            made = jump(jax.random.PRNGKey(0), f.target, f.modes, state, lambda origin: 1 - origin, 1)
        log_way = log_chosen(f, last, there) if f.target.clusters_are_independent else 0.0
        return log_density(f.target, state, here), log_way + jnp.minimum(made.log_ratio, 0.0)

    over_ends = jax.vmap(one, (None, 0, None, None))
    over_states = jax.vmap(over_ends, (0, 0, None, None))
    over_points = jax.jit(jax.vmap(over_states, (None, None, 0, 0)), compiler_options=QUICKLY)
    places = [Place(*place) for place in zip(points.coordinates, points.dispersion)]
    found = [over_points(states, ends, places[side], places[1 - side]) for side in (0, 1)]
    log_mass, log_way = (np.stack(part) for part in zip(*found))
    mass = np.exp(log_mass[..., 0] - log_mass.max()) * (points.volume * points.in_mode)[..., None]
    mass /= mass.sum()
    return mass, mass[..., None] * np.exp(log_way)


def law_and_matrix(f):
    """pi and P over (mode, lambda, labels)."""
    states, ends = states_and_ends(f)
    points = lattice(f)
    mass, flow = flows(f, states, ends, points)
    levels, n = points.level.max() + 1, len(states)
    law, flowing = np.zeros((2, levels, n)), np.zeros((2, levels, n, 2, levels, n))
    for side in (0, 1):
        for level in range(levels):
            here = points.level == level
            law[side, level] = mass[side, here].sum(0)
            flowing[side, level, np.arange(n)[:, None], 1 - side, level, ends] = flow[side, here].sum(0)
    law, flowing = law.ravel(), flowing.reshape(law.size, -1)
    matrix = np.divide(flowing, law[:, None], out=np.zeros_like(flowing), where=law[:, None] > 0)
    return law, matrix + np.diag(1 - matrix.sum(1))


@pytest.mark.parametrize(("name", "loss", "prior"), tiers(EVERY, [EVERY[0], EVERY[3]]))
def test_the_posterior_is_invariant(name, loss, prior, x64):
    law, matrix = law_and_matrix(far(name, loss, prior))
    assert (matrix >= 0).all()
    assert law @ (1 - np.diag(matrix)) > 0.05  # jumps are made
    np.testing.assert_allclose(law @ matrix, law, rtol=0, atol=1e-8)


def test_planted_bugs_are_caught(x64):
    f = wrongly_told(far("optimal", "kmeans", SAMPLED))
    law, matrix = law_and_matrix(f)
    np.testing.assert_allclose(law @ matrix, law, rtol=0, atol=1e-8)
    for bug in BUGS:
        with pytest.MonkeyPatch.context() as patches:
            plant(bug, patches)
            law, matrix = law_and_matrix(f)
        assert np.abs(law @ matrix - law).max() > 1e-5, bug


# The path itself: every way through the labellings of six people, by the law of the moves that `by_path` asks for.


class Ends(NamedTuple):
    here: Place
    there: Place

    def back(self):
        return Ends(self.there, self.here)


def two_places(t) -> Ends:
    hotter, centers = 1.0 if t.target.prior is None else 1.6, (some_centers(t, seed) for seed in range(2))
    return Ends(*(Place(np.asarray(center), np.asarray(at)) for center, at in zip(centers, (0.8, 0.8 * hotter))))


def law_of(t, place: Place):
    """Of all labellings at a place, unnormalised."""
    return np.exp(log_densities(t.target, t.members, t.clusters, place))


@jax.jit
def log_densities(target, members, clusters, place: Place):
    def one(members, cluster):
        state = FairletState(members, cluster, target.of_dispersion(place.dispersion))
        return log_density(target, target.open(state), place)

    return jax.vmap(one)(members, clusters)


def matrix_of(t, moves, law):
    """The product of the moves' matrices, heat baths in the place of Metropolis: what counts is the order of their parts."""
    matrix = np.eye(len(law))
    for move in moves:
        for fixed in parts_of(t, move):
            bath = law * (fixed[:, None] == fixed).all(-1)
            matrix = matrix @ (bath / bath.sum(1, keepdims=True))
    return matrix


def parts_of(t, move):
    """What of the states (states, ...) each part of a move leaves as it is."""
    if isinstance(move, Swaps):
        return [t.clusters]
    assert move.n_blocks == t.target.n_fairlets
    rest = [np.hstack([t.fairlets, np.delete(t.clusters, i, 1)]) for i in range(move.n_blocks)]
    return rest[::-1] if move.backwards else rest


def walk_of(t):
    """The function of ends and ways (ways, length) that says how much mass goes each way, from a labelling to the next, and
    is accepted: one program for one length."""
    asked = []

    def labelled(which, dispersion):
        lambdas = t.target.of_dispersion(dispersion)
        return t.opened(FairletState(jnp.asarray(t.members)[which], jnp.asarray(t.clusters)[which], lambdas))

    def work(ends, way):
        asked.clear()
        places, steps = [], iter(way[1:])

        def follow(key, target, state, moves):
            now = Place(target.loss.coordinates(state.centers), target.dispersion_of(state.lambdas))
            asked.append(moves)
            places.append(now)
            return labelled(next(steps), now.dispersion)._replace(centers=state.centers), {}

        with mock.patch.object(mode_jumps, "in_turn", follow), mock.patch.object(jax.lax, "fori_loop", unrolled):
            start = labelled(way[0], ends.here.dispersion)
            return by_path(jax.random.PRNGKey(0), t.target, start, *ends, len(way))[1], places

    compiled = jax.jit(jax.vmap(work, (None, 0), (0, None)), compiler_options=QUICKLY)

    def walked(ends, ways):
        total, places = compiled(ends, ways)
        mass = law_of(t, ends.here)[ways[:, 0]] * np.exp(np.minimum(total, 0.0))
        for step, (moves, now) in enumerate(zip(asked, places)):
            mass *= matrix_of(t, moves, law_of(t, now))[ways[:, step], ways[:, step + 1]]
        return mass

    return walked


def unrolled(lower, upper, body, carry):
    for t in range(lower, upper):
        carry = body(jnp.asarray(t), carry)
    return carry


def imbalance(t, walked, ends):
    """How much more flows between two labellings than comes back, at most, as a share of all that flows, over every way."""
    ways, flow = every_way(t), np.zeros((2, len(t.fairlets), len(t.fairlets)))
    for side, (start, way) in enumerate(((ends, ways), (ends.back(), ways[:, ::-1]))):
        np.add.at(flow[side], (way[:, 0], way[:, -1]), walked(start, way))
    return np.abs(flow[0] - flow[1].T).max() / flow[0].sum()


def every_way(t):
    return np.stack(np.meshgrid(*[np.arange(len(t.fairlets))] * 3, indexing="ij"), -1).reshape(-1, 3)


ORDERS = [
    lambda moves: moves,  # the same order
    lambda moves: moves[::-1],  # moves turned round, their blocks not
    lambda moves: adjoint(moves)[::-1],  # blocks turned round, moves not
]


def test_what_flows_along_a_path_flows_back_and_an_order_of_moves_that_is_not_reversible_is_caught(monkeypatch, x64):
    """Also where the path leads from a place to itself, and nothing is paid."""
    t = tiny("1:1")
    ends = two_places(t)
    still = Ends(ends.here, ends.here)
    assert imbalance(t, walk_of(t), ends) < 1e-12
    for order in ORDERS:
        monkeypatch.setattr(mode_jumps, "adjoint", order)
        walked = walk_of(t)
        assert imbalance(t, walked, still) > 1e-4
        assert order is not ORDERS[0] or imbalance(t, walked, ends) > 1e-4


def test_every_single_way_of_a_longer_path_is_taken_back_as_often(x64):
    t = tiny("1:1", prior=SAMPLED)
    n_states = len(t.fairlets)
    ways = np.random.default_rng(0).integers(n_states, size=(n_states**3, 5))  # of 60 million
    ends = two_places(t)
    walked = walk_of(t)
    forth, back = walked(ends, ways), walked(ends.back(), ways[:, ::-1])
    assert (forth > 0).mean() > 0.2
    np.testing.assert_allclose(forth, back, rtol=1e-9)

"""Jumps between modes of the posterior: a nonequilibrium candidate, exactly accepted (DESIGN.md, section 2.7).

With conjugate centres m (`blocked.py`) and theta = (m, lambda), the augmented law is

    pi(z, theta) = p(z, lambda) prod_k exp(-lambda_c W_k d(ubar_k, m_k)) mu(m_k) / g_k.

A jump draws m | z, finds the mode nearest to m, chooses another one, and maps theta to the same place of that mode:
theta' = T(theta), in units of the modes' spreads. Then theta moves from here to there in small steps, and after each
step the labels follow by moves that leave pi(. | theta_t) invariant. The work

    w = sum_t log pi(z_{t-1}, theta_t) - log pi(z_{t-1}, theta_{t-1})

decides (`by_path`): the end is accepted with probability min(1, exp(w) |dT|) (Nilmeier, Crooks, Minh and Chodera 2011;
Neal 1996 for a path that returns). The path backwards must have the law of the path forwards in reversed time, so its
second half mirrors the first, with the adjoints of its moves. And T must lead back: a jump is refused if its end is not
nearest to the chosen mode, with its clusters paired as before.

If units choose their clusters independently given theta, apart from prod g_k, no path is needed (`in_one_step`): new
labels are drawn from softmax_k(-lambda_c w_i d(u_i, m'_k)) at once, and

    w = log pi(z', theta') q(z | theta) - log pi(z, theta) q(z' | theta'),   q the softmax.

Over many jumps from mode j to mode j', the mean of exp(w) |dT| among those not refused is mass(A') / mass(A), with A
and A' the parts of both modes between which T leads there and back: mass(A) = mass(j) (1 - the share refused from j).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bayesfair._arrays import computed_once
from bayesfair._draws import Statistic
from bayesfair.gibbs.capabilities import HasUnits
from bayesfair.gibbs.loss import BregmanLoss, Units, cluster_means
from bayesfair.gibbs.moves.collapsed import draw_cluster
from bayesfair.gibbs.sweep import adjoint, in_turn


class Modes(NamedTuple):
    """The posterior's modes: centres in the loss's own `coordinates`, their spread, lambda, and matching clusters."""

    center: Float[Array, "modes clusters dim"]
    spread: Float[Array, "modes clusters dim"]
    dispersion: Float[Array, " modes"]
    partner: Int[Array, "modes modes clusters"]  # partner[a, b, k]: the cluster of b that matches cluster k of a


class Place(NamedTuple):
    """theta = (centres in coordinates, lambda)."""

    coordinates: Float[Array, "clusters dim"]
    dispersion: Float[Array, ""]


class Jump(NamedTuple):
    """The end of a path, its mode of `origin`, and log of exp(w) |dT|, -inf if T does not lead back."""

    state: Any
    origin: Int[Array, ""]
    log_ratio: Float[Array, ""]


@dataclass(frozen=True)
class ModeJumps:
    """One jump to another of the target's `modes`; `length` (odd) is the number of steps of its path, if it has one."""

    length: int = 1
    period: int = 1  # sweeps between jumps

    statistics = {"jump_acceptance": Statistic("figure")}  # noqa: RUF012
    tunes = ("length", "period")

    def __call__(self, key, target: HasUnits, state):
        key_jump, key_accept, key_mode = jax.random.split(key, 3)
        n_modes = target.modes.dispersion.shape[0]
        other = jax.random.randint(key_mode, (), 1, n_modes)
        made = jump(key_jump, target, target.modes, state, lambda origin: (origin + other) % n_modes, self.length)
        accepted = jnp.log(jax.random.uniform(key_accept, dtype=target.x.dtype)) < made.log_ratio
        state = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), made.state, state)
        return state, {"jump_acceptance": jnp.nan_to_num(jnp.exp(jnp.minimum(made.log_ratio, 0.0)))}


def jump(key, target: HasUnits, modes: Modes, state, destination, length) -> Jump:
    """A path from `state` to the mode `destination(origin)`, not yet accepted."""
    means = cluster_means(target.units_of(state), target.n_clusters)
    centers = target.loss.augmentation.draw_centers(jax.random.fold_in(key, 0), state.lambda_c, means)
    here = Place(target.loss.coordinates(centers), target.dispersion_of(state.lambdas))
    origin, number = nearest_mode(modes, here.coordinates)
    there, log_jacobian, leads_back = moved_place(target, modes, here, origin, number, destination(origin))
    key_work = jax.random.fold_in(key, 1)
    if target.clusters_are_independent:
        state, total = in_one_step(key_work, target, state, here, there)
    else:
        state, total = by_path(key_work, target, state, here, there, length)
    return Jump(state, origin, jnp.where(leads_back, total + log_jacobian, -jnp.inf))


def nearest_mode(modes: Modes, coordinates):
    """(the mode nearest to these centres in units of its spread, the centre matching each of its clusters (clusters,))."""

    def one(center, spread):
        return paired(jnp.square((coordinates[:, None] - center) / spread).sum(-1))

    distance, number = jax.vmap(one)(modes.center, modes.spread)
    nearest = jnp.argmin(distance)
    return nearest, number[nearest]


def paired(apart: Float[Array, "rows columns"]):
    """Pair rows with columns, the nearest first: (the sum of their distances, the row of each column)."""
    n = apart.shape[0]

    def one(_, carry):
        left, total, row_of = carry
        row, column = jnp.unravel_index(jnp.argmin(left), left.shape)
        total += left[row, column]
        left = left.at[row].set(jnp.inf).at[:, column].set(jnp.inf)
        return left, total, row_of.at[column].set(row.astype(row_of.dtype))

    start = apart, jnp.zeros((), apart.dtype), jnp.zeros(n, jnp.int32)
    return jax.lax.fori_loop(0, n, one, start)[1:]


def moved_place(target: HasUnits, modes: Modes, here: Place, origin, number, destination):
    """T: (theta' in the mode `destination`, log |dT|, does T lead back from there?)."""
    partner = modes.partner[origin, destination]
    deviation = (here.coordinates[number] - modes.center[origin]) / modes.spread[origin]
    moved = modes.center[destination][partner] + modes.spread[destination][partner] * deviation
    log_jacobian = jnp.log(modes.spread[destination]).sum() - jnp.log(modes.spread[origin]).sum()
    dispersion = here.dispersion
    if target.prior is not None:
        log_factor = jnp.log(modes.dispersion[destination]) - jnp.log(modes.dispersion[origin])
        dispersion, log_jacobian = dispersion * jnp.exp(log_factor), log_jacobian + log_factor
    there = Place(here.coordinates.at[number].set(moved), dispersion)
    nearest, numbered = nearest_mode(modes, there.coordinates)
    return there, log_jacobian, (nearest == destination) & (numbered[partner] == number).all()


def in_one_step(key, target: HasUnits, state, here: Place, there: Place):
    """New labels at the new place, and w without the Jacobian."""
    old = target.units_of(state)
    moved = at_dispersion(target, state, there.dispersion)
    log_mass, logits = log_choices(target, old, there, moved.lambda_c)
    uniforms = jax.random.uniform(key, old.cluster.shape, old.center.dtype)
    new = old._replace(cluster=draw_cluster(uniforms, logits).astype(old.cluster.dtype))
    total = (log_mass - log_choices(target, old, here, state.lambda_c)[0]).sum()
    total += log_normalizers(target, old, state.lambda_c) - log_normalizers(target, new, moved.lambda_c)
    total += target.loss.log_measure(there.coordinates) - target.loss.log_measure(here.coordinates)
    apart = target.total_loss(target.losses(state)._replace(clustering=jnp.zeros_like(here.dispersion)))
    return moved._replace(cluster=new.cluster), total + log_prior_ratio(target, apart, here, there)


def log_choices(target: HasUnits, units: Units, place: Place, lambda_c):
    """(log sum_k exp(-lambda_c w_i d(u_i, m_k)) of every unit, its terms)."""
    # Not `loss.divergences`, which omits the unit's own term: lambda differs between the two places.
    apart = BregmanLoss.divergences(target.loss, units.center, target.loss.centers_at(place.coordinates))
    logits = -lambda_c * units.weight[:, None] * apart
    return jax.nn.logsumexp(logits, axis=1), logits


def log_normalizers(target: HasUnits, units: Units, lambda_c):
    """sum_k log g_k; +inf if a cluster is empty."""
    means = cluster_means(units, target.n_clusters)
    total = target.loss.augmentation.log_normalizer(lambda_c, means).sum()
    return jnp.where((means.count > 0).all(), total, jnp.inf)


def by_path(key, target: HasUnits, state, here: Place, there: Place, length):
    """The state at the end of the path, and w without the Jacobian; `length` is odd, and may be traced."""
    forth = target.path_moves()

    def place(t):
        share = (t / length).astype(here.coordinates.dtype)
        ratio = jnp.log(there.dispersion) - jnp.log(here.dispersion)
        line = here.coordinates + share * (there.coordinates - here.coordinates)
        return Place(line, here.dispersion * jnp.exp(share * ratio))

    def pushed(t, state, total):
        """Add the work of step t, which does not change the labels."""
        return total + computed_once(log_path_density(target, state, place(t - 1), place(t)))

    def along(moves):
        def step(t, carry):
            state, total = carry
            total = pushed(t, state, total)
            now = place(t)
            given = at_dispersion(target, state, now.dispersion)
            given = given._replace(centers=target.loss.centers_at(now.coordinates))
            followed, _ = in_turn(jax.random.fold_in(key, t), target, given, moves)
            return followed._replace(centers=None), total

        return step

    middle = (length + 1) // 2
    ways = [(1, length, forth)]
    if adjoint(forth) != forth:
        ways = [(1, middle, forth), (middle, length, adjoint(forth))]
    carry = state, jnp.zeros((), here.coordinates.dtype)
    for first, end, moves in ways:
        carry = jax.lax.fori_loop(first, end, along(moves), carry)
    state, total = carry
    total = pushed(jnp.asarray(length), state, total)
    return at_dispersion(target, state, there.dispersion), total


def at_dispersion(target: HasUnits, state, dispersion):
    """The state at another lambda, if lambda is sampled."""
    if target.prior is None:
        return state
    return state._replace(lambdas=target.with_dispersion(state.lambdas, dispersion))


def log_path_density(target: HasUnits, state, before: Place, after: Place):
    """log pi(z, after) - log pi(z, before) for the labels of `state`, from differences that are safe in float32."""
    loss, means = target.loss, cluster_means(target.units_of(state), target.n_clusters)

    def terms(place):
        lambda_c = at_dispersion(target, state, place.dispersion).lambda_c
        pull = loss.divergence(means.mean, loss.centers_at(place.coordinates))
        log_normalizer = loss.augmentation.log_normalizer(lambda_c, means)
        return -lambda_c * means.mass * pull - log_normalizer, loss.log_measure(place.coordinates)

    (clusters, measure), (old_clusters, old_measure) = terms(after), terms(before)
    change = (clusters - old_clusters).sum() + measure - old_measure
    return change + log_prior_ratio(target, target.total_loss(target.losses(state)), before, after)


def log_prior_ratio(target: HasUnits, loss, before: Place, after: Place):
    """Log change of lambda^(a + degrees - 1) exp(-lambda (b + loss)); 0 if lambda is fixed."""
    if target.prior is None:
        return jnp.zeros_like(before.dispersion)
    power = target.prior.shape + target.degrees - 1
    up = after.dispersion - before.dispersion
    # log1p keeps digits that a difference of two logs loses.
    return power * jnp.log1p(up / before.dispersion) - (target.prior.rate + loss) * up

"""From a table and groups to a target, and from a target to chains that are ready to run."""

import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bayesfair._check import check_integer, message
from bayesfair._units import Scaling, check_float32, standardise
from bayesfair.fairlets import (
    Capacities,
    anchor_group,
    capacities,
    decompose,
    member_table,
    rule_of_small_groups,
)
from bayesfair.fairness import Groups
from bayesfair.gibbs import temperature
from bayesfair.gibbs.draws import Draws
from bayesfair.gibbs.losses import Loss
from bayesfair.gibbs.matchings import neighbour_matchings
from bayesfair.gibbs.run import Run, chain_keys
from bayesfair.gibbs.sampler import choose_schedule
from bayesfair.gibbs.start import start_clusterings, start_states
from bayesfair.gibbs.target import Allocation, Target, make_target

__all__ = ["TARGETS", "Problem", "in_units_of_table", "make_problem", "start_run"]

TARGETS = ("joint", "cut", "optimal")
LARGEST_TEMPERATURE = 1e30  # in units near the spread: sums of energies are within float32
LARGEST_LOG = 450  # of a loss, to base 2: sums over rows and inverse temperatures have squares that a float64 holds


class Problem(NamedTuple):
    """The data as the sampler sees them, X in units near their spread where the loss allows (`units`), to be told in those
    of the table by `in_units_of_table`. `groups`: to be balanced, one where fairlets are singletons."""

    X: Float[np.ndarray, "obs dim"]
    units: Scaling
    groups: Groups
    capacities: Capacities
    composition: object
    target: Target


def make_problem(
    X, groups, *, n_clusters, loss: Loss, target="joint", composition="auto", seed=0, names=None
) -> Problem:
    """The target of a table and its groups; `composition` as in `bayesfair.fairlets.capacities`, or "singletons".

    `names`: of the columns, for messages.

    Raises
    ------
    ValueError: an unknown target, data outside the domain of the loss or what float32 can tell apart, more clusters than
    fairlets.
    """
    if target not in TARGETS:
        remedy = "'joint' is eq. (9) of the paper; see the docstring for the others."
        raise ValueError(message("target", f"be one of {TARGETS}", repr(target), remedy))
    loss.dissimilarity.check(X)
    if isinstance(composition, str) and composition == "singletons":
        groups, composition = Groups(np.zeros(len(X), np.int32), ("everyone",)), "auto"
    held = capacities(groups.sizes, composition, groups.names)
    check_integer("n_clusters", n_clusters, maximum=len(held.lower), remedy=_fewer_clusters(groups, held, composition))
    X, units = _in_own_units(X, loss, names)
    matchings = _matchings(X, groups.code, held, np.random.default_rng(seed)) if target != "optimal" else [[0]]
    return Problem(X, units, groups, held, composition, make_target(X, held, loss, n_clusters, matchings, name=target))


def _in_own_units(X, loss: Loss, names):
    """X in units near its spread, a power of two, where that changes nothing but the units; as it is for other losses."""
    degree = _degree(loss)
    if not degree:
        check_float32(X, names=names)
        return X, Scaling(np.zeros(X.shape[1]), 0)
    with warnings.catch_warnings():  # of costs that read 0: refused here, where their inverses are told too
        warnings.simplefilter("ignore", RuntimeWarning)
        Z, units = standardise(X, names=names, degree=degree, precision=np.float32)
    if abs(degree * units.exponent) > LARGEST_LOG:
        rule, remedy = "have a spread whose powers a float64 can hold", "Divide every column by that."
        raise ValueError(message("X", rule, f"a standard deviation near {2.0**units.exponent:.3g}", remedy))
    return Z, units


def _degree(loss: Loss):
    """h of L(s X + a) = s^h L(X) where the loss has a whole one, else 0."""
    exact = loss.homogeneous and loss.translation_invariant and float(loss.degree).is_integer()
    return int(loss.degree) if exact else 0


def in_units_of_table(problem: Problem, draws: Draws) -> Draws:
    """Losses and inverse temperatures in the units of the table; `lp`, known up to a constant, stays."""
    degree = _degree(problem.target.loss)
    powers = {"fairlet_loss": degree, "clustering_loss": degree, "lambda_f": -degree, "lambda_c": -degree}
    return draws._replace(**{name: _told(problem, getattr(draws, name), power) for name, power in powers.items()})


def _told(problem: Problem, values, power):
    """`values` times that power of the problem's unit, float64 where float32 cannot hold it."""
    told = problem.units.cost(values, power)
    with np.errstate(over="ignore", under="ignore"):
        single = told.astype(values.dtype)
    return single if (single.astype(float) == told).all() else told


def _in_own_units_too(problem: Problem, inverse_temperature):
    """An inverse temperature that a user gave in the units of the table, or the rate of its prior, in the problem's."""
    degree, cost = _degree(problem.target.loss), problem.units.cost
    if isinstance(inverse_temperature, temperature.Dispersion):
        return inverse_temperature._replace(rate=float(cost(inverse_temperature.rate, -degree)))
    if not isinstance(inverse_temperature, tuple):
        return inverse_temperature
    own = tuple(float(cost(part, degree)) for part in inverse_temperature)
    if not all(1 / LARGEST_TEMPERATURE <= part <= LARGEST_TEMPERATURE for part in own):
        spread = 2.0**problem.units.exponent
        rule = f"suit X, whose standard deviation is near {spread:.3g}"
        remedy = f"Pass numbers near {cost(1.0, -degree):.1g}, or 'dispersion'."
        raise ValueError(message("inverse_temperature", rule, inverse_temperature, remedy))
    return own


def _fewer_clusters(groups, held: Capacities, composition):
    """What helps where there are more clusters than fairlets."""
    n_fairlets, n_obs = len(held.lower), len(groups.code)
    ruled = rule_of_small_groups(groups.sizes, groups.names) if isinstance(composition, str) else ""
    return f"There are {n_fairlets} fairlets (n_samples = {n_obs}): ask for fewer clusters or smaller fairlets. {ruled}".strip()


def _matchings(X, code, held: Capacities, rng):
    """A pool for the near swaps: of anchors, or of observations within their group where there are no anchors."""
    anchor = anchor_group(held)
    if anchor is None:
        return neighbour_matchings(X, code, rng)
    points = X[code == anchor]
    return neighbour_matchings(points, np.zeros(len(points), int), rng)


def start_run(problem: Problem, *, inverse_temperature, num_chains, seed, reallocation="auto", inner_steps=10) -> Run:
    """Chains at the optimal (or best found) decomposition, a k-means++ clustering each, temperatures to match.

    `inverse_temperature`: what `resolve_temperature` returns, in the units of the table.
    """
    target, rng = problem.target, np.random.default_rng(seed)
    members = jnp.asarray(member_table(_decomposition(problem, seed), problem.groups.code, problem.capacities.upper))
    clusters = start_clusterings(target, members, num_chains, rng)
    losses = [tuple(map(float, _losses(target, Allocation(members, cluster)))) for cluster in clusters]
    best = int(np.argmin([temperature.total_loss(target, *pair) for pair in losses]))
    labels = np.asarray(_labels(target, Allocation(members, clusters[best])))
    own = _in_own_units_too(problem, inverse_temperature)
    temperatures, prior = _temperatures(problem, own, labels, losses[best])
    schedule = choose_schedule(target, reallocation, prior=prior, inner_steps=inner_steps)
    return Run(chain_keys(seed, num_chains), 0, start_states(target, members, clusters, temperatures), schedule)


# Compiled whole: run one operation at a time they cost seconds of compilation.
_losses, _labels = jax.jit(Target.losses), jax.jit(Target.labels)


def _decomposition(problem: Problem, seed):
    if problem.capacities.lower.sum(1).max() == 1:
        return np.arange(len(problem.X))
    return decompose(
        problem.X,
        problem.groups,
        problem.composition,
        dissimilarity=problem.target.loss.dissimilarity,
        random_state=seed,
    ).fairlet


def _temperatures(problem: Problem, inverse_temperature, labels, losses):
    """Where the temperatures start, and the prior of lambda if it is sampled."""
    target = problem.target
    if isinstance(inverse_temperature, tuple) and not isinstance(inverse_temperature, temperature.Dispersion):
        return temperature.InverseTemperatures(*inverse_temperature), None
    if target.loss.degree is None:
        rule = "be a pair (lambda_f, lambda_c) for a loss without a degree"
        remedy = "Give the loss its degree (2 for squared distances, 1 for norms) to let the data choose."
        raise ValueError(message("inverse_temperature", rule, repr(inverse_temperature), remedy))
    if inverse_temperature == "holmes-walker":
        return temperature.from_dispersion(target, temperature.holmes_walker(target.loss, problem.X, labels)), None
    total = inverse_temperature.rate + temperature.total_loss(target, *losses)
    scale = max(float(np.var(problem.X, axis=0).sum()) * len(problem.X), np.finfo(np.float32).tiny)
    if total <= 1e-10 * scale:
        rule = "not be 'dispersion' where clusters fit the data without any loss"
        remedy = "Ask for fewer clusters than there are distinct rows, or pass a pair (lambda_f, lambda_c)."
        bad = f"a loss of {total:.3g} at the start (n_samples = {len(problem.X)})"
        raise ValueError(message("inverse_temperature", rule, bad, remedy))
    start = (inverse_temperature.shape + temperature.degrees(target)) / total
    return temperature.from_dispersion(target, start), inverse_temperature

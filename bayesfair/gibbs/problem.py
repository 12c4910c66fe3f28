"""From a table and groups to a target, and from a target to chains that are ready to run."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bayesfair._check import check_integer, message
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
from bayesfair.gibbs.losses import Loss
from bayesfair.gibbs.matchings import neighbour_matchings
from bayesfair.gibbs.run import Run, chain_keys
from bayesfair.gibbs.sampler import choose_schedule
from bayesfair.gibbs.start import start_clusterings, start_states
from bayesfair.gibbs.target import Allocation, Target, make_target

__all__ = ["TARGETS", "Problem", "make_problem", "start_run"]

TARGETS = ("joint", "cut", "optimal")


class Problem(NamedTuple):
    """The data as the sampler sees them. `groups`: to be balanced, one where fairlets are singletons."""

    X: Float[np.ndarray, "obs dim"]
    groups: Groups
    capacities: Capacities
    composition: object
    target: Target


def make_problem(X, groups, *, n_clusters, loss: Loss, target="joint", composition="auto", seed=0) -> Problem:
    """The target of a table and its groups; `composition` as in `bayesfair.fairlets.capacities`, or "singletons".

    Raises
    ------
    ValueError: an unknown target, data outside the domain of the loss, more clusters than fairlets.
    """
    if target not in TARGETS:
        remedy = "'joint' is eq. (9) of the paper; see the docstring for the others."
        raise ValueError(message("target", f"be one of {TARGETS}", repr(target), remedy))
    loss.dissimilarity.check(X)
    if isinstance(composition, str) and composition == "singletons":
        groups, composition = Groups(np.zeros(len(X), np.int32), ("everyone",)), "auto"
    held = capacities(groups.sizes, composition, groups.names)
    check_integer("n_clusters", n_clusters, maximum=len(held.lower), remedy=_fewer_clusters(groups, held, composition))
    matchings = _matchings(X, groups.code, held, np.random.default_rng(seed)) if target != "optimal" else [[0]]
    return Problem(X, groups, held, composition, make_target(X, held, loss, n_clusters, matchings, name=target))


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
    """Chains at the optimal (or best found) decomposition, a k-means++ clustering each, temperatures to match."""
    target, rng = problem.target, np.random.default_rng(seed)
    members = jnp.asarray(member_table(_decomposition(problem, seed), problem.groups.code, problem.capacities.upper))
    clusters = start_clusterings(target, members, num_chains, rng)
    losses = [tuple(map(float, _losses(target, Allocation(members, cluster)))) for cluster in clusters]
    best = int(np.argmin([temperature.total_loss(target, *pair) for pair in losses]))
    labels = np.asarray(_labels(target, Allocation(members, clusters[best])))
    temperatures, prior = _temperatures(problem, inverse_temperature, labels, losses[best])
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

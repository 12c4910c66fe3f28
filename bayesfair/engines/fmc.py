"""Fair model-based clustering, FMC (Park, Kim, Lee and Kim): finite mixtures whose assignment map psi gives each cluster
the same share of every group.

Maximises (1/N) l(Theta) - P(Theta). With `fairness_weight` P is lambda Delta, eq. (7) as a Lagrangian. With `max_gap` P
is an exact penalty on eq. (7)'s constraint: the sum over clusters of what their gaps exceed it by, half of it measured
on psi and half on psi *sharpened* (softmax of the log joint densities over a temperature), because hard assignments
must be fair too. A sum rather than the maximum gives every cluster a gradient; the maximum alone, or an augmented
Lagrangian on it, merged components and left clusters empty on Adult. Its corners are rounded: steps came to rest where
several met. A floor on each cluster's share keeps them alive.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bayesfair._arrays import namespace
from bayesfair.engines.families import Components, Family, Table
from bayesfair.fairness import gaps_of_shares

__all__ = [
    "Ascender",
    "Ascent",
    "GroupedRows",
    "LearningRows",
    "Rule",
    "bounds_by_size",
    "choose",
    "climb",
    "cluster_gaps",
    "excess",
    "mean_of",
    "membership",
    "penalty",
    "penalty_of_shares",
    "rate_after",
    "start_state",
]

INNER_STEPS = 10  # R of Algorithm 2
DECAY = 0.9, 0.99  # of Adam's two averages
NOISE = 1e-5  # gradients no larger than this are mostly rounding in float32: Adam makes no full steps of them
FLOOR_WEIGHT = 1e3
FASTER, SLOWER = 1.02, 0.7  # what the learning rate is multiplied by after inner steps that are taken, or refused
BATCH_SLOWER = 0.97
CORNER = 0.3  # of what is allowed: the width over which the corner of an excess is a parabola
ROUND = 1e-8  # under the root of |x|: a corner of 1e-4, far below any gap that matters


class Rule(NamedTuple):
    """What fairness asks for, as numbers, so that stages, weights and restarts share one compiled program.

    weight: lambda; allowed: the largest gap, infinite where lambda Delta is the penalty; floor: least share of a
    cluster; temperature: of the sharpened responsibilities.
    """

    weight: Float[Array, ""]
    allowed: Float[Array, ""]
    floor: Float[Array, ""]
    temperature: Float[Array, ""]


class GroupedRows(NamedTuple):
    """Rows, their `membership` of the groups, and their weights."""

    table: Table
    member: Float[Array, "groups obs"]
    weight: Float[Array, " obs"]


class LearningRows(NamedTuple):
    """`weight`: of the rows. `fair`: those on which P is measured (Algorithm 3's D_n where there are mini-batches, all rows
    otherwise)."""

    rows: Table
    weight: Float[Array, " obs"]
    fair: GroupedRows


class Ascender(NamedTuple):
    """Parameters, Adam's averages and age, the learning rate; the rule travels along so that runs may differ in it."""

    parameters: Components
    first: Components
    second: Components
    age: Float[Array, ""]
    rate: Float[Array, ""]
    key: Int[Array, "2"]
    rule: Rule


def membership(code, n_groups, weight=1.0) -> Float[Array, "groups obs"]:
    """Weights of the groups' members over their sums: every row sums to one, so that shares are one matrix product."""
    indicator = np.equal.outer(np.arange(n_groups), code).astype(np.float32) * np.asarray(weight, np.float32)
    return jnp.asarray(indicator / indicator.sum(1, keepdims=True))


def cluster_gaps(psi, member, corner=ROUND) -> Float[Array, " clusters"]:
    """The mean over pairs of groups of |share of one in cluster k - share of the other|, eq. (6) and (14), the corner of
    |x| rounded to sqrt(x^2 + corner). psi: (clusters, obs); member: `membership` (groups, obs)."""
    return gaps_of_shares(psi @ member.T, corner)


def bounds_by_size(allowed, share) -> Float[Array, " clusters"]:
    """The largest gap of each cluster: a small one may differ by less, for the same gap is more of its members."""
    return allowed * namespace(share).minimum(1.0, len(share) * share)


def penalty(log_joint, rows: GroupedRows, rule: Rule) -> Float[Array, ""]:
    """P: what is taken from the mean log-likelihood."""
    soft, sharp = jax.nn.softmax(log_joint, 0), jax.nn.softmax(log_joint / rule.temperature, 0)
    return penalty_of_shares(soft @ rows.member.T, sharp @ rows.member.T, mean_of(sharp, rows.weight), rule)


def penalty_of_shares(soft, sharp, share, rule: Rule) -> Float[Array, ""]:
    """P from the shares of the groups (clusters, groups) that psi and psi sharpened have in the clusters, and from what of
    all rows psi sharpened has there (clusters,)."""
    gaps, limited = gaps_of_shares(soft, ROUND), jnp.isfinite(rule.allowed)
    allowed = bounds_by_size(jnp.where(limited, rule.allowed, 1.0), jax.lax.stop_gradient(share))
    beyond = excess(gaps, allowed) + excess(gaps_of_shares(sharp, ROUND), allowed)
    unfair = jnp.where(limited, beyond.sum() / 2, gaps.max())
    return rule.weight * unfair + FLOOR_WEIGHT * jnp.square(jnp.maximum(rule.floor - share, 0)).sum()


def excess(gaps, allowed):
    """max(gap - allowed, 0), but a parabola where they differ by less than half of CORNER * allowed."""
    width = CORNER * jnp.maximum(allowed, ROUND)
    inside = jnp.clip(gaps - allowed + width / 2, 0, width)
    return jnp.square(inside) / (2 * width) + jnp.maximum(gaps - allowed - width / 2, 0)


def mean_of(values, weight):
    """Of values (..., obs)."""
    return values @ weight / weight.sum()


@dataclass(frozen=True)
class Ascent:
    """One iteration of FMC-EM (Algorithm 2) or FMC-GD (Algorithm 1), or of their mini-batch form (Algorithm 3).

    "em": an E-step, then steps of Adam on Q_fair, eq. (10), from the better of the old parameters and the M-step;
    taken only if Q_fair has not decreased, eq. (11), so that the objective never decreases either. Without penalty the
    M-step is best and this is plain EM. "gradient": the same with the objective itself in the place of Q_fair.
    """

    family: Family
    solver: str = "em"
    batch_size: int | None = None

    def __call__(self, problem: LearningRows, state: Ascender):
        key, draw = jax.random.split(state.key)
        rows = problem.rows, problem.weight
        table, weight = rows if self.batch_size is None else self.batch(draw, rows)
        responsibilities = weight * jax.nn.softmax(self.family.log_joint(state.parameters, table), 0)

        def merit(parameters):
            return self.merit(parameters, problem, state.rule, table, weight, responsibilities)

        m_step = self.family.m_step(state.parameters, table, responsibilities)
        now, after = merit(state.parameters), merit(m_step)
        start, known = choose(after < now, (m_step, after), (state.parameters, now))
        moved = climb(merit, state._replace(parameters=start))
        taken = (merit(moved.parameters) < known) | (self.batch_size is not None)
        rate = rate_after(state.rate, taken) if self.batch_size is None else BATCH_SLOWER * state.rate
        parameters = choose(taken, moved.parameters, start)
        return moved._replace(parameters=parameters, rate=rate, key=key), self.loss(parameters, problem, state.rule)

    def batch(self, key, rows):
        """Some of a tree of rows."""
        drawn = jax.random.randint(key, (self.batch_size,), 0, len(jax.tree.leaves(rows)[0]))
        return jax.tree.map(lambda part: part[drawn], rows)

    def merit(self, parameters, problem: LearningRows, rule: Rule, table: Table, weight, responsibilities):
        """-Q_fair per row, or the negative objective; of `table`, with the penalty of the fair rows. `responsibilities`: times
        the rows' `weight`."""
        log_joint = on_fair = self.family.log_joint(parameters, problem.fair.table)
        if self.batch_size is not None:
            log_joint = self.family.log_joint(parameters, table)
        em = self.solver == "em"
        total = jnp.vdot(responsibilities, log_joint) if em else weight @ jax.nn.logsumexp(log_joint, 0)
        return penalty(on_fair, problem.fair, rule) - total / weight.sum()

    def loss(self, parameters, problem: LearningRows, rule: Rule):
        """P - l / N, of the fair rows."""
        log_joint = self.family.log_joint(parameters, problem.fair.table)
        return penalty(log_joint, problem.fair, rule) - mean_of(jax.nn.logsumexp(log_joint, 0), problem.fair.weight)


def climb(merit, state: Ascender) -> Ascender:
    """INNER_STEPS of Adam."""

    def step(_, state):
        gradient = jax.grad(merit)(state.parameters)
        age = state.age + 1
        first = jax.tree.map(lambda m, g: DECAY[0] * m + (1 - DECAY[0]) * g, state.first, gradient)
        second = jax.tree.map(lambda v, g: DECAY[1] * v + (1 - DECAY[1]) * g * g, state.second, gradient)
        unbiased = state.rate / (1 - DECAY[0] ** age), 1 / (1 - DECAY[1] ** age)
        parameters = jax.tree.map(
            lambda p, m, v: p - unbiased[0] * m / (jnp.sqrt(unbiased[1] * v) + NOISE),
            state.parameters,
            first,
            second,
        )
        return state._replace(parameters=parameters, first=first, second=second, age=age)

    return jax.lax.fori_loop(0, INNER_STEPS, step, state)


def rate_after(rate, taken):
    """The learning rate after inner steps that were taken, or refused."""
    return rate * jnp.where(taken, FASTER, SLOWER)


def choose(condition, yes, no) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def start_state(parameters: Components, rule: Rule, rate, seed) -> Ascender:
    """A fresh state at `parameters`."""
    zero = jax.tree.map(lambda part: np.zeros(part.shape, part.dtype), parameters)
    rule = Rule(*(np.float32(part) for part in rule))
    return Ascender(parameters, zero, zero, np.float32(0), np.float32(rate), jax.random.PRNGKey(seed), rule)

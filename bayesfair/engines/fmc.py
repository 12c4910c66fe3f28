"""Fair model-based clustering, FMC (Park, Kim, Lee and Kim): mixtures whose map psi gives each cluster fair shares.

Maximises (1/N) l(Theta) - P(Theta). With `fairness_weight`, P is lambda Delta, eq. (7) as a Lagrangian. With `max_gap`
it is not eq. (7), the likelihood under Delta <= epsilon, but a penalty in its place. The penalty adds up, over
clusters, by how much the gap exceeds a bound; the largest gap alone merged components on Adult. Half of it is measured
on psi and half on psi *sharpened* (softmax of the log joint densities over a temperature), because hard assignments must
be fair too. The bound is a margin of epsilon, and less for small clusters. Corners of the penalty are rounded, since
steps stopped where several met. A floor on each cluster's share keeps clusters from emptying.

For many rows, inner steps add to the shares of all rows the changes seen on a few blocks, each a systematic sample of
the table. Steps are accepted on all rows, so that the objective never decreases.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from bayesfair._arrays import cell_masses, code_masses, namespace
from bayesfair._jit import jit
from bayesfair._rows import Rows, each, total
from bayesfair._tables import EncodedTable, Encoder, encoded_table
from bayesfair.engines.data import FEWEST, Data, here
from bayesfair.engines.families import Components, Family, Moments
from bayesfair.fairness.metrics import gaps_of_shares

INNER_STEPS = 10  # R of Algorithm 2
ADAM = optax.scale_by_adam(b1=0.9, b2=0.99, eps=1e-5)  # gradients below eps are mostly rounding: no full steps
FLOOR_WEIGHT = 1e3
FASTER, SLOWER = 1.02, 0.7  # factors of the learning rate after accepted and refused inner steps
STOCHASTIC, CALMER = 0.1, 0.99  # gradients of mini-batches: first learning rate, and its factor after a batch
CORNER = 0.3  # width of the rounded corner of an excess, relative to the allowed gap
ROUND = 1e-8  # added under the root in |x|: rounds a corner of 1e-4, far below any gap that matters
BLOCK = 4096  # rows
INNER_BLOCKS = 16  # blocks on which inner steps measure changes of shares


class Rule(NamedTuple):
    """The fairness rule as numbers, so that stages, weights and restarts share one compiled program.

    `allowed`: the largest gap, infinite if lambda Delta is the penalty. `floor`: least share of a cluster.
    """

    fairness_weight: Float[ArrayLike, ""]
    allowed: Float[ArrayLike, ""]
    floor: Float[ArrayLike, ""]
    temperature: Float[ArrayLike, ""]


class GroupedRows(NamedTuple):
    """A block of scaled rows, the codes of their levels and groups, and their weights, 0 for padding."""

    x: Float[Array, "dim rows"]
    levels: Int[Array, "features rows"]
    code: Int[Array, " rows"]
    weight: Float[Array, " rows"]

    def table(self, family: Family) -> EncodedTable:
        """The rows as families take them."""
        return encoded_table(self.x.T, self.levels.T, family.n_levels)


class FairRows(NamedTuple):
    """Rows on which P is measured, in blocks; counts and weights of the groups in each, and a mask of those in use.

    `batches`: the mini-batches of all rows, if any (Algorithm 3, with P on D_n): a block is a batch.
    """

    rows: Rows
    counts: Float[Array, "blocks groups"]
    mass: Float[Array, "blocks groups"]
    used: Bool[Array, " blocks"] | None
    batches: Rows | None = None

    @property
    def size(self):
        """Weights of the groups in the blocks in use (groups,)."""
        return self.mass.sum(0, where=True if self.used is None else self.used[:, None])

    def take(self, blocks):
        """Some of the blocks, all of them in use."""
        return FairRows(self.rows.take(blocks), self.counts[blocks], self.mass[blocks], None)


class Shares(NamedTuple):
    """Shares of the clusters, and the mean log density.

    `soft`, `sharp`: of each group's rows, by psi and by sharpened psi. `total`: of all rows, by sharpened psi.
    """

    soft: Float[Array, "clusters groups"]
    sharp: Float[Array, "clusters groups"]
    total: Float[Array, " clusters"]
    log_density: Float[Array, ""]


class Remembered(NamedTuple):
    """The last E-step of a mini-batch, A_i of Algorithm 3.

    `known` holds deviations from `mean`, the means at that time. `entropy`: of the responsibilities.
    """

    known: Moments
    mean: Float[Array, "*batches clusters dim"]
    entropy: Float[Array, "*batches"]


class AscentState(NamedTuple):
    """State of a run: parameters, and the E-step and the shares there, which saves passes over rows and batches.

    `rule` may differ between runs.
    """

    parameters: Components
    known: Moments
    shares: Shares
    adam: optax.ScaleByAdamState
    rate: Float[Array, ""]
    key: PRNGKeyArray
    rule: Rule
    remembered: Remembered | None


def fair_rows(data: Data, encoder: Encoder) -> FairRows:
    """All rows of the data, encoded."""
    n_groups, counts, mass = len(data.groups.names), [], []

    def block(some):
        rows = encoded(data, encoder, some)
        counts.append(code_masses(rows.code, n_groups, None))
        mass.append(code_masses(rows.code, n_groups, rows.weight))
        return rows

    rows = data.blocks(block, BLOCK)
    totals = data.split.total(np.array([counts, mass])).astype(np.float32)
    return FairRows(rows, *map(data.split.placed, (*totals, np.ones(len(rows), bool))))


def batches_of(data: Data, encoder: Encoder, size) -> Rows:
    """All rows in mini-batches of at most `size`, each a systematic sample of the table."""
    return data.split.in_blocks(partial(encoded, data, encoder), -(-len(data.X) // size))


def encoded(data: Data, encoder: Encoder, some):
    """A slice of the rows, as NumPy `GroupedRows` whose first axis is rows."""
    columns = data.columns.take(some)
    x, levels = encoder.scaled(columns.continuous).astype(np.float32), encoder.codes(columns.categorical)
    return GroupedRows(x, levels, data.groups.code[some], data.weight_of(some).astype(np.float32))


def bounds_by_size(allowed, share) -> Float[ArrayLike, " clusters"]:
    """The largest gap of each cluster: less for a small one, as the same gap is a larger part of its members."""
    return allowed * namespace(share).minimum(1.0, len(share) * share)


def penalty_of_shares(shares: Shares, rule: Rule) -> Float[Array, ""]:
    """P: the penalty on the mean log-likelihood."""
    gaps, limited = gaps_of_shares(shares.soft, ROUND), jnp.isfinite(rule.allowed)
    allowed = bounds_by_size(jnp.where(limited, rule.allowed, 1.0), jax.lax.stop_gradient(shares.total))
    beyond = excess(gaps, allowed) + excess(gaps_of_shares(shares.sharp, ROUND), allowed)
    unfair = jnp.where(limited, beyond.sum() / 2, gaps.max())
    return rule.fairness_weight * unfair + FLOOR_WEIGHT * jnp.square(jnp.maximum(rule.floor - shares.total, 0)).sum()


def excess(gaps, allowed):
    """max(gap - allowed, 0), with a parabola where they differ by less than half of CORNER * allowed."""
    width = CORNER * jnp.maximum(allowed, ROUND)
    inside = jnp.clip(gaps - allowed + width / 2, 0, width)
    return jnp.square(inside) / (2 * width) + jnp.maximum(gaps - allowed - width / 2, 0)


def shares_of(family: Family, parameters: Components, problem: FairRows, temperature) -> Shares:
    """The shares, in one pass over the rows."""
    return _passed(family, parameters, problem, temperature, lambda *_: ())[1]


def e_step(family: Family, parameters: Components, problem: FairRows, temperature) -> tuple[Moments, Shares]:
    """The E-step and the shares, in one pass over the rows."""
    return _passed(family, parameters, problem, temperature, family.expected)


def _passed(family: Family, parameters: Components, problem: FairRows, temperature, of):
    """(the sum of `of(parameters, rows, responsibilities times weights)`, the shares: zeros for an absent group)."""

    def of_block(block, parameters, temperature):
        table, weight = block.table(family), block.weight
        log_joint = family.log_joint(parameters, table)
        member = weight * (block.code == jnp.arange(problem.mass.shape[1])[:, None])
        soft, sharp = jax.nn.softmax(log_joint, 0), jax.nn.softmax(log_joint / temperature, 0)
        density = weight @ jax.nn.logsumexp(log_joint, 0)
        return of(parameters, table, weight * soft), (soft @ member.T, sharp @ member.T, density)

    found, sums = total(of_block, problem.rows, parameters, temperature, used=problem.used)
    (soft, sharp, density), n_obs = sums, problem.size.sum()
    size = jnp.where(problem.size > 0, problem.size, 1.0)
    return found, Shares(soft / size, sharp / size, sharp.sum(1) / n_obs, density / n_obs)


class Evaluated(NamedTuple):
    """Parameters, the E-step and the shares there, the value that is minimised, and the loss."""

    parameters: Components
    known: Moments
    shares: Shares
    value: Float[Array, ""]
    loss: Float[Array, ""]


@dataclass(frozen=True)
class Ascent:
    """One iteration of FMC-EM (Algorithm 2) or FMC-GD (Algorithm 1), on all rows or on a mini-batch (Algorithm 3).

    "em": an E-step, then steps of Adam on Q_fair, eq. (10), from the better of the old parameters and the M-step, accepted
    only if Q_fair has not decreased, eq. (11). Without penalty this is plain EM. Mini-batches are incremental EM: the loss
    is the free energy (Neal and Hinton 1998, eq. 7) plus the penalty, which bounds the parameters' own loss from above.

    "gradient": steps of Adam on the objective itself, accepted only if it has not decreased; on a mini-batch always, but
    shrinking.
    """

    family: Family
    solver: str = "em"

    def __call__(self, problem: FairRows, state: AscentState):
        key, draw = jax.random.split(state.key)
        old, rule, by_batches = state.parameters, state.rule, problem.batches is not None
        batch, remembered, known = None, state.remembered, state.known
        if by_batches:
            at = jax.random.randint(draw, (), 0, len(problem.batches))
            batch = jax.tree.map(lambda part: part[at], problem.batches.parts)
        if remembered is not None:
            last = remembered_of(self.family, batch, old)
            remembered = jax.tree.map(lambda every, one: every.at[at].set(one), remembered, last)
            known = jax.vmap(lambda known, mean: known.about(old.mean - mean))(remembered.known, remembered.mean)
            known = jax.tree.map(lambda part: part.sum(0), known)

        def merit(parameters, shares):
            """(minimised value, loss) given the shares of the rows on which P is measured."""
            unfair = penalty_of_shares(shares, rule)
            loss = unfair - shares.log_density
            if self.solver == "em":
                value = unfair - self.family.expected_log_joint(parameters, old, known) / known.mass.sum()
                return value, (loss if remembered is None else value - remembered.entropy.sum() / known.mass.sum())
            if not by_batches:
                return loss, loss
            density = batch.weight @ jax.nn.logsumexp(self.family.log_joint(parameters, batch.table(self.family)), 0)
            return unfair - density / batch.weight.sum(), loss

        def evaluated(parameters):
            own, shares = e_step(self.family, parameters, problem, rule.temperature)
            return Evaluated(parameters, own, shares, *merit(parameters, shares))

        start = Evaluated(old, state.known, state.shares, *merit(old, state.shares))
        if self.solver == "em":
            m_step = evaluated(self.family.m_step(old, known))
            start = choose(m_step.value < start.value, m_step, start)
        shares = self.shares_nearby(start, problem, rule, draw)
        parameters, adam = climb(lambda parameters: merit(parameters, shares(parameters))[0], state, start.parameters)
        reached = evaluated(parameters)
        stochastic = by_batches and self.solver == "gradient"
        accepted = (reached.value < start.value) | stochastic
        best = choose(accepted, reached, start)
        rate = state.rate * (CALMER if stochastic else jnp.where(accepted, FASTER, SLOWER))
        return AscentState(*best[:3], adam, rate, key, rule, remembered), best.loss

    def shares_nearby(self, start: Evaluated, problem: FairRows, rule: Rule, key):
        """The shares of all rows as a function of parameters near the start; changes are measured on some blocks."""
        some = problem if len(problem.rows) <= INNER_BLOCKS else some_of(problem, key)
        on_some = partial(shares_of, self.family, problem=some._replace(used=None), temperature=rule.temperature)
        if some is problem:  # with so few blocks, `first_of` returns all
            return on_some
        rest = jax.tree.map(jnp.subtract, start.shares, on_some(start.parameters))
        return lambda parameters: jax.tree.map(jnp.add, on_some(parameters), rest)


def climb(merit, state: AscentState, start: Components):
    """(parameters, state of Adam) after INNER_STEPS steps of Adam from `start`."""

    def step(_, moved):
        parameters, adam = moved
        uphill, adam = ADAM.update(jax.grad(merit)(parameters), adam)
        return jax.tree.map(lambda part, slope: part - state.rate * slope, parameters, uphill), adam

    return jax.lax.fori_loop(0, INNER_STEPS, step, (start, state.adam))


def choose(condition, yes, no) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def some_of(problem: FairRows, key) -> FairRows:
    """INNER_BLOCKS blocks, drawn from those in use.

    Blocks with the first row of some group come first, then those with one of its first FEWEST rows.
    """
    order = jax.random.permutation(key, len(problem.rows))
    used = problem.used[order]
    counts = jnp.where(used[:, None], problem.counts[order], 0)
    one, few = (_with_the_first(counts, most).any(1) for most in (1, FEWEST))
    return problem.take(order[jnp.argsort(-jnp.where(used, 1 * few + one, -1))[:INNER_BLOCKS]])


def first_of(problem: FairRows, n_obs) -> FairRows:
    """The first blocks, about `n_obs` rows, and those with the first FEWEST rows of a group; the others are masked."""
    counts = np.asarray(problem.counts)
    used = _with_the_first(counts, FEWEST).any(1) | (np.arange(len(counts)) < -(-n_obs // BLOCK))
    # On one device name no device: an array with an explicit place is compiled for again.
    where = None if problem.rows.mesh is None else problem.used.sharding
    return problem._replace(used=jax.device_put(used, where))


def _with_the_first(counts, most):
    """Mask of the blocks with some of the first `most` rows of a group (blocks, groups)."""
    return (counts > 0) & (counts.cumsum(0) - counts < most)


def start_states(family: Family, problem: FairRows, parameters: Components, rule: Rule, rate, seed, solver="em"):
    """A batch of one fresh state."""
    rule = Rule(*(np.float32(part) for part in rule))
    remembered = None
    if problem.batches is not None and solver == "em":
        remembered = _remembered_of_each(family, problem.batches, parameters)
    elif problem.batches is not None:
        rate = STOCHASTIC * rate
    at = parameters, *_e_step(family, parameters, problem, rule.temperature)
    state = AscentState(*at, ADAM.init(parameters), np.float32(rate), jax.random.PRNGKey(seed), rule, remembered)
    return jax.tree.map(lambda part: np.asarray(part)[None], state)


_e_step = jit(e_step, static_argnames="family")


def remembered_of(family: Family, batch: GroupedRows, parameters: Components) -> Remembered:
    """The E-step of a mini-batch."""
    table = batch.table(family)
    log_joint = family.log_joint(parameters, table)
    responsibilities = jax.nn.softmax(log_joint, 0)
    entropy = batch.weight @ (jax.nn.logsumexp(log_joint, 0) - (responsibilities * log_joint).sum(0))
    return Remembered(family.expected(parameters, table, batch.weight * responsibilities), parameters.mean, entropy)


@jit(static_argnames="family")
def _remembered_of_each(family: Family, batches: Rows, parameters: Components) -> Remembered:
    return jax.lax.map(lambda batch: remembered_of(family, batch, parameters), batches.parts)


def fairness_of(family: Family, parameters: Components, problem: FairRows, split):
    """(share of all rows in each hard cluster (K,), gaps of hard clusters, gaps of soft clusters)."""
    shape, used = (len(parameters.mean), problem.mass.shape[1]), np.asarray(problem.used)
    parts = labels_of(family, parameters, problem), problem.rows.parts.code, problem.rows.parts.weight
    labels, code, weight = (here(part)[used].ravel() for part in parts)
    masses = split.total(cell_masses(labels, code, shape, weight))
    soft = np.asarray(_e_step(family, parameters, problem, np.float32(1))[1].soft)
    return masses.sum(1) / masses.sum(), gaps_of_shares(masses / masses.sum(0)), gaps_of_shares(soft)


@jit(static_argnames="family")
def labels_of(family: Family, parameters: Components, problem: FairRows):
    """The component of largest responsibility of every row (blocks, rows)."""

    def of_block(block, parameters):
        return family.log_joint(parameters, block.table(family)).argmax(0)

    return each(of_block, problem.rows, parameters)

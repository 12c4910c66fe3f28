"""FMC on more rows than fit twice: the iterations of `fmc.Ascent`, block by block.

Q is a function of the expected statistics of an E-step, the penalty one of the groups' shares in the clusters: one pass tells
both. Inner steps go by what shares change on some of the blocks, each a systematic sample of the table, from what they are on
all rows; whether they are taken is decided on all rows, so that the objective never decreases here either.
"""

from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec
from jaxtyping import Array, Bool, Float, Int

from bayesfair._arrays import aligned_empty, code_masses
from bayesfair.engines.blocks import members, own_part, sum_over_blocks
from bayesfair.engines.families import Components, Expected, Family, Table
from bayesfair.engines.fmc import Ascender, Rule, choose, climb, penalty_of_shares, rate_after
from bayesfair.engines.samples import FEWEST
from bayesfair.engines.shares import Share, StepInShares, here, in_shares, mesh_of, sum_of_all

__all__ = [
    "BlockedAscent",
    "BlockedRows",
    "Shares",
    "ascent_over",
    "begun",
    "first_of",
    "hard_masses",
    "labels_in_order",
    "rows_in_blocks",
    "soft_shares",
    "standing_of",
]

BLOCK = 4096  # rows
INNER_BLOCKS = 16  # in which inner steps see what shares change


class BlockedRows(NamedTuple):
    """Scaled rows in blocks, the codes of their levels and groups, and their weights; how many rows of every group are in every
    block, and what they weigh; and which of the blocks are looked at, None for all of them.

    Row i is in block i modulo their number; what fills them up is of no group and weighs nothing. Where processes share the
    rows each has its part of every block.
    """

    x: Float[Array, "blocks rows dim"]
    levels: Int[Array, "blocks rows features"]
    code: Int[Array, "blocks rows"]
    weight: Float[Array, "blocks rows"]
    held: Float[Array, "blocks groups"]
    mass: Float[Array, "blocks groups"]
    seen: Bool[Array, " blocks"] | None = None

    @property
    def size(self):
        """What the groups weigh in the blocks that are looked at (groups,)."""
        return self.mass.sum(0, where=True if self.seen is None else self.seen[:, None])

    def take(self, blocks):
        """Some of the blocks, all of which are looked at."""
        return BlockedRows(*(part[blocks] for part in self[:-1]))


ROWS, ALL = PartitionSpec(None, "rows"), PartitionSpec()
SPECS = BlockedRows(ROWS, ROWS, ROWS, ROWS, ALL, ALL, ALL)  # where the rows of several processes lie


class Shares(NamedTuple):
    """Of psi and of psi sharpened: what of every group is in the clusters; what of all rows, sharpened; mean log density."""

    soft: Float[Array, "clusters groups"]
    sharp: Float[Array, "clusters groups"]
    total: Float[Array, " clusters"]
    log_density: Float[Array, ""]


def rows_in_blocks(encoder, data) -> BlockedRows:
    """The rows of a checked table as the encoder scales them."""
    columns, groups, _, _, share = data
    n_blocks, dim = -(-share.n_obs // BLOCK), columns.continuous.shape[1]
    size = -(-BLOCK * share.largest // share.n_obs)
    x = aligned_empty((n_blocks, size, dim))
    levels = aligned_empty((n_blocks, size, columns.categorical.shape[1]), np.int32)
    code, weight = aligned_empty((n_blocks, size), np.int32), aligned_empty((n_blocks, size))
    held, mass = np.empty((2, n_blocks, len(groups.names)))
    for block in range(n_blocks):
        own = slice((block - share.first) % n_blocks, None, n_blocks)
        some = columns.take(own)
        filled, rest = slice(0, len(some.continuous)), slice(len(some.continuous), None)
        x[block, filled], levels[block, filled] = encoder.scaled(some.continuous), encoder.codes(some.categorical)
        x[block, rest], levels[block, rest], code[block, rest], weight[block, rest] = 0, 0, len(groups.names), 0
        own_code, own_weight = groups.code[own], data.weight_of(own)
        code[block, filled], weight[block, filled] = own_code, own_weight
        held[block], mass[block] = (code_masses(own_code, len(groups.names), each) for each in (None, own_weight))
    held, mass = sum(share.everybody(np.stack([held, mass]))).astype(np.float32)
    return share.placed(BlockedRows(x, levels, code, weight, held, mass, np.ones(n_blocks, bool)), SPECS)


def table_of(family: Family, x, levels) -> Table:
    """A block's rows as families take them."""
    parts = [jax.nn.one_hot(levels[:, j], n, dtype=x.dtype) for j, n in enumerate(family.n_levels)]
    return Table(x, jnp.square(x).sum(1), jnp.concatenate([jnp.zeros((len(x), 0), x.dtype), *parts], 1))


def each_block(problem: BlockedRows):
    return problem[:4]


def shares_of(family: Family, parameters: Components, problem: BlockedRows, temperature) -> Shares:
    """One pass; for a gradient every block is worked out again."""
    parameters = own_part(parameters)  # before the blocks: the gradient is added up over processes after them

    @jax.checkpoint
    def of_block(parameters, block):
        return _in_block(family, parameters, block, problem.held.shape[1], temperature)[0]

    return _as_shares(sum_over_blocks(partial(of_block, parameters), each_block(problem), seen=problem.seen), problem)


def standing_of(family: Family, parameters: Components, problem: BlockedRows, temperature) -> "Standing":
    """One pass too: the E-step beside the shares."""

    def of_block(block):
        sums, table, responsibilities = _in_block(family, parameters, block, problem.held.shape[1], temperature)
        return family.expected(parameters, table, responsibilities), sums

    expected, sums = sum_over_blocks(of_block, each_block(problem), seen=problem.seen)
    return Standing(expected, _as_shares(sums, problem))


def _in_block(family: Family, parameters: Components, block, n_groups, temperature):
    """(what the block adds to the shares and to the log density, its rows, their responsibilities times their weights)."""
    x, levels, code, weight = block
    table = table_of(family, x, levels)
    log_joint = family.log_joint(parameters, table)
    member = weight * members(code, n_groups)
    soft, sharp = jax.nn.softmax(log_joint, 0), jax.nn.softmax(log_joint / temperature, 0)
    density = weight @ jax.nn.logsumexp(log_joint, 0)
    return (soft @ member.T, sharp @ member.T, density), table, weight * soft


def _as_shares(sums, problem: BlockedRows) -> Shares:
    """Zeros of a group of which nobody is there."""
    (soft, sharp, density), n_obs = sums, problem.size.sum()
    size = jnp.where(problem.size > 0, problem.size, 1.0)
    return Shares(soft / size, sharp / size, sharp.sum(1) / n_obs, density / n_obs)


class Standing(NamedTuple):
    """What a pass tells of the parameters where an iteration begins."""

    expected: Expected
    shares: Shares


class BlockedAscender(NamedTuple):
    """`fmc.Ascender` and its standing on all rows, so that no pass is made twice."""

    ascender: Ascender
    standing: Standing

    @property
    def parameters(self) -> Components:
        return self.ascender.parameters

    @property
    def rule(self) -> Rule:
        return self.ascender.rule


class Judged(NamedTuple):
    """Parameters, what is minimised and the loss there, and their standing."""

    parameters: Components
    value: Float[Array, ""]
    loss: Float[Array, ""]
    standing: Standing


@dataclass(frozen=True)
class BlockedAscent:
    """`fmc.Ascent` without mini-batches, of states that `begun` has made; the rule travels in the state.

    Two passes an iteration: at the M-step, and where the inner steps lead from there.
    """

    family: Family
    solver: str = "em"

    def __call__(self, problem: BlockedRows, state: BlockedAscender):
        (ascender, standing), old, rule = state, state.parameters, state.rule
        statistics = standing.expected

        def merit(parameters, shares):
            """(what is minimised, the loss) with those shares."""
            unfair = penalty_of_shares(shares.soft, shares.sharp, shares.total, rule)
            loss = unfair - shares.log_density
            if self.solver == "gradient":
                return loss, loss
            return unfair - self.family.expected_log_joint(parameters, old, statistics) / problem.size.sum(), loss

        def judged(parameters, standing):
            return Judged(parameters, *merit(parameters, standing.shares), standing)

        def on_all(parameters):
            return judged(parameters, standing_of(self.family, parameters, problem, rule.temperature))

        now, m_step = judged(old, standing), on_all(self.family.m_step_of_expected(old, statistics))
        start = choose(m_step.value < now.value, m_step, now)
        key, draw = jax.random.split(ascender.key)
        some = some_of(problem, draw)
        there = shares_of(self.family, start.parameters, some, rule.temperature)
        rest = jax.tree.map(jnp.subtract, start.standing.shares, there)

        def on_some(parameters):
            shares = shares_of(self.family, parameters, some, rule.temperature)
            return merit(parameters, jax.tree.map(jnp.add, shares, rest))[0]

        moved = climb(on_some, ascender._replace(parameters=start.parameters, key=key))
        reached = on_all(moved.parameters)
        taken = reached.value < start.value
        best = choose(taken, reached, start)
        moved = moved._replace(parameters=best.parameters, rate=rate_after(ascender.rate, taken))
        return BlockedAscender(moved, best.standing), best.loss


def some_of(problem: BlockedRows, key) -> BlockedRows:
    """INNER_BLOCKS of those that are looked at; all where there are no more. First one for each group that has somebody of it,
    then those with the first FEWEST of a group, which are the other blocks of a small one."""
    n_blocks = len(problem.x)
    if n_blocks <= INNER_BLOCKS:
        return problem._replace(seen=None)  # `first_of` has all of so few
    order = jax.random.permutation(key, n_blocks)
    seen = problem.seen[order]
    held = jnp.where(seen[:, None], problem.held[order], 0)
    one, few = (_with_the_first(held, most).any(1) for most in (1, FEWEST))
    return problem.take(order[jnp.argsort(-jnp.where(seen, 1 * few + one, -1))[:INNER_BLOCKS]])


def _with_the_first(held, most):
    """Which blocks have some of the first `most` rows of a group (blocks, groups)."""
    return (held > 0) & (held.cumsum(0) - held < most)


def labels_in_order(family: Family, parameters: Components, problem: BlockedRows, share: Share, n_rows):
    """The component of largest responsibility of each of the `n_rows` rows of this process."""
    labels = np.empty(n_rows, np.int64)
    blocks = np.roll(_labels(family, parameters, here(problem)), -share.first, axis=0)
    for first, block in enumerate(blocks):
        rows = labels[first :: len(blocks)]
        rows[:] = block[: len(rows)]
    return labels


def hard_masses(family: Family, parameters: Components, problem: BlockedRows):
    """How much of each group has their largest responsibility in each component, float64 (clusters, groups), in weights."""
    own, n_groups = here(problem), problem.held.shape[1]
    shape, held = (len(parameters.mean), n_groups + 1), 0
    blocks = map(np.asarray, (_labels(family, parameters, own), own.code, own.weight))
    for labels, code, weight in compress(zip(*blocks), np.asarray(own.seen)):
        held = held + np.bincount(labels * shape[1] + code, weight, minlength=shape[0] * shape[1])
    held = sum_of_all(held, mesh_of(problem.x))
    return held.reshape(shape)[:, :n_groups]


def ascent_over(problem: BlockedRows, ascent: "BlockedAscent"):
    """The ascent in every process that has some of the rows."""
    mesh = mesh_of(problem.x)
    return ascent if mesh is None else StepInShares(ascent, mesh, SPECS, PartitionSpec())


def first_of(problem: BlockedRows, n_obs):
    """The same blocks, of which about so many rows of all processes are looked at: the first ones, each a systematic sample of
    the table, and the others that have some of the first FEWEST of a group."""
    held = np.asarray(problem.held)
    seen = _with_the_first(held, FEWEST).any(1) | (np.arange(len(held)) < -(-n_obs // BLOCK))
    return problem._replace(seen=jax.device_put(seen, problem.seen.sharding))


def soft_shares(family: Family, parameters: Components, problem: BlockedRows):
    """The shares of the groups in the components, soft (clusters, groups)."""
    return np.asarray(_shares(family, mesh_of(problem.x), parameters, problem).soft)


def begun(states: Ascender, family: Family, problem: BlockedRows) -> BlockedAscender:
    """States of `fmc.start_state`, stacked, with their standing on all rows."""
    standing = _standing(family, mesh_of(problem.x), states.parameters, states.rule.temperature, problem)
    return BlockedAscender(states, standing)


@partial(jax.jit, static_argnames=("family", "mesh"))
def _standing(family: Family, mesh, parameters: Components, temperature, problem: BlockedRows):
    def of_each(states, problem):
        return jax.vmap(lambda one: standing_of(family, one[0], problem, one[1]))(states)

    everywhere = PartitionSpec()
    return in_shares(of_each, mesh, (everywhere, SPECS), everywhere)((parameters, temperature), problem)


@partial(jax.jit, static_argnames=("family", "mesh"))
def _shares(family: Family, mesh, parameters: Components, problem: BlockedRows):
    everywhere = PartitionSpec()
    of = in_shares(partial(shares_of, family, temperature=jnp.float32(1)), mesh, (everywhere, SPECS), everywhere)
    return of(parameters, problem)


@partial(jax.jit, static_argnames="family")
def _labels(family: Family, parameters: Components, problem: BlockedRows):
    def of_block(block):
        return family.log_joint(parameters, table_of(family, *block)).argmax(0)

    return jax.lax.map(of_block, (problem.x, problem.levels))

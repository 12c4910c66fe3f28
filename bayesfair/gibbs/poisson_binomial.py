"""The number of successes among independent trials, and which they are given the number: tables as a tree (DESIGN 2.6).

The law of a node is the convolution of those of its halves. Down the tree, the total c of a node is split into a of its
left half and c - a of its right one with probability proportional to left(a) right(c - a), which ends at the trials
themselves: the conditional Bernoulli draw (Chen, Dempster and Liu 1994).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

UNROLLED = 8  # counts of a node up to which a convolution is unrolled
HALVINGS = 32  # halvings of the range that is searched for a tilt
EXTREME = 40.0  # log odds beyond which a trial is certain


def tilted_to(log_odds: Float[Array, "*parts trials"], there, count: Int[Array, "*parts"]) -> Float[Array, "*parts"]:
    """The constant that, added to the log odds of the trials `there`, makes about `count` of them succeed on average.

    The law of trials given their sum does not depend on it, so tables can be made where float32 is accurate.
    """
    wanted = jnp.clip(count, 0.5, jnp.maximum(there.sum(-1) - 0.5, 0.5)).astype(log_odds.dtype)
    low = -jnp.where(there, log_odds, -jnp.inf).max(-1, initial=0.0) - EXTREME
    high = -jnp.where(there, log_odds, jnp.inf).min(-1, initial=0.0) + EXTREME

    def halve(_, limits):
        low, high = limits
        middle = (low + high) / 2
        expected = jnp.where(there, jax.nn.sigmoid(log_odds + middle[..., None]), 0).sum(-1)
        return jnp.where(expected < wanted, middle, low), jnp.where(expected < wanted, high, middle)

    low, high = jax.lax.fori_loop(0, HALVINGS, halve, (low, high))
    return (low + high) / 2


def count_tree(log_odds: Float[Array, "*parts trials"], there) -> tuple[Array, ...]:
    """Laws of the counts of the trials (.., trials, 2), of pairs of them (.., trials / 2, 3), up to all (.., 1, trials + 1).

    The number of trials is a power of two; those not `there` fail.
    """
    fails = jnp.where(there, jax.nn.sigmoid(-log_odds), 1)
    law = jnp.stack([fails, jnp.where(there, jax.nn.sigmoid(log_odds), 0)], -1)
    levels = [law]
    while law.shape[-2] > 1:
        law = convolved(law[..., 0::2, :], law[..., 1::2, :])
        levels.append(law)
    return tuple(levels)


def convolved(left: Float[Array, "*nodes counts"], right: Float[Array, "*nodes counts"]):
    """The law of the sum of two counts."""
    n = left.shape[-1]
    blank = jnp.zeros((*left.shape[:-1], 2 * n - 1), left.dtype)

    def add(a, total):
        own = jax.lax.dynamic_slice_in_dim(total, a, n, -1) + left[..., a, None] * right
        return jax.lax.dynamic_update_slice_in_dim(total, own, a, -1)

    if n <= UNROLLED:
        for a in range(n):
            blank = add(a, blank)
        return blank
    return jax.lax.fori_loop(0, n, add, blank)


def log_count_law(tree, tilt: Float[Array, "*parts"]) -> Float[Array, "*parts counts"]:
    """Log of the law of the count of all trials, up to a constant, with the tree's tilt removed."""
    law = tree[-1][..., 0, :]
    count = jnp.arange(law.shape[-1], dtype=law.dtype)
    return jnp.log(law) - tilt[..., None] * count


def split_law(left: Float[Array, "*nodes counts"], right: Float[Array, "*nodes counts"], total: Int[Array, "*nodes"]):
    """Unnormalised law of the left half's count of every node, given both halves' total (.., counts)."""
    rest = total[..., None] - jnp.arange(left.shape[-1])
    able = (rest >= 0) & (rest < right.shape[-1])
    of_rest = jnp.take_along_axis(right, jnp.clip(rest, 0, right.shape[-1] - 1), -1)
    return jnp.where(able, left * of_rest, 0)


def drawn_trials(key, tree, count: Int[Array, "*parts"]) -> Int[Array, "*parts trials"]:
    """Which trials succeed (1) and fail (0), with `count` successes in all."""
    total, n_trials = count[..., None], tree[0].shape[-2]
    # Draw all numbers at once: every call of the generator takes half a second to compile.
    uniforms = jax.random.uniform(key, (*count.shape, n_trials), tree[0].dtype)
    for law in reversed(tree[:-1]):
        left, right = law[..., 0::2, :], law[..., 1::2, :]
        n_nodes = total.shape[-1]
        taken = by_inverse(uniforms[..., n_nodes : 2 * n_nodes], split_law(left, right, total))
        total = jnp.stack([taken, total - taken], -1).reshape(*total.shape[:-1], -1)
    return total


def by_inverse(uniform: Float[Array, "*nodes"], mass: Float[Array, "*nodes counts"]) -> Int[Array, "*nodes"]:
    """A category by inverse CDF (last axis), never one of mass zero: `collapsed.draw_cluster` for many categories."""
    running = jnp.cumsum(mass, -1)
    threshold = jnp.maximum(uniform * running[..., -1], jnp.finfo(mass.dtype).tiny)
    return (running[..., :-1] < threshold[..., None]).sum(-1, dtype=jnp.int32)

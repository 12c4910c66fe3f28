"""Algorithm 1 of the paper, step by step: the weighted rectangular loop on the binary matrices of a decomposition.

The matrix of a group has a row for every fairlet and a column for every member or empty slot, so that every column sums
to one; `fits` refuses a swap that leaves a fairlet too small or too large. A step draws a cell (i1, j1). If it holds a
one, j2 is among the zeros of row i1, and i2 is the row that holds j2. If it holds a zero, i2 is the row that holds j1,
and j2 is among the zeros of row i2. Either way another row than j1's holds j2, and the four cells are a checkerboard if
i1 is one of these two rows. With m fairlets that is two steps in m; all others propose nothing.

The proposal is symmetric (`bayesfair.fairlets.rectangular_loop` has the proof). The ratio w' / w is that of the target:
under "joint" it includes the change of the clustering loss, which the printed weights exp(-lambda_f l_ij) omit.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from bayesfair.gibbs.capabilities import HasFairlets
from bayesfair.gibbs.moves.matchings import scaled
from bayesfair.gibbs.moves.swaps import Swaps
from bayesfair.gibbs.moves.swaps_in_turn import Pair, swap_in_turn
from bayesfair.gibbs.states import OpenState

CHOICES = 5  # uniform numbers to choose a step; one more decides


@dataclass(frozen=True)
class LoopSteps:
    """`steps` steps of the rectangular loop, for a target with at least two fairlets that can exchange members."""

    steps: int

    statistics = Swaps.statistics

    def __call__(self, key, target: HasFairlets, state: OpenState):
        uniforms = jax.random.uniform(key, (self.steps, CHOICES + 1), target.x.dtype)
        board, pairs = rectangles(target, uniforms[:, :CHOICES])
        where = jnp.nonzero(board, size=self.steps)[0]  # all other steps do nothing
        pairs = jax.tree.map(lambda part: part[where], pairs)
        takes = lambda t, log: jnp.log(uniforms[where[t], -1]) < log_chance(log)  # noqa: E731
        fairlets, share = swap_in_turn(target, state, pairs, board.sum(), takes)
        return state._replace(fairlets=fairlets), {"swap_rate": share}


def rectangles(target: HasFairlets, uniforms: Float[Array, "steps 5"]) -> tuple[Bool[Array, " steps"], Pair]:
    """(is it a checkerboard?, the two holders of columns) for steps with i1, j1 and j2 from uniform numbers."""
    n_fairlets, groups = target.n_fairlets, target.slot_group
    first, width = np.array([(groups.index(group), groups.count(group)) for group in groups]).T
    row, one, other = (scaled(uniforms[:, at], n) for at, n in ((0, n_fairlets), (1, n_fairlets), (2, n_fairlets - 1)))
    other = (one + 1 + other) % n_fairlets
    slot = jnp.asarray(target.swap_slots)[scaled(uniforms[:, 3], len(target.swap_slots))]
    other_slot = jnp.asarray(first)[slot] + scaled(uniforms[:, 4], jnp.asarray(width)[slot])
    return (row == one) | (row == other), Pair(jnp.stack([one, other], 1), jnp.stack([slot, other_slot], 1))


def log_chance(log_ratio):
    """The heat bath probability, w' / (w + w')."""
    return jax.nn.log_sigmoid(log_ratio)

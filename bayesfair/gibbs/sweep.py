"""A sweep: a tuple of moves in turn; and a compiled chunk of sweeps over all chains.

A move is `(key, target, state) -> (state, stats)`: a frozen dataclass of settings, equal to its like alone and hashable, so
that a sweep is compiled once. (NamedTuples of different classes are equal where their fields are.) Each leaves the target
invariant, which the tests see in transition matrices built from the law that it publishes, so the sweep does. A move
declares its `statistics`; it may `adapt` in the warm-up, and have a `complaint` at its end; what it `tunes` is stored with
a run. One that holds others in its field `moves` is a wrapper: they run inside it. One with a `period` is made in every so
many sweeps alone, in all chains at once. In the others it reports 0, and draws have NaN there (`run.advance`): a program
that gives back NaN stops under JAX_DEBUG_NANS.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

from bayesfair._draws import Statistic
from bayesfair.gibbs.target import Target
from bayesfair.gibbs.threads import of_every_chain


def in_turn(key, target: Target, state, moves, first=0, number=0):
    """The moves one after the other, each with the key of its place; (state, what they all reported).

    `number`: of the sweep, for moves with a `period`.
    """
    scalars = {}
    for place, move in enumerate(moves, first):
        made = partial(move, jax.random.fold_in(key, place), target)
        period = getattr(move, "period", 1)
        state, stats = (
            made(state) if period == 1 else jax.lax.cond((number + 1) % period == 0, made, _idle(made), state)
        )
        scalars |= stats
    return state, scalars


def _idle(made):
    """A move that does nothing, and reports zeros."""

    def stay(state):
        stats = jax.eval_shape(made, state)[1]
        return state, {name: jnp.zeros(one.shape, one.dtype) for name, one in stats.items()}

    return stay


def adjoint(moves) -> tuple:
    """The moves in reversed time: z after these, then z', is as probable under the target as z', then z, after `moves`.

    The last comes first. A move that is not reversible by itself, as it does several things in an order, has a method
    `adjoint` that gives the opposite order.
    """
    return tuple(move.adjoint() if hasattr(move, "adjoint") else move for move in reversed(moves))


@dataclass(frozen=True)
class Repeat:
    """Moves in turn, several times in a sweep; they report what they did the last time."""

    moves: tuple
    times: int = 1

    def __call__(self, key, target, state):
        def once(i, carry):
            return in_turn(jax.random.fold_in(key, i), target, carry[0], self.moves)

        if self.times == 1:
            return once(0, (state, None))
        blank = jax.tree.map(lambda part: jnp.zeros(part.shape, part.dtype), jax.eval_shape(once, 0, (state, None))[1])
        return jax.lax.fori_loop(0, self.times, once, (state, blank))


def every_move(moves):
    """The moves of a sweep, wrappers before what is inside them."""
    for move in moves:
        yield move
        yield from every_move(getattr(move, "moves", ()))


def statistics_of(target: Target, moves) -> dict[str, Statistic]:
    """What each scalar is that the target and the moves report."""
    declared = [target.statistics, *(getattr(move, "statistics", {}) for move in every_move(moves))]
    return {name: statistic for part in declared for name, statistic in part.items()}


def sweep(key, target: Target, state, moves, number=0):
    """One sweep, of this number; pure in the key: (state, what moves and target report)."""
    opened, stats = in_turn(key, target, target.open(state), moves, number=number)
    return target.close(opened), {**stats, **target.scalars(opened)}


@partial(jax.jit, static_argnames=("moves", "length", "fairlets"))
def run_chunk(target: Target, chains, first, n_draws, thinning, moves: tuple, length: int, fairlets: bool = False):
    """`n_draws` <= `length` draws, `thinning` sweeps each, of all chains (keys, states) at once, from sweep number `first` on.

    Sweep t of a chain uses fold_in(key, t), whatever the chunk: a resumed run repeats a longer one bit for bit.
    Returns (states, {"labels": (chains, length, obs)}, {name: (chains, length)}); draws past `n_draws` mean nothing. With
    `fairlets` the second has the fairlet of every row beside its label.
    """
    label_type = jnp.int8 if target.n_clusters <= 127 else jnp.int16

    def of_rows(state):
        labels = {"labels": target.labels(state).astype(label_type)}
        return labels | ({"fairlet": target.fairlet(state)} if fairlets else {})

    def chain(key, state):
        def draw(i, carry):
            state, rows, kept = carry

            def one(j, inner):
                number = first + i * thinning + j
                return sweep(jax.random.fold_in(key, number), target, inner[0], moves, number)

            start = state, {name: values[0] for name, values in kept.items()}
            state, stats = jax.lax.fori_loop(0, thinning, one, start)
            rows = jax.tree.map(lambda values, told: values.at[i].set(told), rows, of_rows(state))
            return state, rows, {name: values.at[i].set(stats[name]) for name, values in kept.items()}

        told = jax.eval_shape(lambda state: (of_rows(state), sweep(key, target, state, moves)[1]), state)
        rows, kept = jax.tree.map(lambda one: jnp.zeros((length, *one.shape), one.dtype), told)
        return jax.lax.fori_loop(0, n_draws, draw, (state, rows, kept))

    return of_every_chain(chain, *chains)

"""A sweep is a tuple of moves in turn; a compiled chunk of sweeps runs over all chains.

A move is `(key, target, state) -> (state, stats)`: a frozen dataclass of settings, hashable and equal only to its like,
so that a sweep is compiled once. (NamedTuples of different classes are equal if their fields are.) Each move leaves the
target invariant; tests verify it by the law that the move publishes. It declares its `statistics`, may `adapt` in the
warm-up and have a `complaint` at its end; the settings that it `tunes` are stored with a run. A move with a field
`moves` is a wrapper: these run inside it. A move with a `period` runs in every so many sweeps. In others it reports 0,
and draws have NaN there (`run.advance`): a program that returns NaN stops under JAX_DEBUG_NANS.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

from bayesfair._draws import Statistic
from bayesfair._jit import jit
from bayesfair.gibbs.target import Target
from bayesfair.gibbs.threads import of_every_chain


def in_turn(key, target: Target, state, moves, first=0, number=0):
    """Run the moves in turn, each with the key of its place, in the sweep of this `number`: (state, all their reports)."""
    scalars = {}
    for place, move in enumerate(moves, first):
        made, period = partial(move, jax.random.fold_in(key, place), target), getattr(move, "period", 1)
        if period == 1:
            state, stats = made(state)
        else:
            idle = lambda state, made=made: (state, _zeros(jax.eval_shape(made, state)[1]))  # noqa: E731
            state, stats = jax.lax.cond((number + 1) % period == 0, made, idle, state)
        scalars |= stats
    return state, scalars


def _zeros(shapes, *length):
    """Arrays of zeros of these shapes, behind an axis of this length if there is one."""
    return jax.tree.map(lambda one: jnp.zeros((*length, *one.shape), one.dtype), shapes)


def adjoint(moves) -> tuple:
    """The moves in reversed time: these lead from z to z' as often under the target as `moves` lead from z' to z.

    A move that does several things in an order has a method `adjoint`, the opposite order.
    """
    return tuple(move.adjoint() if hasattr(move, "adjoint") else move for move in reversed(moves))


@dataclass(frozen=True)
class Repeat:
    """Runs moves in turn, several times in a sweep; reports are those of the last time."""

    moves: tuple
    times: int = 1

    def __call__(self, key, target, state):
        def once(i, carry):
            return in_turn(jax.random.fold_in(key, i), target, carry[0], self.moves)

        if self.times == 1:
            return once(0, (state, None))
        return jax.lax.fori_loop(0, self.times, once, (state, _zeros(jax.eval_shape(once, 0, (state, None))[1])))


def every_move(moves):
    """All moves of a sweep, wrappers before the moves inside them."""
    for move in moves:
        yield move
        yield from every_move(getattr(move, "moves", ()))


def statistics_of(target: Target, moves) -> dict[str, Statistic]:
    """The kind of each scalar that the target and the moves report."""
    declared = [target.statistics, *(getattr(move, "statistics", {}) for move in every_move(moves))]
    return {name: statistic for part in declared for name, statistic in part.items()}


def sweep(key, target: Target, state, moves, number=0):
    """One sweep with this number, pure in the key: (state, reports of moves and target)."""
    opened, stats = in_turn(key, target, target.open(state), moves, number=number)
    return target.close(opened), {**stats, **target.scalars(opened)}


@jit(static_argnames=("moves", "length", "fairlets"))
def run_chunk(target: Target, chains, numbers, moves: tuple, length: int, fairlets: bool = False):
    """Draws of all chains (keys, states): `numbers` are the first sweep, how many draws, and sweeps per draw.

    Sweep t of a chain uses fold_in(key, t), whatever the chunk: a resumed run repeats a longer one bit for bit. Returns
    (states, {"labels": (chains, length, obs)}, {name: (chains, length)}); draws past their number mean nothing. With
    `fairlets` the second includes the fairlet of every row.
    """
    first, n_draws, thinning = numbers
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
        return jax.lax.fori_loop(0, n_draws, draw, (state, *_zeros(told, length)))

    return of_every_chain(chain, *chains)

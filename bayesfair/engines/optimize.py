"""The loop of every engine: an engine supplies `step(problem, state) -> (state, loss)`, this file all the rest.

States carry a leading axis: restarts, or a path of fairness weights. All advance together; converged ones stand still.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Bool, Float, Int
from sklearn.exceptions import ConvergenceWarning

from bayesfair._check import Interrupted, tell
from bayesfair._jit import jit
from bayesfair._progress import progress

CHUNK = 25  # iterations between updates of the progress bar and checks for Ctrl-C
NOTHING = 1e-3  # share of a loss's unit: the tolerance of a smaller loss, which may fall to 0, is relative to it


class Outcome(NamedTuple):
    """Where the runs ended (at their last finite loss), and why. `trace` is padded with NaN.

    RUNNING: max_iter came first. REFUSED: the loss stood still because steps were refused or cut short, not because nothing
    was left to gain. INTERRUPTED: by Ctrl-C.
    """

    state: Any
    loss: Float[ArrayLike, "*runs"]
    trace: Float[ArrayLike, "*runs iterations"]
    n_iter: Int[ArrayLike, "*runs"]
    status: Int[ArrayLike, "*runs"]

    RUNNING, CONVERGED, NOT_FINITE, REFUSED, INTERRUPTED = range(5)

    def run(self, i):
        """One run, its trace cut to the iterations it made."""
        pick = jax.tree.map(lambda part: part[i], jax.tree.map(_on_host, self.state))
        return Outcome(pick, self.loss[i], self.trace[i, : self.n_iter[i]], int(self.n_iter[i]), int(self.status[i]))

    @property
    def order(self):
        """Indices of the runs by increasing loss, non-finite ones last."""
        return order_of(self.loss)

    def least(self, losses):
        """The run for which these losses are least."""
        return self.run(int(order_of(losses)[0]))

    @property
    def best(self):
        """The run of least loss."""
        return self.least(self.loss)


def first_accepted(outcomes, missing):
    """(the first outcome that misses nothing, 0); later ones are not made. `missing(outcome)`: a number, 0 for nothing.

    If each misses something: (the one that misses least, of least loss among equals; what it misses).
    """
    best, rank = None, (np.inf, np.inf)
    for outcome in outcomes:
        own = missing(outcome), np.nan_to_num(outcome.loss, nan=np.inf)
        if best is None or own < rank:
            best, rank = outcome, own
        if rank[0] == 0:
            break
    return best, rank[0]


def order_of(losses):
    """Indices by increasing loss, in their order if equal, non-finite ones last."""
    return np.argsort(np.where(np.isfinite(losses), losses, np.inf), kind="stable")


def _on_host(part):
    """The array as NumPy, unless other processes hold parts of it."""
    everywhere = not isinstance(part, jax.Array) or part.is_fully_addressable or part.is_fully_replicated
    return np.asarray(part) if everywhere else part


class _Progress(NamedTuple):
    state: Any
    loss: Float[ArrayLike, " runs"]
    n_iter: Int[ArrayLike, " runs"]
    quiet: Int[ArrayLike, " runs"]  # consecutive iterations at rest: no change beyond the tolerance
    refused: Int[ArrayLike, " runs"]  # consecutive iterations without change but with more to gain
    status: Int[ArrayLike, " runs"]

    @property
    def active(self) -> Bool[ArrayLike, " runs"]:
        return self.status == Outcome.RUNNING


def minimize(step, problem, state, *, max_iter, tol, unit=1.0, patience=1, progress_bar=False) -> Outcome:
    """Iterate `step` on a batch of states until each run's loss has settled. Ctrl-C keeps where it was.

    A run converges after `patience` iterations in a row that change its loss by at most `tol` times its size, or times
    NOTHING * `unit` if that is more, and had no more to gain. `unit`: the size that the data give to a loss. `step` is
    hashable and returns (state, its loss), or (state, loss, more): was there more to gain than it took? JAX arrays in
    `state` are gone afterwards, as their memory is what the iterations write to.
    """
    now, tol = _begun(state), (float(tol), float(tol * NOTHING * unit))
    n_runs = now.loss.shape[0]
    problem = jax.tree.map(lambda part: part if isinstance(part, jax.Array) else jax.device_put(part), problem)
    traces = [np.empty((n_runs, 0))]
    done, unfinished = 0, Outcome.RUNNING
    with progress(max_iter, "iterations", progress_bar, at_most=True) as bar:
        try:
            while done < max_iter and bool(now.active.any()):
                now, trace = _chunk(step, problem, now, tol, patience, max_iter - done, CHUNK)
                traces.append(trace)
                made = int(now.n_iter.max()) - done
                done += made
                bar.update(made)
            bar.total = done
        except KeyboardInterrupt:
            # Other processes cannot know of it, or it came in the microseconds in which a chunk takes the state over.
            if jax.process_count() > 1 or _is_gone(now.state):
                raise
            done = int(now.n_iter.max())
            unfinished = Outcome.INTERRUPTED
            tell(f"Interrupted after {done} iterations: the solution so far is kept.", Interrupted)
    loss, n_iter, refused, status = map(np.asarray, (now.loss, now.n_iter, now.refused, now.status))
    trace = np.where(np.arange(done) < n_iter[:, None], np.concatenate(traces, 1)[:, :done], np.nan)
    status = np.where(status == Outcome.RUNNING, np.where(refused >= patience, Outcome.REFUSED, unfinished), status)
    return Outcome(now.state, loss, trace, n_iter, status)


def _is_gone(tree):
    return any(isinstance(part, jax.Array) and part.is_deleted() for part in jax.tree.leaves(tree))


@jit(donate_argnames="state")
def _begun(state):
    """Where runs begin. As made by a program, and with its dtype, as in every later chunk: else chunks are compiled twice."""
    n_runs = jax.tree.leaves(state)[0].shape[0]
    none = jnp.zeros((4, n_runs), jnp.int32)
    return _Progress(state, jnp.full(n_runs, jnp.inf, float), *none)


@jit(static_argnames=("step", "length"), donate_argnames="progress")
def _chunk(step, problem, progress: _Progress, tol, patience, most, length):
    """Up to `length` iterations of every run, and their losses (runs, length). `tol`: (relative, absolute)."""

    def one(carry):
        i, progress, trace = carry
        state, loss, *more = jax.vmap(step, (None, 0))(problem, progress.state)
        active, finite = progress.active, jnp.isfinite(loss)
        moved = active & finite
        still = jnp.abs(progress.loss - loss) <= jnp.maximum(tol[0] * jnp.abs(loss), tol[1])
        more = more[0] if more else jnp.zeros_like(still)
        quiet = jnp.where(moved, jnp.where(still & ~more, progress.quiet + 1, 0), progress.quiet)
        refused = jnp.where(moved, jnp.where(still & more, progress.refused + 1, 0), progress.refused)
        status = jnp.where(moved & (quiet >= patience), Outcome.CONVERGED, progress.status)
        status = jnp.where(active & ~finite, Outcome.NOT_FINITE, status)
        keep = lambda new, old: jnp.where(moved.reshape(-1, *[1] * (new.ndim - 1)), new, old)  # noqa: E731
        state = jax.tree.map(keep, state, progress.state)
        trace = trace.at[:, i].set(jnp.where(moved, loss, 0))
        n_iter = progress.n_iter + moved
        return i + 1, _Progress(state, keep(loss, progress.loss), n_iter, quiet, refused, status), trace

    def go_on(carry):
        i, progress, _ = carry
        return (i < jnp.minimum(length, most)) & progress.active.any()

    # Zeros, not NaN, where a run stands still: JAX_DEBUG_NANS looks at what a program returns.
    blank = jnp.zeros((progress.loss.shape[0], length), progress.loss.dtype)
    _, progress, trace = jax.lax.while_loop(go_on, one, (0, progress, blank))
    return progress, trace


WHY = {
    Outcome.RUNNING: "it had not converged after {} iterations",
    Outcome.NOT_FINITE: "the objective stopped being finite after {} iterations (the last finite solution is kept)",
    Outcome.INTERRUPTED: "it was interrupted after {} iterations",
    Outcome.REFUSED: "the objective stood still at the end, iteration {}, because steps were refused or cut short",
}


def converged_or_warn(outcome: Outcome, estimator, remedy) -> bool:
    """Did the run converge? If not, says why and what helps; an error if the very first loss was not finite."""
    name = type(estimator).__name__
    if outcome.status == Outcome.NOT_FINITE and outcome.n_iter == 0:
        what = "the objective is not finite at the start"
        raise FloatingPointError(f"{name}: {what}. Rescale the columns of X; {remedy}")
    if outcome.status == Outcome.CONVERGED:
        return True
    why = WHY[outcome.status].format(outcome.n_iter)
    tell(f"{name}: {why}. Remedy: {remedy}", ConvergenceWarning)
    return False

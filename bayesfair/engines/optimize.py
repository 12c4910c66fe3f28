"""The loop of every engine: an engine supplies `step(problem, state) -> (state, loss)`, this file all the rest.

A step that can be short, or refused, far from any optimum adds a third value: whether a quiet step is a sign of rest.

States carry a leading axis: restarts, or a path of fairness weights. All of them advance together, compiled once per
shape; those that have converged stand still.
"""

import warnings
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from sklearn.exceptions import ConvergenceWarning

from bayesfair._progress import progress

__all__ = ["Outcome", "converged_or_warn", "minimize"]

CHUNK = 25  # iterations between two looks at the progress bar and at Ctrl-C
RUNNING, CONVERGED, NOT_FINITE = 0, 1, 2


class Outcome(NamedTuple):
    """Where the runs ended. `trace` is padded with NaN; a state is the last one whose loss was finite."""

    state: Any
    loss: Float[np.ndarray, " runs"]
    trace: Float[np.ndarray, "runs iterations"]
    n_iter: Int[np.ndarray, " runs"]
    status: Int[np.ndarray, " runs"]

    def run(self, i):
        """One run alone, its trace cut to the iterations it made."""
        pick = jax.tree.map(lambda part: part[i], self.state)
        return Outcome(pick, self.loss[i], self.trace[i, : self.n_iter[i]], int(self.n_iter[i]), int(self.status[i]))

    @property
    def best(self):
        """The run of least loss."""
        return self.run(int(np.nanargmin(np.where(np.isfinite(self.loss), self.loss, np.inf))))


class _Progress(NamedTuple):
    state: Any
    loss: Float[Array, " runs"]
    n_iter: Int[Array, " runs"]
    quiet: Int[Array, " runs"]  # iterations in a row that changed the loss by no more than the tolerance
    status: Int[Array, " runs"]

    @property
    def active(self) -> Bool[Array, " runs"]:
        return self.status == RUNNING


def minimize(step, problem, state, *, max_iter, tol, patience=1, progress_bar=False, description=None) -> Outcome:
    """Iterate `step` on a batch of states until each run's loss has settled.

    step: hashable; `step(problem, state) -> (state, loss)` or `(state, loss, at_rest)` of one run, loss being that of the
        state returned.
    A run converges after `patience` iterations in a row that change its loss by at most `tol` times its size, and that
    the step does not deny to be at rest.
    Ctrl-C ends the loop and keeps where it was.
    """
    n_runs = jax.tree.leaves(state)[0].shape[0]
    fresh = jnp.zeros(n_runs, jnp.int32)
    now = _Progress(state, jnp.full(n_runs, jnp.inf), fresh, fresh, fresh)
    traces, done = [], 0
    with progress(max_iter, description, progress_bar) as bar:
        try:
            while done < max_iter and bool(now.active.any()):
                now, trace = _chunk(step, problem, now, tol, patience, max_iter - done, CHUNK)
                traces.append(np.asarray(trace))
                made = int(now.n_iter.max()) - done
                done += made
                bar.update(made)
        except KeyboardInterrupt:
            warnings.warn(f"Interrupted after {done} iterations: the solution so far is kept.", RuntimeWarning, 2)
    trace = np.concatenate([np.empty((n_runs, 0)), *traces], 1)[:, :done]
    return Outcome(now.state, *map(np.asarray, (now.loss,)), trace, *map(np.asarray, (now.n_iter, now.status)))


@partial(jax.jit, static_argnames=("step", "length"))
def _chunk(step, problem, progress, tol, patience, most, length):
    """Up to `length` iterations of every run, and what they did to the losses (runs, length)."""

    def one(carry):
        i, progress, trace = carry
        state, loss, *at_rest = jax.vmap(step, (None, 0))(problem, progress.state)
        active, finite = progress.active, jnp.isfinite(loss)
        moved = active & finite
        settled = jnp.abs(progress.loss - loss) <= tol * jnp.maximum(jnp.abs(loss), 1e-30)
        settled = settled & at_rest[0] if at_rest else settled
        quiet = jnp.where(moved & settled, progress.quiet + 1, jnp.where(moved, 0, progress.quiet))
        status = jnp.where(moved & (quiet >= patience), CONVERGED, progress.status)
        status = jnp.where(active & ~finite, NOT_FINITE, status)
        keep = lambda new, old: jnp.where(moved.reshape(-1, *[1] * (new.ndim - 1)), new, old)  # noqa: E731
        state = jax.tree.map(keep, state, progress.state)
        trace = trace.at[:, i].set(jnp.where(moved, loss, jnp.nan))
        n_iter = progress.n_iter + moved
        return i + 1, _Progress(state, keep(loss, progress.loss), n_iter, quiet, status), trace

    def go_on(carry):
        i, progress, _ = carry
        return (i < jnp.minimum(length, most)) & progress.active.any()

    blank = jnp.full((progress.loss.shape[0], length), jnp.nan, progress.loss.dtype)
    _, progress, trace = jax.lax.while_loop(go_on, one, (0, progress, blank))
    return progress, trace


def converged_or_warn(outcome: Outcome, estimator, remedy) -> bool:
    """Did the run converge? If not, says why and what helps.

    Raises
    ------
    FloatingPointError: the very first iteration gave a number that is not finite.
    """
    name = type(estimator).__name__
    if outcome.status == NOT_FINITE and outcome.n_iter == 0:
        raise FloatingPointError(
            f"{name}: the objective is not finite at the start. Rescale the columns of X; {remedy}"
        )
    if outcome.status == CONVERGED:
        return True
    why = f"the objective stopped being finite after {outcome.n_iter} iterations (the last finite solution is kept)"
    if outcome.status == RUNNING:
        why = f"it had not converged after {outcome.n_iter} iterations"
    warnings.warn(f"{name}: {why}. Remedy: {remedy}", ConvergenceWarning, stacklevel=3)
    return False

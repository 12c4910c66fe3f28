"""What a target of the sampler is: the protocol that the run, the moves and the estimator speak.

A target is data and law in one pytree. Its state is a NamedTuple of arrays, whatever the target wants it to be, in which
only the target and its moves look. Everything else (chunks, warm-up, interrupts, resuming, storing) knows this page alone.
A new target is a file with a subclass of `Target`, named in `targets` or passed as `target=` by its user.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from bayesfair._arrays import aligned_empty, is_aligned, row_blocks
from bayesfair._scaling import Scaling
from bayesfair.fairlets.decomposition import Decomposition
from bayesfair.fairness.groups import Groups
from bayesfair.gibbs.losses import Loss
from bayesfair.gibbs.temperature import Dispersion

NEARLY_ZERO = 1e-3  # of a mean beside the entries: less of it costs a float32 nothing
STATIC = {"static": True}  # metadata of a field that decides what is compiled; the others are data


class Table(NamedTuple):
    """Rows, their groups and weights.

    X (obs, dim): of a problem (`make_problem`) scaled to near their spread, where the loss allows; `ScaledRows` where rows
    are made as they are asked for; None once chains have started. weight (obs,): above zero, None where all are 1. dim:
    dimensions that the rows span, None where they are as many as X has columns. names: of the columns, for messages. fairlets,
    members: the decomposition that chains start from, and who is in which slot of its fairlets, where a target has `prepared`
    them; members alone where a run goes on.
    """

    X: Float[Any, "obs dim"] | None
    groups: Groups
    weight: Float[np.ndarray, " obs"] | None = None
    dim: int | None = None
    names: list[str] | None = None
    scaling: Scaling | None = None
    fairlets: Decomposition | None = None
    members: Int[np.ndarray, "fairlets slots"] | None = None

    @property
    def n_numbers(self) -> float:
        """How many numbers were observed, which weights multiply: the degrees of freedom of a loss of degree 1."""
        mass = len(self.X) if self.weight is None else float(self.weight.sum())
        return mass * (self.X.shape[1] if self.dim is None else self.dim)


class Settings(NamedTuple):
    """What a user chose, of which a target takes what concerns it.

    inverse_temperature: what `resolve_temperature` returns, in the units of the table. target: a name, or a `Target` class.
    """

    n_clusters: int
    loss: Loss
    inverse_temperature: Dispersion | str | tuple[float, ...] = Dispersion()
    target: str | type = "joint"
    composition: object = "auto"
    reallocation: str = "auto"
    inner_steps: int = 10
    fairlet_move: str = "swaps"
    min_balance: str | float = "exact"
    seed: int = 0

    @property
    def prior(self) -> Dispersion | None:
        """That of a sampled inverse temperature; None where it is fixed."""
        return self.inverse_temperature if isinstance(self.inverse_temperature, Dispersion) else None

    @property
    def has_fixed_pair(self) -> bool:
        return isinstance(self.inverse_temperature, tuple) and self.prior is None


def rows_of(X, loss: Loss, dtype, n_more=0) -> Float[np.ndarray, "rows dim"]:
    """Rows of X (N, d) as the sampler reads them: less their mean where the loss allows, so that float32 loses nothing;
    `n_more` of zeros behind them. Rows that nobody may change, and are so already, are not copied."""
    mean = X.mean(0) if loss.translation_invariant else 0.0
    centered = np.all(np.abs(mean) <= NEARLY_ZERO * np.abs(X[:1000]).max())
    if n_more == 0 and X.dtype == dtype and centered and is_aligned(X) and not X.flags.writeable:
        return X
    out = aligned_empty((len(X) + n_more, X.shape[1]), dtype)
    own, out[len(X) :] = out[: len(X)], 0
    for rows in row_blocks(len(X)):
        own[rows] = X[rows] - mean
    return out


def as_pytree(kind):
    """Decorator of a target's class: a frozen dataclass whose fields are arrays, but for those marked STATIC."""
    return jax.tree_util.register_dataclass(dataclass(frozen=True)(kind))


class Target:
    """A law over clusterings, its data, and the moves that sample it; subclass it, decorated by `as_pytree`.

    Attributes
    ----------
    n_clusters, n_obs: K and N. statistics: what `scalars` reports, {name: Statistic}.
    state_dims: names of the axes of what `write` writes, after the chains', for files; numbered where left out.
    promise: what every draw keeps: "labels", every cluster is balanced to within one person or by `min_balance`; "fairlets", it
        is a union of whole fairlets of the composition; None: nothing.
    keeps_fairlets: do the fairlets stay where they start?
    preparing: what `prepared` finds, in a word for the progress bar; "" where it finds nothing.
    prior: of the inverse temperature, a `Dispersion`; None where it is fixed.
    has_density: is `log_density` known? Replicas compare states by it.
    looks_per_row: how many looks at a row and a centre take as long as what a sweep does with a row; K unless it is told.
    """

    state_dims = {}  # noqa: RUF012
    prior = None
    has_density = True
    promise = None
    keeps_fairlets = False
    preparing = ""

    @property
    def looks_per_row(self) -> int:
        return self.n_clusters

    @classmethod
    def prepared(cls, table: Table, settings: Settings, state: dict | None = None) -> Table:
        """The table with what `make` and `starts` need and is slow to find. `state`: arrays of a run that goes on (`write`)."""
        return table

    @classmethod
    def make(cls, table: Table, settings: Settings) -> "Target":
        """The target of a prepared table. ValueError where the settings do not suit it."""
        raise NotImplementedError

    def starts(self, table: Table, settings: Settings, num_chains: int):
        """States of the chains at their starts, stacked along a leading axis."""
        raise NotImplementedError

    def further_starts(self, table: Table, settings: Settings, best, most: int, rng):
        """States to look for other modes from, knowing the state of the `best` one: at most so many, stacked; None where
        there is nothing to try. `rng`: a NumPy generator."""
        return None

    def moves(self, settings: Settings) -> tuple:
        """The sweep: moves `(key, target, state) -> (state, stats)`, each of which leaves this law invariant."""
        raise NotImplementedError

    def labels(self, state) -> Int[Array, " obs"]:
        """The cluster of every observation."""
        raise NotImplementedError

    def losses(self, state) -> tuple:
        """The losses of an opened state, each from scratch."""
        raise NotImplementedError

    def log_density(self, state, lambdas) -> Float[Array, ""]:
        """Log of the law at an opened state, at these inverse temperatures, up to one constant; None without `has_density`."""
        raise NotImplementedError

    def scalars(self, state) -> dict[str, Float[Array, ""]]:
        """The scalars that are kept of every draw, from an opened state, under the names of `statistics`."""
        raise NotImplementedError

    def open(self, state):
        """What the moves of a sweep work on: the state, with what is worth computing once a sweep."""
        return state

    def close(self, opened):
        """What is kept between sweeps."""
        return opened

    def write(self, states) -> dict[str, np.ndarray]:
        """States as named arrays, for a file."""
        return {name: np.asarray(part) for name, part in states._asdict().items()}

    def read(self, arrays):
        """The states that `write` wrote."""
        raise NotImplementedError

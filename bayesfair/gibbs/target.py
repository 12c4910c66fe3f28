"""The protocol of a target, for the run, the moves and the estimator.

A target is data and law in one pytree. Its state is a NamedTuple of arrays that only the target and its moves look
into. A new target is a file with a subclass of `Target`, named in `targets` or passed as `target=` by its user.
"""

from dataclasses import dataclass
from numbers import Number
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from bayesfair._arrays import aligned_empty, is_aligned, row_blocks
from bayesfair._check import message
from bayesfair._draws import Statistic
from bayesfair._scaling import Scaling
from bayesfair.fairlets.decomposition import Decomposition
from bayesfair.fairness.groups import Groups
from bayesfair.gibbs.loss import Loss
from bayesfair.gibbs.temperature import Dispersion

NEARLY_ZERO = 1e-3  # mean relative to the entries below which float32 loses nothing
STATIC = {"static": True}  # metadata of a field that decides what is compiled; other fields are data


class Table(NamedTuple):
    """Rows, their groups and weights.

    Attributes
    ----------
    X : array of shape (n_obs, n_features), ScaledRows or None
        Features, scaled to near their spread if the loss allows. `ScaledRows` if rows are made as they are asked for. None
        once chains have started.
    groups : Groups
        The groups of the rows.
    weight : numpy.ndarray of shape (n_obs,) or None
        Weights above zero. None where all are 1.
    dim : float or None
        Dimensions that count in the law of lambda. None if they are as many as the columns.
    names : list of str or None
        Names of the columns, for messages.
    scaling : Scaling or None
        How the rows were scaled.
    fairlets : Decomposition or None
        The decomposition from which chains start, if the target has `prepared` it.
    members : int array of shape (n_fairlets, n_slots) or None
        Which row is in which slot of its fairlet. It is there without `fairlets` if a run goes on.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.gibbs.Table._fields[:3]
    ('X', 'groups', 'weight')
    """

    X: Float[Any, "obs dim"] | None
    groups: Groups
    weight: Float[np.ndarray, " obs"] | None = None
    dim: float | None = None
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
    """What a user chose. A target takes what concerns it.

    Attributes
    ----------
    n_clusters : int
        Number of clusters.
    loss : Loss
        The clustering loss.
    inverse_temperature : Dispersion, str or tuple of float
        As in `GibbsFairClustering`, in the units of the table.
    target : str or Target class
        A name, or a class of your own.
    composition : object
        Members of each group in each fairlet.
    reallocation : str
        How fairlets change clusters.
    inner_steps : int
        Reallocations in a sweep of the cut.
    fairlet_move : str
        How fairlets exchange members.
    min_balance : str or float
        What balanced labels keep.
    size_min : int or None
        The least rows of a cluster, of balanced labels.
    size_max : int or None
        The most.
    seed : int
        Seed of the starts.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.gibbs.Settings(3, bf.gibbs.KMeansLoss()).target
    'joint'
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
    size_min: int | None = None
    size_max: int | None = None
    seed: int = 0

    @property
    def prior(self) -> Dispersion | None:
        """Prior of the inverse temperature if it is sampled. None if it is fixed."""
        return self.inverse_temperature if isinstance(self.inverse_temperature, Dispersion) else None

    @property
    def has_fixed_pair(self) -> bool:
        """Whether the inverse temperatures are given as numbers."""
        return isinstance(self.inverse_temperature, tuple) and self.prior is None


def refuse_set(settings: Settings, names, where, remedy):
    """Raise a ValueError if one of these settings, which the target does not read, is not left at its default."""
    for name in names:
        value, default = getattr(settings, name), Settings._field_defaults[name]
        if not (isinstance(value, str | Number | None) and value == default):
            raise ValueError(message(name, f"be left out for {where}", repr(value), remedy))


def rows_of(X, loss: Loss, dtype, n_more=0) -> Float[np.ndarray, "rows dim"]:
    """Rows of X (N, d) as the sampler reads them: centred if the loss allows, so that float32 loses nothing.

    `n_more` rows of zeros follow. Read-only rows that are already so are not copied.
    """
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
    """Decorate the class of a target: a frozen dataclass whose fields are arrays, except those marked STATIC.

    Parameters
    ----------
    kind : type
        The class.

    Returns
    -------
    type

    Examples
    --------
    >>> import bayesfair as bf
    >>> @bf.gibbs.as_pytree
    ... class Mine(bf.gibbs.Target):
    ...     n_obs: int
    >>> Mine(3).n_obs
    3
    """
    return jax.tree_util.register_dataclass(dataclass(frozen=True)(kind))


class Target:
    """A law over clusterings, its data, and the moves that sample it. Subclass it, decorated by `as_pytree`.

    References
    ----------
    The Gibbs paper, eq. (9), for the target "joint".

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.gibbs.Target.keeps_fairlets
    False
    """

    n_clusters: int  #: Number of clusters.
    n_obs: int  #: Number of rows.
    #: What `scalars` reports, by name. The log density is "lp": replicas compare states by it.
    statistics: dict[str, Statistic]
    #: Names of the axes of what `write` writes, after that of the chains. Axes are numbered if it is left out.
    state_dims: dict[str, tuple[str, ...]] = {}  # noqa: RUF012
    #: What every draw keeps. "labels": every cluster is balanced, to within one row or by `min_balance`, and has
    #: `size_min` to `size_max` rows. "fairlets": a cluster is a union of whole fairlets of the composition. None: nothing.
    promise: str | None = None
    keeps_fairlets: bool = False  #: Whether the fairlets stay where they start.
    preparing: str = ""  #: What `prepared` finds, in a word for the progress bar. Empty if it finds nothing.
    prior: Dispersion | None = None  #: Prior of the inverse temperature. None if it is fixed.

    @property
    def looks_per_row(self) -> int:
        """How many looks at a row and a centre take as long as what a sweep does with a row. By default `n_clusters`."""
        return self.n_clusters

    @classmethod
    def prepared(cls, table: Table, settings: Settings, state: dict | None = None) -> Table:
        """The table with what `make` and `starts` need and is slow to find.

        Parameters
        ----------
        table : Table
            The rows.
        settings : Settings
            What the user chose.
        state : dict of arrays, optional
            What `write` wrote, if a run goes on.

        Returns
        -------
        Table
        """
        return table

    @classmethod
    def make(cls, table: Table, settings: Settings) -> "Target":
        """The target of a prepared table.

        Parameters
        ----------
        table : Table
            The rows.
        settings : Settings
            What the user chose.

        Returns
        -------
        Target

        Raises
        ------
        ValueError
            If the settings do not suit the target.
        """
        raise NotImplementedError

    def starts(self, table: Table, settings: Settings, num_chains: int):
        """States of the chains at their starts, stacked along a leading axis.

        Parameters
        ----------
        table : Table
            The rows.
        settings : Settings
            What the user chose.
        num_chains : int
            Number of chains.

        Returns
        -------
        state
        """
        raise NotImplementedError

    def further_starts(self, table: Table, settings: Settings, best, most: int, rng):
        """States from which to look for other modes, given the best one.

        Parameters
        ----------
        table : Table
            The rows.
        settings : Settings
            What the user chose.
        best : state
            The best state so far.
        most : int
            Most states to return.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        state or None
            Stacked along a leading axis. None if there is nothing to try.
        """
        return None

    def moves(self, settings: Settings) -> tuple:
        """The sweep: a tuple of moves, each of which leaves the law invariant.

        Parameters
        ----------
        settings : Settings
            What the user chose.

        Returns
        -------
        tuple
            Moves `(key, target, state) -> (state, statistics)`.
        """
        raise NotImplementedError

    def labels(self, state) -> Int[Array, " obs"]:
        """The cluster of every row.

        Parameters
        ----------
        state : state
            A state between sweeps.

        Returns
        -------
        int array of shape (n_obs,)
        """
        raise NotImplementedError

    def losses(self, state) -> tuple:
        """The losses of an opened state, each from scratch.

        Parameters
        ----------
        state : state
            An opened state.

        Returns
        -------
        tuple
        """
        raise NotImplementedError

    def log_density(self, state, lambdas) -> Float[Array, ""]:
        """The log of the law at an opened state, up to one constant. Not asked for if `statistics` has no "lp".

        Parameters
        ----------
        state : state
            An opened state.
        lambdas : tuple
            Inverse temperatures.

        Returns
        -------
        scalar
        """
        raise NotImplementedError

    def scalars(self, state) -> dict[str, Float[Array, ""]]:
        """The scalars that are kept of every draw, under the names of `statistics`.

        Parameters
        ----------
        state : state
            An opened state.

        Returns
        -------
        dict
        """
        raise NotImplementedError

    def open(self, state):
        """What the moves of a sweep work on: the state, with what is worth computing once in a sweep.

        Parameters
        ----------
        state : state
            A state between sweeps.

        Returns
        -------
        state
            An opened state.
        """
        return state

    def close(self, opened):
        """What is kept between sweeps.

        Parameters
        ----------
        opened : state
            An opened state.

        Returns
        -------
        state
        """
        return opened

    def write(self, states) -> dict[str, np.ndarray]:
        """States as named arrays, for a file.

        Parameters
        ----------
        states : state
            Stacked states.

        Returns
        -------
        dict of numpy.ndarray
        """
        return {name: np.asarray(part) for name, part in states._asdict().items()}

    def read(self, arrays):
        """The states that `write` wrote.

        Parameters
        ----------
        arrays : dict of arrays
            What `write` returned.

        Returns
        -------
        state
        """
        raise NotImplementedError

"""What targets, kernels and the run agree on.

A target is an object that carries its own settings, as a kernel does in scikit-learn's Gaussian processes. `prepare(table)`
makes a `Law`: data for the kernels, starts, and one jitted function that advances a chain.
"""

from typing import NamedTuple, Protocol

import numpy as np

from bayesfair._check import message
from bayesfair._draws import Statistic
from bayesfair.fairness.groups import Groups
from bayesfair.fairness.guarantee import Guarantee
from bayesfair.gibbs.loss import Loss, NamedLoss


class Dispersion(NamedTuple):
    """The prior of lambda, Gamma(shape, rate); the default is p(lambda) proportional to 1 / lambda.

    Given the clusters, lambda has the law Gamma(shape + N d / h, rate + L), L being the loss.

    Parameters
    ----------
    shape : float, at least 0, default 0.0
        Shape of the gamma law.
    rate : float, at least 0, default 0.0
        Rate of the gamma law, in units of the loss.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.gibbs.Dispersion(shape=2.0, rate=1.0).shape
    2.0
    """

    shape: float = 0.0
    rate: float = 0.0


class Table(NamedTuple):
    """What is sampled: rows as they come (float32 or float64, never copied per chain), groups, weights, and the law of lambda.

    `weight` (N,) float64 is above zero, ones if the user gave none. `degrees` is N d / h, the power of lambda. `temperature` is
    a `Dispersion` (lambda is sampled), "holmes-walker", or a tuple of fixed numbers.
    """

    X: np.ndarray
    groups: Groups
    weight: np.ndarray
    n_clusters: int
    loss: Loss | NamedLoss
    temperature: Dispersion | str | tuple[float, ...]
    degrees: float
    seed: int
    progress_bar: bool = False

    @property
    def gamma(self) -> tuple[float, float]:
        """(shape, rate) of lambda's gamma law given a loss of 0; a loss adds to the rate. Zeros if lambda is fixed."""
        prior = self.temperature
        if not isinstance(prior, Dispersion):
            return 0.0, 0.0
        return prior.shape + self.degrees, float(prior.rate)


class Room(NamedTuple):
    """Where `advance` writes draws: labels (draws, N), fairlets (draws, N) or (0, N) if not wanted, scalars (draws, S)."""

    labels: np.ndarray
    fairlets: np.ndarray
    scalars: np.ndarray


def empty_room(law, n_draws: int, n_fairlets: int = 0) -> Room:
    """Space for so many draws of one chain, of which the first `n_fairlets` keep their fairlets."""
    n_obs = len(law.table.X)
    labels, fairlets = np.empty((n_draws, n_obs), np.int32), np.empty((n_fairlets, n_obs), np.int32)
    return Room(labels, fairlets, np.empty((n_draws, len(law.statistics))))


class Law(Protocol):
    """A prepared target: what the run needs of it. States are NamedTuples of arrays that kernels change in place."""

    statistics: dict[str, Statistic]  #: The scalars of a draw, in the order of the columns of `Room.scalars`.
    state_type: type  #: Of its states.
    guarantee: Guarantee  #: What holds in every draw.
    memory: dict[str, np.ndarray]  #: Arrays that a continued run needs beside its table and states.
    looks_per_sweep: float  #: Looks at a row and a coordinate of a centre, or what takes as long.

    def starts(self, num_chains: int) -> list:
        """States of the chains at their starts; `state.words` is the generator, from `chance.seeded(seed, chain)`."""

    def starts_at(self, labels) -> list:
        """States of the chains at these labels (chains, N), or near them; `starts` has its own."""

    def advance(self, state, thinning: int, visits: int, room: Room, first: int) -> int:
        """Go on with a chain, in place: fill the draws from `first` on, until `room` is full or about `visits` visits are made.

        Returns the number of the next draw. What has been done of an unfinished draw is in the state, so that any cut into
        calls gives the same draws, bit for bit.
        """

    def learn(self, state, n_sweeps: int):
        """Sweeps of the warm-up in which the state adapts what its moves read, in place."""

    def labels(self, state) -> np.ndarray:
        """The cluster of every row."""


def is_fixed(temperature) -> bool:
    """Whether inverse temperatures are given numbers."""
    return isinstance(temperature, tuple) and not isinstance(temperature, Dispersion)


def check_temperature(table: Table, number: int, rule: str, remedy: str):
    """Raise a ValueError if inverse temperatures are fixed but not so many, or not fixed for a loss without a degree."""
    given = table.temperature
    if is_fixed(given):
        if len(given) != number:
            got = "a pair" if len(given) == 2 else "one number" if len(given) == 1 else f"{len(given)} numbers"
            raise ValueError(message("inverse_temperature", f"be {rule}", got, remedy))
    elif table.loss.degree is None:
        rule = f"be {rule.split(' for ')[0]} for a loss without a degree"
        remedy = "Give the loss its degree (2 for squared distances, 1 for norms) to let the data choose."
        raise ValueError(message("inverse_temperature", rule, repr(given), remedy))

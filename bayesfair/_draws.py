"""The output of every sampler as plain NumPy arrays, and the kind of each of its scalars."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

COMPARED = "parameter", "quantity"  # the kinds on which chains are compared
SIZE = "cluster_size_"  # and a rank, from 1 for the largest


def in_words(name: str) -> str:
    """A scalar of the draws as sentences name it: the rank of a cluster's size is no number of a cluster."""
    if not name.startswith(SIZE):
        return name.replace("_", " ")
    rank = int(name.removeprefix(SIZE))
    ending = "th" if rank % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"size of the {'' if rank == 1 else f'{rank}{ending} '}largest cluster"


class Statistic(NamedTuple):
    """What a scalar of every draw is: declared beside the code that computes it, read by all that keep, compare or show it.

    Parameters
    ----------
    kind : {"parameter", "quantity", "figure", "tuning"}
        "parameter" is a variable of the posterior, "quantity" a function of the draw, "figure" a figure of the sampler, and
        "tuning" a figure that the warm-up reads and nobody keeps.
    power : int, default 0
        Power of the unit of the loss: 1 for a loss, -1 for an inverse temperature.
    """

    kind: str
    power: int = 0


class FairletDraws(NamedTuple):
    """The fairlet of every row in some draws, their `number` counted from the first of the run; None means all draws."""

    fairlet: Int[np.ndarray, "chains kept obs"]
    number: Int[np.ndarray, " kept"] | None


class Draws(NamedTuple):
    """Draws of all chains: labels and, if kept, fairlets in the smallest integer type, and scalars by name with their kinds."""

    labels: Int[np.ndarray, "chains draws obs"]
    scalars: dict[str, Float[np.ndarray, "chains draws"]]
    statistics: dict[str, Statistic]
    fairlets: FairletDraws | None = None


def concatenate(parts: list) -> Draws:
    """Join the `Draws` of consecutive chunks, with the scalars of the first."""
    scalars = {name: np.concatenate([part.scalars[name] for part in parts], axis=1) for name in parts[0].scalars}
    labels, fairlets = np.concatenate([part.labels for part in parts], axis=1), parts[0].fairlets
    if fairlets is not None:
        numbers = None if fairlets.number is None else np.concatenate([part.fairlets.number for part in parts])
        fairlets = FairletDraws(np.concatenate([part.fairlets.fairlet for part in parts], axis=1), numbers)
    return parts[0]._replace(labels=labels, scalars=scalars, fairlets=fairlets)

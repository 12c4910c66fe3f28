"""What a run leaves behind, as plain NumPy arrays."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

__all__ = ["Draws", "concatenate"]


class Draws(NamedTuple):
    """Draws of all chains; labels in the smallest integer type that holds K. `lp` is None under the cut, whose density is
    known up to a factor only that depends on the decomposition (`Target.has_density`)."""

    labels: Int[np.ndarray, "chains draws obs"]
    lambda_f: Float[np.ndarray, "chains draws"]
    lambda_c: Float[np.ndarray, "chains draws"]
    lp: Float[np.ndarray, "chains draws"] | None
    fairlet_loss: Float[np.ndarray, "chains draws"]
    clustering_loss: Float[np.ndarray, "chains draws"]
    swap_rate: Float[np.ndarray, "chains draws"]
    reallocation_rate: Float[np.ndarray, "chains draws"]


def concatenate(parts: list[Draws]) -> Draws:
    """The draws of consecutive chunks as one run."""
    return Draws(*(_joined(field) for field in zip(*parts, strict=True)))


def _joined(field):
    return None if any(part is None for part in field) else np.concatenate(field, axis=1)

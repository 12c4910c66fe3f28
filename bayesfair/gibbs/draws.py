"""What a run leaves behind, as plain NumPy arrays."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

__all__ = ["Draws", "concatenate"]


class Draws(NamedTuple):
    """Draws of all chains; labels in the smallest integer type that holds K."""

    labels: Int[np.ndarray, "chains draws obs"]
    lambda_f: Float[np.ndarray, "chains draws"]
    lambda_c: Float[np.ndarray, "chains draws"]
    lp: Float[np.ndarray, "chains draws"]
    fairlet_loss: Float[np.ndarray, "chains draws"]
    clustering_loss: Float[np.ndarray, "chains draws"]
    swap_rate: Float[np.ndarray, "chains draws"]
    reallocation_rate: Float[np.ndarray, "chains draws"]


def concatenate(parts: list[Draws]) -> Draws:
    """The draws of consecutive chunks as one run."""
    return Draws(*(np.concatenate(field, axis=1) for field in zip(*parts, strict=True)))

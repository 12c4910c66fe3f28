"""Tables that several files fit with the same settings, so that compiled programs are found again."""

import numpy as np
import pandas as pd

RNG = np.random.default_rng(0)
HALVES = np.arange(90) % 2  # clusters of MIXED
MIXED = pd.DataFrame(
    {
        "colour": np.array(["green", "red"])[np.where(RNG.random(90) < 0.8, HALVES, 1 - HALVES)],
        "age": 40 + 6 * HALVES + RNG.normal(size=90),
        "income": 2e4 + 5e3 * HALVES + 900 * RNG.normal(size=90),
    }
)
SEX = pd.Series(np.where(RNG.random(90) < 0.4, "F", "M"), name="sex")
MIXTURE = {"covariance_type": "diag", "num_warmup": 100, "starts": ("k-means",), "num_chains": 2}  # of MIXED
PLAIN = pd.DataFrame(
    np.random.default_rng(0).normal(size=(90, 2)) + 4 * np.random.default_rng(1).integers(2, size=(90, 1)),
    columns=["x", "y"],
    index=[f"p{row}" for row in range(90)],
)
THIRDS = np.array(["a", "b", "b"])[np.arange(90) % 3]  # groups of PLAIN

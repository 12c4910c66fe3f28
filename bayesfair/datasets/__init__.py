"""Real data behind one registry, the papers' simulations, and subsampling to a ratio of groups."""

from bayesfair.datasets.base import Dataset, subsample
from bayesfair.datasets.bundled import load_diabetes
from bayesfair.datasets.registry import SOURCES
from bayesfair.datasets.simulate import make_gmm_grid, make_misspecified, make_vfc_synthetic, make_well_specified
from bayesfair.datasets.uci import (
    load_adult,
    load_bank,
    load_bank_additional,
    load_census1990,
    load_credit,
    load_diabetes130,
)

__all__ = [
    "SOURCES",
    "Dataset",
    "load_adult",
    "load_bank",
    "load_bank_additional",
    "load_census1990",
    "load_credit",
    "load_diabetes",
    "load_diabetes130",
    "make_gmm_grid",
    "make_misspecified",
    "make_vfc_synthetic",
    "make_well_specified",
    "subsample",
]

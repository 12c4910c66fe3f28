"""Real data behind one registry, the papers' simulations, tables of your own, and subsampling to a ratio of groups."""

from bayesfair.datasets.base import Dataset, subsample
from bayesfair.datasets.bundled import load_diabetes
from bayesfair.datasets.fair_mixture import make_fair_mixture
from bayesfair.datasets.simulate import make_gmm_grid, make_misspecified, make_vfc_synthetic, make_well_specified
from bayesfair.datasets.tables import read_table
from bayesfair.datasets.uci import (
    load_adult,
    load_adult_sample,
    load_bank,
    load_bank_additional,
    load_bank_sample,
    load_census1990,
    load_credit,
    load_diabetes130,
)

__all__ = [
    "Dataset",
    "load_adult",
    "load_adult_sample",
    "load_bank",
    "load_bank_additional",
    "load_bank_sample",
    "load_census1990",
    "load_credit",
    "load_diabetes",
    "load_diabetes130",
    "make_fair_mixture",
    "make_gmm_grid",
    "make_misspecified",
    "make_vfc_synthetic",
    "make_well_specified",
    "read_table",
    "subsample",
]

"""Inverse temperatures: which priors there are."""

import numpy as np
import pytest

from bayesfair.gibbs import Dispersion, resolve_temperature

BAD_PRIORS = {
    "shape": [(-1e3, 0.0), (np.nan, 0.0), (np.inf, 1.0)],
    "rate": [(0.0, -1e3), (0.0, np.nan), (1.0, np.inf), (1.0, "1")],
}


@pytest.mark.parametrize(("name", "prior"), [(name, prior) for name, bad in BAD_PRIORS.items() for prior in bad])
def test_a_prior_without_a_law_is_refused(name, prior):
    """Draws of lambda were NaN, and chains walked on."""
    with pytest.raises(
        (ValueError, TypeError), match=f"`inverse_temperature.{name}` must be a finite number, at least 0"
    ):
        resolve_temperature(Dispersion(*prior))


@pytest.mark.parametrize("prior", [(0.0, 0.0), (2, 1), (np.float32(0.5), np.int64(3))])
def test_a_prior_is_taken_as_it_is(prior):
    assert resolve_temperature(Dispersion(*prior)) == Dispersion(*prior)

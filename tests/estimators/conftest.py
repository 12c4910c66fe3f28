import pytest

import bayesfair as bf
from bayesfair.gibbs import run


@pytest.fixture(autouse=True, scope="module")
def _short_chunks():
    """Several chunks, however fast sweeps are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run.Chains, "longest", 8)
        yield


@pytest.fixture(scope="module")
def data():
    return bf.datasets.make_well_specified(seed=0)

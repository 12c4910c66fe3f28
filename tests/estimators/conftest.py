import pytest

from bayesfair.gibbs import run


@pytest.fixture(autouse=True, scope="module")
def _short_chunks():
    """Several chunks, however fast sweeps are, and one program for all files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "MAX_CHUNK", 8)
        yield

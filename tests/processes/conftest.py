"""Loopback, or a reason why there is none."""

import pytest
from processes.loopback import free_port


@pytest.fixture(autouse=True)
def _loopback():
    try:
        free_port()
    except OSError as error:
        pytest.skip(f"no loopback here: {error}")

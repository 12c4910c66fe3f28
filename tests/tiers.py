"""Which cases of a table `make test` runs, and which `make test-all` alone."""

import pytest


def tiers(every, fast):
    """Every case for `parametrize`, marked `slow` unless it is one of `fast`, which are cases of the table."""
    every, fast = list(every), list(fast)
    assert all(case in every for case in fast), "fast cases must be cases"
    assert fast, "some case must be fast"
    return [case if case in fast else _slow(case) for case in every]


def _slow(case):
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)

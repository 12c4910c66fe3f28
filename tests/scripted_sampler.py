"""Kernels of the sampler as plain Python, all modules at once, with scripted chance (see scripted.py)."""

import sys
from collections import Counter
from contextlib import contextmanager
from functools import cache

import numpy as np
from numba.core.registry import CPUDispatcher
from scripted import SCRIPTED, every_run

from bayesfair.gibbs import chance

CONTINUOUS = "uniform", "normal", "log_gamma", "gamma", "beta"


def _refuse(*_):
    raise AssertionError("A continuous number is drawn: test the law given it.")


@contextmanager
def as_python():
    """Kernels of bayesfair.gibbs as plain Python on scripted chance; all is as before afterwards."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("bayesfair.gibbs")]
    before = [(module, dict(vars(module))) for module in modules]
    scripted = {vars(chance)[name]: draw for name, draw in SCRIPTED.items()}
    scripted |= {vars(chance)[name]: _refuse for name in CONTINUOUS}
    for module, names in before:
        for name, value in names.items():
            if isinstance(value, CPUDispatcher):
                setattr(module, name, scripted.get(value, value.py_func))
    try:
        yield
    finally:
        for module, names in before:
            for name, value in names.items():
                setattr(module, name, value)


def transition_matrix(states, step):
    """P (states, states) of a kernel: step(script, state) makes the state anew, runs the kernel and returns where it ends."""
    index = {state: at for at, state in enumerate(states)}
    P = np.zeros((len(states),) * 2)
    with as_python():
        for at, state in enumerate(states):
            for p, end in every_run(lambda script, state=state: step(script, state)):
                P[at, index[end]] += p
    return P


def invariance_error(pi, P):
    """How far pi P is from pi, after checking that P is a transition matrix."""
    np.testing.assert_allclose(P.sum(1), 1, atol=1e-9)
    return np.abs(pi @ P - pi).max()


def imbalance(p, step, starts):
    """Largest |log p_i P_ij - log p_j P_ji| between states i of `starts` and all states j that a reversible kernel reaches.

    p: {state: probability}; step as for `transition_matrix`.
    """

    @cache
    def row(state):
        law = Counter()
        for q, end in every_run(lambda script: step(script, state)):
            law[end] += q
        return law

    with as_python(), np.errstate(divide="ignore"):
        return max(abs(np.log(p[i] * row(i)[j]) - np.log(p[j] * row(j)[i])) for i in starts for j in row(i))

"""Compiled kernels as plain Python with chance scripted: every branch is taken once, with its probability.

So the transition matrix comes from the kernel itself, and there is no second copy of its law.
"""

import sys
from contextlib import contextmanager

import numpy as np
from numba.core.registry import CPUDispatcher

from bayesfair.sampler import chance

CHOICES = "integer", "bernoulli", "category"
CONTINUOUS = "uniform", "normal", "log_gamma", "gamma", "beta"


class Script:
    """A run's choices: those listed, then the first possible of each; `open` are the alternatives to those."""

    def __init__(self, choices, given=()):
        self.choices, self.at, self.probability, self.open = list(choices), 0, 1.0, []
        self.given = list(given)

    def take(self, probabilities):
        possible = [i for i, p in enumerate(probabilities) if p > 0]
        if self.at == len(self.choices):
            self.open.append((self.at, possible[1:]))
            self.choices.append(possible[0])
        chosen = self.choices[self.at]
        self.at += 1
        self.probability *= probabilities[chosen]
        return chosen

    def integer(self, s, n):
        return self.take([1 / n] * int(n))

    def bernoulli(self, s, p):
        return bool(self.take([1 - p, p]))

    def category(self, s, weight, n):
        weight = np.array(weight[:n], float)
        return self.take((weight / weight.sum()).tolist())

    def continuous(self, *_):
        return self.given.pop(0)


def every_run(run, given=()):
    """(probability, result) of every branch of run(script)."""
    todo = [[]]
    while todo:
        script = Script(todo.pop(), given)
        result = run(script)
        yield script.probability, result
        for at, others in script.open:
            todo += [[*script.choices[:at], i] for i in others]


@contextmanager
def as_python():
    """Kernels of bayesfair.sampler as plain Python, whose chance is that of `follow`; all is as before afterwards."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("bayesfair.sampler")]
    before = [(module, dict(vars(module))) for module in modules]
    drawn = {vars(chance)[name]: name for name in CHOICES + CONTINUOUS}
    current = [None]

    def scripted(name):
        method = name if name in CHOICES else "continuous"
        return lambda *args: getattr(current[0], method)(*args)

    replacement = {name: scripted(name) for name in drawn.values()}
    for module, names in before:
        for name, value in names.items():
            if isinstance(value, CPUDispatcher):
                setattr(module, name, replacement[drawn[value]] if value in drawn else value.py_func)

    def follow(script):
        current[0] = script
        return script

    try:
        yield follow
    finally:
        for module, names in before:
            for name, value in names.items():
                setattr(module, name, value)


def transition_matrix(states, step, given=()):
    """P (states, states) of a kernel: step(state) makes the state anew, runs the kernel and returns the state it ends in."""
    index = {state: at for at, state in enumerate(states)}
    P = np.zeros((len(states),) * 2)
    with as_python() as follow:
        for at, state in enumerate(states):

            def run(script, state=state):
                follow(script)
                return step(state)

            for probability, end in every_run(run, given):
                P[at, index[end]] += probability
    return P


def invariance_error(pi, P):
    """How far pi P is from pi, after checking that P is a transition matrix."""
    np.testing.assert_allclose(P.sum(1), 1, atol=1e-9)
    return np.abs(pi @ P - pi).max()

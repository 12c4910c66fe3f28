"""Scripted chance: every branch of a compiled kernel is taken once, so that the kernel itself tells its transition matrix.

Kernels draw by `integer`, `bernoulli` and `category` of `bayesfair._chance` alone. `plain(module)` are a module's kernels as
plain Python, whose generator `s` is a `Script`; it follows a list of choices and notes what else could have been chosen.
"""

from types import FunctionType

import numpy as np


class Script:
    """A generator that makes given choices, then the first possible ones. `p`: their probability; `others`: what is left."""

    def __init__(self, choices):
        self.choices, self.at, self.p, self.others = list(choices), 0, 1.0, []

    def take(self, probabilities):
        possible = [k for k, p in enumerate(probabilities) if p > 0]
        if self.at == len(self.choices):
            self.others += [[*self.choices, k] for k in possible[1:]]
            self.choices.append(possible[0])
        chosen = self.choices[self.at]
        self.at += 1
        self.p *= probabilities[chosen]
        return chosen


SCRIPTED = {
    "integer": lambda s, n: s.take([1 / n] * n),
    "bernoulli": lambda s, p: bool(s.take([1 - p, p])),
    "category": lambda s, weight, n: s.take(np.asarray(weight[:n], float) / np.sum(weight[:n])),
}


def plain(module, chance=SCRIPTED, /, **planted):
    """The module's names, with its kernels as plain Python on this chance; `planted` ones take their places."""
    names = dict(vars(module))
    for name, value in vars(module).items():
        if hasattr(value, "py_func"):
            names[name] = FunctionType(value.py_func.__code__, names, name)
    names.update(chance | planted)
    return names


def every_run(run):
    """(probability, what `run(script)` returns) of every branch of a run."""
    waiting = [[]]
    while waiting:
        script = Script(waiting.pop())
        result = run(script)
        yield script.p, result
        waiting += script.others


def transition_matrix(step, states):
    """P (states, states) of `step(script, state)`, which returns the bytes of the next state."""
    index = {state.tobytes(): at for at, state in enumerate(states)}
    P = np.zeros((len(states),) * 2)
    for at, state in enumerate(states):
        for p, following in every_run(lambda script, state=state: step(script, state.copy())):
            P[at, index[following]] += p
    return P

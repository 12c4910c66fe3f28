"""Settings are declared once, in the annotations of an estimator's class or its `__init__`.

    solver: Literal["newton", "sgd"] = "newton", tilt: Power = Annotated[float, Number(whole=False, least=1)]  # of a norm
NotNegative = 0.1, batch_size: Count | None = None

`check_settings` checks estimators by them, and objects with settings of their own, such as targets, that these are given.
The shell derives its options. Other annotations, such as tables and functions, are checked where they are used.
"""

from inspect import signature
from types import NoneType, UnionType
from typing import Annotated, Literal, NamedTuple, Union, get_args, get_origin

import numpy as np

from bayesfair._check import Number, message, refuse_unread

Count = Annotated[int, Number(whole=True, least=1)]
Length = Annotated[int, Number(whole=True, least=0)]
Seed = Annotated[int, Number(whole=True, least=0, most=2**32 - 1)]
Positive = Annotated[float, Number(whole=False, least=0, above=True)]
Power = Annotated[float, Number(whole=False, least=1)]  # of a norm
NotNegative = Annotated[float, Number(whole=False, least=0)]
Share = Annotated[float, Number(whole=False, least=0, most=1, above=True)]
USUAL = {"n_clusters": Count, "n_components": Count, "n_init": Count, "max_iter": Count, "tol": NotNegative}


class Declared(NamedTuple):
    """Allowed values: one of the choices, a number or, if it is not `closed`, something that is checked elsewhere."""

    choices: tuple = ()
    numbers: tuple[Number, ...] = ()
    closed: bool = True

    def __or__(self, other):
        choices, numbers = (tuple(dict.fromkeys(one + more)) for one, more in zip(self[:2], other[:2]))
        return Declared(choices, numbers, self.closed and other.closed)

    def words(self, show=repr):
        """The choices, formatted by `show`, and the numbers."""
        choices = ", ".join(show(one) for one in self.choices if one is not None)
        return " or ".join(filter(None, [choices, ", or ".join(map(str, self.numbers))]))

    def check(self, argument, value, show=repr):
        """`value`, if it is allowed; else a TypeError or ValueError."""
        plain = value.item() if isinstance(value, np.generic) else value
        known = [choice for choice in self.choices if type(choice) is type(plain)]
        if plain in known or any(number.holds(plain) for number in self.numbers):
            return plain
        error = ValueError if known or any(number.knows(plain) for number in self.numbers) else TypeError
        remedy = "Choose one of them."
        if len(self.numbers) == 1 and set(self.choices) <= {None}:
            remedy = f"Pass a {'whole' if self.numbers[0].whole else 'finite'} number in that range."
        if None in self.choices:
            remedy = f"{remedy[:-1]}, or leave it out."
        rule = f"be {'' if self.numbers else 'one of '}{self.words(show)}"
        raise error(message(argument, rule, repr(plain), remedy))


def declared(annotation) -> Declared:
    """The declaration in an annotation."""
    if get_origin(annotation) in (Union, UnionType):
        first, *others = map(declared, get_args(annotation))
        for other in others:
            first |= other
        return first
    if annotation in (None, NoneType):
        return Declared((None,))
    if annotation is bool:
        return Declared((True, False))
    if get_origin(annotation) is Literal:
        return Declared(get_args(annotation))
    if get_origin(annotation) is Annotated:
        return Declared(numbers=annotation.__metadata__)
    return Declared(closed=False)


def declarations(estimator: type) -> dict[str, Declared]:
    """Allowed values of an estimator's parameters; those in USUAL need no declaration."""
    found = {}
    for name, parameter in signature(estimator).parameters.items():
        one = declared(parameter.annotation)
        found[name] = one if one.closed or name not in USUAL else declared(USUAL[name])
    return found


def check_settings(estimator):
    """Raise an error if a setting of the estimator, or of an object that it is given, is not what its class declares."""
    for name, one in declarations(type(estimator)).items():
        value = getattr(estimator, name)
        if one.closed:
            one.check(name, value)
        elif hasattr(value, "get_params") and not isinstance(value, type):
            check_settings(value)
    if getattr(estimator, "min_group_size", 1) is None:
        refuse_unread(estimator, "merged_group_name", where="without min_group_size")

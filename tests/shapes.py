"""A type checker for jaxtyping's import hook: beartype, which also looks into the records of the package.

jaxtyping checks what a function is called with and what it returns. Of a NamedTuple or a target it sees the class alone: what
is built may be anything, since JAX makes records of batches, of None and of axes. So their fields are checked here where they
cross a function whose annotation names the record, words for shapes being those of the whole call.
"""

import dataclasses
import inspect
import types
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Self, get_args, get_origin, get_type_hints

from beartype import BeartypeConf, beartype
from beartype.door import is_bearable
from beartype.vale import Is

NUMBERS = BeartypeConf(is_pep484_tower=True)  # an int is a float


def checked(function):
    """The function, whose arguments and result are checked; not a constructor's, which JAX calls with anything."""
    if function.__name__ == "__init__":
        return function
    for name, hint in function.__annotations__.items():
        function.__annotations__[name] = looking_inside(hint)
    return beartype(function, conf=NUMBERS)


def looking_inside(hint):
    """The hint, in which classes of the package are those whose fields fit."""
    if hint is Self:
        return Any  # beartype knows it in classes alone
    if inspect.isclass(hint) and hint.__module__.startswith("bayesfair"):
        return Annotated[hint, Is[fields_fit]]
    parts = get_args(hint)
    if isinstance(hint, types.UnionType):
        return reduce(or_, map(looking_inside, parts))
    if isinstance(hint, types.GenericAlias) and get_origin(hint) is not type:
        return get_origin(hint)[tuple(map(looking_inside, parts))]
    return hint


def fields_fit(record):
    """Raises where they do not, for a union's error would not say which."""
    wrong = [
        name
        for name, hint in fields(type(record)).items()
        if not is_bearable(getattr(record, name), hint, conf=NUMBERS)
    ]
    if wrong:
        told = ", ".join(f"{name} {described(getattr(record, name))}" for name in wrong)
        raise TypeError(f"{type(record).__qualname__} has fields that are not as annotated: {told}")
    return True


@cache
def fields(kind):
    """The annotations of a NamedTuple's or a dataclass's fields; none of another class."""
    names = getattr(kind, "_fields", ())
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
    if not names:
        return {}
    hints = get_type_hints(kind)
    return {name: looking_inside(hints[name]) for name in names}


def described(value):
    return f"{type(value).__name__} {getattr(value, 'dtype', '')}{getattr(value, 'shape', '')}"

"""Docstrings of everything public are numpydoc, by numpydoc's own validation, and tell the defaults of the signatures.

ruff's rules hold how all docstrings look; neither those nor numpydoc's hook know which names are public.
"""

import inspect
import re
from ast import literal_eval
from importlib import import_module
from typing import NamedTuple

import pytest
from numpydoc.docscrape import get_doc_object
from numpydoc.validate import validate

import bayesfair
from bayesfair._settings import declarations

SECTION = re.compile(r"^(\w+)\n-{3,}\n", re.MULTILINE)
ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \w+)*)(?: : (.+))?$", re.MULTILINE)
DEFAULT = re.compile(r"(?:^|, )default (.+)$")
CHECKS = re.compile("GL03|GL0[5-79]|GL10|SS0[1346]|PR0[1-57]|PR10|RT01")
ESTIMATORS = sorted(name for name in bayesfair._HOMES if name[0].isupper())


class Entry(NamedTuple):
    """One parameter, attribute or error."""

    type: str
    text: str


ROOMS = [*bayesfair._ROOMS, "estimators", "reports"]  # the last two are not on the face, their functions are


def sections(obj):
    """{title: body} of a docstring."""
    _, *rest = SECTION.split(inspect.getdoc(obj) or "")
    return dict(zip(rest[::2], rest[1::2]))


def entries(body):
    """{name: Entry} of a section."""
    found = list(ENTRY.finditer(body))
    ends = [match.start() for match in found[1:]] + [len(body)]
    return {match[1]: Entry(match[2] or "", body[match.end() : end].strip()) for match, end in zip(found, ends)}


def exported():
    """{name: function or class} of all names of all rooms."""
    modules = [import_module(f"bayesfair.{room}") for room in ROOMS]
    found = {f"{module.__name__}.{name}": getattr(module, name) for module in modules for name in module.__all__}
    return {name: obj for name, obj in found.items() if inspect.isclass(obj) or inspect.isroutine(obj)}


def methods():
    """{name: function} of the public methods of exported classes, where they are defined first or tell parameters anew."""
    found = {}
    for name, obj in exported().items():
        ours = [kind for kind in getattr(obj, "__mro__", ()) if kind.__module__.startswith("bayesfair.")]
        for at, kind in enumerate(ours):
            for method in public_methods(kind):
                first = not any(method in vars(base) for base in ours[at + 1 :])
                if first or "Parameters" in sections(getattr(kind, method)):
                    found[f"{name}.{method}"] = getattr(kind, method)
    return found


def public_methods(kind):
    """Those of a class itself that have a docstring; scikit-learn adds `set_fit_request`."""
    names = [name for name in vars(kind) if name[0] != "_" and not name.endswith("_request")]
    return [name for name in names if inspect.isroutine(getattr(kind, name)) and getattr(kind, name).__doc__]


EXPORTED, METHODS = exported(), methods()


def is_error(obj):
    return inspect.isclass(obj) and issubclass(obj, Exception)


def parameters(obj):
    """Those of the signature, without `self`; {} of errors, whose own signature is Python's."""
    if is_error(obj):
        return {}
    found = dict(inspect.signature(obj).parameters)
    found.pop("self", None)
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return {stars.get(one.kind, "") + name: one for name, one in found.items()}


def faults(obj):
    """What numpydoc finds, and what the docstring says otherwise than the signature."""
    told, known = entries(sections(obj).get("Parameters", "")), parameters(obj)
    found = [f"{code} {text}" for code, text in validate(get_doc_object(obj))["errors"] if CHECKS.fullmatch(code)]
    if inspect.isclass(obj) and hasattr(obj, "__match_args__") and not told:  # a record, whose fields are attributes
        told = list(entries(sections(obj).get("Attributes", "")))[: len(known)]
        found = [fault for fault in found if not fault.startswith("PR01")]
        return found + [f"fields {list(known)}, told {told}"] * (told != list(known))
    return found + [
        fault for name in told.keys() & known.keys() for fault in faults_of_default(name, told[name], known[name])
    ]


def faults_of_default(name, entry, parameter):
    """An optional parameter says so or gives its default; any other does not."""
    told, default = DEFAULT.search(entry.type), parameter.default
    if default is parameter.empty:
        return [f"{name} has no default"] if told or entry.type.endswith("optional") else []
    if told:
        return [] if value_of(told[1]) == default else [f"{name} is {default!r}, told {told[1]}"]
    if default is None and entry.type == "None":  # an argument of scikit-learn's interface that is not used
        return []
    plain = isinstance(default, (bool, int, float, str))
    return [f"{name} is {default!r}, which is not told"] if plain or not entry.type.endswith("optional") else []


def value_of(text):
    """What a default is, as a docstring writes it."""
    numbers = re.fullmatch(r"range\((\d+), (\d+)\)", text)
    return range(int(numbers[1]), int(numbers[2])) if numbers else literal_eval(text)


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_are_numpydoc_with_the_parameters_and_defaults_of_the_signature(room):
    told = {name: faults(obj) for name, obj in (EXPORTED | METHODS).items() if name.split(".")[1] == room}
    assert told
    assert {name: wrong for name, wrong in told.items() if wrong} == {}


def test_every_exported_name_has_an_example():
    without = [name for name, obj in EXPORTED.items() if ">>>" not in sections(obj).get("Examples", "")]
    assert [name for name in without if not is_error(EXPORTED[name])] == []


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_choice_and_range_of_a_setting_is_told(name):
    """What the estimator declares (`bayesfair._settings`): words in quotes, numbers as the type."""
    estimator = getattr(bayesfair, name)
    told = entries(sections(estimator)["Parameters"])
    for setting, one in declarations(estimator).items():
        words = [f'"{choice}"' for choice in one.choices if isinstance(choice, str)]
        numbers = [as_type(number) for number in one.numbers if setting != "random_state"]
        assert [word for word in words if word not in " ".join(told[setting])] == []
        assert [number for number in numbers if number not in told[setting].type] == []


def as_type(number):
    """An integer, at least 1: int, at least 1."""
    return str(number).replace("an integer", "int").replace("a finite number", "float")


def well_documented(a, b=2.0, *, c="x", d=None, **more):
    """One.

    Parameters
    ----------
    a : int
        One.
    b : float, default 2.0
        Two.
    c : {"x", "y"}, default "x"
        Three.
    d : int, optional
        Four.
    **more
        Others.
    """


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("b : float", "bb : float"),
        ("default 2.0", "default 3.0"),
        (', default "x"', ""),
        ("a : int", "a : int, optional"),
        ("int, optional", "int"),
        ("    Two.\n", ""),
    ],
)
def test_a_docstring_that_is_wrong_is_found(old, new):
    def wrong(a, b=2.0, *, c="x", d=None, **more):
        pass

    assert faults(well_documented) == []
    wrong.__doc__ = inspect.getdoc(well_documented).replace(old, new)
    assert wrong.__doc__ != inspect.getdoc(well_documented)
    assert faults(wrong) != []

"""Settings of a run as attributes of the tree's root that read as one would type them, and back.

Numbers and text stay as they are; everything else is written as a Python expression, `Labels(min_balance=0.8)`, of literals,
of the few objects that settings can be, and of plain distributions of NumPyro. Only settings other than the defaults are there.
"""

import ast
import json
from importlib import import_module
from inspect import signature

import numpy as np

FORMAT = 4  # of the attributes and the state of a run; it grows with every form unknown to earlier versions
OBJECTS = dict.fromkeys(
    ("Labels", "Joint", "Cut", "Optimal", "ModeSearch", "Minkowski", "Dispersion"), "bayesfair.gibbs"
)
OBJECTS["Prior"] = "bayesfair.models"
NOT_KEPT = "not kept"  # a setting that no file can hold: a loss of one's own, a RandomState


def as_attribute(value) -> int | float | str:
    """A setting as an attribute; `of_attribute` reverses it, and equal settings have equal attributes."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return repr(value) if of_attribute(value) != value else value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    try:
        return _expression(value)
    except TypeError:
        return NOT_KEPT


def _expression(value) -> str:
    """A Python expression of a setting; a TypeError if there is none."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_expression(key)}: {_expression(part)}' for key, part in value.items())}}}"
    if type(value).__name__ in OBJECTS:
        given = {name: _expression(part) for name, part in changed_settings(value).items()}
        return f"{type(value).__name__}({', '.join(f'{name}={part}' for name, part in given.items())})"
    if type(value).__module__.startswith("numpyro.distributions"):
        given = {name: _expression(part) for name, part in _parameters(value).items()}
        return f"dist.{type(value).__name__}({', '.join(f'{name}={part}' for name, part in given.items())})"
    if isinstance(value, list):
        return f"[{', '.join(map(_expression, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_expression, value))}{',' * (len(value) == 1)})"
    array = np.asarray(value)
    if array.ndim == 0:
        raise TypeError(type(value).__name__)
    return f"array({_expression(array.tolist())})"


def _parameters(law) -> dict:
    """{name: value} of a plain distribution of NumPyro; a TypeError if it takes more than numbers."""
    known, given = signature(type(law)).parameters, list(law.arg_constraints)
    required = {name for name, one in known.items() if one.default is one.empty}
    if not given or not required <= set(given) <= set(known):
        raise TypeError(type(law).__name__)
    parts = {name: np.asarray(getattr(law, name)) for name in given}
    return {name: part if part.ndim else part.item() for name, part in parts.items()}


def changed_settings(owner) -> dict:
    """{name: value} of the settings of an estimator, target or named tuple that are not the defaults."""
    usual = {name: one.default for name, one in signature(type(owner)).parameters.items()}
    own = {name: getattr(owner, name) for name in usual}
    return {name: value for name, value in own.items() if as_attribute(value) != as_attribute(usual[name])}


def of_attribute(value):
    """The setting that `as_attribute` wrote; None for one that is not kept."""
    if not isinstance(value, str):
        return value.item() if isinstance(value, np.generic) else value
    if value == NOT_KEPT:
        return None
    try:
        return _value(ast.parse(value, mode="eval").body)
    except (SyntaxError, ValueError, AttributeError):
        return value


def _value(node):
    """The value of an expression; a ValueError if it has more than literals and the known objects."""
    if isinstance(node, (ast.List, ast.Tuple)):
        kind = list if isinstance(node, ast.List) else tuple
        return kind(map(_value, node.elts))
    if isinstance(node, ast.Dict):
        return {_value(key): _value(part) for key, part in zip(node.keys, node.values)}
    if not isinstance(node, ast.Call):
        return (
            {"inf": np.inf, "nan": np.nan}[node.id]
            if getattr(node, "id", "") in ("inf", "nan")
            else ast.literal_eval(node)
        )
    name, given = ast.unparse(node.func), {part.arg: _value(part.value) for part in node.keywords}
    if name == "array":
        return np.array(*map(_value, node.args))
    if name.startswith("dist."):
        return getattr(import_module("numpyro.distributions"), name[5:])(**given)
    if name not in OBJECTS:
        raise ValueError(name)
    return getattr(import_module(OBJECTS[name]), name)(**given)


def settings_of(tree, estimator) -> dict:
    """The settings of the tree's run by an estimator of this class, defaults included."""
    usual = {name: one.default for name, one in signature(estimator).parameters.items()}
    return {name: of_attribute(tree.attrs[name]) if name in tree.attrs else value for name, value in usual.items()}


def with_plain_attributes(tree):
    """(the tree with attributes that netCDF can hold, a text on attributes that became text or were left out)."""
    nodes, changed = {}, {"stored as text": [], "left out": []}
    for node in tree.subtree:
        table = node.to_dataset(inherit=False).copy()
        owners = {node.path: table} | {f"{node.path}/{name}": one for name, one in table.variables.items()}
        for place, owner in owners.items():
            for name, value in list(owner.attrs.items()):
                if not (_is_text(name) and name and "/" not in name):
                    del owner.attrs[name]
                    changed["left out"].append(f"{name!r} of {place}")
                elif not _is_plain(value):
                    owner.attrs[name] = _in_text(value)
                    changed["stored as text"].append(f"{name!r} of {place}")
        nodes[node.path] = table
    in_words = "; ".join(f"{what}: {', '.join(names)}" for what, names in changed.items() if names)
    return (type(tree).from_dict(nodes, name=tree.name) if in_words else tree), in_words


def _is_text(value):
    """Is it text that UTF-8 and C can represent?"""
    return isinstance(value, str) and "\0" not in value and value.encode(errors="ignore").decode() == value


def _is_plain(value):
    """Can netCDF hold this attribute: numbers or text, one or several of a kind?"""
    if isinstance(value, str):
        return _is_text(value)
    if isinstance(value, (list, tuple)) and any(isinstance(part, str) for part in value):
        return all(_is_text(part) for part in value)
    try:
        return np.asarray(value).dtype.kind in "iufcSU"
    except ValueError:  # rows of unequal length
        return False


def _in_text(value):
    """An attribute as JSON, or as its repr if JSON cannot express it."""
    try:
        return json.dumps(value, default=lambda part: part.tolist() if hasattr(part, "tolist") else str(part))
    except (TypeError, ValueError):
        return repr(value)

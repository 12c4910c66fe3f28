"""Attributes of a tree as netCDF can hold them: numbers and text as they are, others as JSON."""

import json

import numpy as np


def with_plain_attributes(tree):
    """(the tree with attributes that netCDF can hold, which others became text or are left out, in words)."""
    nodes, as_text, left_out = {}, [], []
    for node in tree.subtree:
        table = node.to_dataset(inherit=False).copy()
        owners = {node.path: table} | {f"{node.path}/{name}": one for name, one in table.variables.items()}
        for place, owner in owners.items():
            for name in [name for name, value in owner.attrs.items() if not (_is_name(name) and _is_plain(value))]:
                value = owner.attrs.pop(name)
                text = _in_text(value) if _is_name(name) else None
                (left_out if text is None else as_text).append(f"{name!r} of {place}")
                owner.attrs |= {} if text is None else {name: text}
        nodes[node.path] = table
    if not (as_text or left_out):
        return tree, ""
    changed = (("stored as text", as_text), ("left out", left_out))
    in_words = "; ".join(f"{what}: {', '.join(names)}" for what, names in changed if names)
    return type(tree).from_dict(nodes, name=tree.name), in_words


def _is_name(name):
    return isinstance(name, str) and name != "" and "/" not in name and _is_text(name)


def _is_text(value):
    """Is it text that UTF-8 and C can hold?"""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _is_plain(value):
    """Can netCDF hold an attribute: numbers or text, one or many of a kind?"""
    if isinstance(value, str):
        return _is_text(value)
    if isinstance(value, (list, tuple)) and any(isinstance(part, str) for part in value):
        return all(_is_text(part) for part in value)
    try:
        return np.asarray(value).dtype.kind in "iufcSU"
    except ValueError:  # rows of unequal length
        return False


def _in_text(value):
    """An attribute as JSON, times by ISO 8601; None for what neither can hold."""
    try:
        return json.dumps(value, default=_of_json)
    except (TypeError, ValueError):
        return None


def _of_json(value):
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, np.generic):
        return str(value) if value.dtype.kind in "mM" else value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError

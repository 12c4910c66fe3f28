"""Attributes of a tree in netCDF's types: numbers and text unchanged, others as JSON."""

import json

import numpy as np


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

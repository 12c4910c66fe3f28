"""A view of a posterior that all summaries share: each result is computed once."""

from collections.abc import Callable
from copy import deepcopy
from functools import wraps
from weakref import WeakValueDictionary

import numpy as np

from bayesfair._names import DataTree

_OWNED = WeakValueDictionary()  # views that an estimator keeps of its tree, by the identity of the tree


class View:
    """A tree that remembers what has been computed from it. The functions of a posterior take it in place of the tree."""

    def __init__(self, tree: "DataTree"):
        self.tree = _with_groups(tree)
        self._known, self._content = {}, None

    @classmethod
    def of(cls, tree) -> "View":
        """The view itself; the view that an estimator keeps of its tree, unless that was changed; a new one of other trees."""
        if isinstance(tree, cls):
            return tree
        owned = _OWNED.get(id(tree))
        return (
            owned
            if owned is not None and owned.tree is tree and _is_same(owned._content, _content(tree))
            else cls(tree)
        )

    def keep(self) -> "View":
        """Let `of` find this view as long as somebody keeps it. Arrays of the tree can no longer be written to."""
        for node in self.tree.subtree:
            for values in node.variables.values():
                if isinstance(values._data, np.ndarray):
                    values._data = values._data.view()  # the array may be the user's own
                    values._data.flags.writeable = False
        self._content = _content(self.tree)
        _OWNED[id(self.tree)] = self
        return self

    def __reduce__(self):
        return (View, (self.tree,)) if self._content is None else (_kept, (self.tree,))

    @property
    def attrs(self):
        """The attributes of the tree."""
        return self.tree.attrs

    @property
    def children(self):
        """The groups of the tree."""
        return getattr(self.tree, "children", {})

    def __getitem__(self, name):
        return self.tree[name]

    def once(self, work):
        """The result of `work(self)`, computed at the first call only."""
        if work not in self._known:
            self._known[work] = work(self)
        return self._known[work]


def _with_groups(tree):
    """The tree; a node of draws alone, which `az.thin` and `tree["posterior"]` give, as a tree with that group."""
    if "labels" not in getattr(tree, "data_vars", {}) or getattr(tree, "children", None):
        return tree
    return type(tree).from_dict({"posterior": tree.to_dataset()})


def _kept(tree) -> View:
    return View(tree).keep()


def _content(tree):
    """What tells whether a tree was changed: its arrays, and its attributes as text."""
    arrays = {(node.path, name): one._data for node in tree.subtree for name, one in node.variables.items()}
    about = [repr((node.attrs, [one.attrs for one in node.variables.values()])) for node in tree.subtree]
    return arrays, about


def _is_same(known, now):
    arrays, about = known
    return (
        about == now[1] and arrays.keys() == now[0].keys() and all(arrays[name] is one for name, one in now[0].items())
    )


def once[**P, T](work: Callable[P, T]) -> Callable[P, T]:
    """Decorator of functions of a posterior: computed once for a `View`, which the function always gets.

    Callers with a tree get a copy of the result, which is theirs to change.
    """

    @wraps(work)
    def known(tree, *arguments, **settings):
        view = View.of(tree)
        found = work(view, *arguments, **settings) if arguments or settings else view.once(work)
        return found if view is tree else _copied(found)

    return known


def _copied(found):
    """A copy of an array or a table; other results cannot be changed."""
    return deepcopy(found) if hasattr(found, "copy") else found

"""A view of a posterior that all summaries share: each result is computed once."""

from collections.abc import Callable
from functools import wraps

from bayesfair._names import DataTree


class View:
    """A tree that remembers what has been computed from it. Pass it in place of the tree to several summaries.

    Make another view after you change the tree. A summary of the tree itself is always computed anew.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior.

    Examples
    --------
    >>> import numpy as np, bayesfair as bf
    >>> draws = np.array([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]])
    >>> view = bf.posterior.View(bf.posterior.tree_from_labels(draws, [[0.0], [0.1], [1.0], [1.1]]))
    >>> bf.posterior.modes_sentence(view) == bf.posterior.summary(view).attrs["modes"]  # one search for modes
    True
    """

    def __init__(self, tree: "DataTree"):
        self.tree = tree
        self._known = {}

    @classmethod
    def of(cls, tree) -> "View":
        """The view of a tree, or the view itself.

        Parameters
        ----------
        tree : xarray.DataTree or View
            A posterior.

        Returns
        -------
        View
        """
        return tree if isinstance(tree, cls) else cls(tree)

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
        """The result of `work(self)`, computed at the first call only.

        Parameters
        ----------
        work : callable
            A function of a view.

        Returns
        -------
        object
        """
        if work not in self._known:
            self._known[work] = work(self)
        return self._known[work]


def once[**P, T](work: Callable[P, T]) -> Callable[P, T]:
    """Decorator of functions of a posterior: computed once for a `View`, each time for a tree or with settings.

    The function itself always gets a view, so that what it asks for twice is computed once.
    """

    @wraps(work)
    def known(tree, *arguments, **settings):
        view = View.of(tree)
        return work(view, *arguments, **settings) if arguments or settings else view.once(work)

    return known

"""One view of a posterior, which all summaries read: what one of them works out, the next one has."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xarray import DataTree

__all__ = ["View", "once"]


class View:
    """A tree, and what has been worked out of it: whoever asks for several summaries passes it in place of the tree.

    It is of the tree as it is now: make another one after you change the tree. What was worked out goes with the view; a
    summary of a tree itself is worked out anew each time.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior, such as `est.posterior_`.

    Examples
    --------
    >>> import bayesfair as bf
    >>> est = bf.GibbsFairClustering(2, num_warmup=50, num_draws=50, random_state=0, progress_bar=False)
    >>> data = bf.datasets.make_well_specified()
    >>> view = bf.posterior.View(est.fit(data.features, sensitive_features=data.sensitive).posterior_)
    >>> bf.posterior.modes_sentence(view) == bf.posterior.summary(view).attrs["modes"]  # one search for modes
    True
    """

    def __init__(self, tree: "DataTree"):
        self.tree = tree
        self._known = {}

    @classmethod
    def of(cls, tree) -> "View":
        """The view itself where it is one."""
        return tree if isinstance(tree, cls) else cls(tree)

    @property
    def attrs(self):
        return self.tree.attrs

    @property
    def children(self):
        return getattr(self.tree, "children", {})

    def __getitem__(self, name):
        return self.tree[name]

    def once(self, work):
        """`work(self)`, worked out at the first call."""
        if work not in self._known:
            self._known[work] = work(self)
        return self._known[work]


def once[**P, T](work: Callable[P, T]) -> Callable[P, T]:
    """Decorator of what is worked out of a posterior alone: once for a `View`. With settings of its own it is worked out anew.

    Within it `tree` is a view, so that what it asks for twice is worked out once.
    """

    @wraps(work)
    def known(tree, *arguments, **settings):
        view = View.of(tree)
        return work(view, *arguments, **settings) if arguments or settings else view.once(work)

    return known

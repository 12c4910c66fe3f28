"""One view of a posterior, which all summaries read: what one of them has worked out is there for the next."""

from collections.abc import Callable
from functools import wraps

from bayesfair._names import DataTree


class View:
    """A tree, and what has been worked out of it: pass it in place of the tree to whatever gives a summary.

    It knows the tree as it was: make another view after you change the tree. A summary of the tree itself is always worked
    out anew. Nothing is kept beside the view, so that all is gone when the view is.

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
    """Decorator of what is worked out of a posterior: once for a `View`, anew for a tree, and where settings are given.

    The function itself gets a view in any case, so that what it asks for twice is worked out once.
    """

    @wraps(work)
    def known(tree, *arguments, **settings):
        view = View.of(tree)
        return work(view, *arguments, **settings) if arguments or settings else view.once(work)

    return known

"""The one progress bar."""

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace


def progress(total, description, show):
    """A context whose `update(n)` moves a bar on from `n`; its `total`, None where nobody knows it, may be set again on the
    way."""
    if not show:
        return nullcontext(SimpleNamespace(update=lambda n: None, n=0, total=0))
    from tqdm import tqdm

    return tqdm(total=total, desc=description)


@contextmanager
def one_step(description, show):
    """A bar for work of which nobody knows how far it is: what it is, and in the end how long it took."""
    with progress(1, description, show) as bar:
        yield
        bar.update(1)

"""The one progress bar."""

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

__all__ = ["one_step", "progress"]


def progress(total, description, show):
    """A context whose `update(n)` moves a bar on; without `show` nothing is imported, for tqdm warns in bare notebooks."""
    if not show:
        return nullcontext(SimpleNamespace(update=lambda n: None))
    from tqdm.auto import tqdm

    return tqdm(total=total, desc=description)


@contextmanager
def one_step(description, show):
    """A bar for work of which nobody knows how far it is: what it is, and in the end how long it took."""
    with progress(1, description, show) as bar:
        yield
        bar.update(1)

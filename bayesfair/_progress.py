"""The one progress bar."""

from contextlib import nullcontext
from types import SimpleNamespace

__all__ = ["progress"]


def progress(total, description, show):
    """A context whose `update(n)` moves a bar on; without `show` nothing is imported, for tqdm warns in bare notebooks."""
    if not show:
        return nullcontext(SimpleNamespace(update=lambda n: None))
    from tqdm.auto import tqdm

    return tqdm(total=total, desc=description)

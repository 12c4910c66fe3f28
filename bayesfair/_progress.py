"""The one progress bar."""

import sys
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

BAR = "{{l_bar}}{{bar}}| {{elapsed}} so far, {} {{remaining}} left"


def progress(total, description, show, *, at_most=False):
    """A context whose `update(n)` advances a bar by `n`. `total`: None if unknown; `at_most`: the work may end earlier."""
    if not show or sys.stderr is None:  # services and programs without a console have no place for a bar
        return nullcontext(SimpleNamespace(update=lambda n: None, n=0, total=0))
    from tqdm import tqdm

    style = {} if total is None else {"bar_format": BAR.format("at most" if at_most else "about")}
    return tqdm(total=total, desc=description, **style)


@contextmanager
def one_step(description, show):
    """A bar for work of unknown progress: what it is, and in the end how long it took."""
    with progress(1, description, show) as bar:
        yield
        bar.update(1)

"""The one progress bar."""

import sys
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

NOTEBOOK_SECONDS = 0.5  # between updates of a bar, each of which is a message from the kernel


def progress(total, description, show):
    """A context whose `update(n)` moves a bar on from `n`; its `total`, None where nobody knows it, may be set again on the
    way. In a notebook a bar is one output."""
    if not show:
        return nullcontext(SimpleNamespace(update=lambda n: None, n=0, total=0))
    from tqdm import tqdm

    in_notebook = {"file": _Output(), "mininterval": NOTEBOOK_SECONDS} if _in_notebook() else {}
    return tqdm(total=total, desc=description, **in_notebook)


@contextmanager
def one_step(description, show):
    """A bar for work of which nobody knows how far it is: what it is, and in the end how long it took."""
    with progress(1, description, show) as bar:
        yield
        bar.update(1)


def _in_notebook():
    """Is there a Jupyter kernel? IPython in a terminal has none, and shows bars as any terminal does."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


class _Output:
    """Where a bar is written in a notebook: one output that is updated, of which a saved notebook holds the last state. It
    takes no widgets, which a notebook may lack."""

    encoding = "utf-8"

    def __init__(self):
        self.shown = None

    def write(self, text):
        from IPython.display import display

        line = {"text/plain": text.strip()}
        if self.shown is not None and line["text/plain"]:
            self.shown.update(line, raw=True)
        elif line["text/plain"]:
            self.shown = display(line, raw=True, display_id=True)

    def flush(self):
        """Nothing waits."""

"""The one progress display: bars of text on standard error, and in a notebook one place that all stages of a fit share."""

import sys
import time
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from html import escape

BAR = "{{l_bar}}{{bar}}| {{elapsed}} so far, {} {{remaining}} left{{postfix}}"
REDRAWN = 0.2  # seconds between two pictures in a notebook
_shared = ContextVar("the place that stages share", default=None)


def progress(total, description, show, *, at_most=False, delay=0):
    """A context: `update(n)` advances a bar by `n`, `tell(text, more)` shows a text beside it, and more where there is room.

    `total`: None if unknown; `at_most`: the work may end earlier; `delay`: no bar of text for work of fewer seconds.
    """
    if not show or sys.stderr is None:  # services and programs without a console have no place for a bar
        return nullcontext(_Unseen())
    left = "at most" if at_most else "about"
    if _writer() is not None:
        return _in_notebook(_Stage(description, total, left))
    return _bar_of_text(total, description, left, delay)


@contextmanager
def one_step(description, show):
    """A bar for work of unknown progress: what it is, and in the end how long it took."""
    with progress(1, description, show) as bar:
        yield
        bar.update(1)


def in_one_place(method):
    """Decorator: the stages of a call share one place in a notebook, which is one line when they are done."""

    @wraps(method)
    def shown(*arguments, **settings):
        with _one_place():
            return method(*arguments, **settings)

    return shown


@contextmanager
def _one_place():
    if _shared.get() is not None or _writer() is None:
        yield
        return
    token = _shared.set(_Place())
    try:
        yield
    finally:
        _shared.get().fold()
        _shared.reset(token)


class _Unseen:
    """What is updated where nothing is shown."""

    is_seen, n, total = False, 0, 0

    def update(self, n):
        pass


def _bar_of_text(total, description, left, delay):
    from tqdm import tqdm

    class Bar(tqdm):
        is_seen = True

        def tell(self, text, more):
            self.set_postfix_str(text, refresh=False)

    style = {} if total is None else {"bar_format": BAR.format(left)}
    return Bar(total=total, desc=description, delay=delay, **style)


@contextmanager
def _in_notebook(stage):
    with _one_place():
        place = _shared.get()
        place.stages.append(stage)
        try:
            stage.place = place
            place.draw()
            yield stage
        finally:
            stage.seconds = time.perf_counter() - stage.began


class _Stage:
    """Work that advances, in a notebook."""

    is_seen = True

    def __init__(self, description, total, left):
        self.description, self.total, self.left = description, total, left
        self.n, self.texts, self.began, self.seconds, self.place = 0, [], time.perf_counter(), None, None

    def update(self, n):
        self.n += n
        self.place.draw()

    def tell(self, text, more):
        self.texts = [text, more]

    def done(self):
        """What it was and how long it took."""
        whole = self.total in (None, self.n)
        return f"{self.description} {'' if whole else f'{self.n:,} of {self.total:,} '}{_clock(self.seconds)}"

    def running(self):
        """Its bar and how long it still takes, as HTML."""
        spent = time.perf_counter() - self.began
        rest = f", {self.left} {_clock(spent / self.n * (self.total - self.n))} left" if self.n and self.total else ""
        of = f" {self.n:,} of {self.total:,}" if (self.total or 0) > 1 else ""
        bar = f'<progress value="{self.n}" max="{self.total}"></progress>' if self.n and self.total else ""
        return f"{bar} <strong>{escape(self.description)}</strong>{of}, {_clock(spent)} so far{rest}"


class _Place:
    """One output of a notebook's cell, which is written anew as stages advance."""

    def __init__(self):
        self.stages, self._write, self._drawn = [], _writer()(), -REDRAWN

    def draw(self):
        """The stages that are done in one line, below it the one that runs."""
        if time.perf_counter() - self._drawn < REDRAWN:
            return
        self._show([self._told(), self.stages[-1].running(), *map(escape, self.stages[-1].texts)])

    def fold(self):
        """One line of all stages."""
        if self.stages:
            self._show([self._told()])

    def _told(self):
        return escape(" · ".join(stage.done() for stage in self.stages if stage.seconds is not None))

    def _show(self, lines):
        self._write(f'<div style="font-size: 90%">{"<br>".join(filter(None, lines))}</div>')
        self._drawn = time.perf_counter()


def _writer():
    """A function that makes a function that writes HTML in the output of a notebook's cell, or None outside of notebooks."""
    marimo = sys.modules.get("marimo")
    if marimo is not None and marimo.running_in_notebook():
        return lambda: lambda html: marimo.output.replace(marimo.Html(html))
    ipython = sys.modules.get("IPython")
    if ipython is None or not hasattr(ipython.get_ipython(), "kernel"):
        return None
    return _in_jupyter


def _in_jupyter():
    from IPython.display import HTML, display

    shown = display(HTML(""), display_id=True)
    return lambda html: shown.update(HTML(html))


def _clock(seconds):
    """`3.1 s` or `4 min 05 s`."""
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60:02} s"

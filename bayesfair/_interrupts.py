"""Ctrl-C held back while something must not be left half done."""

import signal
import threading
from contextlib import contextmanager


@contextmanager
def interrupts_held():
    """Ctrl-C within the block is delivered after it.

    An interrupted import can leave behind registrations that a second import may not repeat. Python delivers signals to
    the main thread: in others there is nothing to hold.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or handler is None:
        yield
        return
    came = []
    signal.signal(signal.SIGINT, lambda *_: came.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if came:
        signal.raise_signal(signal.SIGINT)

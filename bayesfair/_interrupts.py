"""Ctrl-C held back while something must not be left half done, and heard while native code runs."""

import signal
import threading
from contextlib import contextmanager
from functools import partial

HEARD = 0.1  # seconds within which Ctrl-C is heard where waiting itself does not hear it


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


def heard(native, *arguments, **settings):
    """`native(*arguments, **settings)`, with Ctrl-C heard at once although native code runs without looking at signals.

    It runs in a thread of its own. After Ctrl-C that thread goes on to its end, and its result is dropped. For calls that
    release the GIL.
    """
    call, ended = partial(native, *arguments, **settings), []
    if threading.current_thread() is not threading.main_thread():
        return call()
    worker = threading.Thread(target=lambda: ended.append(_result_of(call)), daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(HEARD)
    result, error = ended[0]
    if error is not None:
        raise error
    return result


def _result_of(call):
    """(the result of a call, None), or (None, its error)."""
    try:
        return call(), None
    except Exception as error:
        return None, error

"""Ctrl-C while JAX is imported comes after the import, and the next fit works; while native code runs it comes at once."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from bayesfair._interrupts import heard, interrupts_held

STOPPED = """
import signal, sys
from importlib.machinery import PathFinder


class Stop:
    left = {"jax._src.core", "jaxlib.mlir.dialects._mhlo_ops_gen"}

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name not in cls.left:
            return None
        cls.left.discard(name)
        spec = PathFinder.find_spec(name, path)
        load = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (load(module), signal.raise_signal(signal.SIGINT))
        return spec


sys.meta_path.insert(0, Stop)
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background job lacks
interrupted, jax = 0, None
while jax is None:
    try:
        import numpy as np
        import bayesfair as bf
        bf.FairMixture
        import jax
        jax.jit(lambda x: x + 1)(np.float32(0))
    except KeyboardInterrupt:
        interrupted += 1
jax.jit(lambda x: x + 1)(np.float32(0))
print("interrupted", interrupted)
"""


def test_an_import_of_jax_that_is_stopped_leaves_a_process_that_works():
    """Without the hold the last line says that dialect namespace 'mhlo' is already registered."""
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", STOPPED], capture_output=True, text=True, env=env, timeout=600)
    assert done.stdout == "interrupted 1\n", done.stderr[-2000:]


@pytest.fixture
def handled():
    """Python's handler of Ctrl-C, which a shell's background job lacks."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_comes_after_the_block_and_handlers_are_put_back(handled):
    steps = []
    with pytest.raises(KeyboardInterrupt), interrupts_held():  # noqa: PT012, the block goes on after the signal
        signal.raise_signal(signal.SIGINT)
        steps.append("after the signal")
    assert steps == ["after the signal"]
    assert signal.getsignal(signal.SIGINT) is handled


def test_other_threads_hold_nothing_and_do_not_fail():
    entered = []

    def work():
        with interrupts_held():
            entered.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert entered == [True]


def test_ctrl_c_is_heard_while_native_code_runs(handled):
    """The call waits as HiGHS works: without Python, and without looking at signals."""
    began, goes_on, ended = threading.Event(), threading.Event(), []

    def native():
        began.set()
        goes_on.wait()
        ended.append(True)

    def press():
        began.wait()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        heard(native)
    assert ended == []
    goes_on.set()


def test_results_and_errors_of_native_code_are_handed_on():
    assert heard(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        heard(divmod, 7, 0)

"""Counts XLA's compilations: a second fit compiles nothing if data are arguments and not constants."""

from contextlib import contextmanager

COMPILED = "/jax/core/compile/backend_compile_duration"


@contextmanager
def compilations():
    """A growing list of the names of programs that are compiled within the block.

    >>> import jax
    >>> with compilations() as compiled:
    ...     doubled = jax.jit(lambda x: 2 * x)(1.0)
    >>> len(compiled)
    1
    """
    from jax import monitoring

    compiled = []

    def listen(event, duration, **about):
        if event == COMPILED:
            compiled.append(about.get("fun_name", "a program without a name"))

    monitoring.register_event_duration_secs_listener(listen)
    try:
        yield compiled
    finally:
        monitoring.unregister_event_duration_listener(listen)

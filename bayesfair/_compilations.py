"""What XLA compiles, counted: a fit whose data are arguments and not constants compiles nothing a second time."""

from contextlib import contextmanager

COMPILED = "/jax/core/compile/backend_compile_duration"


@contextmanager
def compilations():
    """The names of the programs that are compiled within the block, a list that grows.

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

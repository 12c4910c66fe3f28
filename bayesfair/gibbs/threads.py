"""Chains over processes, and those of each over threads: XLA runs the loops of a program on one core."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from bayesfair.distributed.messages import over_chains

_COMPILED = set()  # programs


def in_threads(program, chains, compile_first=None):
    """`program(chains)`, every leaf of which has the chains for its first axis, as many of them at once as there are cores.

    On a CPU each chain is a call of its own, so that its bits depend on nothing but itself: not on how many chains there are,
    nor on how many processes share them. Where there is an accelerator a process makes one call. `compile_first(one)` is called
    before with the first chain where there are several, or all threads compile.
    """
    return over_chains(partial(_in_threads, program, compile_first), chains)


def _in_threads(program, compile_first, chains):
    n_chains = len(jax.tree.leaves(chains)[0])
    if n_chains == 1 or jax.default_backend() != "cpu":
        return program(chains)
    chains = jax.device_get(chains)
    ones = [jax.tree.map(lambda part: part[at : at + 1], chains) for at in range(n_chains)]  # noqa: B023
    if compile_first is not None:
        compile_first(ones[0])
    double = jax.config.jax_enable_x64  # which is a thread's own

    def run(one):
        with jax.enable_x64(double):
            return jax.tree.map(np.asarray, program(one))

    with ThreadPoolExecutor(min(n_chains, os.cpu_count() or 1)) as threads:
        return jax.tree.map(lambda *parts: np.concatenate(parts), *threads.map(run, ones))


def of_every_chain(one, *chains):
    """`jax.vmap(one)(*chains)`; where it is one chain alone, as on a CPU, without an axis of it: along that, XLA scatters with
    indices of two numbers for every row."""
    if len(jax.tree.leaves(chains)[0]) > 1:
        return jax.vmap(one)(*chains)
    return jax.tree.map(lambda part: jnp.asarray(part)[None], one(*jax.tree.map(lambda part: part[0], chains)))


def compile_once(run_nothing, settings, arrays):
    """`run_nothing()`, before several threads would compile a program each, for every new program."""
    leaves, structure = jax.tree.flatten(arrays)
    program = settings, structure, tuple((part.shape, part.dtype) for part in leaves), jax.config.jax_enable_x64
    if program not in _COMPILED:
        run_nothing()
        _COMPILED.add(program)

"""Chains over processes, and each process's chains over threads: XLA runs the loops of a program on one core."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from bayesfair._check import tell
from bayesfair.distributed.messages import over_chains

_COMPILED = set()  # programs compiled so far


def in_threads(program, chains, compile_first=None):
    """`program(chains)`, with as many chains at once as there are cores; every leaf of the result has chains first.

    On a CPU each chain is a call of its own, so that its bits depend on itself alone. With several of them,
    `compile_first(one)` runs first with the first chain, or all threads would compile.
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
    double = jax.config.jax_enable_x64  # a setting of each thread

    def run(one):
        with jax.enable_x64(double):
            return jax.tree.map(np.asarray, program(one))

    with ThreadPoolExecutor(min(n_chains, os.cpu_count() or 1)) as threads:
        return jax.tree.map(lambda *parts: np.concatenate(parts), *threads.map(run, ones))


def of_every_chain(one, *chains):
    """`jax.vmap(one)(*chains)`; a single chain without the axis, along which XLA scatters with two numbers per index."""
    if len(jax.tree.leaves(chains)[0]) > 1:
        return jax.vmap(one)(*chains)
    return jax.tree.map(lambda part: jnp.asarray(part)[None], one(*jax.tree.map(lambda part: part[0], chains)))


def compile_once(run_nothing, settings, arrays):
    """`run_nothing()` for every new program, before several threads would each compile it."""
    leaves, structure = jax.tree.flatten(arrays)
    program = settings, structure, tuple((part.shape, part.dtype) for part in leaves), jax.config.jax_enable_x64
    if program not in _COMPILED:
        run_nothing()
        _COMPILED.add(program)


def warn_of_gpu():
    """Tell that a GPU is the slower device for a sweep, which is many small steps one after the other."""
    if jax.default_backend() == "gpu":
        tell(
            "JAX runs on a GPU here. A sweep is many small steps, for which the CPU is faster: in our trials the GPU took "
            "eight times as long with 1,000 rows and twice as long with a million. The draws follow the same law. Remedy: "
            "set JAX_PLATFORMS=cpu in the environment before Python starts."
        )

"""Common operations on arrays of NumPy and JAX."""

import hashlib

import numpy as np

WRITTEN_OUT = 32  # longest axis that `inner_sum` unrolls; beyond it compilation takes longer and the gain shrinks

# Rows of a table that are processed together in NumPy: four times as many overflow a processor's caches.
BLOCK = 2**14
MANY = 100_000  # rows above which the sampler starts from a part of them and saves memory
ALIGNED = 64  # JAX takes over arrays without a copy if they begin at a multiple of so many bytes


def digest(*arrays) -> str:
    """A checksum of arrays, their shapes and types."""
    total = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        total.update(f"{array.dtype.str}{array.shape}".encode())
        total.update(array.reshape(-1).view(np.uint8))
    return total.hexdigest()


def aligned_empty(shape, dtype=np.float32):
    """A NumPy array that `jax.device_put` does not copy on a CPU; do not change it afterwards."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(n_bytes + ALIGNED, np.uint8)
    first = -memory.ctypes.data % ALIGNED
    return memory[first : first + n_bytes].view(dtype).reshape(shape)


def row_blocks(n_rows, size=None):
    """Slices of `size` rows each, by default BLOCK: temporary arrays have their size and not the table's."""
    size = size or BLOCK
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def namespace(*arrays):
    """NumPy, or the array library of the first array that is not NumPy's."""
    foreign = [array for array in arrays if not isinstance(array, (np.ndarray, np.generic))]
    return foreign[0].__array_namespace__() if foreign else np


def inner_sum(terms, axis=-1):
    """Sum over an inner axis, usually short: features, or the slots of a fairlet.

    JAX's is unrolled: XLA's reduction over a short inner axis costs tenfold, as it neither vectorises on CPUs nor fuses.
    """
    if isinstance(terms, np.ndarray) or not 0 < terms.shape[axis] <= WRITTEN_OUT:
        return terms.sum(axis)
    before = (slice(None),) * (axis % terms.ndim)
    return sum(terms[(*before, j)] for j in range(1, terms.shape[axis])) + terms[(*before, 0)]


def computed_once(values):
    """`values` unchanged; without this, XLA recomputes them in every fused loop that reads them."""
    import jax

    return jax.lax.optimization_barrier(values)


def on_device(values, dtype=None):
    """NumPy values or numbers as a JAX array, without compiling: `jnp.asarray` compiles a program for every shape."""
    import jax

    return jax.device_put(np.asarray(values, dtype))


def stack(trees):
    """Join trees of arrays (states of runs, chains, replicas) along a new leading axis, on the host: nothing is compiled."""
    import jax

    return jax.tree.map(lambda *leaves: np.stack(leaves), *jax.device_get(trees))


def unstack(tree):
    """Split a tree into the list that `stack` joined."""
    import jax

    leaves, structure = jax.tree.flatten(jax.device_get(tree))
    return [structure.unflatten(parts) for parts in zip(*leaves, strict=True)]


def cluster_sums(X, labels, n_clusters, weight=None):
    """Sums (K, d), weighted if given, of the rows of every cluster, added row by row whatever the blocks."""
    sums, every = np.zeros((X.shape[1], n_clusters)), np.arange(n_clusters)
    for rows in row_blocks(len(X), max(BLOCK, 8 * n_clusters)):
        own = np.concatenate([every, labels[rows]])  # earlier sums come first
        for at, column in enumerate(X[rows].T):
            weighted = column if weight is None else weight[rows] * column
            sums[at] = np.bincount(own, np.concatenate([sums[at], weighted]))
    return np.ascontiguousarray(sums.T)


def code_masses(code, n_codes, weight=None):
    """Number or weight of the rows with every code in [n_codes]; in blocks, as `np.bincount` copies all codes as int64."""
    blocks = row_blocks(len(code))
    held = (np.bincount(code[rows], None if weight is None else weight[rows], n_codes) for rows in blocks)
    return sum(held, np.zeros(n_codes, int if weight is None else float))


def cell_masses(labels, code, shape, weight=None):
    """Number or weight of the rows of every code in every cluster, of `shape` (clusters, codes), block by block."""
    held = np.zeros(shape, int if weight is None else float)
    for rows in row_blocks(len(code), max(BLOCK, held.size)):
        cells = np.ravel_multi_index((labels[rows], code[rows]), shape)
        held += np.bincount(cells, None if weight is None else weight[rows], held.size).reshape(shape)
    return held


def power_of_two(number):
    """The least power of two that is at least this whole number, at least 1."""
    return 1 << int(number - 1).bit_length()


def row_numbers(n_rows):
    """0 to n_rows - 1, in the smallest integer type that holds them."""
    return np.arange(n_rows, dtype=np.min_scalar_type(n_rows))


def distinct_places(points, most):
    """Positions of up to `most` distinct rows of `points(slice)` (n, d), which reads only the first, unless they repeat."""
    for part in (slice(max(1000, 10 * most)), slice(None)):
        first = np.unique(points(part), axis=0, return_index=True)[1]
        if len(first) >= most:
            break
    return first[:most]

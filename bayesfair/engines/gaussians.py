"""Gaussian mixtures with full covariances: densities and EM on all coordinates, on some, or on each row's own.

Masked coordinates get a unit variance and a zero deviation, so that one compiled program serves every subset. Missing
entries follow by regression on those present (Little and Rubin 2019, section 8.2), with matrices shared by the rows that
lack the same. They come from the precision L: given x_o, the missing part has covariance L_mm^-1 and mean
mu_m - L_mm^-1 L_mo (x_o - mu_o), and log |Sigma_oo| = log |Sigma| + log |L_mm|.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from bayesfair._arrays import aligned_empty, computed_once, inner_sum, power_of_two, row_blocks, row_numbers
from bayesfair._jit import jit
from bayesfair._rows import Rows, each, of_blocks, total
from bayesfair.engines.data import UNSPLIT, here
from bayesfair.engines.families import Moments, floored, full_moments, inverse_of_lower, log_normal

MIN_MASS = 1e-6  # share of the rows below which a component stays unchanged
BLOCK = 512  # rows that are processed together
SHARED = 8  # mean number of rows per pattern from which sharing matrices pays
# Rows are processed together if their numbers of missing entries lie between the same two of these numbers.
WIDTHS = 0, 1, 2, 3, 4, 6, 8, *(12 * 2**n for n in range(20))


class Gaussians(NamedTuple):
    mixing: Float[Array, " clusters"]
    mean: Float[Array, "clusters dim"]
    covariance: Float[Array, "clusters dim dim"]


class SeenBlock(NamedTuple):
    """Rows with at most so many missing entries (filled), padded with rows of weight 0.

    `pattern`: of each row, one number if no row lacks any. `lacks`: each pattern's coordinates, padded with `dim`.
    """

    x: Float[Array, "dim rows"]
    weight: Float[Array, " rows"]
    pattern: Int[Array, " #rows"]
    lacks: Int[Array, "lacking patterns"]

    def each(self, values):
        """Values of every pattern (..., patterns), for the rows (..., rows)."""
        return values if self.lacks.shape[-1] == self.x.shape[-1] else jnp.take(values, self.pattern, -1)


class Whitened(NamedTuple):
    """The components as every row needs them: log weights with the densities' constants, W and W'W = Sigma_TT^-1."""

    constant: Float[Array, " clusters"]
    mean: Float[Array, "clusters dim"]
    whitener: Float[Array, "clusters dim dim"]
    precision: Float[Array, "clusters dim dim"]


def n_missing(X):
    """Number of rows that lack each column (d,)."""
    return sum(np.isnan(X[rows]).sum(0) for rows in row_blocks(len(X)))


def in_blocks(X, middle, weight=None, split=UNSPLIT):
    """(rows of X (N, d) less `middle` for every number of missing entries, indices of each device's rows).

    Rows are sorted by what they lack, so that a block has few patterns. `split` rows have blocks of one shape everywhere.
    """
    weight = np.broadcast_to(np.float32(1), len(X)) if weight is None else weight
    order, code, sizes = _by_what_they_lack(X, split)
    parts = np.split(order, np.cumsum(list(sizes.values()))[:-1])
    places = [[part[device :: split.n_devices] for device in range(split.n_devices)] for part in parts]
    return tuple(_blocks_of(X, middle, weight, code, each, width, split) for each, width in zip(places, sizes)), places


def _by_what_they_lack(X, split):
    """(row order, codes of patterns (N,), rows per number of `WIDTHS` that some process uses), by missing entries."""
    missing = np.isnan(X[:, n_missing(X) > 0])
    whole, code = missing.shape[1] == 0, np.zeros(missing.size and len(X), np.int32)
    n_lacking = np.zeros(1, np.int32) if whole else missing.sum(1, dtype=np.int32)  # one row's, as all are alike
    width = np.array(WIDTHS, np.int32)[np.searchsorted(WIDTHS, n_lacking)]
    width = np.minimum(width, max(split.everybody(n_lacking.max())))
    widths = np.unique(np.concatenate(split.everybody(np.unique(width)))).tolist()
    if whole:
        return row_numbers(len(X)), code, {each: 0 if each else len(X) for each in widths}
    for column in missing.T:
        code = np.unique(2 * code + column, return_inverse=True)[1].astype(np.int32)
    sizes = {each: np.count_nonzero(width == each) for each in widths}
    return np.lexsort((code, width)).astype(np.min_scalar_type(len(X))), code, sizes


def _blocks_of(X, middle, weight, code, devices, width, split) -> Rows:
    """Rows of every device (a list) with at most `width` missing entries."""
    most = max(split.everybody(max(map(len, devices))))
    size = min(BLOCK, power_of_two(most))
    shape = -(-most // size), size
    whole = SeenBlock(
        aligned_empty((shape[0], X.shape[1], split.n_devices * size)),
        aligned_empty((shape[0], split.n_devices * size)),
        *_patterns_of(X, code, devices, shape, width, split),
    )
    whole.x[:], whole.weight[:] = 0, 0
    for device, rows in enumerate(devices):
        for block, some in enumerate(np.split(rows, range(size, len(rows), size))):
            place = slice(device * size, device * size + len(some))
            whole.x[block, :, place] = np.nan_to_num(X[some] - middle, nan=0.0).T
            whole.weight[block, place] = weight[some]
    return Rows(SeenBlock(*(split.placed(part, of_blocks(part.ndim)) for part in whole)), split.mesh)


def _patterns_of(X, code, devices, shape, width, split):
    """`pattern` and `lacks` of the blocks of every device, of `shape` (blocks, rows) each."""
    if width == 0:
        one = shape[0], split.n_devices
        return np.zeros(one, np.int32), np.empty((shape[0], 0, split.n_devices), np.int32)
    filled = [_filled(rows, shape) for rows in devices]
    # Rows whose pattern differs from that of the row before.
    new = [np.diff(code[rows], axis=1, prepend=-1) != 0 for rows in filled]
    many = any(SHARED * one.sum() >= one.size for one in new)
    n_patterns = max(split.everybody(max(power_of_two(one.sum(1).max()) for one in new)))
    if any(split.everybody(many)) or n_patterns == shape[1]:
        new, n_patterns = [np.ones_like(one) for one in new], shape[1]  # the form that `SeenBlock.each` expects
    parts = [_patterns_of_device(X, *each, width, n_patterns) for each in zip(filled, new)]
    return tuple(np.concatenate(each, -1) for each in zip(*parts))


def _filled(rows, shape):
    """Row numbers in the given shape, padded with the last one."""
    return np.pad(rows, (0, np.prod(shape) - len(rows)), mode="edge" if len(rows) else "constant").reshape(shape)


def _patterns_of_device(X, filled, new, width, n_patterns):
    pattern = new.cumsum(1, dtype=np.int32) - 1
    lacks = np.full((len(filled), width, n_patterns), X.shape[1], np.int32)
    block, at = np.nonzero(new)
    row, coordinate = np.nonzero(np.isnan(X[filled[block, at]]))
    place = np.arange(len(row)) - np.searchsorted(row, row)
    lacks[block[row], place, pattern[block, at][row]] = coordinate
    return pattern, lacks


def masked(covariance, seen):
    """`covariance` (..., d, d) with ones in place of the coordinates outside `seen` (..., d)."""
    both = seen[..., :, None] & seen[..., None, :]
    return jnp.where(both, covariance, jnp.eye(covariance.shape[-1], dtype=covariance.dtype))


def whitened(parameters: Gaussians, seen: Bool[Array, " dim"]) -> Whitened:
    """The components on the coordinates `seen`."""
    factor = jnp.linalg.cholesky(masked(parameters.covariance, seen))
    whitener = inverse_of_lower(factor)
    log_determinant = 2 * jnp.log(jnp.diagonal(factor, axis1=1, axis2=2)).sum(1)
    constant = jnp.log(parameters.mixing) + log_normal(seen.sum(), log_determinant, 0.0)
    return Whitened(constant, parameters.mean, whitener, whitener.mT @ whitener)


def completed(parts: Whitened, block: SeenBlock, seen: Bool[Array, " dim"]):
    """The E-step of a block on the coordinates `seen`.

    Log joint densities (clusters, rows), expected deviations from the means (clusters, dim, rows), and covariances of the
    missing entries given the rest (clusters, lacking, lacking, patterns), None without missing entries.
    """
    coordinates = jnp.arange(len(seen))[:, None]
    there = seen[:, None] & (block.each(block.lacks)[:, None] != coordinates).all(0)
    deviation = jnp.where(there, block.x - parts.mean[:, :, None], 0.0)
    joint, unknown = parts.constant[:, None], None
    if len(block.lacks):
        unknown, narrower = unknown_given_rest(parts, block, seen)
        lacking = computed_once((block.each(block.lacks)[:, None] == coordinates).astype(deviation.dtype))
        pull = computed_once(parts.precision @ deviation)
        pull = computed_once(inner_sum(lacking * pull[:, None], 2))
        follows = computed_once(inner_sum(block.each(unknown) * pull[:, None], 2))
        deviation = computed_once(deviation - inner_sum(lacking * follows[:, :, None], 1))
        joint = joint + block.each(narrower)
    return joint - 0.5 * jnp.square(parts.whitener @ deviation).sum(1), deviation, unknown


def unknown_given_rest(parts: Whitened, block: SeenBlock, seen):
    """Covariances of what every pattern lacks, given the rest (clusters, lacking, lacking, patterns).

    And (clusters, patterns): the rest's log densities less those of complete rows that are 0 there.
    """
    size, lacks = len(seen) + 1, block.lacks
    table = jnp.pad(parts.precision, ((0, 0), (0, 1), (0, 1))).reshape(-1, size**2)
    used = jnp.pad(seen, (0, 1))[lacks]
    precision = jnp.take(table, size * lacks[:, None] + lacks, axis=1, mode="clip")
    unused = jnp.where(used, 0.0, 1.0)[:, None] * jnp.eye(len(lacks), dtype=precision.dtype)[:, :, None]
    precision = jnp.where(used[:, None] & used, precision, unused)
    unknown, log_determinant = jax.vmap(inverse)(computed_once(precision))
    return computed_once(unknown - unused), 0.5 * (used.sum(0) * math.log(2 * math.pi) - log_determinant)


def inverse(matrices: Float[Array, "size size batch"]):
    """Inverses and log determinants of positive definite matrices, by sweeping all of them at once."""
    size = len(matrices)

    def sweep(j, carry):
        swept, log_determinant = carry
        pivot, column = swept[j, j], swept[j]
        here = (jnp.arange(size) == j)[:, None]
        scaled = jnp.where(here, -1.0, column) / pivot
        inside = swept - column[:, None] * (column / pivot)
        swept = jnp.where(here[:, None], scaled, jnp.where(here, scaled[:, None], inside))
        return swept, log_determinant + jnp.log(pivot)

    start = matrices, jnp.zeros_like(matrices[0, 0])
    swept, log_determinant = jax.lax.fori_loop(0, size, sweep, start)
    return -swept, log_determinant


def m_step(old: Gaussians, known: Moments, seen: Bool[Array, " dim"], prior, min_eigenvalue) -> Gaussians:
    """Update means and covariances of the coordinates `seen`, weights by eq. (11) with `prior` its eta.

    Floored eigenvalues make old and new parts a covariance together, positive under rounding.
    """
    alive, move, covariance = known.centred(MIN_MASS)
    values, vectors = floored(jnp.where(seen[:, None] & seen, covariance, old.covariance), min_eigenvalue)
    return Gaussians(
        (known.mass + prior) / (known.mass.sum() + len(old.mixing) * prior),
        old.mean + jnp.where(seen, move, 0.0),
        jnp.where(alive[:, None, None], (vectors * values) @ vectors.mT, old.covariance),
    )


def rotate(parameters: Gaussians, rotation) -> Gaussians:
    """The mixture of A x, with A (d, d) orthogonal."""
    covariance = rotation @ parameters.covariance @ rotation.T
    return parameters._replace(mean=parameters.mean @ rotation.T, covariance=covariance)


def e_step(parameters: Gaussians, rows: tuple[Rows, ...], seen: Bool[Array, " dim"], rotation=None):
    """Mean log density of what there is of the coordinates `seen`, and Moments; with `rotation`, of rotated whole rows."""

    def of_block(block, parts, n_obs, seen, rotation):
        if rotation is not None:
            block = block._replace(x=rotation @ block.x)
        joint, deviation, unknown = completed(parts, block, seen)
        share = block.weight / n_obs
        r = share * jax.nn.softmax(joint, 0)
        known = full_moments(r, deviation)
        known = known._replace(square=known.square + spread_of_unknown(unknown, r, block))
        return (share * jax.nn.logsumexp(joint, 0)).sum(), known

    known = whitened(parameters, seen), count(rows), seen, rotation
    return jax.tree.map(lambda *terms: sum(terms), *(total(of_block, part, *known) for part in rows))


def spread_of_unknown(unknown, responsibilities, block: SeenBlock):
    """The part of second moments (clusters, dim, dim) due to the covariances of missing entries."""
    if unknown is None:
        return 0.0
    lacks, size, mass = block.lacks, block.x.shape[0] + 1, responsibilities
    if lacks.shape[1] != block.x.shape[1]:
        mass = jax.ops.segment_sum(mass.T, block.pattern, lacks.shape[1], indices_are_sorted=True).T
    parts = jnp.moveaxis(computed_once(unknown * mass[:, None, None]), 0, -1).reshape(-1, len(mass))
    summed = jax.ops.segment_sum(parts, (size * lacks[:, None] + lacks).ravel(), size**2)
    return jnp.moveaxis(summed.reshape(size, size, -1)[:-1, :-1], -1, 0)


def count(rows: tuple[Rows, ...]):
    """Total weight of the rows."""
    return sum(total(lambda block: block.weight.sum(), part) for part in rows)


def log_density(parameters: Gaussians, rows: tuple[Rows, ...], seen: Bool[Array, " dim"]):
    """Mean log density of the entries present among the coordinates `seen`."""

    def of_block(block, parts, n_obs, seen):
        joint, _, _ = completed(parts, block, seen)
        return (block.weight / n_obs * jax.nn.logsumexp(joint, 0)).sum()

    known = whitened(parameters, seen), count(rows), seen
    return sum(total(of_block, part, *known) for part in rows)


@jit(static_argnames="only_largest")
def log_joint(parameters: Gaussians, rows: tuple[Rows, ...], only_largest=False):
    """log pi_k + log N(x_T; mu_kT, Sigma_kTT), with T the coordinates present in a row: (blocks, clusters, rows) each.

    Or the component where it is largest: (blocks, rows) each.
    """

    def of_block(block, parts, seen):
        joint, _, _ = completed(parts, block, seen)
        return joint.argmax(0) if only_largest else joint

    seen = jnp.ones(parameters.mean.shape[1], bool)
    known = whitened(parameters, seen), seen
    return [each(of_block, part, *known) for part in rows]


def in_order(values, places):
    """Results of `log_joint` (blocks, .., rows) in the order of this process's rows; `places`: see `in_blocks`."""
    values = [here(part) for part in values]
    ordered = np.empty((sum(len(rows) for part in places for rows in part), *values[0].shape[1:-1]), values[0].dtype)
    for whole, devices in zip(values, places):
        for part, rows in zip(np.split(whole, len(devices), -1), devices):
            ordered[rows] = np.moveaxis(part, -1, 1).reshape(-1, *part.shape[1:-1])[: len(rows)]
    return ordered

"""The rules that every clustering loss must keep, checked on rows of a table, for the package's losses and for yours."""

import copy
from dataclasses import fields
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayesfair._check import check_features, check_integer, generator_of, message
from bayesfair._jit import jit
from bayesfair.gibbs.loss import Loss, Units, cluster_means

FEWEST_ROWS, MOST_ROWS, MOVES, DRAWS = 8, 24, 40, 4_000
EXACT, SINGLE = 1e-8, 1e-3  # relative to the whole loss: rounding allowed in float64, and the loss of digits in float32
SIGMAS = 5.0  # for means over draws of centres: a correct loss fails once in a million comparisons


class Trial(NamedTuple):
    """A loss, a clustering of some rows, and compiled functions of the loss."""

    loss: Loss
    units: Units
    n_clusters: int
    value: Any  # (units, n_clusters) -> the loss of every cluster

    def losses(self, **changed):
        return np.asarray(self.value(self.units._replace(**changed), self.n_clusters))


def check_loss(loss, X, *, n_clusters=3, random_state=0):
    """Try a loss on a few rows: silent if it keeps all that the sampler relies on.

    Parameters
    ----------
    loss : Loss
        The loss.
    X : array-like of shape (n_obs, n_features)
        Numbers like those of your data: at least eight rows in the domain of the loss, not all the same.
    n_clusters : int, default 3
        Clusters of the clustering that is tried, of at most 24 rows.
    random_state : int, default 0
        Seed of that clustering.

    Raises
    ------
    AssertionError
        If the loss breaks a rule. The message says which, and by how much.
    ValueError
        If X is outside the domain of the loss or has fewer than eight rows.

    Notes
    -----
    The loss must be hashable and compare by value; compile; be finite on X; count units of weight zero for nothing and an
    empty cluster as 0; and be a sum over clusters, whatever the order of units and the numbers of clusters. `remove`,
    `insert` and `insertion` must report what moves change in `cluster_losses`. `homogeneous`, `degree` and
    `translation_invariant` must be true, of its dissimilarity too. Where it has an `augmentation`, centres must be drawn
    from the law whose normaliser it reports. Float32 must suffice.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.gibbs.check_loss(bf.gibbs.KMeansLoss(), bf.datasets.load_diabetes().features)
    """
    X = check_features(X)
    if len(X) < FEWEST_ROWS:
        raise ValueError(message("X", f"have at least {FEWEST_ROWS} rows", len(X), "Pass more of your data."))
    check_integer("n_clusters", n_clusters, minimum=2, maximum=FEWEST_ROWS // 2)
    loss.dissimilarity.check(X)
    rng = generator_of(random_state)
    rows = X[rng.choice(len(X), min(len(X), MOST_ROWS), replace=False)]
    units = Units(rows, rng.uniform(0.5, 2.0, len(rows)), rng.permutation(np.arange(len(rows)) % n_clusters))
    trial = Trial(loss, units, n_clusters, jit(loss.cluster_losses, static_argnums=1))
    compares_by_value(loss)
    with jax.enable_x64(True):
        tells_a_number_per_cluster(trial)
        claims_are_true(trial)
        trial = trial._replace(units=units._replace(center=_as_the_sampler_sees_them(loss, rows)))
        counts_what_is_there(trial)
        is_a_sum_over_clusters(trial)
        tells_what_moves_change(trial)
        has_a_dissimilarity_for_fairlets(trial)
        draws_centers_that_fit(trial)
        exact = _some_numbers(trial)
    suffices_in_float32(trial, exact)


def _require(holds, rule, got, remedy):
    if not holds:
        raise AssertionError(message("loss", rule, got, remedy))


def _require_same(values, expected, rule, remedy, *, scale=None, tolerance=EXACT):
    """Require that two arrays agree up to rounding; `scale`: of the sums that they come from."""
    values, expected = np.asarray(values, float), np.asarray(expected, float)
    scale = max(np.abs(expected).max() if scale is None else scale, np.finfo(np.float32).tiny)
    off = np.abs(values - expected).max() / scale  # NaN if either is
    _require(off <= tolerance, rule, f"numbers that are off by {off:.2g} of {scale:.3g}", remedy)


def _as_the_sampler_sees_them(loss, rows):
    centered = rows - rows.mean(0) if loss.translation_invariant else rows
    return centered / rows.std() if loss.homogeneous and loss.translation_invariant else centered


def compares_by_value(loss):
    """An unequal copy compiles again, and different equal losses give wrong numbers: they share compiled samplers."""
    seen = {field.name for field in fields(loss) if field.compare}
    hidden = {name for name in vars(loss) if not isinstance(getattr(type(loss), name, None), cached_property)} - seen
    remedy = "Make it a frozen dataclass (its dissimilarity too) with numbers, strings and tuples for fields."
    _require(not hidden, "compare all that it holds", f"{sorted(hidden)}, which its equality ignores", remedy)
    twin = copy.deepcopy(loss)
    try:
        same, why = twin == loss and hash(twin) == hash(loss), "a copy that is unequal"
    except (TypeError, ValueError) as error:  # of arrays
        same, why = False, str(error)
    _require(same, "be hashable and compare by value", why, remedy)


def tells_a_number_per_cluster(trial):
    try:
        losses = trial.losses()
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        remedy = "Use jax.numpy, and jnp.where instead of `if`."
        raise AssertionError(message("loss", "compile", str(error).split("\n")[0], remedy)) from error
    shape = f"shape {losses.shape} for {trial.n_clusters} clusters"
    remedy = "Sum over the units of each cluster: jax.ops.segment_sum(each, units.cluster, n_clusters)."
    _require(losses.shape == (trial.n_clusters,), "return one number per cluster", shape, remedy)
    remedy = "Guard logarithms, roots and quotients with jnp.where, or let its dissimilarity refuse such X."
    _require(np.isfinite(losses).all(), "be finite on X", losses.tolist(), remedy)
    remedy = "Pass distinct rows, or check for a difference that is always 0."
    _require(losses.sum() > 0, "be above zero if rows differ", losses.tolist(), remedy)
    first = np.unique(trial.units.cluster, return_index=True)[1]
    alone = np.isin(np.arange(len(trial.units.weight)), first).astype(float)
    losses = trial.losses(weight=alone)
    remedy = "Guard logarithms, roots and quotients of differences, which are 0 here, with jnp.where."
    _require(np.isfinite(losses).all(), "be finite if a unit is alone", losses.tolist(), remedy)


def claims_are_true(trial):
    loss, before = trial.loss, trial.losses()
    center = trial.units.center
    if loss.degree is not None:
        remedy = "Give it the h of L(s X) = s^h L(X), or None if there is no such power."
        _require(loss.degree > 0, "have a degree above zero, or None", loss.degree, remedy)
    if loss.homogeneous:
        rule = f"obey L(s X) = s^{loss.degree} L(X), as it is `homogeneous`"
        _require(loss.degree is not None, rule, "degree None", "Give it a degree, or drop `homogeneous`.")
        remedy = "Correct its degree, or drop `homogeneous`."
        power = 0.5**loss.degree
        _require_same(trial.losses(center=0.5 * center), power * before, rule, remedy)
        _require_same(_pays(loss, 0.5 * center), power * _pays(loss, center), f"{rule}, by its dissimilarity", remedy)
    if loss.translation_invariant:
        rule, shifted = "be `translation_invariant`, as it says", center + center.std(0)
        _require_same(trial.losses(center=shifted), before, rule, "Set it to False.")
        _require_same(_pays(loss, shifted), _pays(loss, center), f"{rule}, by its dissimilarity", "Set it to False.")


def _pays(loss, rows):
    """Costs of the rows with anchors, and with their mean."""
    D = loss.dissimilarity
    return np.stack([D.between(rows, np.roll(rows, 1, axis=0)), D.to_center(rows, rows.mean(0, keepdims=True))])


def has_a_dissimilarity_for_fairlets(trial):
    D, rows = trial.loss.dissimilarity, trial.units.center
    table = np.asarray(D.between(rows[:, None], rows[None]))
    remedy = "Write `between` and `to_center` over the last axis of arrays that broadcast, in NumPy and JAX alike."
    require_same = partial(_require_same, remedy=remedy, scale=np.abs(table).max())
    shape = f"shape {table.shape} for {len(rows)} rows"
    _require(table.shape == (len(rows),) * 2, "have a dissimilarity of pairs of rows", shape, remedy)
    _require(table.min() >= 0, "have a dissimilarity that is a number, never below 0", table.min(), remedy)
    require_same(D.pairwise(rows, rows), table, "have a dissimilarity whose `pairwise` is `between`")
    members, mask = rows[:FEWEST_ROWS].reshape(2, 4, -1), np.array([[True] * 4, [True] * 3 + [False]])
    in_jax, *hubs = jit(partial(_of_fairlets, D))(rows, members, mask)
    require_same(in_jax, table, "have a dissimilarity that is the same in NumPy and JAX")
    paid = [np.sum(D.to_center(held, held.mean(0))) for held in (members[0], members[1, :3])]
    for hub in (D.hub(members, mask), *hubs):
        require_same(hub, paid, "have a dissimilarity whose `hub` sums `to_center` of the members")


def _of_fairlets(D, rows, members, mask):
    """D of all pairs of rows, and fairlets' costs as hubs; the content of an empty slot must not matter."""
    empty = jnp.where(mask[..., None], members, 0.0)
    return D.between(rows[:, None], rows[None]), D.hub(members, mask), D.hub(empty, mask)


def counts_what_is_there(trial):
    units = trial.units
    rule, remedy = "ignore units of weight zero", "Multiply each unit's cost by units.weight."
    lighter = np.where(np.arange(len(units.weight)) % 4 == 0, 0.0, units.weight)
    elsewhere = np.where(lighter == 0, (units.cluster + 1) % trial.n_clusters, units.cluster)
    moved = np.where(lighter[:, None] == 0, np.roll(units.center, 1, axis=0), units.center)
    expected = trial.losses(weight=lighter)
    _require_same(trial.losses(weight=lighter, cluster=elsewhere, center=moved), expected, rule, remedy)
    without_one = np.where(units.cluster == 0, 0.0, units.weight)
    rule, remedy = "cost 0 if a cluster is empty", "Guard quotients by weight: jnp.where(weight > 0, ..., 0.0)."
    empty = [trial.losses(weight=without_one)[0], trial.losses(cluster=np.maximum(units.cluster, 1))[0]]
    _require_same(empty, np.zeros(2), rule, remedy, scale=trial.losses().sum())


def is_a_sum_over_clusters(trial):
    before, units = trial.losses(), trial.units
    order = np.random.default_rng(0).permutation(len(units.weight))
    shuffled = trial.losses(center=units.center[order], weight=units.weight[order], cluster=units.cluster[order])
    _require_same(shuffled, before, "not depend on the order of the units", "Sum over units; do not use positions.")
    renumbered = trial.losses(cluster=(units.cluster + 1) % trial.n_clusters)
    rule = "be the same function of its units for every cluster, whatever the cluster's number"
    _require_same(np.roll(renumbered, -1), before, rule, "Treat all clusters alike.")
    of_first = (units.cluster == 0)[:, None]
    others = trial.losses(center=np.where(of_first, np.roll(units.center, 1, axis=0), units.center))
    rule, remedy = "let a cluster's loss depend on its own units alone", "Do not use other clusters' units."
    _require_same(others[1:], before[1:], rule, remedy)


def tells_what_moves_change(trial):
    """Empty a cluster unit by unit and fill it again, then move units anywhere."""
    n_clusters, scale = trial.n_clusters, trial.losses().sum()
    rule = "return from `insertion` the increase of `cluster_losses` when a unit joins, after any moves"
    remedy = "Correct `start`, `remove`, `insert` or `insertion`; those of `Loss` itself need `cluster_losses` only."
    moves = _moves(trial.units.cluster, n_clusters)
    told = jit(partial(_insertions, trial.loss, n_clusters))(trial.units, *map(np.array, zip(*moves)))
    cluster = trial.units.cluster
    for (i, new), costs in zip(moves, told):
        _require_same(costs, _gains_from_scratch(trial, cluster, i), rule, remedy, scale=scale)
        cluster = _with(cluster, i, new)


def _insertions(loss, n_clusters, units, rows, clusters):
    """Results of `insertion` (moves, K) for each unit after it left its cluster and before it joins another."""

    def move(carried, moved):
        (stats, cluster), (i, new) = carried, moved
        unit = i, units.center[i], units.weight[i]
        rest = loss.remove(stats, *unit, cluster[i])
        return (loss.insert(rest, *unit, new), cluster.at[i].set(new)), loss.insertion(rest, *unit, n_clusters)

    return jax.lax.scan(move, (loss.start(units, n_clusters), units.cluster), (rows, clusters))[1]


def _moves(cluster, n_clusters):
    first = np.flatnonzero(cluster == 0)
    rng = np.random.default_rng(0)
    anywhere = zip(rng.integers(len(cluster), size=MOVES), rng.integers(n_clusters, size=MOVES))
    return [*((i, 1) for i in first), (first[0], 0), *anywhere]


def _gains_from_scratch(trial, cluster, i):
    without = trial.losses(cluster=cluster, weight=_with(trial.units.weight, i, 0.0)).sum()
    return [trial.losses(cluster=_with(cluster, i, k)).sum() - without for k in range(trial.n_clusters)]


def _with(values, i, value):
    return np.where(np.arange(len(values)) == i, value, values)


def draws_centers_that_fit(trial):
    """Check the law of the centres m that the loss draws, whatever the measure mu.

    E exp(-lambda w d(u, m)) is g' exp(-lambda L') / (g exp(-lambda L)), with g' and L' those after the unit u joined.
    """
    if trial.loss.augmentation is None:
        return
    inverse_temperature = 0.5 * trial.units.center.size / trial.losses().sum()
    compiled = jit(partial(_augmented, trial.loss, trial.n_clusters))
    identities, seen, told = compiled(trial.units, inverse_temperature)
    for (rule, remedy), (one, other) in zip(IDENTITIES, identities):
        _require_same(one, other, rule, remedy, scale=trial.losses().sum())
    error = np.abs((seen.mean(0) - told) / (seen.std(0) / np.sqrt(DRAWS))).max()
    rule = "draw centres from the law whose normaliser it returns"
    got = f"averages over draws that are {error:.1f} standard errors from `log_normalizer`"
    _require(error <= SIGMAS, rule, got, "See `BregmanLoss.log_normalizer` for the law of both.")


IDENTITIES = (
    ("obey sum w d(u, m) = L + W d(mean, m) for all m", "Use a Bregman divergence, or no augmentation."),
    ("have `divergences` equal to `divergence` up to a term of the unit alone", "Correct `divergences`."),
    ("have a normaliser that does not depend on means, as it claims", "Set normalizer_reads_mean = True."),
)


def _augmented(loss, n_clusters, units, inverse_temperature):
    """Both sides of the IDENTITIES, exp(-lambda w d(u, m)) of every draw and cluster, and the averages predicted for them."""
    means, numbers = cluster_means(units, n_clusters), jnp.arange(n_clusters)
    log_g = partial(loss.augmentation.log_normalizer, inverse_temperature)
    keys = jax.random.split(jax.random.PRNGKey(0), DRAWS)
    centers = jax.vmap(lambda key: loss.augmentation.draw_centers(key, inverse_temperature, means))(keys)
    identities = _both_sides(loss, units, means, centers[0], log_g)
    # One unit of each cluster, drawn near its mean, so that no single draw of a centre decides the average.
    one = units.center[jnp.argmax(units.cluster == numbers[:, None], axis=1)]
    near = means.mean + (one - means.mean) / jnp.sqrt(means.mass)[:, None]
    joining = Units(near, means.mass / near.shape[1], numbers)
    joined = Units(*map(jnp.concatenate, zip(units, joining)))
    gain = loss.cluster_losses(joined, n_clusters) - loss.cluster_losses(units, n_clusters)
    told = jnp.exp(log_g(cluster_means(joined, n_clusters)) - log_g(means) - inverse_temperature * gain)
    return identities, jnp.exp(-inverse_temperature * joining.weight * loss.divergence(near, centers)), told


def _both_sides(loss, units, means, centers, log_g):
    n_clusters = len(centers)
    pays = units.weight * loss.divergence(units.center, centers[units.cluster])
    excess = jax.ops.segment_sum(pays, units.cluster, n_clusters) - loss.cluster_losses(units, n_clusters)
    table = loss.divergences(units.center, centers)
    exact = jax.vmap(lambda center: loss.divergence(units.center, center), out_axes=1)(centers)
    other = means if loss.normalizer_reads_mean else means._replace(sum=0.5 * means.sum)
    return (
        (excess, means.mass * loss.divergence(means.mean, centers)),
        (table - table[:, :1], exact - exact[:, :1]),
        (log_g(other), log_g(means)),
    )


def _some_numbers(trial):
    """Losses of the clusters, a unit's cost in each, and rows' costs for anchors, in the current precision."""

    def numbers(units):
        unit = 0, units.center[0], units.weight[0]
        rest = loss.remove(loss.start(units, n_clusters), *unit, units.cluster[0])
        pays = loss.dissimilarity.between(units.center, jnp.roll(units.center, 1, axis=0))
        return loss.cluster_losses(units, n_clusters), loss.insertion(rest, *unit, n_clusters), pays

    loss, n_clusters = trial.loss, trial.n_clusters
    return [np.asarray(part, float) for part in jit(numbers)(trial.units)]


def suffices_in_float32(trial, exact):
    rule = "be accurate to a thousandth in float32, which the sampler uses"
    remedy = "Sum differences instead of subtracting large sums; center or rescale X if it is far from 0."
    for single, double in zip(_some_numbers(trial), exact):
        _require_same(single, double, rule, remedy, scale=exact[0].sum(), tolerance=SINGLE)

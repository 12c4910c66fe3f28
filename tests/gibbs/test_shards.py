"""Sweeps whose rows are in two shards leave the posterior of all rows invariant: transition matrices, then frequencies.

The shards are an axis of `vmap` here; tests/distributed has them in two processes. Planted bugs must be caught by the
same checks.
"""

from collections import Counter
from itertools import product

import exact
import exact_labels
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import CAUGHT, NOISE, invariance_error, normalise
from exact_labels import LAMBDA
from shards import (
    clustering_in_shards,
    in_each,
    labelling_in_shards,
    labels_in_shards,
    many_sweeps,
    optimal_in_shards,
    whole_label,
)

import bayesfair as bf
from bayesfair import gibbs
from bayesfair.fairness import encode_groups
from bayesfair.gibbs import losses as module_of_losses
from bayesfair.gibbs.labellings import CenteredLabelling
from bayesfair.gibbs.moves import across_shards, balanced_in_turn, blocked
from bayesfair.gibbs.moves import pairs_of_clusters as paired
from bayesfair.gibbs.run import chain_keys
from bayesfair.gibbs.shards import AXIS, total

TOLERANCE = 1e-10
PARTS = {
    "uneven": lambda n: [np.r_[0 : n // 2 + 1], np.r_[n // 2 + 1 : n]],
    "even": lambda n: [np.r_[0:n:2], np.r_[1:n:2]],
}


# The block of all fairlets, given centres


def block_matrix(loss):
    """(law given centres, transition matrix) of "optimal" on four fairlets, of which one shard has three."""
    t = exact.tiny("1:1, four fairlets", loss, "optimal")
    centers, fairlets = exact.some_centers(t, loss), [np.r_[0:3], np.r_[3:4]]
    shards, _ = optimal_in_shards(t, fairlets)
    same = (t.fairlets == t.fairlets[0]).all(1)
    clusters, law = t.clusters[same], normalise(np.log(exact.naive_augmented(t, loss, centers)[same]))

    def laws(shard, state):
        units = shard.units((), state.cluster)
        return blocked.proposal_logits(shard, units, centers, exact.TEMPERATURES.clustering)

    def ratio(shard, state, proposed):
        old, new = (shard.units((), one.cluster) for one in (state, proposed))
        return blocked.log_block_ratio(shard, old, new, exact.TEMPERATURES.clustering)

    states = [clustering_in_shards(t, fairlets, cluster) for cluster in clusters]
    logits = np.asarray(in_each(laws)(shards, states[0]))
    q = jax.nn.softmax(np.concatenate([logits[0, :3], logits[1, :1]]), -1)
    stacked = jax.tree.map(lambda *parts: jnp.stack(parts), *states)
    pairwise = jax.vmap(jax.vmap(in_each(ratio), (None, None, 0)), (None, 0, None))
    log_ratio = np.asarray(jax.jit(pairwise)(shards, stacked, stacked))
    P = np.prod(np.asarray(q)[np.arange(4), clusters], -1)[None] * np.exp(np.minimum(log_ratio[..., 0], 0))
    P[np.diag_indices(len(P))] = 0
    return law, exact.with_rest(P)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("loss", ["kmeans", "kl"])
def test_the_block_of_all_shards_is_exact(loss):
    assert invariance_error(*block_matrix(loss)) < TOLERANCE


@pytest.mark.usefixtures("x64")
def test_a_block_that_reads_the_sums_of_its_own_shard_is_caught(monkeypatch):
    monkeypatch.setattr(module_of_losses, "total", lambda tree: tree)
    assert invariance_error(*block_matrix("kmeans")) > CAUGHT


# Swaps across shards, given centres


def across_matrix(turn, cycle=1, swap_of_two_shards=across_shards.swap_of_two_shards, slots=3):
    """(law given centres, transition matrix) of one round of swaps across two shards."""
    t = exact_labels.tiny("1:1, three clusters")
    rows, rng = PARTS["uneven"](6), np.random.default_rng(1)
    shards = labels_in_shards(t, rows)
    centers = np.asarray(t.target.x)[rng.choice(6, 3, replace=False)] * 0.8
    meeting = across_shards.Meeting(jnp.asarray(cycle), jnp.asarray(turn))

    def shown(shard, state):
        given = CenteredLabelling(*state, jnp.asarray(centers))
        now = paired.in_order(shard, given, jnp.array([2, 0, 1]), jnp.full(4, 0.4, shard.x.dtype))
        place, there = across_shards.places_shown(now, jnp.full(4, 0.6, shard.x.dtype), slots)
        return now, place, *swap_of_two_shards(now, meeting, place, there)

    states = [labelling_in_shards(t, rows, label) for label in t.labels]
    stacked = jax.tree.map(lambda *parts: jnp.stack(parts), *states)
    now, place, log_ratio, index = jax.tree.map(
        np.asarray, jax.jit(jax.vmap(in_each(shown), (None, 0)))(shards, stacked)
    )
    after = jax.jit(jax.vmap(jax.vmap(paired.labels_of)))
    P = np.zeros((len(t.labels),) * 2)
    for s in range(len(t.labels)):
        able = np.argwhere(log_ratio[s, 0] > -np.inf)
        for pattern in product([False, True], repeat=len(able)):
            side, probability = now.side[s].copy(), 1.0
            for (segment, slot), swap in zip(able, pattern):
                accepted = min(1.0, np.exp(log_ratio[s, 0, segment, slot]))
                probability *= accepted if swap else 1 - accepted
                side[0, place[s, 0, segment, slot]] ^= swap
                side[1, place[s, 1, segment, index[s, 0, slot]]] ^= swap
            layout = jax.tree.map(lambda part: part[s], now)._replace(side=side)  # noqa: B023
            label = whole_label(after(jax.tree.map(lambda part: part[None], layout))[0], rows)
            to = t.index.get(tuple(label.tolist()))
            assert to is not None or probability < 1e-12
            P[s, to] += probability
    apart = np.square(np.asarray(t.target.x)[:, None] - centers).sum(-1)
    sizes = np.stack([np.bincount(label, minlength=3) for label in t.labels])
    law = -LAMBDA * apart[np.arange(6), t.labels].sum(1) + np.log(sizes).sum(1)  # 1 / g_k is n_k^(d/2), d = 2
    return normalise(law), P


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("turn", [0, 1])
def test_swaps_across_shards_are_exact(turn):
    law, P = across_matrix(turn)
    assert invariance_error(law, P) < TOLERANCE
    assert np.diag(P).min() < 0.9


@pytest.mark.usefixtures("x64")
def test_a_shard_that_meets_itself_stays():
    np.testing.assert_array_equal(across_matrix(0, cycle=0)[1], np.eye(306))


@pytest.mark.usefixtures("x64")
def test_swaps_across_shards_without_acceptance_are_caught():
    def accepted(*arguments):
        log_ratio, index = across_shards.swap_of_two_shards(*arguments)
        return jnp.where(log_ratio > -jnp.inf, 0.0, -jnp.inf), index

    assert invariance_error(*across_matrix(0, swap_of_two_shards=accepted)) > CAUGHT


# Whole sweeps


def distance_to(law, labels):
    """Total variation between drawn labels (..., obs) and their law."""
    drawn = Counter(map(tuple, labels.reshape(-1, labels.shape[-1]).tolist()))
    total = sum(drawn.values())
    return 0.5 * sum(abs(drawn[row] / total - law[row]) for row in set(drawn) | set(law))


def drawn(shards, states, moves, rows, n_chains=200, n_sweeps=250):
    """Labels (chains, sweeps, obs) of all rows after 50 sweeps, and what the sweeps reported, the same in all shards."""
    states = jax.tree.map(lambda part: jnp.repeat(part[:, None], n_chains, 1), states)
    labels, report = many_sweeps(chain_keys(0, n_chains), shards, states, moves, n_sweeps)
    for name, values in report.items():
        np.testing.assert_array_equal(*np.asarray(values), err_msg=name)
    return whole_label(labels[:, :, 50:], rows), report


def own(shards):
    return jax.tree.map(lambda part: part[0], shards)


@pytest.mark.parametrize(("case", "loss"), [("sizes that do not divide", "kmeans"), ("2:3", "binary")])
def test_sweeps_of_balanced_labellings_draw_from_the_law_of_all_rows(case, loss):
    t = exact_labels.tiny(case, loss, dtype=np.float32)
    rows = PARTS["uneven"](len(t.X))
    shards = labels_in_shards(t, rows)
    moves = own(shards).moves(exact.settings(t, inverse_temperature=(1.0, LAMBDA)))
    labels, _ = drawn(shards, labelling_in_shards(t, rows, t.labels[0]), moves, rows)
    law = Counter(dict(zip(map(tuple, t.labels.tolist()), exact_labels.law(t, loss))))
    assert distance_to(law, labels) < NOISE


def test_shards_that_visit_people_at_the_same_time_are_caught(monkeypatch):
    """Each looks at counts that the other changes: labellings are no longer balanced."""
    monkeypatch.setattr(balanced_in_turn, "from_one", lambda key, before, after, shared: (after, shared))
    t = exact_labels.tiny("1:1", dtype=np.float32)
    rows = PARTS["even"](6)
    moves = (balanced_in_turn.Counted((balanced_in_turn.Singles(6),)),)
    states = labelling_in_shards(t, rows, t.labels[0])
    states = jax.tree.map(lambda part: jnp.repeat(part[:, None], 50, 1), states)
    labels, _ = many_sweeps(chain_keys(0, 50), labels_in_shards(t, rows), states, moves, 20)
    seen = set(map(tuple, whole_label(labels, rows).reshape(-1, 6).tolist()))
    assert seen - set(t.index)


def test_sweeps_over_fairlets_draw_from_the_law_of_all_rows():
    """With lambda drawn too: p(C) is then proportional to (b + total loss)^-(a + N d / 2)."""
    from bayesfair.gibbs import Dispersion

    prior = Dispersion(1.5, 0.8)
    t = exact.tiny("1:1, four fairlets", "kmeans", "optimal", np.float32, prior=prior)
    fairlets = [np.r_[0:3], np.r_[3:4]]
    shards, members = optimal_in_shards(t, fairlets)
    states = clustering_in_shards(t, fairlets, t.clusters[0])
    labels, report = drawn(shards, states, own(shards).moves(exact.settings(t)), members, n_sweeps=2_050)
    same = (t.fairlets == t.fairlets[0]).all(1)
    fairlet, clustering = (part[same] for part in exact.naive_losses(t, "kmeans"))
    total = t.target.fairlet_factor * fairlet + t.target.mean_size * clustering
    pi = normalise(-(prior.shape + t.target.degrees) * np.log(prior.rate + total))
    whole = np.take_along_axis(t.clusters[same], t.fairlets[same], 1)
    law = Counter(dict(zip(map(tuple, whole.tolist()), pi)))
    assert distance_to(law, labels) < NOISE
    assert report["fairlet_loss"].min() == pytest.approx(fairlet[0], rel=1e-5)


@pytest.mark.parametrize("with_floats", [True, False])
def test_integers_are_summed_exactly_beside_floats(with_floats):
    """Counts beyond the 2^24 that float32 holds, and differences of counts, which may be negative."""
    counts = np.random.default_rng(0).integers(-(2**28), 2**28, (7, 5)).astype(np.int32)
    floats = np.linspace(0, 1, 7, dtype=np.float32) if with_floats else np.zeros(7, np.int32)
    told = jax.vmap(lambda *tree: total(tree), axis_name=AXIS)(counts, floats)
    assert told[0].dtype == np.int32
    np.testing.assert_array_equal(told[0][3], counts.sum(0))
    np.testing.assert_allclose(told[1][3], floats.sum(), rtol=1e-6)
    assert (counts.astype(np.float32).sum(0) != counts.sum(0)).any()  # what it is for


def test_fillers_are_nobody():
    """A shard with two rows fewer than the other: sums, counts and losses are those of all rows."""
    t = exact_labels.tiny("three groups", dtype=np.float32)
    rows = [np.r_[0:4, 6], np.r_[4:6]]
    shards = labels_in_shards(t, rows)
    for label in t.labels[::7]:
        state = labelling_in_shards(t, rows, label)
        counts, loss = jax.vmap(lambda shard, state: (shard.counts(state.label), shard.losses(state)), axis_name=AXIS)(
            shards, state
        )
        np.testing.assert_array_equal(counts[1], t.target.counts(label))
        np.testing.assert_allclose(loss.clustering[0], t.target.losses(t.state(label)).clustering, rtol=1e-5)


@pytest.mark.parametrize("loss", ["kl", "itakura-saito"])
def test_starts_by_rows_look_for_the_same_clusters_in_any_unit(loss):
    rows, code = np.arange(300), encode_groups(np.arange(300) // 3 % 2)
    X = np.random.default_rng(0).gamma(3, size=(300, 4)) * np.where(rows % 3 == 0, 5, 1)[:, None]

    def starts(X):
        settings = {"n_clusters": 3, "loss": gibbs.resolve_loss(loss), "target": "labels", "seed": 0}
        asked = {"inverse_temperature": gibbs.resolve_temperature("dispersion"), "composition": "auto"}
        more = {"min_balance": "exact", "reallocation": "auto", "inner_steps": 1}
        mesh = bf.distributed.mesh(rows=1)
        problem = gibbs.make_shared_problem(X, code, everyone=code, mesh=mesh, **settings, **asked, **more)
        return problem.target.starts(problem.table, problem.settings, 2).label

    np.testing.assert_array_equal(starts(X), starts(2.0**-34 * X))

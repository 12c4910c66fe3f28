"""Jumps between modes: the map and its Jacobian, the density along the path, masses from work, and whole runs."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import QUICKLY
from exact_modes import BUGS, EVERY, SAMPLED, far, plant, temperatures_of, wrongly_told

from bayesfair.gibbs import Settings
from bayesfair.gibbs.bennett import bennett
from bayesfair.gibbs.losses import cluster_means
from bayesfair.gibbs.moves import mode_jumps
from bayesfair.gibbs.moves.mode_jumps import Place, jump, moved_place, nearest_mode
from bayesfair.gibbs.run import Run, chain_keys, draw
from bayesfair.gibbs.search import with_jumps
from bayesfair.gibbs.sweep import adjoint, in_turn

COPIES = 10_000
WIDE = 4.5  # standard errors: 1 in 100,000 checks fails by chance


@pytest.mark.parametrize("loss", ["kmeans", "kl", "itakura-saito", "binary"])
def test_the_map_leads_there_and_back_and_has_the_jacobian_that_it_says(loss, x64):
    f = far("optimal", loss, SAMPLED)
    center, spread, dispersion = (np.asarray(part[0]) for part in map(np.asarray, f.modes[:3]))
    here = Place(center[::-1] + 0.3 * spread[::-1], 1.1 * dispersion)

    def flat(values):
        place = Place(values[:-1].reshape(here.coordinates.shape), values[-1])
        origin, number = nearest_mode(f.modes, place.coordinates)
        there, log_jacobian, leads_back = moved_place(f.target, f.modes, place, origin, number, 1 - origin)
        return jnp.append(there.coordinates.ravel(), there.dispersion), (log_jacobian, leads_back)

    @partial(jax.jit, compiler_options=QUICKLY)
    def there_and_back(start):
        end, told = flat(start)
        return told, *flat(end), jax.jacfwd(lambda values: flat(values)[0])(start)

    start = np.append(here.coordinates.ravel(), here.dispersion)
    (log_jacobian, leads_back), back, (log_back, _), matrix = there_and_back(start)
    assert bool(leads_back)
    np.testing.assert_allclose(back, start, rtol=1e-12)
    np.testing.assert_allclose(np.linalg.slogdet(np.asarray(matrix))[1], log_jacobian, atol=1e-10)
    np.testing.assert_allclose(log_back, -log_jacobian, atol=1e-12)


@pytest.mark.parametrize(("name", "loss", "prior"), EVERY)
def test_work_is_the_change_of_the_augmented_density(name, loss, prior, x64):
    """log p(z, lambda) - lambda_c sum W d(ubar, m) - sum log g + log mu, written out."""
    f = far(name, loss, prior)
    target, rng = f.target, np.random.default_rng(0)
    state = jax.tree.map(lambda part: np.asarray(part)[0], f.drawn(1, rng))
    center, spread, dispersion = (np.asarray(part)[0] for part in f.modes[:3])
    before = Place(center + spread * rng.normal(size=spread.shape), dispersion)
    after = Place(center + spread * rng.normal(size=spread.shape), dispersion * (1.3 if prior else 1.0))

    def density(target, state, place):
        at = state if prior is None else state._replace(lambdas=target.with_dispersion(state.lambdas, place.dispersion))
        losses, means = target.losses(at), cluster_means(target.units_of(at), 2)
        centers = target.loss.centers_at(place.coordinates)
        total = -at.lambda_c * (means.mass * target.loss.divergence(means.mean, centers)).sum()
        total += target.loss.log_measure(place.coordinates) - target.loss.log_normalizer(at.lambda_c, means).sum()
        if prior is not None:
            total += (target.degrees - 1) * jnp.log(place.dispersion) - place.dispersion * target.total_loss(losses)
        return total

    @partial(jax.jit, compiler_options=QUICKLY)
    def changes(target, state, before, after):
        state = target.open(state)
        told = mode_jumps.log_path_density(target, state, mode_jumps.known_of(target, state), before, after)
        return told, density(target, state, after) - density(target, state, before)

    told, expected = changes(target, state, before, after)
    np.testing.assert_allclose(told, expected, rtol=1e-9)


@pytest.mark.parametrize("loss", ["kmeans", "kl", "itakura-saito", "binary"])
def test_the_measure_of_the_coordinates_is_that_of_the_normaliser(loss, x64):
    """g = integral of exp(-lambda W d(ubar, m)) mu(dm), by quadrature in coordinates."""
    f = far("optimal", loss)
    target = f.target
    state = jax.tree.map(lambda part: np.asarray(part)[0], f.drawn(1, np.random.default_rng(0)))

    @jax.jit
    def log_integrals(state):
        state = target.open(state)
        means = cluster_means(target.units_of(state), 2)
        middle = target.loss.coordinates(jnp.maximum(means.mean, 1e-3) if loss != "kmeans" else means.mean)

        def log_integral(mass, mean, middle):
            grid = middle + jnp.linspace(-12, 12, 200_001)[:, None]
            log_mu = jax.vmap(target.loss.log_measure)(grid)
            energy = state.lambda_c * mass * target.loss.divergence(mean, target.loss.centers_at(grid))
            return jnp.log(jnp.exp(log_mu - energy).sum() * (24 / 200_000))

        return jax.vmap(log_integral)(means.mass, means.mean, middle), target.loss.log_normalizer(state.lambda_c, means)

    np.testing.assert_allclose(*log_integrals(state), atol=1e-5)


def works(f, length, seed=0, copies=COPIES):
    """(log of exp(w) |dT|, the mode each came from) of jumps from exact draws."""

    @jax.jit
    def go(keys, target, modes, states):
        def one(key, state):
            made = jump(key, target, modes, target.open(state), lambda origin: 1 - origin, length)
            return made.log_ratio, made.origin

        return jax.vmap(one)(keys, states)

    keys = jax.random.split(jax.random.PRNGKey(seed), copies)
    states = f.drawn(copies, np.random.default_rng(seed))
    return tuple(map(np.asarray, go(keys, f.target, f.modes, states)))


def off_by(log_ratio, origin):
    """By how many standard errors the mean of exp(w) |dT| misses the ratio of what the two modes' connected parts weigh."""
    found = []
    for here in (0, 1):
        there = 1 - here
        weight = np.where(origin == here, np.exp(log_ratio), 0.0)
        connected = ((origin == there) & np.isfinite(log_ratio)).astype(float)
        difference = weight - connected  # both have mean mass(A'), over all draws
        found.append(difference.mean() / (difference.std() / np.sqrt(len(difference))))
    return np.abs(found)


@pytest.mark.parametrize(
    ("name", "loss", "prior"),
    [pytest.param(*one, marks=pytest.mark.slow) if one[0] in ("joint", "labels") else one for one in EVERY],
)
def test_mean_work_is_the_ratio_of_masses(name, loss, prior, x64):
    """Where k-means' lambda is fixed modes are so narrow that in few steps a handful of works would make the mean: more steps
    of fewer jumps."""
    f = far(name, loss, prior)
    length, copies = (33, 3_000) if loss == "kmeans" and prior is None else (5, COPIES)
    log_ratio, origin = works(f, length, copies=copies)
    assert 0.02 < (origin == 0).mean() < 0.98  # both modes hold mass
    assert np.isfinite(log_ratio).mean() > 0.3
    assert off_by(log_ratio, origin).max() < WIDE


@pytest.mark.parametrize("bug", [None, *BUGS])
def test_planted_bugs_in_the_map_are_caught(bug, monkeypatch, x64):
    f = wrongly_told(far("optimal", "kmeans", SAMPLED))
    if bug is not None:
        plant(bug, monkeypatch)
    assert (off_by(*works(f, 5)).max() < WIDE) == (bug is None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["joint", "labels"])
def test_adjoint_moves_have_the_reversed_law(name, x64):
    """pi(z) K(z, z') = pi(z') K*(z', z) given centres, by counting; moves that are not mirrored are caught."""
    f = far(name)
    centers = f.target.loss.centers_at((f.modes.center[0] + f.modes.center[1]) / 2)
    flow = given_centers(f, centers)
    there = flow(f.target.path_moves(), 1)
    back = flow(adjoint(f.target.path_moves()), 2).T
    assert discrepancy(there, back) < 1.3
    if name == "joint":  # swaps and blocks: two different orders
        again = flow(f.target.path_moves(), 3).T
        assert discrepancy(there, again) > 2


def given_centers(f, centers, copies=60_000):
    """A function that counts transitions (states, states) of moves from exact draws of the states given centres."""
    target = f.target
    every = f.at(np.arange(len(f.law)), np.full(len(f.law), float(f.modes.dispersion[0])))

    @jax.jit
    def energies(states):
        def one(state):
            opened = target.open(state)
            units = target.units_of(opened)
            pull = opened.lambda_c * (units.weight * target.loss.divergence(units.center, centers[units.cluster])).sum()
            normalizer = target.loss.log_normalizer(opened.lambda_c, cluster_means(units, 2)).sum()
            fairlet = opened.lambdas.fairlet * target.losses(opened).fairlet if hasattr(target, "anchor") else 0.0
            return pull + normalizer + fairlet

        return jax.vmap(one)(states)

    energy = np.asarray(energies(every))
    law = np.exp(energy.min() - energy)
    which = np.random.default_rng(0).choice(len(law), copies, p=law / law.sum())
    keep = np.argsort(-law)[:40]  # the likeliest states, and all others as one
    place = np.full(len(law), len(keep))
    place[keep] = np.arange(len(keep))
    identity = identities(f)

    def flow(moves, seed):
        @jax.jit
        def go(keys, states):
            def one(key, state):
                end, _ = in_turn(key, target, target.open(state).given(centers), moves)
                return target.close(end.alone())

            return jax.vmap(one)(keys, states)

        states = jax.tree.map(lambda part: part[which], every)
        ends = go(jax.random.split(jax.random.PRNGKey(seed), copies), states)
        counts = np.zeros((len(keep) + 1,) * 2)
        np.add.at(counts, (place[which], place[identity(ends)]), 1)
        return counts

    return flow


def identities(f):
    """A function from stacked states to their numbers."""

    def code(states):
        if hasattr(states, "label"):
            return np.asarray(states.label)
        members, cluster = np.asarray(states.members), np.asarray(states.cluster)
        fairlet = np.zeros((len(members), len(f.X) + 1), int)
        number = np.repeat(np.arange(members.shape[1]), members.shape[2])
        np.put_along_axis(fairlet, members.reshape(len(members), -1), number[None], 1)
        return np.hstack([fairlet[:, :-1], cluster])

    def number(codes):
        return codes @ (8 ** np.arange(codes.shape[1], dtype=object)).astype(np.float64)

    known = number(code(f.states))
    order = np.argsort(known)
    return lambda states: order[np.searchsorted(known[order], number(code(states)))]


def discrepancy(a, b):
    """Chi-squared of two tables of counts with one law, per degree of freedom."""
    total = a + b
    enough = total >= 20
    return (np.square(a - b)[enough] / total[enough]).sum() / enough.sum()


@pytest.mark.parametrize(
    ("name", "prior"),
    [
        ("optimal", None),
        pytest.param("joint", None, marks=pytest.mark.slow),
        pytest.param("labels", None, marks=pytest.mark.slow),
    ],
)
def test_runs_with_jumps_agree_from_any_start_and_runs_without_are_caught(name, prior, x64):
    f = far(name, prior=prior, apart=2.0)
    left = together(f.labels)
    truth = f.law[left].sum()
    assert 0.02 < truth < 0.98
    settings = Settings(2, f.target.loss, prior or (1.0, 1.0), reallocation="blocked")
    for here in (left, ~left):
        states = f.at([int(np.argmax(np.where(here, f.law, 0)))] * 4, np.full(4, float(f.modes.dispersion[0])))
        moves = f.target.moves(settings)
        target, with_them = with_jumps(f.target, moves, f.modes, 9)
        _, draws = draw(Run(chain_keys(0, 4), 0, states, with_them), target, 3_000)
        assert abs(together(draws.labels).mean() - truth) < 0.04
        if name == "labels":  # whose excursions cross so small a posterior by themselves
            continue
        _, draws = draw(Run(chain_keys(0, 4), 0, states, moves), f.target, 50)
        assert abs(together(draws.labels).mean() - truth) > 0.1


@pytest.mark.parametrize("thinning", [1, 3])
def test_draws_without_a_jump_have_nan_there_which_no_program_gives_back(thinning, x64):
    """JAX_DEBUG_NANS stops at programs that do."""
    f = far("optimal")
    states = f.at([0], np.asarray(f.modes.dispersion)[:1])
    settings = Settings(2, f.target.loss, (1.0, 1.0), reallocation="blocked")
    target, moves = with_jumps(f.target, f.target.moves(settings), f.modes, 9)
    with jax.debug_nans(True):
        _, draws = draw(Run(chain_keys(0, 1), 1, states, moves), target, 7, thinning)
    last = 1 + thinning * np.arange(1, 8)  # sweep of every draw
    np.testing.assert_array_equal(np.isfinite(draws.scalars["jump_acceptance"][0]), last % moves[-1].period == 0)


# Lengths that nobody reads, as there is no path: each has a program of its own, with the bug or without.
@pytest.mark.slow
@pytest.mark.parametrize(("bug", "length"), [(None, 3), ("no Jacobian", 5), ("lambda is not carried along", 7)])
def test_runs_with_jumps_draw_lambda_too_and_agree_with_the_enumeration(bug, length, monkeypatch, x64):
    """Lambda is integrated out there: a Gamma integral. Scores are of chains' means, which are independent."""
    f = wrongly_told(far("optimal", prior=SAMPLED))
    if bug is not None:
        plant(bug, monkeypatch)
    settings = Settings(2, f.target.loss, SAMPLED, reallocation="blocked")
    states = f.at([int(np.argmax(f.law))] * 100, np.full(100, float(f.modes.dispersion[0])))
    target, moves = with_jumps(f.target, f.target.moves(settings), f.modes, length)
    _, draws = draw(Run(chain_keys(0, 100), 0, states, moves), target, 400)
    assert np.nanmean(draws.scalars["jump_acceptance"]) > 0.2
    middle = np.where(together(draws.labels), 1.0, 0.0)
    dispersion = draws.scalars["lambda_c"] / float(temperatures_of(target, jnp.asarray(1.0)).clustering)
    left, mean = together(f.labels), target.degrees / f.loss  # of lambda given the labels
    truths = f.law[left].sum(), f.law @ mean, f.law[left] @ mean[left]
    found = (part[:, 50:].mean(1) for part in (middle, dispersion, middle * dispersion))
    off = [abs(one.mean() - truth) / (one.std(ddof=1) / 10) for one, truth in zip(found, truths)]
    assert (max(off) < WIDE) == (bug is None)


def together(labels):
    """Does the middle place go with the first?"""
    return (labels[..., 6:8] == labels[..., :1]).all(-1)


class TestBennett:
    def test_log_ratio_and_its_standard_error_are_right(self):
        """Gaussian work: forward N(r - s^2/2, s), backward N(-r - s^2/2, s) are the two directions of one process."""
        rng = np.random.default_rng(0)
        for r, s in ((1.0, 1.0), (5.0, 2.0), (-15.0, 1.5)):
            scores = []
            for _ in range(200):
                found, se = bennett(rng.normal(r - s**2 / 2, s, 60), rng.normal(-r - s**2 / 2, s, 40))
                scores.append((found - r) / se)
            assert abs(np.mean(scores)) < 0.35
            assert 0.8 < np.std(scores) < 1.25
            assert np.mean(np.abs(scores) < 2) > 0.9

    def test_directions_exchanged_are_caught(self):
        rng = np.random.default_rng(0)
        forward, backward = rng.normal(2.5, 1, 100), rng.normal(-3.5, 1, 100)
        assert abs(bennett(forward, backward)[0] - 3) < 0.5
        assert abs(bennett(backward, forward)[0] - 3) > 3

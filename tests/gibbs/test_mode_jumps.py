"""Jumps between modes: the map and its Jacobian, the density along the path, masses from work, and whole runs."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import QUICKLY
from exact_modes import EVERY, SAMPLED, far, log_density, middle_goes_left, plant, wrongly_told

from bayesfair.gibbs import Settings
from bayesfair.gibbs.bennett import bennett
from bayesfair.gibbs.moves import mode_jumps
from bayesfair.gibbs.moves.mode_jumps import Place, jump, moved_place, nearest_mode
from bayesfair.gibbs.run import Run, chain_keys, draw
from bayesfair.gibbs.search import with_jumps

WIDE = 4.5  # standard errors: 1 in 100,000 checks fails by chance


def test_the_map_leads_there_and_back_and_has_the_jacobian_that_it_says(x64):
    f = far("optimal", prior=SAMPLED)
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
    f = far(name, loss, prior)
    target, rng = f.target, np.random.default_rng(0)
    state = jax.tree.map(lambda part: np.asarray(part)[0], f.drawn(1, rng))
    center, spread, dispersion = (np.asarray(part)[0] for part in f.modes[:3])
    before = Place(center + spread * rng.normal(size=spread.shape), dispersion)
    after = Place(center + spread * rng.normal(size=spread.shape), dispersion * (1.3 if prior else 1.0))

    def density(target, state, place):
        at = state if prior is None else state._replace(lambdas=target.with_dispersion(state.lambdas, place.dispersion))
        return log_density(target, at, place)

    @partial(jax.jit, compiler_options=QUICKLY)
    def changes(target, state, before, after):
        state = target.open(state)
        told = mode_jumps.log_path_density(target, state, before, after)
        return told, density(target, state, after) - density(target, state, before)

    told, expected = changes(target, state, before, after)
    np.testing.assert_allclose(told, expected, rtol=1e-9)


def works(f, copies=10_000):
    """(log of exp(w) |dT|, the mode each came from) of jumps from exact draws."""

    @jax.jit
    def go(keys, target, modes, states):
        def one(key, state):
            made = jump(key, target, modes, target.open(state), lambda origin: 1 - origin, 1)
            return made.log_ratio, made.origin

        return jax.vmap(one)(keys, states)

    keys = jax.random.split(jax.random.PRNGKey(0), copies)
    states = f.drawn(copies, np.random.default_rng(0))
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


@pytest.mark.slow
def test_mean_work_is_the_ratio_of_masses_and_a_map_without_its_jacobian_is_caught(monkeypatch, x64):
    """`test_jump_matrix` catches this bug and others exactly."""
    f = wrongly_told(far("optimal", "kmeans", SAMPLED))
    log_ratio, origin = works(f)
    assert 0.02 < (origin == 0).mean() < 0.98  # both modes hold mass
    assert np.isfinite(log_ratio).mean() > 0.3
    assert off_by(log_ratio, origin).max() < WIDE
    plant("no Jacobian", monkeypatch)
    assert off_by(*works(f)).max() >= WIDE


def test_runs_with_jumps_agree_from_any_start_and_runs_without_are_caught(x64):
    f = far("optimal", apart=2.0)
    left = middle_goes_left(f.labels)
    truth = f.law[left].sum()
    assert 0.02 < truth < 0.98
    moves = f.target.moves(Settings(2, f.target.loss, (1.0, 1.0), reallocation="blocked"))
    target, with_them = with_jumps(f.target, moves, f.modes, 9)
    for here in (left, ~left):
        states = f.at([int(np.argmax(np.where(here, f.law, 0)))] * 4, np.full(4, float(f.modes.dispersion[0])))
        _, draws = draw(Run(chain_keys(0, 4), 0, states, with_them), target, 3_000)
        assert abs(middle_goes_left(draws.labels).mean() - truth) < 0.04
        _, draws = draw(Run(chain_keys(0, 4), 0, states, moves), f.target, 50)
        assert abs(middle_goes_left(draws.labels).mean() - truth) > 0.1


def test_draws_without_a_jump_have_nan_there_which_no_program_gives_back(x64):
    """JAX_DEBUG_NANS stops at programs that do."""
    f, thinning = far("optimal"), 3
    states = f.at([0], np.asarray(f.modes.dispersion)[:1])
    settings = Settings(2, f.target.loss, (1.0, 1.0), reallocation="blocked")
    target, moves = with_jumps(f.target, f.target.moves(settings), f.modes, 9)
    with jax.debug_nans(True):
        _, draws = draw(Run(chain_keys(0, 1), 1, states, moves), target, 7, thinning)
    last = 1 + thinning * np.arange(1, 8)  # sweep of every draw
    np.testing.assert_array_equal(np.isfinite(draws.scalars["jump_acceptance"][0]), last % moves[-1].period == 0)


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

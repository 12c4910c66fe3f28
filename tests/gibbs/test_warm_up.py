"""The warm-up adapts the blocks, in both directions, from the draws alone: the clock has no say."""

from itertools import accumulate, cycle, pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from bayesfair.fairlets.compositions import capacities
from bayesfair.fairlets.members import member_table
from bayesfair.gibbs import Settings, Table, run
from bayesfair.gibbs.losses import resolve_loss
from bayesfair.gibbs.moves.blocked import BLOCKS, choose_blocks
from bayesfair.gibbs.run import WINDOW, Run, chain_keys, draw, tuned, tuning, warm_up
from bayesfair.gibbs.states import InverseTemperatures
from bayesfair.gibbs.targets.joint import Joint
from bayesfair.gibbs.targets.starts import stacked_states


def problem(n_clusters, dim, loss="kmeans"):
    """Pairs without any clusters: many clusters in many dimensions leave blocks refused, few in few all accepted."""
    n_pairs = 100
    X = np.random.default_rng(0).normal(size=(2 * n_pairs, dim))
    held, own = capacities(np.array([n_pairs, n_pairs])), np.arange(n_pairs)
    asked, pool = Settings(n_clusters, resolve_loss(loss), (0.5, 0.05)), [own.reshape(-1, 2)[:, ::-1].ravel()]
    target = Joint.of(Table(X, None), held, asked, pool)
    return target, member_table(np.tile(own, 2), np.repeat([0, 1], n_pairs), held.upper)


def settle(target, members, num_warmup=4 * WINDOW, n_blocks=1, progress_bar=False):
    """(number of blocks after the warm-up, its reports, 20 draws)."""
    moves = tuned(
        target.moves(Settings(target.n_clusters, target.loss, reallocation="blocked")), {"n_blocks": n_blocks}
    )
    clusters = np.tile(np.arange(target.n_fairlets, dtype=np.int32) % target.n_clusters, (2, 1))
    states = stacked_states(target, members, clusters, InverseTemperatures(0.5, 0.05))
    warm, reports = warm_up(Run(chain_keys(0, 2), 0, states, moves), target, num_warmup, progress_bar)
    after, draws = draw(warm, target, 20)
    assert after.moves == warm.moves  # frozen
    return tuning(warm.moves).get("n_blocks"), reports, draws.labels, draws.scalars


SPLIT, MERGE = (10, 40), (2, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "n_blocks", "settled", "longest", "seconds"),  # of chunks; between two looks at the clock
    [(SPLIT, 1, 64, 7, (0.0, 3.0, 0.1, 40.0, 0.0, 0.0, 0.7)), (MERGE, 8, 1, 1, (60.0,))],
)
def test_the_clock_has_no_say(layout, n_blocks, settled, longest, seconds, monkeypatch):
    """Nor in the reports of the warm-up, which decide the thinning."""
    case, pace = problem(*layout), run._pace
    expected = settle(*case, n_blocks=n_blocks, num_warmup=2 * WINDOW + 9)
    assert expected[0] == settled
    now = accumulate(cycle(seconds))
    monkeypatch.setattr(run, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    monkeypatch.setattr(run, "_pace", lambda total, _, *rest: pace(total, longest, *rest))
    found = settle(*case, n_blocks=n_blocks, num_warmup=2 * WINDOW + 9, progress_bar=longest == 7)
    np.testing.assert_equal(found, expected)


def test_the_pace_stops_at_every_window():
    for longest in (1, 7, 64):
        sizes = list(run._pace(100, longest, SimpleNamespace(update=lambda n: None), WINDOW))
        assert sum(sizes) == 100
        assert max(sizes) <= longest
        assert set(range(WINDOW, 100, WINDOW)) <= set(np.cumsum(sizes).tolist())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Only .* of the blocks")
def test_decisions_are_made_at_whole_windows_only():
    case = problem(*SPLIT)
    assert settle(*case, num_warmup=WINDOW - 1)[0] == 1
    assert settle(*case, num_warmup=WINDOW)[0] == settle(*case, num_warmup=2 * WINDOW - 1)[0] == 8


@pytest.mark.slow
def test_a_warm_up_too_short_to_split_poor_blocks_says_so():
    with pytest.warns(RuntimeWarning, match=r"n_blocks = 1\).*num_warmup of at least 128"):
        settle(*problem(*SPLIT), num_warmup=5)


def test_a_loss_without_conjugate_centres_has_no_blocks_to_adapt():
    target, _ = problem(*MERGE, loss="manhattan")
    assert "n_blocks" not in tuning(target.moves(Settings(2, target.loss, reallocation="blocked")))


def path(acceptances, n_blocks=1, n_fairlets=1000):
    blocks, merged = [n_blocks], set()
    for acceptance in acceptances:
        blocks.append(choose_blocks(blocks[-1], acceptance, n_fairlets, merged))
    return blocks


def test_blocks_split_merge_and_stay():
    assert path([0.1, 0.1, 0.1]) == [1, 8, 64, 64]
    assert path([0.95, 0.95, 0.95], n_blocks=64) == [64, 8, 1, 1]
    assert path([0.31, 0.89], n_blocks=8) == [8, 8, 8]
    assert path([0.1, 0.1, 0.1], n_fairlets=20) == [1, 8, 20, 20]
    assert path([0.1, 0.1, 0.95], n_fairlets=5) == [1, 5, 5, 1]


def test_blocks_cannot_flutter():
    """Whatever is accepted, each number of blocks is merged into once, so that the search ends."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        blocks = path(rng.choice([0.0, 0.5, 1.0], size=200))
        merges = [b for a, b in pairwise(blocks) if b < a]
        assert len(merges) == len(set(merges)) < len(BLOCKS)
        assert np.count_nonzero(np.diff(blocks)) <= 3 * len(BLOCKS)

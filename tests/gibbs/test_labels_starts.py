"""Starts of chains of labels: inside the balanced set that the kernels read, and without JAX."""

import subprocess
import sys

import numpy as np
import pytest

from bayesfair.fairness.groups import groups_for_fit
from bayesfair.gibbs import Labels
from bayesfair.gibbs.loss import resolve_loss
from bayesfair.gibbs.run import Chains
from bayesfair.gibbs.target import Dispersion, Table, empty_room
from bayesfair.gibbs.units import EACH, INSIDE, VISITS
from bayesfair.gibbs.walk import FEWEST


def law_of(target, levels, crossed=True, n_obs=60):
    rng = np.random.default_rng(0)
    columns = np.stack([rng.integers(size, size=n_obs) for size in levels], 1)
    groups = groups_for_fit(columns if len(levels) > 1 else columns[:, 0], n_obs, crossed=crossed)
    X = rng.normal(size=(n_obs, 2))
    return target.prepare(Table(X, groups, np.ones(n_obs), 3, resolve_loss("kmeans"), Dispersion(), n_obs, 0))


def beyond(law, state):
    """Rows beyond the bounds that the kernels read: 0 in the balanced set alone."""
    balance, labels, n_off = law.balance, law.labels(state), []
    for k in range(3):
        count, size = np.bincount(balance.group[labels == k].ravel(), minlength=balance.n_groups), (labels == k).sum()
        for first, last in zip(balance.first, balance.first[1:]):
            held, (low, high, slack) = count[first:last], balance.bounds[first:last].T
            of = held.max() if balance.extra[0] else size
            with np.errstate(invalid="ignore"):
                n_off += [(low * of - held - slack).max(), np.nan_to_num(held - high * of - slack, nan=-1.0).max()]
        n_off += [balance.extra[1] - size, size - balance.extra[2]]
    return max(n_off, default=0.0)


@pytest.mark.parametrize(
    ("target", "levels", "crossed"),
    [
        (Labels(), (2,), True),
        (Labels(), (2, 4), True),
        (Labels(), (2, 2, 3), True),
        (Labels(crossed=False), (2, 4), False),
        (Labels(min_balance=0.3), (2, 2), True),
        (Labels(size_min=15, size_max=25), (2, 3), True),
    ],
)
@pytest.mark.filterwarnings("ignore:Groups with fewer members")
def test_starts_are_balanced_as_the_kernels_read_it(target, levels, crossed):
    """The constraint of the starts and the bounds of the kernels are two lists of the same counts."""
    law = law_of(target, levels, crossed)
    states = law.starts(3)
    assert len(states) == 3
    for state in states:
        assert beyond(law, state) <= 0
    elsewhere = states[0]
    elsewhere.label[law.table.groups.code == 0] = 0
    assert beyond(law, elsewhere) > 0


def test_the_first_start_of_a_process_loads_no_jax():
    code = (
        "import sys, numpy as np; from bayesfair.gibbs.labels import Labels; from bayesfair.fairness import encode_groups;"
        "from bayesfair.gibbs.loss import resolve_loss; from bayesfair.gibbs.target import Dispersion, Table;"
        "table = Table(np.random.default_rng(0).normal(size=(40, 2)), encode_groups(np.arange(40) % 2), np.ones(40), 2,"
        "resolve_loss('kmeans'), Dispersion(), 40.0, 0); Labels().prepare(table).starts(2); print('jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_many_short_chunks_go_on():
    """Sizes of tasks follow the clock, and may not grow without end where tasks are shorter than they could be."""
    law = law_of(Labels(), (2,))
    chains = Chains(law, law.starts(1), n_jobs=1)
    for _ in range(80):
        assert chains.draws(1, 1).labels.shape == (1, 1, 60)


def test_penalties_rise_only_and_a_sweep_is_what_a_pass_brings():
    """A penalty that is lowered until the chain leaves the balanced set may be left there when the warm-up ends."""
    law = law_of(Labels(), (3,))
    (state,) = law.starts(1)
    before = state.strength.copy()
    for _ in range(4):
        law.learn(state, 8)
        assert (state.strength >= before).all()
        before = state.strength.copy()
    each = state.number[EACH]
    assert 0 < each < 60
    visits, inside = state.step[VISITS], state.step[INSIDE]
    law.advance(state, 3, 10**9, empty_room(law, 50), 0)
    assert state.step[INSIDE] - inside == 50 * int(3 * max(each, 60 / FEWEST))
    assert state.step[VISITS] - visits > 50 * int(3 * each)

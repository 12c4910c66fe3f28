"""The sampler's kernels: seconds to compile, time a sweep or pass against plain loops, and effective draws a second.

BAYESFAIR_DATA=... python benchmarks/gibbs_kernels.py [compile] [vanilla] [pass] [mixing]

`compile` counts processor seconds of a first call with an empty cache if NUMBA_CACHE_DIR is a new folder.
"""

import sys
import time

import numpy as np
from numba import njit

import bayesfair as bf
from bayesfair.fairness.groups import encode_groups
from bayesfair.gibbs.joint import Joint
from bayesfair.gibbs.labels import Labels
from bayesfair.gibbs.loss import resolve_loss
from bayesfair.gibbs.optimal import Optimal
from bayesfair.gibbs.target import Dispersion, Room, Table
from bayesfair.gibbs.units import MOVED, VISITS

CHAINS, DRAWS = 4, 2000


def standard(X):
    X = np.asarray(X, float)
    return np.ascontiguousarray((X - X.mean(0)) / X.std(0))


def table(X, groups, n_clusters):
    loss = resolve_loss("kmeans")
    return Table(X, encode_groups(np.asarray(groups)), np.ones(len(X)), n_clusters, loss, Dispersion(), X.size / 2, 0)


def patients():
    data = bf.datasets.load_diabetes()
    return table(standard(data.features), data.sensitive, 3)


def bank(n_rows):
    """Bank-additional by marriage, whose balance strains a cluster apart."""
    data = bf.datasets.load_bank_additional()
    rows = np.random.default_rng(0).choice(len(data.features), n_rows, replace=False)
    numbers = data.features.select_dtypes("number").iloc[rows]
    return table(standard(numbers), np.asarray(data.sensitive)[rows] == "married", 4)


def drawn(law, state, n_draws):
    """(scalars, labels, processor seconds) of a chain that goes on."""
    n_obs = len(state.label) if hasattr(state, "label") else len(state.fairlet)
    room = Room(
        np.empty((n_draws, n_obs), np.int8), np.empty((0, n_obs), np.int32), np.empty((n_draws, len(law.statistics)))
    )
    begin = time.process_time()
    law.advance(state, 1, 10**15, room, 0)
    return room.scalars, room.labels, time.process_time() - begin


def started(target, data, warmup=100):
    law = target.prepare(data)
    states = law.starts(CHAINS)
    for state in states:
        if hasattr(law, "learn"):
            law.learn(state, warmup)
        drawn(law, state, warmup)
    return law, states


def compiling():
    for target in (Labels(), Joint()):
        begin = time.process_time()
        started(target, patients(), 1)
        print(
            f"{type(target).__name__}: first draws after {time.process_time() - begin:.1f} processor s, starts included"
        )


@njit
def plain_sweep(x, label, size, total, lam, p):
    """Gibbs k-means without weights, fairlets or bookkeeping."""
    for i in range(len(x)):
        a = label[i]
        if size[a] == 1:
            continue
        least = np.inf
        for k in range(len(size)):
            far = 0.0
            for e in range(x.shape[1]):
                far += (x[i, e] - total[k, e] / size[k]) ** 2
            p[k] = far * size[k] / (size[k] - 1.0 if k == a else size[k] + 1.0)
            least = min(least, p[k])
        whole = 0.0
        for k in range(len(size)):
            p[k] = np.exp(-lam * (p[k] - least))
            whole += p[k]
        left, b = np.random.random() * whole, 0  # noqa: NPY002 (Numba's own)
        while b < len(size) - 1 and left > p[b]:
            left -= p[b]
            b += 1
        label[i] = b
        size[a] -= 1.0
        size[b] += 1.0
        for e in range(x.shape[1]):
            total[a, e] -= x[i, e]
            total[b, e] += x[i, e]


def vanilla(n_sweeps=2000):
    """Singletons against the plain loop, on the patients."""
    law, (state, *_) = started(Optimal(composition="singletons"), patients())
    label, x = state.cluster[state.fairlet].astype(np.int64), law.table.X
    size, total = np.bincount(label).astype(float), np.stack([x[label == k].sum(0) for k in range(3)])
    args = x, label, size, total, state.value[1], np.empty(3)
    plain_sweep(*args)
    begin = time.process_time()
    for _ in range(n_sweeps):
        plain_sweep(*args)
    theirs = time.process_time() - begin
    ours = drawn(law, state, n_sweeps)[2]
    print(f"vanilla Gibbs: {1e3 * ours / n_sweeps:.3f} ms a sweep, {ours / theirs:.2f} times the plain loop")


def passes(n_rows=1_000_000, dim=6, n_clusters=10):
    """A pass over many rows from balanced labels, pair draws among the passes as usual."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, dim)) + rng.integers(10, size=(n_rows, 1))
    law = Labels().prepare(table(X, rng.random(n_rows) < 0.33, n_clusters))
    (state,) = law.starts(1)
    law.learn(state, 3)
    visits, moved = state.step[VISITS], state.step[MOVED]
    seconds = drawn(law, state, 3)[2]
    visits, moved = state.step[VISITS] - visits, state.step[MOVED] - moved
    each = f"{1e3 * seconds * n_rows / visits:.0f} ms a pass over every row"
    print(f"{n_rows:,} x {dim}, K = {n_clusters}: {each}, {moved / visits:.0%} of which move")


def mixing():
    """Effective draws a processor second of the slowest of the scalars and the sorted sizes."""
    from arviz_stats.base import array_stats

    tables = {"patients": patients(), "Bank-additional, 2,000 rows": bank(2000)}
    cases = [(Labels(), name, pairs) for name in tables for pairs in (0, 1)] + [(Joint(), "patients", None)]
    for target, name, pairs in cases:
        law, states = started(target, tables[name])
        if pairs is not None:
            law.schedule = law.schedule._replace(pairs=pairs)
        runs = [drawn(law, state, DRAWS) for state in states]
        sizes = np.stack([np.sort([np.bincount(z, minlength=law.table.n_clusters) for z in run[1]]) for run in runs])
        figures = np.concatenate([np.stack([run[0][:, :5] for run in runs]), sizes], 2)
        least = min(float(array_stats.ess(figures[:, :, at])) for at in range(figures.shape[2]))
        spent = sum(run[2] for run in runs)
        what = f"{type(target).__name__}, {name}" + ("" if pairs is None else f", {pairs} pair draws")
        print(f"{what}: {1e3 * spent / CHAINS / DRAWS:.3f} ms a draw, {least / spent:.0f} effective draws a second")


if __name__ == "__main__":
    parts = {"compile": compiling, "vanilla": vanilla, "pass": passes, "mixing": mixing}
    for part in sys.argv[1:] or parts:
        parts[part]()

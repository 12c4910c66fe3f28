"""A run by rows goes on in another number of processes: the same draws so far, and the same law from there."""

from collections import Counter
from functools import lru_cache
from itertools import product

import numpy as np
import pytest
from distributed.loopback import ends, found, start
from exact import NOISE, normalise

import bayesfair as bf
from bayesfair._journal import read_journal, states
from bayesfair.posterior import fairlet_capacities, is_unfinished, read_tree, redeal, redealing

LAMBDA = 1.1
SHAPE, RATE = 1.0, 20.0  # of lambda under "optimal"
N_ROWS = {"labels": 8, "optimal": 14, "singletons": 8}
RUN = """
import signal
import pandas as pd
from bayesfair._journal import Journal
from bayesfair.gibbs import by_rows
dies, append, chunks = os.environ.get("DIES"), Journal._append, []
mesh = bf.distributed.mesh(rows=n_processes)
settings = dict(num_chains=240, num_warmup=30, num_draws=20, thinning=1, num_starts=3, inverse_temperature=(1.0, 1.1),
                random_state=0, progress_bar=False, mesh=mesh)

def appended(journal, *arguments):
    chunks.append(arguments)
    if dies == f"{target}: {rank} before chunk {len(chunks)}":
        os.kill(os.getpid(), signal.SIGKILL)
    append(journal, *arguments)

Journal._append = appended

def begin(n_rows, cut, **more):
    chunks.clear()
    X, code = 2 * np.random.default_rng(2).uniform(size=(n_rows, 2)), np.tile(["a", "b"], n_rows // 2)
    own = [slice(0, cut), slice(cut, n_rows)][rank]
    if target == "optimal":
        X = pd.DataFrame(X, [f"person {row}" for row in range(n_rows)], ["x", "y"])
    est = bf.GibbsFairClustering(2, **{**settings, **more}).fit(X[own], sensitive_features=code[own], store=store())

def store():
    return f"{out}-{target}.nc"

def labels():
    begin(8, 5, target="labels")

def optimal():
    prior = bf.gibbs.Dispersion(1.0, 20.0)
    begin(14, 7, target="optimal", composition={"a": 1, "b": 1}, inverse_temperature=prior)

def singletons():
    begin(8, 5, target="optimal", composition="singletons")
"""
FINISHED = RUN + "for target in ('labels', 'optimal', 'singletons'):\n    globals()[target]()\n"
RESUMED = """
by_rows.decompose = None  # fairlets are those of the files
est = bf.GibbsFairClustering.load(store()).set_params(mesh=mesh).resume(150)
np.savez(out, lp=est.posterior_["sample_stats"]["lp"].values)
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The files of two processes whose runs are finished, by target."""
    folder = tmp_path_factory.mktemp("finished")
    assert ends(start(FINISHED, 2, folder)) == [0, 0]
    return {target: files_in(folder, 2, target) for target in N_ROWS}


@pytest.fixture(scope="module")
def cut_off(tmp_path_factory):
    """The files of two processes of which one was killed, a chunk behind the other, by target."""
    files = {}
    for target in ("labels", "optimal"):
        folder = tmp_path_factory.mktemp("cut off")
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("DIES", f"{target}: 1 before chunk 3")
            assert 0 not in ends(start(f"{RUN}\ntarget = {target!r}\n{target}()", 2, folder))
        files[target] = files_in(folder, 2, target)
        assert len({max(states(file)) for file in files[target]}) == 2
    return files


def files_in(folder, n_processes, target="labels"):
    return [folder / f"{rank}.npz-{target}.nc" for rank in range(n_processes)]


def table(target):
    n_rows = N_ROWS[target]
    return 2 * np.random.default_rng(2).uniform(size=(n_rows, 2)), np.tile([0, 1], n_rows // 2)


def tree_of(file):
    return _read(file, file.stat().st_mtime_ns)


@lru_cache
def _read(file, _):
    return read_tree(file)


def of_all(files, group, name):
    return np.concatenate([tree_of(file)[group][name].values for file in files], -1)


def rows_of(file):
    return np.array([int(str(name).split()[-1]) for name in tree_of(file)["posterior"]["obs"].values])


def order_of(files, target):
    """The rows of the table in the order of the files; under "labels" of two processes' own, which nobody named."""
    rows = np.concatenate([rows_of(file) for file in files])
    return rows if len(set(rows)) == len(rows) else np.arange(N_ROWS[target])


def labels_in(files, target, n_draws=None):
    """Of all rows in the order of the table; of a run that is not finished, clusters numbered as the sampler has them, in all
    of the files alike."""
    draws = [
        read_journal(file).draws.labels if is_unfinished(file) else tree_of(file)["posterior"]["labels"].values
        for file in files
    ]
    whole = np.concatenate([labels[:, :n_draws] for labels in draws], -1)
    return up_to_names(whole[..., np.argsort(order_of(files, target))])


def up_to_names(labels):
    """Labels (.., obs) of two clusters, of which that of the first row is 0."""
    return labels ^ labels[..., :1]


def fairlets_in(files, target):
    """The rows of every fairlet, in the order of the processes' fairlets; of each row where there are none."""
    if target == "labels":
        return [[row] for row in range(N_ROWS[target])]
    order, found = order_of(files, target), []
    for file in files:
        rows, order = np.split(order, [tree_of(file)["posterior"].sizes["obs"]])
        members = tree_of(file)["sampler_state"]["members"].values
        assert (members == members[:1]).all()
        found += [sorted(rows[one[one < len(rows)]].tolist()) for one in members[0]]
    assert sorted(row for one in found for row in one) == list(range(N_ROWS[target]))
    return found


def state_in(files, target, fairlets):
    """Labels (chain, obs) that the state says, in the order of the table."""
    if target == "labels":
        return up_to_names(of_all(files, "sampler_state", "label"))
    cluster, labels = of_all(files, "sampler_state", "cluster"), np.empty((240, N_ROWS[target]), int)
    for number, rows in enumerate(fairlets):
        labels[:, rows] = cluster[:, [number]]
    return up_to_names(labels)


def fairlet_loss(target, fairlets):
    """Distances to the anchor, that of the group of which all fairlets of its first process have one."""
    X, code = table(target)
    if target != "optimal":
        return 0.0
    anchors = [next(row for row in rows if code[row] == (min(rows) < 7)) for rows in fairlets]
    return sum(np.square(X[rows] - X[anchor]).sum() for rows, anchor in zip(fairlets, anchors))


def clustering_loss(target, fairlets, labels):
    """k-means of the centres of fairlets, by hand, weights relative to the mean size."""
    X, total = table(target)[0], 0.0
    center, size = np.stack([X[rows].mean(0) for rows in fairlets]), np.array([len(rows) for rows in fairlets])
    cluster = np.array([labels[rows[0]] for rows in fairlets])
    for k in (0, 1):
        own, weight = center[cluster == k], size[cluster == k] / size.mean()
        total += weight @ np.square(own - np.average(own, 0, weight)).sum(1)
    return total


def check_goes_on_from(old, new, n_draws, target):
    """The new files have the old draws, all rows, and the state after the last draw."""
    X, code = table(target)
    order, fairlets = order_of(new, target), fairlets_in(new, target)
    np.testing.assert_array_equal(
        np.concatenate([tree_of(file)["observed_data"]["X"].values for file in new]), X[order]
    )
    np.testing.assert_array_equal(of_all(new, "constant_data", "group"), code[order])
    assert sorted(map(tuple, fairlets)) == sorted(map(tuple, fairlets_in(old, target)))
    labels = labels_in(new, target)
    assert labels.shape[1] == n_draws
    np.testing.assert_array_equal(labels, labels_in(old, target, n_draws))
    state = state_in(new, target, fairlets)
    np.testing.assert_array_equal(state, labels[:, -1])
    again = [clustering_loss(target, fairlets, each) for each in state]
    for file in new:
        tree, known = tree_of(file), tree_of(old[0])
        for name in ("lp", "clustering_loss"):
            np.testing.assert_array_equal(tree["sample_stats"][name], known["sample_stats"][name][:, :n_draws])
        np.testing.assert_allclose(again, tree["sample_stats"]["clustering_loss"][:, -1], rtol=1e-4)
        if n_draws == 20:
            np.testing.assert_array_equal(tree["sampler_state"]["lambda_c"], known["sampler_state"]["lambda_c"])


def law_of(target, fairlets):
    """(labellings, their log probability, of lambda the rate given each)."""
    code, units = table(target)[1], np.array(list(product(range(2), repeat=len(fairlets))))
    labels = np.empty((len(units), N_ROWS[target]), int)
    for number, rows in enumerate(fairlets):
        labels[:, rows] = units[:, [number]]
    of_a, of_b = (labels[:, code == g].sum(1) for g in (0, 1))
    used = (of_a + of_b > 0) & (of_a + of_b < labels.shape[1])
    labels = labels[used & (np.abs(of_a - of_b) < 2)] if target == "labels" else labels[used]
    losses = np.array([clustering_loss(target, fairlets, each) for each in labels])
    rate = RATE + 0.5 * fairlet_loss(target, fairlets) + N_ROWS[target] / len(fairlets) * losses
    power = SHAPE + N_ROWS[target]  # and d / 2 = 1
    return labels, -power * np.log(rate) if target == "optimal" else -LAMBDA * losses, rate


def check_law(target, files, fairlets, n_earlier):
    """36,000 draws, up to the names of the clusters: 90, 31 and 127 partitions; independent ones stay below 0.02, with 127
    below 0.03, but for one run in a thousand. Given the partition lambda times its rate is from a gamma law, whose mean is
    known to 0.02: four standard deviations."""
    draws = labels_in(files, target)[:, n_earlier:].reshape(-1, N_ROWS[target]).astype(int)
    labels, log_mass, rates = law_of(target, fairlets)
    expected, rate_of = Counter(), {}
    for label, one, rate in zip(map(tuple, up_to_names(labels).tolist()), normalise(log_mass), rates):
        expected[label] += one
        rate_of[label] = rate
    names = list(map(tuple, draws.tolist()))
    drawn = Counter(names)
    assert set(drawn) <= set(expected)
    assert 0.5 * sum(abs(drawn[row] / drawn.total() - expected[row]) for row in expected) < NOISE
    if target == "optimal":
        lambdas = tree_of(files[0])["posterior"]["lambda_c"].values[:, n_earlier:].ravel() * len(fairlets) / 14
        assert np.mean(lambdas * [rate_of[name] for name in names]) == pytest.approx(SHAPE + 14, abs=0.08)
        told = tree_of(files[0])["sample_stats"]["fairlet_loss"].values
        np.testing.assert_allclose(told, fairlet_loss(target, fairlets), rtol=1e-5)


GUARANTEES = {
    "labels": "to within one person",
    "optimal": "By construction none can fall below 0.5: every cluster is a union of whole fairlets.",
    "singletons": "the method does not guarantee it",
}


@pytest.mark.parametrize("target", list(N_ROWS))
def test_one_process_goes_on_alone(finished, tmp_path, target):
    old, new = finished[target], tmp_path / "all.nc"
    redeal(old, [new])
    check_goes_on_from(old, [new], 20, target)
    np.testing.assert_array_equal(order_of([new], target), np.arange(N_ROWS[target]))
    tree = tree_of(new)
    assert "unfinished" not in tree.attrs
    assert GUARANTEES[target] in bf.posterior.guarantee(tree)
    with pytest.raises(ValueError, match="a run of one process, which has all rows"):
        redeal([new], files_in(tmp_path, 2))
    bf.GibbsFairClustering.load(new).resume(50)
    est = bf.GibbsFairClustering.load(new).resume(100)  # from what it has written
    if target == "optimal":
        assert len(fairlet_capacities(est.posterior_).lower) == 6
    labels = labels_in([new], target)
    assert labels.shape == (240, 170, N_ROWS[target])
    np.testing.assert_array_equal(labels[:, :20], labels_in(old, target))
    check_law(target, [new], fairlets_in(old, target), 20)


@pytest.mark.parametrize("target", ["labels", "optimal"])
def test_three_processes_go_on_where_two_were_cut_off(cut_off, tmp_path, target):
    old, new = cut_off[target], files_in(tmp_path, 3, target)
    n_draws = min(max(states(file)) for file in old)
    before = [file.read_bytes() for file in old]
    redeal(old[::-1], new)
    assert [file.read_bytes() for file in old] == before
    check_goes_on_from(old, new, n_draws, target)
    processes = found(f"{RUN}\ntarget = {target!r}\n{RESUMED}", 3, tmp_path)
    np.testing.assert_array_equal(processes[0]["lp"], processes[2]["lp"])
    labels = labels_in(new, target)
    assert labels.shape == (240, n_draws + 150, N_ROWS[target])
    np.testing.assert_array_equal(labels[:, :n_draws], labels_in(old, target, n_draws))
    check_law(target, new, fairlets_in(old, target), n_draws)


@pytest.mark.parametrize("n_files", [3, 6])
def test_whole_fairlets_are_dealt_in_the_order_of_the_rows(finished, tmp_path, n_files):
    new = files_in(tmp_path, n_files)
    redeal(finished["optimal"], new)
    check_goes_on_from(finished["optimal"], new, 20, "optimal")
    rows = [rows_of(file) for file in new]
    assert all((np.diff(one) > 0).all() for one in rows)
    assert [one.min() for one in rows] == sorted(one.min() for one in rows)
    assert max(abs(len(one) - 14 / n_files) for one in rows) <= 3  # the largest fairlet
    again = [tmp_path / "again.nc"]
    with pytest.MonkeyPatch.context() as patched:  # as though these had gone on
        patched.setattr(redealing, "finish_run", lambda _: None)
        redeal(new, again)
    check_goes_on_from(finished["optimal"], again, 20, "optimal")


def test_members_that_are_numbered_wrongly_are_found(finished, tmp_path, monkeypatch):
    renumbered = redealing._renumbered
    monkeypatch.setattr(redealing, "_renumbered", lambda members, rows, n: renumbered(members, rows[::-1], n))
    redeal(finished["optimal"], files_in(tmp_path, 3))
    with pytest.raises(AssertionError):
        check_goes_on_from(finished["optimal"], files_in(tmp_path, 3), 20, "optimal")


def test_new_files_are_written_all_or_none(finished, tmp_path, monkeypatch):
    new, begin = files_in(tmp_path, 3), redealing.begin_run

    def fails_at_the_last(path, *arguments, **named):
        if path == new[2]:
            raise OSError(28, "No space left on device")
        return begin(path, *arguments, **named)

    monkeypatch.setattr(redealing, "begin_run", fails_at_the_last)
    with pytest.raises(OSError, match="No space"):
        redeal(finished["labels"], new)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few draws
def test_what_is_not_the_shares_of_one_run_is_refused(finished, cut_off, tmp_path):
    one, two = finished["labels"]
    new, alone = tmp_path / "new.nc", tmp_path / "alone.nc"
    data = bf.datasets.make_well_specified()
    est = bf.GibbsFairClustering(2, num_chains=2, num_warmup=5, num_draws=4, random_state=0, progress_bar=False)
    est.fit(data.features, sensitive_features=data.sensitive).save(alone)
    (tmp_path / "copy.nc").write_bytes(one.read_bytes())
    for paths, told in {
        (one,): "got 1 of the 2 files of a run",
        (one, one): "name files that differ",
        (one, tmp_path / "copy.nc"): "got files of the processes 0, 0",
        (one, cut_off["labels"][1]): "draws",
        (one, finished["optimal"][1]): "got files of several runs",
        (finished["optimal"][0], finished["singletons"][1]): "got files of several runs",
        (alone,): "target='joint'",
        (): "name files that differ",
    }.items():
        with pytest.raises(ValueError, match=told):
            redeal(paths, [new])
    with pytest.raises(FileNotFoundError):
        redeal([one, tmp_path / "nothing.nc"], [new])
    with pytest.raises(FileExistsError):
        redeal([one, two], [alone])
    with pytest.raises(ValueError, match="`into` must name files that differ"):
        redeal([one, two], [new, new])
    with pytest.raises(ValueError, match="There are 8 rows: name fewer files"):
        redeal([one, two], files_in(tmp_path, 9))
    with pytest.raises(ValueError, match="There are 6 fairlets: name fewer files"):
        redeal(finished["optimal"], files_in(tmp_path, 7))
    assert not new.exists()

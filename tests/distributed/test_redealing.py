"""A run by rows goes on in another number of processes: the same draws so far, and the same law from there."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from distributed.loopback import ends, found, start
from exact import NOISE, normalise

import bayesfair as bf
from bayesfair._journal import read_journal, states
from bayesfair.posterior import is_unfinished, read_tree, redeal, redealing

LAMBDA = 1.1
SETTINGS = """
settings = dict(num_chains=120, num_warmup=30, num_draws=20, thinning=1, num_starts=3, inverse_temperature=(1.0, 1.1),
                random_state=0, progress_bar=False, mesh=bf.distributed.mesh(rows=n_processes))
"""
TINY = """
import signal
from bayesfair._journal import Journal
dies, append, chunks = os.environ.get("DIES"), Journal._append, []

def appended(journal, *arguments):
    chunks.append(arguments)
    if dies == f"{rank} before chunk {len(chunks)}":
        os.kill(os.getpid(), signal.SIGKILL)
    append(journal, *arguments)

Journal._append = appended
rng = np.random.default_rng(2)
X, code = 2 * rng.uniform(size=(8, 2)), np.tile(["a", "b"], 4)
own = [slice(0, 5), slice(5, 8)][rank]
est = bf.GibbsFairClustering(2, target="labels", **settings)
est.fit(X[own], sensitive_features=code[own], store=out + ".nc")
np.savez(out, lp=est.posterior_["sample_stats"]["lp"].values)
"""
RESUMED = """
est = bf.GibbsFairClustering.load(out + ".nc").set_params(mesh=bf.distributed.mesh(rows=n_processes)).resume(300)
np.savez(out, lp=est.posterior_["sample_stats"]["lp"].values)
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The files of two processes whose run is finished."""
    folder = tmp_path_factory.mktemp("finished")
    found(SETTINGS + TINY, 2, folder)
    return files_in(folder, 2)


@pytest.fixture(scope="module")
def cut_off(tmp_path_factory):
    """The files of two processes of which one was killed, a chunk behind the other."""
    folder = tmp_path_factory.mktemp("cut off")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DIES", "1 before chunk 3")
        assert 0 not in ends(start(SETTINGS + TINY, 2, folder))
    files = files_in(folder, 2)
    assert len({max(states(file)) for file in files}) == 2
    return files


def files_in(folder, n_processes):
    return [folder / f"{rank}.npz.nc" for rank in range(n_processes)]


def table():
    return 2 * np.random.default_rng(2).uniform(size=(8, 2)), np.tile([0, 1], 4)


def of_all(files, group, name):
    return np.concatenate([read_tree(file)[group][name].values for file in files], -1)


def labels_in(files, n_draws=None):
    """Of all rows; of a run that is not finished, clusters numbered as the sampler has them, in all of the files alike."""
    draws = [
        read_journal(file).draws.labels if is_unfinished(file) else read_tree(file)["posterior"]["labels"].values
        for file in files
    ]
    return up_to_names(np.concatenate([labels[:, :n_draws] for labels in draws], -1))


def up_to_names(labels):
    """Labels (.., obs) of two clusters, of which that of the first row is 0."""
    return labels ^ labels[..., :1]


def loss_of(X, labels):
    """k-means, by hand."""
    parts = [X[labels == k] for k in (0, 1)]
    return sum(np.square(part - part.mean(0)).sum() for part in parts)


def check_goes_on_from(old, new, n_draws):
    """The new files have the old draws, all rows in the same order, and the state after the last one."""
    X, code = table()
    np.testing.assert_array_equal(np.concatenate([read_tree(file)["observed_data"]["X"].values for file in new]), X)
    np.testing.assert_array_equal(of_all(new, "constant_data", "group"), code)
    labels = labels_in(new)
    assert labels.shape[1] == n_draws
    np.testing.assert_array_equal(labels, labels_in(old, n_draws))
    state = of_all(new, "sampler_state", "label")
    np.testing.assert_array_equal(up_to_names(state), labels[:, -1])
    for file in new:
        tree = read_tree(file)
        scalars = tree["sample_stats"]
        for name in ("lp", "clustering_loss"):
            np.testing.assert_array_equal(scalars[name], read_tree(old[0])["sample_stats"][name][:, :n_draws])
        again = [-LAMBDA * loss_of(X, each) for each in state]
        np.testing.assert_allclose(again, scalars["lp"][:, -1], rtol=1e-4)
        assert tree["sampler_state"]["lambda_c"].values == pytest.approx(
            read_tree(old[0])["sampler_state"]["lambda_c"].values
        )


def check_law(draws):
    """Labellings with as many of either group in every cluster, but for one person: 90, up to the names of the clusters."""
    X, code = table()
    labels = np.array(list(product(range(2), repeat=8)))
    of_a, of_b = (labels[:, code == g].sum(1) for g in (0, 1))
    labels = labels[(np.abs(of_a - of_b) < 2) & (of_a + of_b > 0) & (of_a + of_b < 8)]
    probability, expected = normalise(-LAMBDA * np.array([loss_of(X, each) for each in labels])), Counter()
    for label, one in zip(up_to_names(labels), probability):
        expected[tuple(label.tolist())] += one
    drawn = Counter(map(tuple, up_to_names(draws.reshape(-1, 8).astype(int)).tolist()))
    assert set(drawn) <= set(expected)
    assert 0.5 * sum(abs(drawn[row] / drawn.total() - expected[row]) for row in expected) < NOISE


def test_one_process_goes_on_alone(finished, tmp_path):
    """36,000 draws; independent ones stay below 0.02 but for one run in a thousand."""
    redeal(finished, [tmp_path / "all.nc"])
    check_goes_on_from(finished, [tmp_path / "all.nc"], 20)
    tree = read_tree(tmp_path / "all.nc")
    assert "unfinished" not in tree.attrs
    assert "to within one person" in bf.posterior.guarantee(tree)
    assert "one process's share" not in bf.posterior.guarantee(tree)
    with pytest.raises(ValueError, match="a run of one process, which has all rows"):
        redeal([tmp_path / "all.nc"], files_in(tmp_path, 2))
    bf.GibbsFairClustering.load(tmp_path / "all.nc").resume(300)
    labels = labels_in([tmp_path / "all.nc"])
    assert labels.shape == (120, 320, 8)
    np.testing.assert_array_equal(labels[:, :20], labels_in(finished))
    check_law(labels[:, 20:])


def test_three_processes_go_on_where_two_were_cut_off(cut_off, tmp_path):
    n_draws = min(max(states(file)) for file in cut_off)
    before = [file.read_bytes() for file in cut_off]
    new = files_in(tmp_path, 3)
    redeal(cut_off[::-1], new)
    assert [file.read_bytes() for file in cut_off] == before
    check_goes_on_from(cut_off, new, n_draws)
    processes = found(RESUMED, 3, tmp_path)
    labels = labels_in(new)
    np.testing.assert_array_equal(processes[0]["lp"], processes[2]["lp"])
    assert labels.shape == (120, n_draws + 300, 8)
    np.testing.assert_array_equal(labels[:, :n_draws], labels_in(cut_off, n_draws))
    check_law(labels[:, n_draws:])


def test_new_files_are_written_all_or_none(finished, tmp_path, monkeypatch):
    new, begin = files_in(tmp_path, 3), redealing.begin_run

    def fails_at_the_last(path, *arguments, **named):
        if path == new[2]:
            raise OSError(28, "No space left on device")
        return begin(path, *arguments, **named)

    monkeypatch.setattr(redealing, "begin_run", fails_at_the_last)
    with pytest.raises(OSError, match="No space"):
        redeal(finished, new)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few draws
def test_what_is_not_the_shares_of_one_run_is_refused(finished, cut_off, tmp_path):
    one, two = finished
    new, alone = tmp_path / "new.nc", tmp_path / "alone.nc"
    data = bf.datasets.make_well_specified()
    est = bf.GibbsFairClustering(2, num_chains=2, num_warmup=5, num_draws=4, random_state=0, progress_bar=False)
    est.fit(data.features, sensitive_features=data.sensitive).save(alone)
    (tmp_path / "copy.nc").write_bytes(one.read_bytes())
    for paths, told in {
        (one,): "got 1 of the 2 files of a run",
        (one, one): "name files that differ",
        (one, tmp_path / "copy.nc"): "got files of the processes 0, 0",
        (one, cut_off[1]): "draws",
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
    assert not new.exists()

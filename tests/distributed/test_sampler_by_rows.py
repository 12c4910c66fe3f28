"""The sampler whose rows are in two processes: draws from the posterior of all rows, and what processes tell of it alike."""

from collections import Counter
from itertools import product
from shutil import copytree

import numpy as np
import pytest
from distributed.loopback import ends, found, said, start
from exact import NOISE, normalise

import bayesfair as bf
from bayesfair._journal import states

LAMBDA = 1.1
TINY = """
rng = np.random.default_rng(2)
X, code = 2 * rng.uniform(size=(8, 2)), np.repeat(["a", "b"], 4)
own, s, rows = bf.distributed.deal(X, code)
mesh = bf.distributed.mesh(rows=n_processes)
settings = dict(num_chains=120, num_warmup=30, num_draws=300, thinning=1, num_starts=0, inverse_temperature=(1.0, 1.1),
                random_state=0, progress_bar=False, mesh=mesh)
made = {"rows": rows}
for target, how in {"optimal": {}, "labels": {}, "singletons": {"composition": "singletons"}}.items():
    how["target"] = "labels" if target == "labels" else "optimal"
    est = bf.GibbsFairClustering(2, **how, **settings).fit(own, sensitive_features=s)
    tree = est.posterior_
    made[f"{target}/guarantee"] = bf.posterior.guarantee(tree)
    made[target] = tree["posterior"]["labels"].values
    made |= {f"{target}/{name}": tree["sample_stats"][name].values for name in tree["sample_stats"].data_vars}
    made |= {f"{target}/centers": tree["posterior"]["centers"].values, f"{target}/of_labels": est.cluster_centers_}
    made[f"{target}/labels_"] = est.labels_
    if target == "optimal":
        made["members"] = tree["sampler_state"]["members"].values[0]
np.savez(out, **made)
"""


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    return found(TINY, 2, tmp_path_factory.mktemp("tiny"))


def table():
    rng = np.random.default_rng(2)
    return 2 * rng.uniform(size=(8, 2)), np.repeat([0, 1], 4)


def in_order(processes, name):
    """Labels (.., obs) of all rows, in the order of the table."""
    rows = np.concatenate([process["rows"] for process in processes])
    return np.concatenate([process[name] for process in processes], -1)[..., np.argsort(rows)]


def loss_of(units, weight, cluster):
    """k-means, by hand."""
    total = 0.0
    for k in set(cluster):
        rows = np.array(cluster) == k
        mean = np.average(units[rows], axis=0, weights=weight[rows])
        total += (weight[rows] * np.square(units[rows] - mean).sum(1)).sum()
    return total


def law_over_fairlets(processes):
    """Clusterings of the four fairlets that the processes made, two each."""
    X, _ = table()
    members = [process["rows"][row] for process in processes for row in process["members"]]
    units = np.stack([X[rows].mean(0) for rows in members])
    clusterings = [c for c in product(range(2), repeat=4) if len(set(c)) == 2]
    labels = np.zeros((len(clusterings), 8), int)
    for i, rows in enumerate(members):
        labels[:, rows] = np.array(clusterings)[:, [i]]
    return labels, [loss_of(units, np.ones(4), c) for c in clusterings]


def law_over_labels(_):
    """Labellings with as many of either group in every cluster, but for one person."""
    X, code = table()
    labels = np.array(list(product(range(2), repeat=8)))
    of_a, of_b = (labels[:, code == g].sum(1) for g in (0, 1))
    labels = labels[(np.abs(of_a - of_b) < 2) & (of_a + of_b > 0) & (of_a + of_b < 8)]
    return labels, [loss_of(X, np.ones(8), tuple(label)) for label in labels]


def law_of_rows_alone(_):
    """Every row a fairlet of its own: all labellings that use both clusters."""
    X, _ = table()
    labels = np.array([label for label in product(range(2), repeat=8) if len(set(label)) == 2])
    return labels, [loss_of(X, np.ones(8), tuple(label)) for label in labels]


@pytest.mark.parametrize(
    ("target", "law"),
    [("optimal", law_over_fairlets), ("labels", law_over_labels), ("singletons", law_of_rows_alone)],
)
def test_draws_of_two_processes_are_from_the_posterior_of_all_rows(processes, target, law):
    """36,000 draws, up to the names of the clusters: 7, 90 and 127 partitions. Independent draws stay below 0.02, with 127
    below 0.03, but for one run in a thousand."""
    labels, losses = law(processes)
    probability, expected, drawn = normalise(-LAMBDA * np.array(losses)), Counter(), Counter()
    for label, one in zip(labels ^ labels[:, :1], probability):
        expected[tuple(label.tolist())] += one
    draws = in_order(processes, target).reshape(-1, 8).astype(int)
    drawn.update(map(tuple, (draws ^ draws[:, :1]).tolist()))
    assert set(drawn) <= set(expected)
    far = 0.5 * sum(abs(drawn[row] / len(draws) - expected[row]) for row in expected)
    assert far < NOISE


def test_nothing_is_promised_of_rows_alone(processes):
    for process in processes:
        assert "does not guarantee" in str(process["singletons/guarantee"])
        assert "union of whole fairlets" in str(process["optimal/guarantee"])


def test_processes_tell_the_same_of_all_rows(processes):
    X, code = table()
    shared = [name for name in processes[0] if "/" in name and "labels_" not in name]
    for name in shared:
        np.testing.assert_array_equal(processes[0][name], processes[1][name], err_msg=name)
    for target in ("optimal", "labels"):
        labels, reference = in_order(processes, target), in_order(processes, f"{target}/labels_")
        means = np.stack([X[reference == k].mean(0) for k in (0, 1)])
        np.testing.assert_allclose(processes[0][f"{target}/of_labels"], means)
        np.testing.assert_allclose(
            processes[0][f"{target}/centers"][3, 7, 1], X[labels[3, 7] == 1].mean(0), err_msg=target
        )
        assert processes[0][f"{target}/balance"][3, 7] == bf.fairness.balance(labels[3, 7], code)


RUN = """
data = bf.datasets.make_vfc_synthetic(unequal=True)
code = np.asarray(data.sensitive)
X, s, rows = bf.distributed.deal(data.features, code)
settings = dict(target="optimal", num_chains=2, num_warmup=48, num_starts=4, random_state=0, progress_bar=False)
settings["mesh"] = bf.distributed.mesh(rows=n_processes)
"""
RESUMED = """
from bayesfair.gibbs import by_rows
whole = bf.GibbsFairClustering(2, num_draws=12, **settings).fit(X, sensitive_features=s)
est = bf.GibbsFairClustering(2, num_draws=8, **settings).fit(X, sensitive_features=s)
est.save(out + ".nc")
by_rows.decompose = None  # fairlets are those of the file
est = bf.GibbsFairClustering.load(out + ".nc").set_params(mesh=settings["mesh"]).resume(4)
told = bf.posterior.summary(est.posterior_).attrs
told = told["guarantee"] + told["fairlets"]
masses = bf.posterior.modes(est.posterior_).attrs["masses"]
lp = [one.posterior_["sample_stats"]["lp"].values for one in (whole, est)]
labels = [one.posterior_["posterior"]["labels"].values for one in (whole, est)]
np.savez(out, lp=lp, labels=labels, told=told, masses=masses, centers=est.cluster_centers_, n_rows=len(rows))
"""


def test_a_run_is_saved_by_each_process_and_goes_on(tmp_path):
    processes = found(RUN + RESUMED, 2, tmp_path)
    for process in processes:
        np.testing.assert_array_equal(*process["lp"])
        np.testing.assert_array_equal(*process["labels"])
        assert process["labels"].shape[-1] == process["n_rows"]
        assert "whole of which these rows are one process's share" in str(process["told"])
        assert "not proved optimal: how much less the best ones would is not known" in str(process["told"])
    np.testing.assert_array_equal(processes[0]["lp"], processes[1]["lp"])
    np.testing.assert_array_equal(processes[0]["centers"], processes[1]["centers"])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            "settings['target'] = 'joint'",
            "`target` must be one of ('optimal', 'labels') where mesh gives processes rows",
        ),
        ("settings['loss'] = 'manhattan'", "`loss` must have conjugate centres where mesh gives processes rows"),
        ("settings['mode_jumps'] = 100", "`mode_jumps` must be left out where mesh gives processes rows"),
        ("settings['num_chains'] += rank", "`num_chains` must be the same in all processes"),
    ],
)
def test_what_has_no_form_by_rows_is_refused(tmp_path, change, told):
    fit = "\nbf.GibbsFairClustering(2, **settings).fit(X, sensitive_features=s)"
    assert ends(start(RUN + change + fit, 2, tmp_path)) == [1, 1]
    for rank in (0, 1):
        assert told in said(tmp_path, rank)


STORED = """
import signal
from bayesfair._journal import Journal
store, dies, append, chunks = out + ".nc", os.environ.get("DIES"), Journal._append, []

def appended(journal, *arguments):
    chunks.append(arguments)
    if dies == f"{rank} before chunk {len(chunks)}":
        os.kill(os.getpid(), signal.SIGKILL)
    append(journal, *arguments)

Journal._append = appended
settings["target"] = TARGET
if os.path.exists(store):
    est = bf.GibbsFairClustering.load(store).set_params(mesh=settings["mesh"]).resume()
else:
    est = bf.GibbsFairClustering(2, num_draws=24, **settings).fit(X, sensitive_features=s, store=store)
tree = est.posterior_
told = [tree["posterior"][name].values for name in ("labels", "centers")]
told += [tree["sample_stats"][name].values for name in ("lp", "balance")]
np.savez(out, *told, est.labels_, est.cluster_centers_)
"""


@pytest.mark.parametrize(
    ("target", "n_processes", "dies"), [("optimal", 2, "0 before chunk 3"), ("labels", 3, "2 before chunk 3")]
)
def test_a_stored_run_that_lost_a_process_goes_on_in_all_bit_for_bit(tmp_path, monkeypatch, target, n_processes, dies):
    """A chunk behind the others."""
    code = RUN + f"TARGET = {target!r}\n" + STORED
    whole = found(code, n_processes, tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setenv("DIES", dies)
        statuses = ends(start(code, n_processes, tmp_path / "cut off"))
    assert sorted(statuses)[0] == -9
    assert 0 not in statuses
    files = [tmp_path / "cut off" / f"{rank}.npz.nc" for rank in range(n_processes)]
    assert len({max(states(file)) for file in files}) == 2
    share = bf.GibbsFairClustering.load(files[1]).posterior_
    told = bf.posterior.summary(share).attrs
    assert "a whole of which these rows are one process's share" in told["guarantee"]
    assert "are those of one process's rows" in share.attrs["unfinished"]
    again = found(code, n_processes, tmp_path / "cut off")
    for one, other in zip(whole, again):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


def test_a_finished_run_is_not_lost_where_a_process_is_killed_as_it_goes_on(tmp_path, monkeypatch):
    """One file is a run that is not finished by then, the other still the finished one."""
    code = RUN + "TARGET = 'optimal'\n" + STORED
    found(code, 2, tmp_path / "whole")
    copytree(tmp_path / "whole", tmp_path / "cut off")
    whole = found(code, 2, tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setenv("DIES", "0 before chunk 1")
        assert ends(start(code, 2, tmp_path / "cut off"))[0] == -9
    again = found(code, 2, tmp_path / "cut off")
    for one, other in zip(whole, again):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


ALONE = """
est = bf.GibbsFairClustering(2, num_draws=4, **settings).fit(X, sensitive_features=s)
est.set_params(mesh=None).resume(1)
"""
ONE_FILE = "bf.GibbsFairClustering(2, num_draws=4, **settings).fit(X, sensitive_features=s, store=FILE)"
TWO_RUNS = """
settings["num_draws"], settings["random_state"] = 4, None
one, two = (bf.GibbsFairClustering(2, **settings).fit(X, sensitive_features=s) for _ in range(2))
"""
OTHER_RUN = TWO_RUNS + "(one if rank else two).resume(1)"
LONGER_RUN = TWO_RUNS + "two.resume(1)\n(one if rank else two).resume(1)"


@pytest.mark.parametrize(
    ("fit", "told"),
    [
        (ALONE, "`mesh` must give rows to as many processes as the run had, 2, got rows in 1"),
        (ONE_FILE, "`store` must name a file of each process's own where mesh gives processes rows"),
        (OTHER_RUN, "`run` must be the same in all processes"),
        (LONGER_RUN, "be of one run in all processes, got 5 draws of a finished run and 4 draws of a finished run"),
    ],
)
def test_shares_that_do_not_go_together_are_refused(tmp_path, fit, told):
    """By the process that ends first, at least: where that is process 0, JAX may abort the other one."""
    code = RUN + f"FILE = {str(tmp_path / 'run.nc')!r}\n" + fit
    assert 0 not in ends(start(code, 2, tmp_path))
    assert any(told in said(tmp_path, rank) for rank in (0, 1))

"""A view: what summaries share is worked out once, and neither outlives nor outdates its tree."""

import gc
import warnings
import weakref
from collections import Counter

import numpy as np
import pytest
from draws import draws_of

import bayesfair as bf
from bayesfair.cli import main
from bayesfair.cli.output import print_verdict
from bayesfair.posterior.diagnostics import brief, judge, scalar_table, warn_of_disagreement
from bayesfair.posterior.found_modes import modes_of
from bayesfair.posterior.guarantees import balance_to_keep, guarantee_sentence, masses_of
from bayesfair.posterior.tree import build_tree
from bayesfair.posterior.view import View

N_OBS, CHAINS, DRAWS = 60, 4, 50
TRUTH = np.arange(N_OBS) % 3
OTHER = np.where(np.arange(N_OBS) < 24, (TRUTH + 1) % 3, TRUTH)
SHARED = [  # modules and functions in which what is dear is worked out
    "found_modes.modes_of_draws",
    "membership._share_in",
    "diagnostics.partition_distance",
    "diagnostics._pairs",
    "joint_statements.surest_set",
    "residuals._numbers",
    "guarantees.tables_with",
    "schema.LabelDraws",
]


def make_tree():
    """Chains of which half sits in another mode, by a sampler that looked for none."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.stack([TRUTH, TRUTH, OTHER, OTHER])[:, None], DRAWS, axis=1)
    moved = rng.random(labels.shape) < 0.05
    labels = np.where(moved, (labels + 1) % 3, labels)
    X = rng.normal(size=(N_OBS, 2)) + TRUTH[:, None]
    draws = draws_of(labels, lp=rng.normal(size=(CHAINS, DRAWS)))
    return build_tree(draws, X, np.array(["a", "b"])[TRUTH % 2], n_clusters=3)


@pytest.fixture
def tree():
    return make_tree()


@pytest.fixture
def worked_out(monkeypatch):
    """How often each of SHARED was worked out, by its name."""
    times = Counter()

    def counted(name, work):
        def count(*arguments, **settings):
            times[name] += 1
            return work(*arguments, **settings)

        return count

    monkeypatch.setattr("bayesfair.reports.pictures.render", lambda *_: (b"", ""))
    for name in SHARED:
        module, function = name.split(".")
        home = f"bayesfair.posterior.{module}.{function}"
        monkeypatch.setattr(home, counted(name, getattr(__import__(home.rsplit(".", 1)[0], fromlist="x"), function)))
    return times


READERS = [
    lambda tree, folder: bf.posterior.summary(tree),
    lambda tree, folder: warn_of_disagreement(tree),
    lambda tree, folder: brief(tree),
    lambda tree, folder: bf.report(tree, folder / "page.html"),
    lambda tree, folder: main(["summary", str(folder / "run.nc")]),
    lambda tree, folder: main(["modes", str(folder / "run.nc")]),
    lambda tree, folder: main(["plot", str(folder / "run.nc"), "--out", str(folder)]),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_nothing_is_worked_out_twice(tree, worked_out, tmp_path):
    bf.posterior.write_tree(tree, tmp_path / "run.nc")
    for number, reader in enumerate(READERS):
        worked_out.clear()
        reader(tree.copy(), tmp_path)
        assert worked_out["found_modes.modes_of_draws"] == 1, number
        assert max(worked_out.values()) == 1, number


def test_all_that_is_asked_of_a_view_shares_one_search(tree, worked_out, tmp_path):
    view = View(tree)
    bf.posterior.summary(view)
    bf.posterior.modes(view)
    bf.posterior.memberships(view)
    bf.report(view, tmp_path / "page.html")
    assert set(worked_out) == set(SHARED)
    assert set(worked_out.values()) == {1}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_and_all_that_is_read_of_it_work_nothing_out_twice(worked_out, tmp_path):
    """The warning of the fit, the notebook, the tables, the page and the shell's verdict share the estimator's view."""
    rng = np.random.default_rng(0)
    X, settings = rng.normal(size=(N_OBS, 2)) + TRUTH[:, None], {"num_chains": 2, "num_warmup": 20, "num_draws": 30}
    est = bf.GibbsFairClustering(3, modes=None, thinning=1, random_state=0, progress_bar=False, **settings)
    tree = est.fit(X, sensitive_features=np.array(["a", "b"])[np.arange(N_OBS) % 2]).posterior_
    print_verdict(tree)
    est._repr_html_()
    first = bf.posterior.summary(tree)
    first.iloc[:] = 0  # it is a copy
    assert bf.posterior.summary(tree)["mean"].any()
    bf.posterior.memberships(tree)
    bf.report(tree, tmp_path / "page.html")
    passes = {name: times for name, times in worked_out.items() if name != "schema.LabelDraws"}  # which reads nothing
    assert passes == dict.fromkeys(passes, 1)
    assert set(worked_out) == set(SHARED)


def test_a_tree_that_was_changed_is_read_anew(worked_out):
    est = bf.GibbsFairClustering(3, modes=None, num_warmup=20, num_draws=30, random_state=0, progress_bar=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = est.fit(np.random.default_rng(0).normal(size=(N_OBS, 2)), sensitive_features=TRUTH % 2).posterior_
    with pytest.raises(ValueError, match="read-only"):
        tree["posterior"]["labels"].values[0, 0, 0] = 1
    tree["posterior"]["labels"] = tree["posterior"]["labels"][:, :, ::-1].copy(
        data=tree["posterior"]["labels"].values[:, :, ::-1]
    )
    worked_out.clear()
    masses_of(tree)
    assert worked_out["guarantees.tables_with"] == 1


def test_that_test_can_fail(tree, worked_out, tmp_path, monkeypatch):
    monkeypatch.setattr(View, "once", lambda view, work: work(view))
    view = View(tree)
    bf.posterior.summary(view)
    bf.report(view, tmp_path / "page.html")
    assert all(times > 1 for times in worked_out.values())


def same(one, other):
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    return one.equals(other) if hasattr(one, "equals") else one == other


SUMMARIES = [
    *(
        getattr(bf.posterior, name)
        for name in ("summary", "modes", "memberships", "diagnostic_vars", "co_clustering", "sure_rows")
    ),
    *(getattr(bf.posterior, f"{name}_partition") for name in ("dahl", "binder", "vi", "map", "salso")),
    *(bf.posterior.misclassification_probability, bf.posterior.credible_ball, modes_of, brief, judge, scalar_table),
    *(guarantee_sentence, masses_of, balance_to_keep),
]


def test_a_view_says_what_its_tree_says(tree):
    view = View(tree)
    for summary in SUMMARIES:
        assert same(summary(view), summary(tree)), summary
        assert same(summary(view), summary(view)), summary


def test_settings_of_ones_own_are_not_answered_with_what_is_known(tree):
    view = View(tree)
    usual = bf.posterior.misclassification_probability(view)
    together = np.zeros(N_OBS, int)
    own = bf.posterior.misclassification_probability(view, reference=together)
    assert not np.array_equal(usual, own)
    np.testing.assert_array_equal(own, bf.posterior.misclassification_probability(tree, reference=together))


def test_a_tree_that_was_changed_within_its_arrays_is_not_answered_with_what_it_was(tree):
    before = scalar_table(tree), masses_of(tree)
    np.copyto(tree["posterior"]["labels"].values[:2, :, :30], 0)
    after = scalar_table(tree), masses_of(tree)
    assert not any(map(same, before, after))
    changed = tree.copy(deep=True)
    assert same(after, (scalar_table(changed), masses_of(changed)))


def test_nothing_outlives_a_tree():
    tree = make_tree()
    view = View(tree)
    held = [weakref.ref(masses_of(view)), weakref.ref(tree["posterior"]["labels"].values), weakref.ref(view)]
    bf.posterior.summary(view), bf.posterior.memberships(view)
    del tree, view
    gc.collect()
    assert [one() for one in held] == [None] * 3


def test_what_is_no_tree_is_told_by_its_own_name():
    with pytest.raises(ValueError, match=r"must hold `labels`.*got dict"):
        bf.posterior.summary(View({"posterior": 1}))

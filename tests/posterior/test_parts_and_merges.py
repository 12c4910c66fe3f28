"""Trees that are not a whole run: some of its rows, draws or chains, or the chains of several runs."""

import copy

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesfair as bf
from bayesfair._numbers import rounded_down
from bayesfair.fairness import balance
from bayesfair.fairness.guarantee import Guarantee
from bayesfair.fairness.metrics import group_masses
from bayesfair.posterior import (
    concatenate,
    memberships,
    misclassification_probability,
    modes,
    read_tree,
    relabel,
    salso_partition,
    summary,
    write_tree,
)
from bayesfair.posterior.diagnostics import brief
from bayesfair.posterior.found_modes import modes_of, modes_sentence
from bayesfair.posterior.guarantees import balance_to_keep, guarantee_sentence, masses_of
from bayesfair.posterior.relabelling import numbered_alike
from bayesfair.posterior.schema import dataset_of_guarantee, flat_labels, groups_of, other_than_run
from bayesfair.posterior.sentences import guaranteed
from bayesfair.posterior.tree import build_tree, draws_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few draws


@pytest.fixture(scope="module")
def trees(run, fit):
    """Of two seeds; the second run's clusters have other numbers."""
    return as_labels(run.posterior_), as_labels(turned(fit(1).posterior_))


@pytest.fixture(scope="module")
def mode(run, people):
    """As a mixture makes its tree: the reference is the most frequent labels, and parameters have clusters."""
    tree = run.posterior_
    parameters = {"means": (("cluster", "continuous"), tree["posterior"]["centers"].values)}
    return build_tree(draws_of(tree), people.X, people.sex, n_clusters=3, parameters=parameters, point="mode")


def turned(tree):
    """The same clusterings under other numbers."""
    posterior = tree["posterior"].to_dataset()
    moved = {name: one.roll(cluster=1, roll_coords=False) for name, one in posterior.items() if "cluster" in one.dims}
    other = tree.copy()
    other["posterior"] = xr.DataTree(posterior.assign({**moved, "labels": (posterior["labels"] + 1) % 3}))
    return other


def as_labels(tree, **given):
    """The same draws, 1:1 in every cluster, as if the run had been asked for balanced labels."""
    other, given = tree.copy(), Guarantee(**({"kind": "exact"} | given))
    groups = groups_of(tree)
    other["guarantee"] = xr.DataTree(dataset_of_guarantee(given, groups.names, guaranteed(given, groups)))
    other.attrs["target"] = "Labels()"
    return other


def by_hand(a, b):
    """As users of ArviZ put chains together."""
    merged = a.copy(deep=True)
    for group in ("posterior", "sample_stats"):
        other = b[group].to_dataset().assign_coords(chain=[2, 3])
        merged[group] = xr.DataTree(xr.concat([a[group].to_dataset(), other], dim="chain"))
    return merged


CUTS = [
    ({"draw": slice(0, 20)}, "20 draws in each chain instead of the run's 40"),
    ({"chain": [0]}, "1 chains instead of the run's 2"),
    ({"obs": slice(0, 21)}, "21 rows instead of the run's 40"),
    ({"obs": [1, 0, *range(2, 40)]}, "rows in another order"),
    ({"obs": [0] * 40}, "rows in another order than the run's"),
    ({"draw": slice(None, None, -1)}, "draws in each chain in another order"),
    ({"chain": [1, 0]}, "chains in another order"),
]


def test_a_part_of_a_run_is_neither_loaded_nor_gone_on_with(run, tmp_path):
    est = copy.copy(run)
    for cut, said in CUTS:
        est.posterior_ = run.posterior_.isel(cut, missing_dims="ignore")
        with pytest.raises(ValueError, match=rf"`posterior_` holds .*{said}"):
            est.resume(2)
    write_tree(est.posterior_, tmp_path / "part.nc")
    with pytest.raises(ValueError, match=said):
        bf.GibbsFairClustering.load(tmp_path / "part.nc")
    summary(read_tree(tmp_path / "part.nc"))


def renamed(tree, names, groups):
    """The tree with other names of the rows of these groups."""
    named = tree.copy()
    for group in groups:
        named[group] = xr.DataTree(named[group].to_dataset().assign_coords(obs=names))
    return named


@pytest.mark.parametrize("groups", [["posterior"], ["posterior", "observed_data", "constant_data"]])
def test_rows_may_get_other_names(run, groups, tmp_path):
    """Summaries said that nothing was guaranteed, and `resume` refused."""
    names = [f"person {row}" for row in range(40)]
    labels = renamed(as_labels(run.posterior_), names, groups)
    assert other_than_run(labels) == {}
    assert guarantee_sentence(labels).startswith("The method guarantees")
    moved = labels.copy()
    moved["posterior"] = xr.DataTree(labels["posterior"].to_dataset().isel(obs=slice(None, None, -1)))
    if len(groups) > 1:  # else nothing tells which rows were moved
        assert "Nothing is guaranteed" in guarantee_sentence(moved)
    est = copy.copy(run)
    est.posterior_ = renamed(run.posterior_, names, groups)
    est.save(tmp_path / "run.nc")
    again = bf.GibbsFairClustering.load(tmp_path / "run.nc").resume(2)
    assert again.posterior_["posterior"]["obs"].values.tolist() == names
    assert again.posterior_["posterior"].sizes["draw"] == 42


def test_rows_with_other_names_are_the_run_s_rows(run, tmp_path):
    numbers = np.arange(40, dtype=np.int16)[::-1]
    numbered = run.posterior_.map_over_datasets(
        lambda one: one.assign_coords(obs=numbers) if "obs" in one.dims else one
    )
    write_tree(numbered, tmp_path / "run.nc")
    assert other_than_run(read_tree(tmp_path / "run.nc")) == {}
    assert guarantee_sentence(numbered) == guarantee_sentence(run.posterior_)


def test_nothing_is_guaranteed_of_some_of_the_rows_or_of_rows_in_another_order(run):
    """Of a number asked for it was told though one row stood for all."""
    labels = as_labels(run.posterior_)
    for tree in (run.posterior_, labels, as_labels(run.posterior_, kind="min_balance", min_balance=0.8)):
        assert guarantee_sentence(tree).startswith("The ")
        assert guarantee_sentence(tree.isel(draw=slice(0, 20), missing_dims="ignore")).startswith("The ")
        for rows in ([*range(21)], [0] * 40, [*range(39, -1, -1)]):
            part = tree.isel(obs=rows, missing_dims="ignore")
            assert "not the run's rows in its order. Nothing is guaranteed for a part" in guarantee_sentence(part)
    assert guarantee_sentence(part) == summary(part).sentences["guarantee"]
    assert len(salso_partition(labels.isel(obs=slice(0, 21), missing_dims="ignore"))) == 21


def test_balance_is_that_of_the_rows_at_hand(run):
    part = run.posterior_.isel(obs=slice(0, 21), missing_dims="ignore")
    least = [balance(draw, part["constant_data"]["group"].values) for draw in flat_labels(part)]
    assert np.min(least) < run.posterior_["sample_stats"]["balance"].min()
    np.testing.assert_allclose(summary(part).loc["balance", "mean"], np.mean(least))
    assert f"draws have a Balance of at least {rounded_down(np.min(least))} (" in " ".join(
        note.text for note in brief(part)
    )


def test_clusters_of_whole_fairlets_keep_the_guarantee_in_all_draws_and_in_the_point_estimate(run, people):
    kept = balance_to_keep(run.posterior_)
    assert kept.satisfied(masses_of(run.posterior_)).all()
    assert kept.satisfied(group_masses(run.labels_, people.sex)).all()
    assert not kept.satisfied(np.array([3, 2]))


@pytest.mark.slow
def test_runs_are_concatenated(trees, people):
    a, b = trees
    both = concatenate(trees)
    assert dict(both["posterior"].sizes)["chain"] == 4
    assert both["posterior"]["chain"].values.tolist() == both["sample_stats"]["chain"].values.tolist() == [0, 1, 2, 3]
    lp = np.concatenate([a["sample_stats"]["lp"], b["sample_stats"]["lp"]])
    np.testing.assert_array_equal(both["sample_stats"]["lp"], lp)
    hand = memberships(by_hand(a, b))
    np.testing.assert_allclose(memberships(both)["misclassification_probability"], misclassification_probability(both))
    apart = np.abs(memberships(both)["probability"] - hand["probability"])
    assert (apart < 0.05).mean() > 0.8  # few rows are in another cluster of another reference
    means = [people.X[both["posterior"]["labels"].values[3, 7] == k].mean(0) for k in range(3)]
    np.testing.assert_allclose(both["posterior"]["centers"].values[3, 7], means, atol=1e-6)
    assert guarantee_sentence(both).startswith("The method guarantees")
    assert "modes" not in both.children
    summary(both)
    assert len(salso_partition(both)) == 40


def one_of_each(a, b):
    """As many chains as one run has, under the names of that run: one of each."""
    merged = a.copy(deep=True)
    for group in ("posterior", "sample_stats"):
        chains = [a[group].to_dataset().isel(chain=[0]), b[group].to_dataset().isel(chain=[1])]
        merged[group] = xr.DataTree(xr.concat(chains, dim="chain"))
    return merged


@pytest.mark.parametrize("merge", [one_of_each, by_hand])
def test_merged_runs_are_numbered_alike_whatever_makes_the_reference_and_however_many_chains(run, mode, merge):
    """Of mixtures nothing was looked at where there were as many chains as in one run."""
    for tree in (run.posterior_, mode):
        merged, alike = merge(tree, turned(tree)), merge(tree, tree)
        own = memberships(relabel(alike))
        pd.testing.assert_frame_equal(memberships(merged), own)
        naive = (merged["posterior"]["labels"] == own["cluster"].values).mean(("chain", "draw"))
        assert np.abs(naive - own["probability"]).max() > 0.2  # what was told
        numbers = [numbered_alike(one)["posterior"]["labels"] for one in (merged, relabel(alike))]
        np.testing.assert_array_equal(*numbers)


def test_of_merged_runs_no_modes_are_told_of_the_first_alone(trees):
    """Neither by the sentence nor by the table, nor by the verdict, which the summary feeds."""
    first, second = trees
    found = modes_of(first)
    found.attrs["num_starts"] = 7
    searched = first.copy()
    searched["modes"] = xr.DataTree(found)
    assert "from 7 starts" in modes_sentence(searched)
    assert "from 7 starts" in modes_sentence(searched.isel(chain=[1], missing_dims="ignore"))
    repeated = one_of_each(searched, second)
    for group in ("posterior", "sample_stats"):
        repeated[group] = xr.DataTree(repeated[group].to_dataset().assign_coords(chain=[0, 0]))
    for merged in (by_hand(searched, second), repeated):
        assert "in the draws" in modes_sentence(merged)
        assert "in the draws" in repr(summary(merged).sentences)
        assert modes(merged).attrs["num_starts"] == 0


def test_a_single_run_is_itself(run, mode):
    for tree in (run.posterior_, mode):
        assert numbered_alike(tree) is tree
        only = concatenate([tree])
        xr.testing.assert_identical(only["posterior"], tree["posterior"])
        assert only["constant_data"]["reference_labels"].attrs == tree["constant_data"]["reference_labels"].attrs


def other_table(tree):
    changed = tree.copy(deep=True)
    changed["observed_data"]["X"].values[0, 0] += 1
    return changed


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda tree: tree.isel(obs=slice(0, 21), missing_dims="ignore"), "have the table of trees"),
        (lambda tree: tree.isel(draw=slice(0, 20), missing_dims="ignore"), r"slice\(20\)"),
        (other_table, "have the table of trees"),
        (as_labels, "setting `target`"),
    ],
)
def test_what_is_not_the_same_run_is_refused(run, change, said):
    with pytest.raises(ValueError, match=rf"trees\[1\].*{said}"):
        concatenate([run.posterior_, change(run.posterior_)])
    with pytest.raises(ValueError, match="trees"):
        concatenate([])


def test_chains_that_are_there_already_are_refused_and_those_that_stand_still_are_not(trees):
    first, second = trees
    whole, part = first, first.isel(draw=slice(0, 10), missing_dims="ignore")
    for twice in ([whole, second, turned(whole)], [part, part.isel(chain=[1], missing_dims="ignore")]):
        with pytest.raises(
            ValueError, match=rf"trees\[{len(twice) - 1}\].* same draws as one of trees\[0\]\. .*random_state"
        ):
            concatenate(twice)
    still = [one.isel(draw=[3, 3, 3, 3], missing_dims="ignore") for one in (whole, whole)]
    for one in still:
        one["posterior"] = xr.DataTree(one["posterior"].to_dataset().assign_coords(draw=range(4)))
        one["sample_stats"] = xr.DataTree(one["sample_stats"].to_dataset().assign_coords(draw=range(4)))
    assert concatenate(still)["posterior"].sizes["chain"] == 4


def test_labels_that_do_not_keep_it_are_not_guaranteed(run):
    """Labels that somebody else put in the place of the draws."""
    bounded = {"kind": "min_balance", "min_balance": 0.5, "size_min": 1, "size_max": 40}
    for tree in (run.posterior_, as_labels(run.posterior_), as_labels(run.posterior_, **bounded)):
        assert guarantee_sentence(tree).startswith("The ")
        other = tree.copy(deep=True)
        other["posterior"]["labels"].values[0, 0] = other["constant_data"]["group"].values
        assert guarantee_sentence(other) == "This holds for these draws; the method does not guarantee it."
        assert summary(other).sentences["guarantee"] == guarantee_sentence(other)


def test_values_overwritten_since_the_fit_are_neither_saved_nor_gone_on_with(run, tmp_path):
    def is_refused(est, said):
        for use in (lambda: est.save(tmp_path / "other.nc"), lambda: est.resume(1)):
            with pytest.raises(ValueError, match=said):
                use()

    for group, name in (("posterior", "labels"), ("posterior", "lambda_c"), ("constant_data", "group")):
        est = copy.copy(run)
        est.posterior_ = run.posterior_.copy(deep=True)
        est.posterior_["sample_stats"]["own"] = est.posterior_["sample_stats"]["lp"] + 1
        est.save(tmp_path / "run.nc")
        est.posterior_[group][name].values[..., 0] += 1
        is_refused(est, f"got other values of {group}/{name}. Fit again.*write_tree")
        est = bf.GibbsFairClustering.load(tmp_path / "run.nc")
        with pytest.raises(ValueError, match="read-only"):
            est.posterior_[group][name].values[..., 0] += 1
    assert not (tmp_path / "other.nc").exists()


def unequal(a, b):
    merged = a.copy(deep=True)
    short = b["posterior"].to_dataset().isel(draw=slice(0, 20)).assign_coords(chain=[2, 3])
    merged["posterior"] = xr.DataTree(xr.concat([a["posterior"].to_dataset(), short], dim="chain", join="outer"))
    return merged


BROKEN = {
    "bayesfair.posterior.concatenate": unequal,
    "at least one chain, draw and row": lambda a, _: a.isel(draw=slice(0, 0), missing_dims="ignore"),
    "which keep every dimension": lambda a, _: a.isel(chain=0, missing_dims="ignore"),
}


@pytest.mark.parametrize("said", BROKEN)
def test_trees_that_are_no_posteriors_are_refused_with_the_reason(trees, said):
    for read in (summary, memberships, salso_partition, misclassification_probability):
        with pytest.raises(ValueError, match=said):
            read(BROKEN[said](*trees))


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2020-01-01", periods=4, freq="36h"),
        pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1), ("b", 20)]),
        pd.Index(["w", "x", "y", "z"]),
    ],
)
def test_memberships_have_the_index_of_the_fit(index, tmp_path):
    """Dates and several levels are text in files."""
    X = pd.DataFrame({"a": [0.0, 1.0, 8.0, 9.0]}, index=index)
    tree = bf.posterior.tree_from_labels([[0, 0, 1, 1], [1, 1, 0, 0]], X)
    bf.posterior.write_tree(tree, tmp_path / "run.nc")
    for known in (tree, bf.posterior.read_tree(tmp_path / "run.nc")):
        table = bf.posterior.memberships(known)
        assert table.index.equals(index)
        assert table.loc[index[3], "cluster"] == table["cluster"].iloc[3]
    renamed = tree.map_over_datasets(lambda one: one.assign_coords(obs=list("mnop")) if "obs" in one.dims else one)
    assert bf.posterior.memberships(renamed).index.tolist() == list("mnop")

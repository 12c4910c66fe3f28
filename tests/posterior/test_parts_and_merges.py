"""Trees that are not a whole run: some of its rows, draws or chains, or the chains of several runs."""

import copy

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesfair as bf
from bayesfair.cli import main
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
from bayesfair.posterior.guarantees import guarantee
from bayesfair.posterior.mode_tables import modes_of
from bayesfair.posterior.modes_in_words import modes_sentence
from bayesfair.posterior.relabelling import numbered_alike

SHORT = {"num_chains": 2, "num_warmup": 30, "num_draws": 40, "num_starts": 2, "progress_bar": False}
RNG = np.random.default_rng(1)
X = np.vstack([RNG.normal(0, 1, (20, 2)), RNG.normal(2, 1, (20, 2))])
TABLE = pd.DataFrame(X, columns=["age", "income"], index=[f"p{i}" for i in range(40)])
SEX = np.array(["f", "m"] * 20)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few draws


def fit(seed, **more):
    est = bf.GibbsFairClustering(3, random_state=seed, **{"target": "labels", **SHORT, **more})
    return est.fit(TABLE, sensitive_features=SEX)


@pytest.fixture(scope="module")
def run():
    return fit(0)


@pytest.fixture(scope="module")
def joint():
    return fit(0, target="joint")


@pytest.fixture(scope="module")
def trees(run):
    """Of two seeds; the second run's clusters have other numbers."""
    other = fit(1).posterior_
    turned = other["posterior"].to_dataset()
    turned["labels"] = (turned["labels"] + 1) % 3
    turned["centers"] = turned["centers"].roll(cluster=1, roll_coords=False)
    tree = other.copy()
    tree["posterior"] = xr.DataTree(turned)
    return run.posterior_, tree


def by_hand(a, b):
    """As users of ArviZ put chains together."""
    merged = a.copy(deep=True)
    for group in ("posterior", "sample_stats"):
        other = b[group].to_dataset().assign_coords(chain=[2, 3])
        merged[group] = xr.DataTree(xr.concat([a[group].to_dataset(), other], dim="chain"))
    return merged


CUTS = {
    "draws": ({"draw": slice(0, 20)}, "20 draws in each chain where the run had 40"),
    "chains": ({"chain": [0]}, "1 chains where the run had 2"),
    "rows": ({"obs": slice(0, 21)}, "21 rows where the run had 40"),
    "rows turned": ({"obs": slice(None, None, -1)}, "rows in another order"),
    "two rows swapped": ({"obs": [1, 0, *range(2, 40)]}, "rows in another order"),
    "one row": ({"obs": [0] * 40}, "rows in another order, or under other names, than the run's"),
    "draws turned": ({"draw": slice(None, None, -1)}, "draws in each chain in another order"),
    "chains turned": ({"chain": [1, 0]}, "chains in another order"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("cut", "said"), CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("target", ["labels", "joint"])
def test_a_part_of_a_run_is_not_loaded_as_a_run(run, joint, tmp_path, target, cut, said):
    tree = (run if target == "labels" else joint).posterior_
    write_tree(tree.isel(cut, missing_dims="ignore"), tmp_path / "part.nc")
    with pytest.raises(ValueError, match=said):
        bf.GibbsFairClustering.load(tmp_path / "part.nc")
    summary(read_tree(tmp_path / "part.nc"))


@pytest.mark.slow
@pytest.mark.parametrize("cut", [cut for cut, _ in CUTS.values()], ids=CUTS)
def test_a_part_of_a_run_in_memory_is_not_gone_on_with(run, mixture, cut):
    for fitted in (run, mixture):
        est = copy.copy(fitted)
        est.posterior_ = est.posterior_.isel(cut, missing_dims="ignore")
        with pytest.raises(ValueError, match=r"`posterior_` holds .* (where the run had|in another order)"):
            est.resume(2)


def test_a_file_that_does_not_say_its_order_is_loaded_as_before(run, tmp_path):
    tree = run.posterior_.copy()
    del tree.attrs["run_order"]
    write_tree(tree, tmp_path / "older.nc")
    loaded = bf.GibbsFairClustering.load(tmp_path / "older.nc")
    xr.testing.assert_identical(loaded.posterior_["posterior"], run.posterior_["posterior"])


def test_numbers_that_name_rows_are_the_same_in_files(tmp_path):
    numbered = TABLE.set_axis(np.arange(40, dtype=np.int16)[::-1])
    est = bf.GibbsFairClustering(3, target="labels", **SHORT).fit(numbered, sensitive_features=SEX)
    est.save(tmp_path / "run.nc")
    assert bf.GibbsFairClustering.load(tmp_path / "run.nc").resume(1).posterior_["posterior"].sizes["draw"] == 41


@pytest.mark.slow
@pytest.mark.parametrize("rows", [[0] * 40, [*range(39, -1, -1)]])
def test_no_guarantee_is_told_of_rows_in_another_order(run, rows):
    """Of a number asked for it was told though one row stood for all."""
    balanced = fit(0, min_balance=0.8).posterior_
    for tree in (run.posterior_, balanced):
        other = tree.isel(obs=rows, missing_dims="ignore")
        assert "By construction" not in guarantee(other)
        assert "not those of the run in its order" in summary(other).attrs["guarantee"]


def test_a_part_of_a_mixtures_run_is_not_loaded_as_a_run(mixture, tmp_path):
    write_tree(mixture.posterior_.isel(draw=slice(0, 5), missing_dims="ignore"), tmp_path / "part.nc")
    with pytest.raises(ValueError, match="5 draws in each chain where the run had 40"):
        bf.BayesianFairMixture.load(tmp_path / "part.nc")


@pytest.mark.parametrize("more", [{}, {"min_balance": 0.8}, {"target": "joint"}])
def test_nothing_is_guaranteed_of_some_of_the_rows(run, more):
    tree = fit(0, **more).posterior_ if more else run.posterior_
    part = tree.isel(obs=slice(0, 21), missing_dims="ignore")
    assert "By construction" in guarantee(tree)
    assert guarantee(part) == summary(part).attrs["guarantee"]
    assert "not those of the run in its order: nothing is guaranteed of a part" in guarantee(part)
    assert len(salso_partition(part)) == 21
    some_draws = tree.isel(draw=slice(0, 20), missing_dims="ignore")
    assert "By construction" in guarantee(some_draws)


@pytest.mark.slow
def test_a_searched_partition_has_no_smaller_clusters_than_the_draws():
    """On these patients the search once left a cluster of one person, who is within one person of every share."""
    data = bf.datasets.load_diabetes()
    table = (data.features - data.features.mean()) / data.features.std()
    settings = {**SHORT, "num_warmup": 50, "num_draws": 60}
    est = bf.GibbsFairClustering(3, target="labels", random_state=0, **settings)
    tree = est.fit(table, sensitive_features=data.sensitive).posterior_
    draws = tree["posterior"]["labels"].values.reshape(-1, len(table))
    found = salso_partition(tree, loss="vi")
    assert np.bincount(found).min() >= min(np.bincount(draw).min() for draw in draws)
    assert bf.fairness.balance(found, data.sensitive) >= min(
        bf.fairness.balance(draw, data.sensitive) for draw in draws
    )


def test_chains_put_together_by_hand_are_numbered_alike(trees):
    merged = by_hand(*trees)
    right, found = memberships(relabel(merged)), memberships(merged)
    pd.testing.assert_frame_equal(found, right)
    labels = merged["posterior"]["labels"].values.reshape(-1, 40)
    naive = (labels == merged["constant_data"]["reference_labels"].values).mean(0)
    assert np.abs(naive - right["probability"]).max() > 0.2  # what was told


def test_runs_are_concatenated(trees):
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
    means = [X[both["posterior"]["labels"].values[3, 7] == k].mean(0) for k in range(3)]
    np.testing.assert_allclose(both["posterior"]["centers"].values[3, 7], means, atol=1e-6)
    assert "By construction" in guarantee(both)
    assert "modes" not in both.children
    summary(both)
    assert len(salso_partition(both)) == 40


@pytest.fixture(scope="module")
def mixture():
    settings = {"inference": "gibbs", "num_chains": 2, "num_warmup": 10, "num_draws": 40, "progress_bar": False}
    return bf.BayesianFairMixture(3, random_state=0, **settings).fit(TABLE, sensitive_features=SEX)


def turned(tree):
    """The same clusterings under other numbers."""
    posterior = tree["posterior"].to_dataset()
    moved = {name: one.roll(cluster=1, roll_coords=False) for name, one in posterior.items() if "cluster" in one.dims}
    other = tree.copy()
    other["posterior"] = xr.DataTree(posterior.assign({**moved, "labels": (posterior["labels"] + 1) % 3}))
    return other


def one_of_each(a, b):
    """As many chains as one run has, under the names of that run: one of each."""
    merged = a.copy(deep=True)
    for group in ("posterior", "sample_stats"):
        chains = [a[group].to_dataset().isel(chain=[0]), b[group].to_dataset().isel(chain=[1])]
        merged[group] = xr.DataTree(xr.concat(chains, dim="chain"))
    return merged


@pytest.mark.parametrize("which", ["run", "mixture"])
@pytest.mark.parametrize("merge", [one_of_each, by_hand])
def test_merged_runs_are_numbered_alike_whatever_makes_the_reference_and_however_many_chains(
    which, merge, request, tmp_path
):
    """Of mixtures nothing was looked at where there were as many chains as in one run."""
    tree = request.getfixturevalue(which).posterior_
    merged, alike = merge(tree, turned(tree)), merge(tree, tree)
    own = memberships(relabel(alike))
    pd.testing.assert_frame_equal(memberships(merged), own)
    assert (
        np.abs(
            (merged["posterior"]["labels"] == own["cluster"].values).mean(("chain", "draw")) - own["probability"]
        ).max()
        > 0.2
    )
    numbers = [numbered_alike(one)["posterior"]["labels"] for one in (merged, relabel(alike))]
    np.testing.assert_array_equal(*numbers)
    write_tree(merged, tmp_path / "merged.nc")
    assert main(["convert", str(tmp_path / "merged.nc"), str(tmp_path / "labels.csv"), "--what", "labels"]) == 0
    written = pd.read_csv(tmp_path / "labels.csv").iloc[:, 2:].to_numpy()
    np.testing.assert_array_equal(written, numbers[1].values.reshape(-1, 40))


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
        assert "in the draws" in summary(merged).attrs["modes"]
        assert modes(merged).attrs["num_starts"] == 0


@pytest.mark.parametrize("which", ["run", "mixture"])
def test_a_single_run_is_itself(which, request):
    tree = request.getfixturevalue(which).posterior_
    assert numbered_alike(tree) is tree
    only = concatenate([tree])
    pd.testing.assert_frame_equal(memberships(only), memberships(tree))
    xr.testing.assert_identical(only["posterior"], tree["posterior"])
    assert only["constant_data"]["reference_labels"].attrs == tree["constant_data"]["reference_labels"].attrs


def other_rows(tree):
    return tree.isel(obs=slice(0, 21), missing_dims="ignore")


def other_draws(tree):
    return tree.isel(draw=slice(0, 20), missing_dims="ignore")


def other_table(tree):
    changed = tree.copy(deep=True)
    changed["observed_data"]["X"].values[0, 0] += 1
    return changed


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (other_rows, "have the table of trees"),
        (other_draws, r"slice\(20\)"),
        (other_table, "have the table of trees"),
        (lambda _: fit(0, target="joint").posterior_, "setting `target`"),
    ],
)
def test_what_is_not_the_same_run_is_refused(run, change, said):
    with pytest.raises(ValueError, match=rf"trees\[1\].*{said}"):
        concatenate([run.posterior_, change(run.posterior_)])
    with pytest.raises(ValueError, match="trees"):
        concatenate([])


def unequal(a, b):
    merged = a.copy(deep=True)
    short = b["posterior"].to_dataset().isel(draw=slice(0, 20)).assign_coords(chain=[2, 3])
    merged["posterior"] = xr.DataTree(xr.concat([a["posterior"].to_dataset(), short], dim="chain", join="outer"))
    return merged


def without_draws(a, _):
    return a.isel(draw=slice(0, 0), missing_dims="ignore")


def without_chains(a, _):
    return a.isel(chain=0, missing_dims="ignore")


BROKEN = {
    "unequal": (unequal, "bayesfair.posterior.concatenate"),
    "no draws": (without_draws, "at least one chain, draw and row"),
    "no chains": (without_chains, "which keep every dimension"),
}


@pytest.mark.parametrize(("make", "said"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("read", [summary, memberships, salso_partition, misclassification_probability])
def test_trees_that_are_no_posteriors_are_refused_with_the_reason(trees, make, said, read):
    with pytest.raises(ValueError, match=said):
        read(make(*trees))

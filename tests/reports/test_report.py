"""The page's figures against their definitions, its verdict in words, and what it does with odd trees."""

import re
import warnings
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
import xarray as xr
from draws import draws_of, with_modes
from matplotlib import pyplot as plt
from sklearn.cluster import KMeans
from tiers import tiers

import bayesfair as bf
from bayesfair._draws import FairletDraws
from bayesfair._numbers import interval, intervals, rounded_down, rows_away, significant
from bayesfair.cli import main
from bayesfair.cli.output import print_point_estimate
from bayesfair.fairlets.compositions import capacities, rule_of_small_groups
from bayesfair.fairness.groups import encode_groups, groups_for_fit
from bayesfair.fairness.guarantee import guarantee_of_fairlets
from bayesfair.fairness.metrics import cluster_balance, group_masses, rows_off
from bayesfair.posterior import reference_partition, relabel, write_tree
from bayesfair.posterior.diagnostics import brief, judge, warn_of_disagreement
from bayesfair.posterior.schema import Column, dataset_of_guarantee, flat_labels, groups_of, guarantee_of
from bayesfair.posterior.sentences import guaranteed
from bayesfair.posterior.tree import build_tree
from bayesfair.posterior.tree import draws_of as drawn_of
from bayesfair.reports import contents as contents_module
from bayesfair.reports import pictures
from bayesfair.reports.contents import (
    centre_table,
    cluster_table,
    cost_of_fairness,
    distance_table,
    doubt_by_group,
    fairlet_text,
    mode_table,
    point_beside_draws,
    read_contents,
    uncertain_table,
)

GIBBS = {"estimator": "GibbsFairClustering", "num_chains": 4, "target": "joint"}


@pytest.fixture(scope="module")
def contents(make_tree):
    return read_contents(of_fairlets(make_tree(facts=GIBBS), "auto"))


def test_the_cluster_table_counts_every_draw(contents):
    head, rows = cluster_table(contents)
    assert head == ["cluster", "size", "size over draws", "share of group 0", "share of group 1", "balance"]
    first, columns = contents.groups.code == 0, []
    for cluster, row in enumerate(rows):
        members = [draw == cluster for draw in flat_labels(contents.tree)]
        columns.append([(inside.sum(), first[inside].mean()) for inside in members])
        assert row[:2] == (cluster, str((contents.cluster == cluster).sum()))
    sizes, shares = np.transpose(columns, (2, 1, 0))
    assert [row[2:5] for row in rows] == list(zip(*map(intervals, (sizes, shares, 1 - shares))))


def test_where_attributes_are_balanced_one_by_one_all_figures_of_balance_are_of_the_worst_one(make_tree):
    rng = np.random.default_rng(0)
    columns = np.stack([rng.choice(["F", "M"], 60), rng.choice(["n", "s"], 60, p=[0.2, 0.8])], 1)
    groups = groups_for_fit(columns.tolist(), 60, crossed=False)
    tree = make_tree()
    tree = build_tree(
        draws_of(tree["posterior"]["labels"].values, lp=tree["sample_stats"]["lp"].values),
        tree["observed_data"]["X"].values,
        groups,
        n_clusters=3,
    )
    regions = (columns[:, 1] == "n").sum() / (columns[:, 1] == "s").sum()
    told = next(note.text for note in brief(tree) if note.headline == "How balanced:")
    assert f"The data have {rounded_down(regions)}," in told
    assert f"at least {rounded_down(tree['sample_stats']['balance'].values.min())} " in told
    read = read_contents(tree)
    of_draws = [
        [cluster_balance(group_masses(draw, groups), groups)[k] for draw in flat_labels(read.tree)] for k in range(3)
    ]
    assert [row[-1] for row in cluster_table(read)[1]] == intervals(np.transpose(of_draws))
    assert np.min(of_draws) == tree["sample_stats"]["balance"].values.min()


def test_the_centre_table_has_the_features_that_set_clusters_apart(make_tree):
    tree = make_tree(dim=20)
    tree["observed_data"]["X"][:, 5] = np.random.default_rng(1).normal(size=60)
    read = read_contents(tree)
    head, rows = centre_table(read)
    names = [row[0] for row in rows]
    assert head == ["feature", "cluster 0", "cluster 1", "cluster 2"]
    assert len(names) == contents_module.SHOWN_FEATURES
    assert "f5" not in names
    assert rows[0][1] == interval(tree["posterior"]["centers"].sel(feature=names[0], cluster=0).values.ravel())


NUMBERS = [Column("f0"), Column("f1")]
MIXTURE = [*NUMBERS, Column("town", "category", ("Hull", "York")), Column("b", "category", ("False", "True"))]
MIXED = [*NUMBERS, Column("town=Hull", "indicator"), Column("town=York", "indicator")]


def mixed_tree(make_tree, columns, codes):
    """A tree whose last two features hold `codes` (obs, 2), weighted by turns."""
    tree = make_tree(columns=columns)
    labels, weight = tree["posterior"]["labels"].values, 1.0 + np.arange(60) % 4
    tree["observed_data"]["X"][:, 2:], tree["constant_data"]["weight"] = codes, xr.DataArray(weight, dims="obs")
    for cluster in range(3):
        held = (labels == cluster) * weight
        tree["posterior"]["centers"][:, :, cluster, 2:] = (held @ codes) / held.sum(2, keepdims=True)
    return tree, labels, weight


def test_indicators_are_told_by_the_weighted_shares_of_their_levels(make_tree):
    codes = 0.707 * (np.arange(60)[:, None] % 5 == [0, 3])
    tree, labels, weight = mixed_tree(make_tree, MIXED, codes)
    read = read_contents(tree)
    rows = sorted(centre_table(read)[1])
    assert [row[0] for row in rows] == ["f0", "f1", "share of town=Hull", "share of town=York"]
    shares = [
        weight[(draw == 1) & (codes[:, 0] > 0)].sum() / weight[draw == 1].sum() for draw in np.concatenate(labels)
    ]
    assert rows[2][2] == interval(np.array(shares))
    head, rows = uncertain_table(read)
    said = [row[head.index("town=York")] for row in rows]
    assert said == ["yes" if int(row[0]) % 5 == 3 else "no" for row in rows]


def test_codes_are_told_by_the_names_and_shares_of_their_levels(make_tree, tmp_path, unpainted):
    codes = (np.arange(60)[:, None] % [2, 3] == 1).astype(float)
    tree, labels, weight = mixed_tree(make_tree, MIXTURE, codes)
    read = read_contents(tree)
    told = {row[0]: row for row in centre_table(read)[1]}
    assert {*told} == {"f0", "f1", *(f"share of {level}" for level in ("town=Hull", "town=York", "b=False", "b=True"))}
    hull, drawn = codes[:, 0] == 0, np.concatenate(labels)
    shares = [[np.average(hull[draw == k], weights=weight[draw == k]) for k in range(3)] for draw in drawn]
    assert told["share of town=Hull"][1:] == tuple(intervals(np.array(shares)))
    head, rows = uncertain_table(read)
    assert [row[head.index("town")] for row in rows] == ["York" if int(row[0]) % 2 else "Hull" for row in rows]
    page = bf.report(tree, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Mean of each feature and share of each level, with 89% intervals" in page


@pytest.mark.parametrize(("unsure", "says_more"), [(60, True), (1, False)])
def test_the_page_says_that_one_table_is_the_point_estimate_and_the_other_the_draws(
    unsure, says_more, tmp_path, unpainted
):
    """Rows that are in their cluster in 60% of the draws pull all means of the draws towards the middle."""
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 2
    X = np.column_stack([4.0 * truth, rng.normal(size=60)]) + rng.normal(scale=0.1, size=(60, 2))
    elsewhere = (rng.random((2, 50, 60)) < 0.4) & (np.arange(60) < unsure)
    tree = build_tree(draws_of((truth ^ elsewhere).astype(np.int8)), X, None, n_clusters=2)
    said = point_beside_draws(read_contents(tree))
    assert said.startswith(
        "The first table describes the point estimate, where every row is in one cluster, the second the"
    )
    page = bf.report(tree, tmp_path / "page.html").read_text(encoding="utf-8")
    assert said in page
    in_short = page.partition("<section")[2].partition("</section>")[0]
    assert ("<strong>Clusters that run together:</strong>" in in_short) == says_more
    outside = 0
    drawn, cluster = flat_labels(tree), reference_partition(tree)
    for feature in X.T:
        for k in (0, 1):
            means = [feature[draw == k].mean() for draw in drawn]
            low, high = np.quantile(means, (0.055, 0.945))
            outside += not low - 1e-3 <= feature[cluster == k].mean() <= high + 1e-3
    more = f" {outside} of 4 means of the point estimate are outside their interval: the clusters cannot be told apart. Try a"
    assert (outside >= 2) == (more in said) == says_more


def test_one_draw_divides_nothing_by_zero(make_tree, tmp_path, unpainted):
    tree = make_tree(chains=1, draws=1, facts=GIBBS)
    bf.report(tree, tmp_path / "page.html")
    assert bf.posterior.summary(tree).shape[0] > 0


def test_the_uncertain_rows_are_in_order_and_have_a_runner_up(contents, make_tree):
    head, rows = uncertain_table(contents)
    assert head == ["row", "group", "cluster", "P(misclassified)", "next likeliest cluster", "f0", "f1", "f2", "f3"]
    doubt = bf.posterior.misclassification_probability(contents.tree, reference=contents.cluster)
    assert [float(row[3]) for row in rows] == sorted(np.round(doubt[doubt > 0], 2), reverse=True)[:15]
    for name, group, cluster, _, runner_up, *_ in rows:
        labels = flat_labels(contents.tree).columns([int(name)])[:, 0]
        assert group == contents.groups.names[contents.groups.code[int(name)]]
        others = labels[labels != cluster]
        assert runner_up == f"{np.bincount(others).argmax()} ({len(others) / len(labels):.0%} of draws)"
    head, _ = uncertain_table(read_contents(make_tree(dim=2, feature_names=["cluster", "cluster (feature)"])))
    assert head[-2:] == ["cluster (feature)", "cluster (feature) (feature)"]


@pytest.mark.parametrize(
    ("apart", "says"),
    [
        (1, "P(misclassified) of a row is the share of draws in which it is not in its cluster."),
        (0, "Every row is in its cluster in all draws."),
    ],
)
def test_the_page_defines_the_doubt_that_its_tables_show(apart, says, tmp_path, unpainted):
    """The page spoke of the medoid of a cluster, while its numbers were 1 minus the memberships."""
    labels = np.tile(np.arange(8) % 2, (1, 4, 1))
    labels[0, 0, 0] ^= apart
    tree = bf.posterior.tree_from_labels(labels, np.eye(8), np.resize(["f", "f", "m", "m"], 8))
    page = bf.report(tree, tmp_path / "page.html").read_text(encoding="utf-8")
    assert says in page
    assert "medoid" not in page
    doubts = [row[3] for row in uncertain_table(read_contents(tree))[1]]
    assert (
        doubts == ["0.25"] * apart == [f"{1 - p:.2f}" for p in bf.posterior.memberships(tree)["probability"] if p < 1]
    )


def test_doubt_by_group_is_counted_in_every_draw(contents):
    head, rows = doubt_by_group(contents)
    assert head == ["group", "rows", "in doubt", "share in doubt", "share elsewhere in a draw"]
    code, doubtful = contents.groups.code, contents.doubt > 0.1
    apart = np.array(
        [[(draw != contents.cluster)[code == g].mean() for g in range(2)] for draw in flat_labels(contents.tree)]
    )
    assert [row[1] for row in rows] == [str((code == g).sum()) for g in range(2)]
    assert [row[2] for row in rows] == [str((doubtful & (code == g)).sum()) for g in range(2)]
    assert [row[4] for row in rows] == intervals(apart)


def test_what_fairness_costs_beside_k_means(contents, make_tree):
    said = cost_of_fairness(contents)
    plain = KMeans(3, n_init=5, random_state=0).fit(contents.X)
    fair = bf.fairness.distance_report(contents.X, contents.cluster).attrs["within_ss"]
    assert f"That is {fair / plain.inertia_ - 1:.1%} more than {significant(plain.inertia_)}" in said
    off = bf.fairness.report(plain.labels_, contents.groups).attrs["off_by"]
    assert f"a count is up to {rows_away(off)} off a group's share" in said
    assert distance_table(contents)[1][-1][0] == "overall"
    assert "k-means without fairness: the price of fairness" in said
    assert "k-means without fairness. Without" in cost_of_fairness(read_contents(make_tree()))  # nobody promised any
    manhattan = make_tree(facts={"loss": "manhattan"})
    assert cost_of_fairness(read_contents(manhattan)) is None
    assert cost_of_fairness(read_contents(make_tree(n_groups=0))) is None


@pytest.mark.parametrize("n_kinds", [4, 2])
def test_k_means_that_costs_nothing_is_no_denominator(n_kinds):
    """Each distinct row has a cluster of its own, or several: a share of that 0 was a division by zero."""
    X = np.array([[0.1, 0.3], [0.1, 0.7], [0.7, 0.3], [0.7, 0.7]])[np.arange(64) % n_kinds]
    labels, sex = np.random.default_rng(0).integers(0, 4, 64), np.resize(["f", "m"], 64)
    said = cost_of_fairness(read_contents(bf.posterior.tree_from_labels(labels[None, None], X, sex)))
    assert (
        "All rows of a cluster are equal, and the sum is 0, in the best of 5 starts of k-means without fairness" in said
    )
    assert "%" not in said


def test_the_page_begins_with_fairness_in_rows_and_folds_its_settings(make_tree, tmp_path, unpainted):
    tree = make_tree(facts={**GIBBS, "provenance": "{'File': 'people.csv'}"}, draws=3)
    notes = brief(tree)
    assert [note.headline for note in notes][:3] == [
        "How balanced:",
        judge(tree).headline,
        "How sure:",
    ]  # a bad verdict
    masses = np.concatenate(
        [group_masses(draw, tree["constant_data"]["group"].values)[None] for draw in flat_labels(tree)]
    )
    off = np.ceil(rows_off(masses).max() * 10) / 10
    assert notes[0].text.startswith(
        f"In all draws every group has its share of every cluster to within {off:.1f} rows;"
    )
    page = bf.report(tree, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<dt>File</dt><dd>people.csv</dd>" in page
    assert "<dt>num chains</dt>" in page or "<dt>num_chains</dt>" in page.split("<details>")[1]
    assert page.index("How balanced:") < page.index("Do the chains agree?</h2>")


@pytest.fixture
def gibbs_tree(make_tree):
    return lambda composition: of_fairlets(make_tree(), composition)


def of_fairlets(tree, composition):
    """The tree as if its draws, whatever they are, were of whole fairlets of this composition."""
    groups = groups_of(tree)
    held = capacities(groups.sizes, composition, groups.names)
    given = guarantee_of_fairlets(held.lower, held.upper)
    tree["guarantee"] = xr.DataTree(dataset_of_guarantee(given, groups.names, guaranteed(given, groups)))
    tree.attrs |= GIBBS
    if composition == "auto" and (ruled := rule_of_small_groups(groups.sizes, groups.names)):
        tree.attrs["small_groups"] = ruled
    return tree


def test_the_guarantee_is_that_of_the_least_balanced_fairlet_of_whole_runs(make_tree, gibbs_tree, tmp_path, unpainted):
    for composition, bound in (("auto", 1 / 2), ([3, 4], 3 / 4), (1, 29 / 31)):
        read = read_contents(gibbs_tree(composition))
        assert sorted(read.groups.sizes) == [29, 31]
        assert guarantee_of(read.tree).balance_of_fairlets == pytest.approx(bound)
        assert fairlet_text(read) is not None
    assert fairlet_text(read_contents(make_tree())) is None
    assert guarantee_of(gibbs_tree("auto").isel(obs=slice(40), missing_dims="ignore")).kind == "none"
    balanced = gibbs_tree("auto")
    dealt = np.argsort(np.argsort(balanced["constant_data"]["group"].values, kind="stable")) % 3
    balanced["posterior"]["labels"][:] = dealt  # every group in turn: the other draws break the bound
    page = bf.report(balanced, tmp_path / "report.html").read_text(encoding="utf-8")
    said = "exactly eq. (9)", "29, each with 1 of group", "The Balance of every cluster is at least 0.5", bf.__version__
    assert [text for text in said if text not in page] == []


VERDICTS = [
    ({"draws": 3}, "bad", "Too few draws"),
    ({"chains": 1, "draws": 30}, "caution", "One chain cannot be checked"),
    ({"shift": 3.0}, "bad", "do not agree"),
    ({"shift": 0.25, "draws": 400}, "caution", "nearly agree"),
    ({"draws": 150}, "caution", "few independent draws"),
    ({"draws": 500, "chains": 4}, "good", "The chains agree."),
]


def test_the_verdict(make_tree):
    for shape, kind, headline in VERDICTS:
        verdict = judge(make_tree(**shape))
        assert verdict.kind == kind
        assert headline in verdict.headline


def test_all_but_good_verdicts_are_warnings(make_tree):
    for shape, kind, headline in VERDICTS:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            warn_of_disagreement(make_tree(**shape), "One more remedy.")
        assert [headline in str(one.message) for one in told] == [True] * (kind != "good")
        if kind == "caution" and shape.get("chains") != 1:
            assert "One more remedy" not in str(told[0].message)


def test_chains_that_stand_still(make_tree):
    """Constants in floating point: their standard deviation is rounding, not movement."""
    tree = make_tree(draws=40, chains=2)
    for node in ("posterior", "sample_stats"):
        for name, values in tree[node].data_vars.items():
            tree[node][name] = values.copy(data=np.broadcast_to(values.values[:1, :1], values.shape))
    for apart, headline in ((0.0, "No scalar varies"), (1e-8, "No scalar varies"), (1.0, "do not agree")):
        still = tree.copy()
        lp = np.repeat(0.1 + apart * np.arange(2)[:, None], 40, axis=1)
        still["sample_stats"]["lp"] = tree["sample_stats"]["lp"].copy(data=lp)
        assert headline in judge(still).headline


def test_names_that_are_cut_stay_apart():
    shown = {"age": "age", "a" * 30: "a" * 21 + "..."}
    assert pictures._cut(list(shown)) == list(shown.values())
    years = ["income " * 5 + year for year in ("2019", "2020")]
    assert pictures._cut(years) == ["income in... income 2019", "income in... income 2020"]
    alikes = ["a" * 40 + middle + "b" * 40 for middle in "12"]
    assert pictures._cut(alikes) == ["1: " + "a" * 18 + "...", "2: " + "a" * 18 + "..."]


def test_weights_are_told_on_the_page_and_in_the_shell(make_tree, tmp_path, capsys, unpainted):
    tree, sizes = make_tree(), "Sizes, shares of groups and balance count rows, not their weights"
    assert sizes not in bf.report(tree, tmp_path / "page.html").read_text(encoding="utf-8")
    weight = 1.0 + np.arange(60) % 4
    tree["constant_data"]["weight"] = xr.DataArray(weight, dims="obs")
    page = bf.report(tree, tmp_path / "page.html").read_text(encoding="utf-8")
    assert sizes in page
    assert "<dt>Weights</dt><dd>1 to 4 for a row, 150 in all; the loss weighs rows" in page
    labels = reference_partition(tree)
    print_point_estimate(SimpleNamespace(posterior_=tree, labels_=labels))
    weighed = bf.fairness.balance(labels, tree["constant_data"]["group"].values, sample_weight=weight)
    said = f"These figures count rows. By weight, the least balance is {rounded_down(weighed)}."
    assert capsys.readouterr().out.endswith(f"{said}\n")


def without(node, *names):
    def drop(tree):
        tree = tree.copy()
        if names:
            tree[node] = type(tree)(tree[node].to_dataset().drop_vars(names))
        else:
            del tree[node]
        return tree

    return drop


def strange(tree):
    tree = tree.copy()
    tree.attrs |= {"settings": "{not JSON", "target": "{", "loss": 3}
    return tree


ODD = {
    "one draw": ({"chains": 1, "draws": 1}, None, 3, "Too few draws"),
    "one chain, no groups": ({"chains": 1, "n_groups": 0}, None, 4, "knows no protected groups"),
    "one cluster": ({"n_clusters": 1}, None, 4, "Every row is in its cluster in all draws"),
    "one feature, long name": ({"dim": 1, "feature_names": ["länge " * 60]}, None, 4, "länge " * 60),
    "many features": ({"dim": 300}, None, 4, "The 12 of 300 features"),
    "many groups": ({"n_groups": 40, "n_obs": 200}, None, 4, "groups, and all others."),
    "letters the font lacks": ({"group_names": ["男", r"$\frac$"]}, None, 4, "A box stands for a letter"),
    "no features": ({}, without("observed_data"), 3, "not in this file"),
    "no constants": ({}, without("constant_data"), 4, "knows no protected groups"),
    "no centers": ({}, without("posterior", "centers", "lambda_f", "lambda_c"), 4, "Who is uncertain"),
    "no statistics": ({}, without("sample_stats"), 4, "draws have a Balance of at least"),
    "no density": ({}, without("sample_stats", "lp"), 4, "Do the chains agree?"),
    "settings of another kind": ({}, strange, 4, "Provenance and settings"),
}
DRAWN = ["one draw", "one feature, long name"]
OF_THEIR_PICTURES = ["letters the font lacks", "many groups"]  # what the page says


@pytest.mark.parametrize("name", tiers(ODD, set(ODD) - {"one feature, long name", *OF_THEIR_PICTURES}))
def test_what_a_tree_lacks_is_left_out(make_tree, tmp_path, request, name):
    if name not in DRAWN + OF_THEIR_PICTURES:
        request.getfixturevalue("unpainted")
    shape, change, n_pictures, text = ODD[name]
    tree = make_tree(**shape) if change is None else change(make_tree(**shape))
    page = bf.report(tree, tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<img ") == n_pictures
    assert text in page
    assert re.search(r"\bnan\b", re.sub("<img[^>]*>", "", page.split("</style>")[1]).lower()) is None


def test_a_page_about_a_relabelled_tree_has_one_numbering(make_tree, tmp_path, unpainted):
    """Rows, doubts and counts of clusters that `relabel` renumbered."""
    tree = make_tree()
    reference = 2 - reference_partition(tree)
    contents = read_contents(relabel(tree, reference))
    np.testing.assert_array_equal(contents.cluster, reference)
    assert (np.asarray(flat_labels(contents.tree)) == reference).mean() > 0.9
    before = read_contents(tree)
    np.testing.assert_array_equal(contents.doubt, before.doubt)
    sizes = [[row[1:] for row in cluster_table(read)[1]] for read in (contents, before)]
    assert sizes[0] == sizes[1][::-1]
    page = bf.report(contents.tree, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "the partition to which the draws were relabelled" in page


@pytest.mark.slow
def test_many_rows_take_little_room_and_the_same_tree_gives_the_same_page(make_tree, tmp_path):
    before = dict(matplotlib.rcParams), plt.get_fignums()
    tree = make_tree(n_obs=10_000, n_clusters=8, draws=10)
    path = bf.report(tree, tmp_path / "report.html")
    assert path.stat().st_size < 3e6
    assert "A random sample of 1,000 of the 10,000 rows" in path.read_text(encoding="utf-8")
    with plt.rc_context({"axes.facecolor": "black"}):
        assert bf.report(tree, tmp_path / "dark.html").read_bytes() == path.read_bytes()
    assert (dict(matplotlib.rcParams), plt.get_fignums()) == before


def test_modes_are_told_in_a_sentence_a_table_and_a_picture(make_tree, tmp_path, unpainted):
    tree = make_tree()
    page = bf.report(tree, tmp_path / "one.html").read_text(encoding="utf-8")
    assert "What else there is:</strong> One mode in the draws.</p>" in page
    assert "Modes of the posterior" not in page
    other = np.where(np.arange(60) < 15, (np.arange(60) + 1) % 3, np.arange(60) % 3)
    figures = {"log_mass": [0, -60, np.nan], "lower": [0, -62, -np.inf], "upper": [0, -58.5, np.inf]}
    several = with_modes(tree, [np.arange(60) % 3, other, other], **figures, starts=[20, 9, 3], loss=[5.0, 6.0, 7.0])
    page = bf.report(several, tmp_path / "several.html").read_text(encoding="utf-8")
    said = "the second has less than 0.01% of the best one&#39;s mass; the mass of the third is not known "
    said += "(20 of 32 starts ended in the best one, and their losses are at least 2 higher)."
    assert f"What else there is:</strong> 3 modes from 32 starts; {said}</p>" in page
    assert page.count("<img ") == 5
    head, rows = mode_table(read_contents(several))
    assert [row[:6] for row in rows] == [
        (1, "0", "[0, 0]", 20, 0, "5"),
        (2, "-60", "[-62, -58.5]", 9, 0, "6"),
        (3, "not known", "not known", 3, 0, "7"),
    ]
    assert {len(row) for row in rows} == {len(head)}


def test_bad_input_gets_a_clear_error(make_tree, tmp_path):
    tree = make_tree()
    for given, name, error, text in (
        (tree, "run.nc", ValueError, "must end in .html"),
        (tree, "missing/report.html", FileNotFoundError, "There is no folder"),
        (None, "report.html", ValueError, "must hold `labels`"),
        ({"posterior": 1}, "report.html", ValueError, "must hold `labels`"),
        (tree.isel(draw=slice(0)), "report.html", ValueError, "must hold at least one chain, draw and row"),
    ):
        with pytest.raises(error, match=text):
            bf.report(given, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("composition", "said"),
    [
        ("auto", "Group &#39;unknown&#39; has 2 of 120 rows"),
        ({"F": 1, "M": 1, "unknown": 0}, "guarantees no Balance above 0: a fairlet may lack a group"),
    ],
)
def test_what_small_groups_do_is_said_on_the_page_and_in_the_shell(
    composition, said, make_tree, tmp_path, capsys, unpainted
):
    groups, tree = encode_groups(np.repeat(["unknown", "F", "M"], [2, 58, 60])), make_tree(n_obs=120)
    tree = build_tree(drawn_of(tree), tree["observed_data"]["X"].values, groups, n_clusters=3)
    tree = of_fairlets(tree, composition)
    page = bf.report(tree, tmp_path / "page.html").read_text(encoding="utf-8")
    assert said in page
    assert ("Small groups:" in page) == (composition == "auto")
    write_tree(tree, tmp_path / "run.nc")
    assert main(["summary", str(tmp_path / "run.nc")]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert ("every fairlet needs one of them" in told) == (composition == "auto")


def test_a_sparse_mixture_shows_no_lines_of_clusters_that_hardly_a_draw_has(tmp_path, unpainted):
    """Two clusters, a third one in every tenth draw, a fourth in one draw of a hundred, a fifth that nobody has."""
    rng, truth = np.random.default_rng(0), np.arange(60) % 2
    labels = np.tile(truth, (2, 50, 1))
    labels[:, ::10, :5], labels[0, 3, 7] = 2, 3
    occupied = np.array([[len(np.unique(draw)) for draw in chain] for chain in labels])
    draws = draws_of(labels, lp=rng.normal(size=(2, 50)), occupied=occupied)
    X = rng.normal(size=(60, 2))
    tree = build_tree(draws, X, truth, n_clusters=5, point="mode")
    contents = read_contents(tree)
    head, rows = cluster_table(contents)
    assert [row[0] for row in rows] == [0, 1, 2]
    assert [row[1] for row in rows] == ["30", "30", "0"]
    assert {len(row) for row in rows} == {len(head)}
    head, rows = centre_table(contents)
    assert head == ["feature", "cluster 0", "cluster 1", "cluster 2"]
    assert {len(row) for row in rows} == {4}
    page = bf.report(tree, tmp_path / "page.html").read_text()
    assert "Not shown: 2 other clusters, with members in fewer than 5% of the draws each." in page


def test_a_tree_that_keeps_its_fairlets_has_a_section_on_who_is_matched(make_tree, tmp_path, unpainted):
    """Rows 0 to 29 are anchors; four of five draws match row i with row 30 + i, the fifth all of them with the next."""
    tree = make_tree(chains=1, draws=5)
    fairlet = np.tile(np.concatenate([np.arange(30), np.arange(30)]), (1, 5, 1)).astype(np.int8)
    fairlet[0, 4, 30:] = np.roll(np.arange(30), 1)
    matched = build_tree(
        drawn_of(tree)._replace(fairlets=FairletDraws(fairlet, None)),
        tree["observed_data"]["X"].values,
        ["a"] * 30 + ["b"] * 30,
        n_clusters=3,
    )
    page = bf.report(matched, tmp_path / "page.html").read_text()
    assert "<h2>Who is matched with whom</h2>" in page
    assert "0 of 30 anchors have the same partner in at least 90% of the draws." in page
    assert "Half of the rows are with their likeliest partner in at least 80% of the draws." in page
    assert page.count("A line is as strong as the share of draws") == 1
    assert page.count('<section id="part-') == page.count('<a href="#part-') == 11
    assert "matched with whom" not in bf.report(tree, tmp_path / "other.html").read_text()


def test_pictures_of_modes_and_of_who_is_matched_are_drawn(make_tree):
    tree = make_tree(chains=1, draws=2)
    assert pictures.draw_fairlets(read_contents(tree)) is pictures.draw_modes(read_contents(tree)) is None
    tree["posterior"] = tree["posterior"].to_dataset().assign(fairlet=tree["posterior"]["labels"] * 0)
    tree = with_modes(tree, [np.arange(60) % 3, np.arange(60) % 2], loss=[5.0, 6.0])
    for draw, told in ((pictures.draw_fairlets, "60 rows"), (pictures.draw_modes, "2 modes")):
        drawn = draw(read_contents(tree))
        assert drawn.png.startswith(b"\x89PNG")
        assert told in drawn.alt

"""`audit` of somebody else's clusters: its sentences and tables by hand, its page, and bad input."""

import numpy as np
import pandas as pd
import pytest
from elements import Elements

import bayesfair as bf
from bayesfair.balanced import repairs
from bayesfair.posterior import memberships, reference_partition

SEX = ["f"] * 30 + ["m"] * 30
REGION = ["north", "south", "south"] * 20
SEGMENT = ["gold"] * 6 + ["basic"] * 24 + ["gold"] * 24 + ["basic"] * 6


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    far = np.array([3.0 * (segment == "gold") for segment in SEGMENT])
    return pd.DataFrame({"income": far + rng.normal(size=60), "age": rng.normal(size=60)})


@pytest.fixture(scope="module")
def found(X):
    return bf.audit(SEGMENT, pd.Series(SEX, name="sex"), X)


def test_who_is_short_of_what_in_sentences_and_rows(found):
    said = str(found)
    assert (
        "Not balanced: Clear differences beyond chance by sex. Farthest from its share: "
        "cluster basic holds 6 of group m, 9.0 rows" in said
    )
    assert (
        "Cluster gold holds 6 of group f; its share would be 15.0, so 9.0 rows are missing (20% of the cluster, 50%"
        in said
    )
    assert "sex: clear difference beyond chance. Largest difference: cluster basic holds 6 of group m, 9.0 rows" in said
    assert "Chance: p below 0.0001 (chi-square test; Cramer's V 0.60 of at most 1)." in said
    assert found.representation["excess"].tolist() == [9, -9, -9, 9]
    assert found.representation["beyond_chance"].all()
    assert found.clusters.loc["gold", "count[f]"] == 6


def test_repairs_are_balanced_and_say_what_they_cost(found, X):
    repairs = found.repairs
    assert repairs.index.tolist() == ["as given", "fewest moves", "cheapest found"]
    assert repairs["moved"].tolist()[:2] == [0, 17]  # 9 of each, or one less where a cluster has 29 rows
    assert repairs["is_balanced"].tolist() == [False, True, True]
    assert repairs.loc["as given", "cost_increase"] == 0
    assert repairs.loc["cheapest found", "within_ss"] <= repairs.loc["fewest moves", "within_ss"]
    more = repairs.loc["fewest moves", "cost_increase"]
    assert f"Moving 17 rows (28%) balances every cluster. It costs {more:.1%} more" in str(found)
    for name in repairs.index[1:]:
        labels = pd.Series(SEGMENT)
        labels[found.moves.index] = found.moves[name]
        assert (labels != SEGMENT).sum() == repairs.loc[name, "moved"]
        table = bf.fairness.report(labels, SEX, X)
        assert table.attrs["off_by"] < 1
        assert table.attrs["within_ss"] == pytest.approx(repairs.loc[name, "within_ss"])


def test_the_fewest_moves_are_the_cheapest_found_if_those_are_as_few():
    """Brute force: of all labellings that move one row to balance, the cheapest."""
    X = np.array([3.85, 2.33, 0.16, 2.17, 2.35, 2.3, -0.45, -1.07])
    group, given = np.array([0, 1] * 4), np.array([1, 1, 0, 1, 0, 1, 0, 0])
    found = bf.audit(given, group, X[:, None])
    costs = []
    for row in range(8):
        labels = given.copy()
        labels[row] = 1 - labels[row]
        table = bf.fairness.report(labels, group, X[:, None])
        if table.attrs["off_by"] < 1:
            costs.append(table.attrs["within_ss"])
    assert len(costs) > 1
    assert found.repairs.loc["fewest moves", "within_ss"] == pytest.approx(min(costs))
    assert "Moving 1 row (12%)" in str(found)


def test_without_features_lots_decide_who_moves():
    plain = bf.audit(SEGMENT, pd.Series(SEX, index=[f"p{i}" for i in range(60)], name="sex"))
    assert plain.distances is plain.memberships is None
    assert plain.repairs["moved"].tolist() == [0, 17]
    assert "Lots decide which rows of these groups move." in str(plain)
    assert "Who moves where: 17 rows of m from gold to basic." in str(plain)
    moved = plain.moves.index.str.removeprefix("p").astype(int)
    assert set(moved) < set(range(30, 54))
    assert not np.array_equal(moved, np.arange(30, 47))  # as the first rows in the file would be
    repaired = np.array(SEGMENT)
    repaired[moved] = plain.moves["fewest moves"]
    assert str(bf.audit(repaired, SEX)).startswith("Balanced:")


def test_attributes_are_looked_at_one_by_one_and_crossed():
    sensitive = pd.DataFrame({"sex": SEX, "region": REGION})
    found = bf.audit(SEGMENT, sensitive)
    both, each = found.representation, bf.audit(SEGMENT, sensitive, crossed=False).representation
    assert "6 of group f (sex); its share" in str(found)
    assert both["attribute"].unique().tolist() == ["sex", "region", "sex x region"]
    assert each["attribute"].unique().tolist() == ["sex", "region"]
    assert both.attrs["counts_looked_at"] == {"sex": 1, "region": 1, "sex x region": 4}
    alone = bf.audit(SEGMENT, SEX).representation["p_value"]
    assert both["p_value"][0] == each["p_value"][0] == alone[0]


def test_an_attribute_that_has_nothing_to_do_with_the_clusters_hides_no_other():
    rng = np.random.default_rng(0)
    sex, segment = np.repeat(["f", "m"], 60), np.array((["a"] * 38 + ["b"] * 22) + (["a"] * 21 + ["b"] * 39))
    alone = bf.audit(segment, pd.Series(sex, name="sex"))
    both = bf.audit(segment, pd.DataFrame({"sex": sex, "branch": rng.integers(0, 12, 120)}))
    for found in (alone, both):
        (note,) = [note for note in found.notes if note.headline == "sex: clear difference beyond chance."]
        assert "Chance: p = 0.0019 (chi-square test; " in note.text
    assert "branch: a difference that chance could make." in str(both)
    assert "Tests: 3 were made, of sex, branch, sex x branch. Each is decided by its own p." in str(both)
    assert both.tests["p_holm"][0] == pytest.approx(3 * both.tests["p_value"][0])


def test_an_attribute_that_has_nothing_to_do_with_the_clusters_hides_no_pair(tmp_path):
    """Single self-employed people are refused; each attribute by itself is above four fifths, and all together are rare."""
    rng = np.random.default_rng(0)
    own, single = np.tile(["no", "no", "no", "yes"], 500), np.repeat(["no", "yes"], 1_000)
    refused = rng.random(2_000) < np.where((own == "yes") & (single == "yes"), 0.4, 0.1)
    segment = np.where(refused, "basic", "gold")
    two = pd.DataFrame({"own": own, "single": single})
    more = two.assign(branch=rng.integers(0, 20, 2_000).astype(str), sex=rng.choice(["f", "m"], 2_000))
    ratio = []
    for sensitive in (two, more):
        found = bf.audit(segment, sensitive, favourable="gold", repair=False)
        flagged = found.rates[found.rates["below_four_fifths"]]
        assert flagged["attribute"].isin(["own x single", *found.representation.attrs["pairs"]]).all()
        ratio += flagged.loc[flagged["attribute"] == "own x single", "ratio"].tolist()
        representation = found.representation[found.representation["attribute"] == "own x single"]
        assert len(representation) == 8
    assert len(ratio) == 2
    assert ratio[0] == ratio[1]
    judged = found.rates.attrs["judged"]
    assert [judged[name] for name in ("own", "single", "branch", "sex", "own x single")] == [2, 2, 20, 2, 4]
    assert judged["own x single x branch x sex"] == 0
    (pairs,) = [note for note in found.notes if note.headline.startswith("Pairs of attributes")]
    assert pairs.headline == "Pairs of attributes: clear difference beyond chance."
    assert "6 pairs were looked at. Beyond chance: own x single, " in pairs.text
    assert f"in a pair: own=yes, single=yes (own x single) with {ratio[0]:.2f} (" in pairs.text
    assert "Tests: 11 were made, of own, single, branch, sex, 6 pairs, own x single x branch x sex. Each" in str(found)
    assert "Clear differences beyond chance by own, single, own x single x branch x sex." in str(found)
    text = found.write(tmp_path / "audit.html").read_text(encoding="utf-8")
    assert "Selection by own x single</caption>" in text
    assert "Selection by branch x sex</caption>" not in text
    fair = bf.audit(rng.permutation(segment), more.drop(columns="branch"), favourable="gold", repair=False)
    assert "in a pair: none of the 12 groups that are large enough." in str(fair)


def test_a_finding_that_holms_correction_takes_away_is_a_hint():
    rng = np.random.default_rng(0)
    segment, sex = np.repeat(["a", "b"], 60), np.array((["f"] * 35 + ["m"] * 25) + (["f"] * 23 + ["m"] * 37))
    both = bf.audit(segment, pd.DataFrame({"sex": sex, "branch": rng.integers(0, 4, 120).astype(str)}))
    first = both.tests.iloc[0]
    assert first["p_value"] < 0.05 < first["p_holm"]
    assert "sex: clear difference beyond chance." in str(both)
    assert "After Holm's correction for all 3, chance could make the difference for sex: a hint." in str(both)


def test_the_repair_balances_each_attribute_beside_the_combinations():
    rng = np.random.default_rng(3)
    race, region = rng.choice(["p", "q"], 300, p=[0.8, 0.2]), rng.integers(0, 12, 300).astype(str)
    X = rng.normal(size=(300, 2))
    X[race == "q", 0] += 0.7
    labels = np.digitize(X[:, 0], [-0.5, 0.5])
    sensitive = pd.DataFrame({"race": race, "region": region})
    found = bf.audit(labels, sensitive, X)
    for repair in ("fewest moves", "cheapest found"):
        moved = labels.copy()
        moved[found.moves.index] = found.moves[repair]
        off = bf.fairness.report(moved, sensitive).attrs
        assert max(off["off_by[race]"], off["off_by[region]"], off["off_by[race x region]"]) < 1
        assert found.repairs.loc[repair, "is_balanced"]
    assert "balances every cluster, for each attribute by itself and for the combinations." in str(found)
    assert not bf.audit(labels, sensitive).repairs.loc["as given", "is_balanced"]


def test_a_balance_that_is_asked_for_is_met_or_not_whatever_chance_could_do():
    for min_balance, headline, text in (
        (0.2, "Balanced:", "is at least 0.2. Farthest"),
        (0.5, "Not balanced:", "is at least 0.5. Clear differences beyond chance by"),
    ):
        note, verdict, *_ = bf.audit(SEGMENT, SEX, min_balance=min_balance).notes
        assert (note.kind, note.headline, verdict.kind) == ("plain", headline, "bad")
        assert text in note.text


def test_ages_need_bands_and_ids_are_refused_by_name():
    rng = np.random.default_rng(0)
    age, labels = pd.Series(rng.integers(18, 92, 400), name="age"), rng.integers(0, 3, 400)
    with pytest.raises(ValueError, match=r"got 74 in 'age'\. Pass pandas\.cut\(values, \[-inf, 38, 58, 76, inf\]\)"):
        bf.audit(labels, age)
    banded = bf.audit(labels, pd.cut(age, [-np.inf, 38, 58, 76, np.inf]))
    assert banded.repairs.loc["fewest moves", "is_balanced"]
    with pytest.raises(ValueError, match=r"got 400 values in 400 rows in 'id'\. Leave out ids"):
        bf.audit(labels, pd.DataFrame({"id": range(400), "age": age}))
    with pytest.raises(
        ValueError, match="`labels` must hold values that rows share, got 400 values in 400 rows in 'id'"
    ):
        bf.audit(pd.Series(range(400), name="id"), age)


def test_balanced_combinations_whose_rows_add_up_are_no_all_clear():
    sensitive = pd.DataFrame({"sex": list("ffffmmmm"), "day": [1, 2, 3, 4, 5, 6, 7, 8]})
    found = bf.audit(list("aaaabbbb"), sensitive)  # each day is a person, so that any clusters are balanced
    assert not found.repairs.loc["as given", "is_balanced"]
    every, sex, day, together, _, short, repair, *_ = found.notes
    assert (every.kind, every.headline) == ("bad", "Not balanced:")
    assert sex.headline == "sex: clear difference beyond chance."
    assert "(Fisher's exact test; " in sex.text
    assert [day.kind, together.kind] == ["good", "good"]
    assert "Cluster a holds 0 of group m (sex)" in short.text
    assert repair.text.startswith("Moving 3 rows")
    assert bf.audit(list("abababab"), sensitive).notes[0].kind == "good"


def test_clusters_of_any_name_and_clusters_that_cost_nothing(X):
    named = [{"gold": "overall"}.get(segment, segment) for segment in SEGMENT]
    said = str(bf.audit(named, SEX, X)).replace("overall", "gold")
    assert sorted(said) == sorted(str(bf.audit(SEGMENT, SEX, X)))  # in another order
    apart = bf.audit(SEGMENT, SEX, [[segment == "gold"] for segment in SEGMENT])
    assert "It costs 10.9 instead of 0 in within-cluster" in str(apart)
    alike = bf.audit(SEGMENT, SEX, np.ones((60, 1)))
    assert alike.repairs["cost_increase"].eq(0).all()


def test_clusters_by_lot_are_balanced_enough_and_balanced_ones_need_no_repair():
    alike = ["x", "y", "y"] * 20
    said = str(bf.audit(alike, ["f"] * 30 + ["m"] * 30))
    assert said.startswith("Balanced: every group's share of every cluster is the data's to within one row.")
    assert "Every count is its share." in said
    assert "Repair: none is needed." in said
    assert "who is short" not in said.lower()


def test_how_likely_rows_are_under_a_posterior(make_tree):
    tree = make_tree(obs_names=[f"row {i}" for i in range(60)])
    names = tree["posterior"]["obs"].values
    given = np.array(["c", "a", "b"])[reference_partition(tree)]
    given[0] = "b" if given[0] != "b" else "a"
    order = np.random.default_rng(1).permutation(60)
    groups = tree["constant_data"]["group"].values
    labels = pd.Series(given[order], index=names[order])
    found = bf.audit(labels, pd.Series(groups[order], index=names[order]), tree=tree).memberships
    codes = np.unique(given, return_inverse=True)[1]
    expected = memberships(tree, reference=codes)
    np.testing.assert_allclose(found["probability"], expected["probability"])
    assert found["cluster"].tolist() == given.tolist()
    assert found["probability"].iloc[0] < 0.1
    named = [" or ".join("abc"[int(k)] for k in one.split(" or ")) for one in expected["label_set"]]
    assert found["label_set"].tolist() == named
    assert set(found.attrs["matched"]) == {"a", "b", "c"}
    matched = bf.audit(labels, pd.Series(groups[order], index=names[order]), tree=tree)
    headlines = [note.headline for note in matched.notes]
    told = found.attrs["chains"].headline, "Under the fair posterior:"  # chains of noise do not agree
    assert [headline for headline in headlines if headline in told] == [*told]
    some = bf.audit(labels[:40], groups[order][:40], tree=tree).memberships
    assert sorted(some.index) == sorted(names[order][:40])
    assert some["cluster"].tolist() == labels[some.index].tolist()
    with pytest.raises(ValueError, match="`tree` must be of rows that `labels` has, got rows such as 'row 0'"):
        bf.audit(given, groups, tree=tree)
    with pytest.raises(ValueError, match="`tree` must have at least 10 clusters, got 3"):
        bf.audit(np.arange(60) % 10, groups, tree=tree)


def test_clusters_as_balanced_as_whole_rows_allow_need_no_repair_and_are_balanced(monkeypatch):
    """What a second audit says of a repair that leaves the combinations within two rows, as no other counts are found."""
    monkeypatch.setattr(repairs, "moves_needed", lambda _, counts: repairs.Moves(counts, 0, 2))
    (first, *_) = bf.audit(SEGMENT, pd.DataFrame({"sex": SEX, "region": REGION})).notes
    assert (first.kind, first.headline) == ("good", "Balanced as far as whole rows allow:")
    assert "the combinations too, which are within 2 rows. Farthest from its share" in first.text


def test_the_page_says_it_all_and_nothing_becomes_markup(found, tmp_path, hostile, make_tree, X):
    path = found.write(tmp_path / "audit.html", provenance={"File": "people.csv"})
    text = Elements(path.read_text(encoding="utf-8")).text
    for note in found.notes:
        assert f"{note.headline} {note.text}" in text
    for said in (
        "Audit of 2 clusters of 60 rows",
        "Clusters by sex",
        "Who moves",
        "people.csv",
        bf.__version__,
        "-9.0",
    ):
        assert said in text
    names = pd.DataFrame({hostile: [f"{hostile} {one}" for one in SEX]})
    tree = make_tree(n_clusters=2)
    worst = bf.audit([f"{one} {hostile}" for one in SEGMENT], names, X, tree=tree)
    page = worst.write(tmp_path / "hostile.html", title=hostile, provenance={hostile: hostile})
    elements = Elements(page.read_text(encoding="utf-8"))
    assert elements.strange() == set()
    assert f"Clusters by {hostile}" in elements.text
    assert "The rows least likely where they are" in elements.text


def test_bad_input_is_told(X):
    for arguments, settings, text in (
        ((np.zeros((60, 2)), SEX), {}, "`labels` must be one label for each row"),
        ((SEGMENT, SEX[:-1]), {}, "`sensitive_features` must have one entry per row"),
        ((SEGMENT, SEX, X[:-1]), {}, "`X` must have one entry per row of `labels`"),
        ((SEGMENT, SEX), {"level": 1}, "`level` must be between 0 and 1, got 1"),
        (([None, *SEGMENT[1:]], SEX), {}, "`labels` must have a value in every row"),
    ):
        with pytest.raises(ValueError, match=text):
            bf.audit(*arguments, **settings)
    with pytest.raises(TypeError, match="`crossed` must be one of True, False, got 'no'"):
        bf.audit(SEGMENT, SEX, crossed="no")
    twice = pd.DataFrame({"sex": SEX, "region": REGION}).set_axis(["a", "a"], axis=1)
    with pytest.raises(ValueError, match="`sensitive_features` must name every column once"):
        bf.audit(SEGMENT, twice)


def test_a_repair_tells_the_sizes_that_it_leaves():
    found = bf.audit(SEGMENT, SEX)
    sizes = found.repairs.attrs["sizes"]
    assert sizes["as given"] == {"basic": 30, "gold": 30}
    after = pd.Series(SEGMENT)
    after[found.moves.index] = found.moves["fewest moves"]
    assert sizes["fewest moves"] == after.value_counts().to_dict() == {"basic": 47, "gold": 13}
    assert bf.audit(SEGMENT, SEX, repair=False).repairs.attrs["sizes"] == {"as given": {"basic": 30, "gold": 30}}


def test_features_of_unequal_scales_are_told(X):
    with pytest.warns(
        UserWarning, match=r"`X` has standard deviations from .* in column 'age' and .* 'income': distances"
    ):
        bf.audit(SEGMENT, SEX, X.assign(income=1e4 * X["income"]), repair=False)


def test_progress_is_shown_for_what_takes_long(capfd, monkeypatch, X):
    monkeypatch.setattr("bayesfair.reports.auditing.SHORT", 0)
    bf.audit(SEGMENT, SEX, X, progress_bar=True)
    shown = capfd.readouterr().err
    assert "what chance could do: 100%" in shown
    assert "repair:" in shown
    assert "at most" in shown
    bf.audit(SEGMENT, SEX, X)
    assert capfd.readouterr().err == ""


def test_a_notebook_shows_the_sentences_of_an_audit():
    found = bf.audit(["gold", "gold", "<basic>", "<basic>"], ["f", "m", "f", "f"])
    shown = found._repr_html_()
    assert shown.count("<tr>") == len(found.notes)
    assert "&lt;basic&gt;" in shown
    assert "<basic>" not in shown

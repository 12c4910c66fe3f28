"""The page of an audit like that of home loans: every number recomputed, its words, its pictures, and its repair."""

import re
from html import unescape
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayesfair as bf
from bayesfair._numbers import percent, rows
from bayesfair.reports.audit_page import write_page_of
from bayesfair.reports.audit_pictures import _wrapped
from bayesfair.reports.audit_sentences import below

RATES = {"asian": (900, 800), "black": (1000, 717), "native": (40, 30), "white": (4000, 3628)}  # rows, selected


@pytest.fixture(scope="module")
def loans():
    """A vendor's segments of applicants by race, single and self-employed; gold and silver are favourable."""
    rng = np.random.default_rng(0)
    race = np.repeat(list(RATES), [size for size, _ in RATES.values()])
    good = np.concatenate([np.arange(size) < selected for size, selected in RATES.values()])
    order = rng.permutation(len(race))
    race, good = race[order], good[order]
    segment = np.where(good, np.where(rng.random(len(race)) < 0.5, "gold", "silver"), "basic")
    single, own = rng.choice(["no", "yes"], (2, len(race)))
    columns = {"segment": segment, "race": race, "single": single, "self_employed": own}
    return pd.DataFrame(columns, index=[f"L{i:05}" for i in range(len(race))])


SENSITIVE = ["race", "single", "self_employed"]


@pytest.fixture(scope="module")
def found(loans):
    return bf.audit(loans["segment"], loans[SENSITIVE], favourable=["gold", "silver"])


@pytest.fixture(scope="module")
def page(found, tmp_path_factory):
    return read(found, tmp_path_factory.mktemp("page"))


def read(found, folder):
    """{caption: rows of cells as text}, and the whole page."""
    text, tables = found.write(folder / "audit.html").read_text(encoding="utf-8"), {}
    for caption, body in re.findall(r"<caption>(.*?)</caption>(.*?)</table>", text, re.DOTALL):
        lines = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
        cells = [[unescape(cell).strip() for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line)] for line in lines]
        tables[unescape(caption)] = cells[1:]
    return tables, text


def test_the_selection_by_race_is_told_as_a_board_asks(found):
    told = {note.headline: note for note in found.notes}
    assert told["Favourable clusters:"].text.startswith(
        "gold, silver, 5,175 of 5,940 rows (87.1%). Left out of ratios, as"
    )
    note = told["race: clear difference beyond chance."]
    assert note.kind == "bad"
    assert note.text.startswith("Selection: Group black is selected")
    assert "Clusters: Largest difference: cluster basic holds 283 of group black, 154.2 rows more" in note.text
    assert "Group black is selected at a rate of 71.7%" in note.text
    assert "group white at 90.7%" in note.text
    assert "Impact ratio: 0.79 (0.76 to 0.82). Below four fifths of the highest rate: black." in note.text
    assert "1 group below 2% of the rows is left out." in note.text
    assert (
        ": 5 groups, which hold up to 1% of the rows of an attribute. The largest: native (40 rows, 75.0%);"
        in told["Favourable clusters:"].text
    )


def test_rates_of_the_page_are_those_of_numpy_and_scipy(page):
    tables, _ = page
    best = 3628 / 4000
    for name, size, selected, rate, ratio, flag in tables["Selection by race"]:
        n, k = RATES[name]
        low, high = stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
        assert (size, selected, rate) == (f"{n:,}", f"{k:,}", f"{k / n:.1%} ({low:.1%} to {high:.1%})")
        half = 1.959964 * np.sqrt(1 / k - 1 / n + 1 / 3628 - 1 / 4000)
        ends = "" if name == "white" else f" ({k / n / best * np.exp(-half):.2f} to {k / n / best * np.exp(half):.2f})"
        assert ratio == f"{k / n / best:.2f}{ends}"
        assert flag == {"black": "yes", "native": "left out"}.get(name, "no")


def test_tests_of_the_page_are_those_of_scipy(page, loans):
    lines = page[0]["One test for each attribute, combinations last"]
    crossed = loans[SENSITIVE].agg("|".join, axis=1)
    pairs = [loans[[*pair]].agg("|".join, axis=1) for pair in combinations(SENSITIVE, 2)]
    columns = [column for column in (*(loans[name] for name in SENSITIVE), *pairs, crossed) for _ in range(2)]
    good = loans["segment"].ne("basic").rename("good")
    p_values = []
    for at, (line, column) in enumerate(zip(lines, columns, strict=True)):
        counts = pd.crosstab(good if at % 2 == 0 else loans["segment"], column).to_numpy()
        chi = stats.chi2_contingency(counts, correction=False)
        p_values.append(chi.pvalue)
        if line[2] == "chi-square test":
            assert line[3] == ("below 0.0001" if chi.pvalue < 1e-4 else f"{chi.pvalue:.2g}")
        assert line[6] == f"{stats.contingency.association(counts, method='cramer'):.2f}"
    assert [line[1] for line in lines] == ["favourable", "clusters"] * 7
    assert [line[5] for line in lines[:2]] == ["yes", "yes"]


def test_counts_of_the_page_are_hypergeometric(page, loans):
    total, looks = len(loans), 3 * 4
    for cluster, group, off, count, share, of_cluster, of_all, by_lot, *_ in page[0]["Clusters by race"]:
        size, members = (loans["segment"] == cluster).sum(), (loans["race"] == group).sum()
        held = ((loans["segment"] == cluster) & (loans["race"] == group)).sum()
        excess = held - size * members / total
        assert (count, share) == (f"{held:,}", f"{size * members / total:,.1f}")
        assert off == f"{'-' if excess < 0 else '+'}{rows(abs(excess))}"
        assert (of_cluster, of_all) == (percent(held / size), percent(members / total))
        law = stats.hypergeom(total, members, size)
        low, high = (int(law.ppf(q)) for q in (0.025 / looks, 1 - 0.025 / looks))
        assert by_lot == f"{low:,} to {high:,}"


def test_one_figure_is_farthest_on_the_page(page, found):
    tables, text = page
    farthest = tables["What makes the clusters balanced"][0][3]
    assert float(farthest.replace(",", "")) == round(found.representation["excess"].abs().max(), 1)
    assert f"Farthest from its share: cluster basic holds 283 of group black, {farthest} rows more" in text
    assert text.count("Farthest from its share:") == 1


def test_in_short_is_one_box_for_all_and_one_for_each_attribute_and_one_for_pairs(page, found):
    first, second = re.findall(r"<section.*?</section>", page[1], re.DOTALL)[:2]
    attributes = found.tests["attribute"].unique()
    assert len(attributes) == 3 + 3 + 1
    assert first.count('class="note') == 1 + 1 + 3 + 1 + 1  # those below four fifths come first, pairs share one
    assert "Could it be chance?" in second
    assert "Tests: 14 were made" in second.replace("<strong>", "").replace("</strong>", "")


def test_flows_and_moves_are_those_of_the_repair_which_a_second_audit_finds_balanced(found, loans, page):
    moves = found.moves
    assert len(moves) == found.repairs.loc["fewest moves", "moved"]
    assert sum(int(line[3].replace(",", "")) for line in page[0]["Flows of the repair with the fewest moves"]) <= len(
        moves
    )
    repaired = loans["segment"].copy()
    assert (repaired[moves.index] == moves["as given"]).all()
    repaired[moves.index] = moves["fewest moves"]
    again = bf.audit(repaired, loans[SENSITIVE], favourable=["gold", "silver"])
    assert again.notes[0].headline.startswith("Balanced")
    assert again.notes[0].kind == "good"
    assert again.repairs["moved"].tolist() == [0, 0]
    assert not any(note.kind in ("bad", "caution") for note in again.notes)


def test_pictures_have_alternative_texts(page):
    texts = re.findall(r'<img src="data:image/png;base64,[^"]+" alt="([^"]+)"', page[1])
    assert (
        len(texts) == 6 + 6 + 1
    )  # of attributes, of the pairs with a group below four fifths, and of all together; flows
    assert "Rates of 4 groups from 71.7% to 90.7%; 1 below four fifths of the highest, 72.6%." in texts


def test_without_favourable_clusters_each_group_has_its_shares(loans, tmp_path):
    plain = bf.audit(loans["segment"], loans["race"], repair=False)
    text = plain.write(tmp_path / "audit.html").read_text(encoding="utf-8")
    assert plain.moves is None
    assert plain.repairs.index.tolist() == ["as given"]
    assert "Shares of each group by cluster: race" in text
    assert "Local Law" not in text
    rates = plain.rates.groupby(["outcome", "group"])["rate"].first().unstack()
    expected = pd.crosstab(loans["segment"], loans["race"], normalize="columns")
    np.testing.assert_allclose(rates, expected)


def test_the_same_table_is_tested_and_counted_once(loans):
    """Two clusters with one favourable, and an attribute under two names, make tables that are known already."""
    two, race = loans["segment"].replace("silver", "gold"), loans["race"]
    twice = pd.DataFrame({"race": race, "origin": race.str.upper(), "single": loans["single"]})
    found = bf.audit(two, twice, favourable=["gold"], crossed=False)
    assert found.tests["same_as"].isna().tolist() == [True, False, False, False, True, False]
    assert found.tests["same_as"].dropna().unique().tolist() == ["race, favourable", "single, favourable"]
    alone = bf.audit(two, loans[["race", "single"]], favourable=["gold"], crossed=False).tests
    assert found.tests["p_holm"].iloc[[0, 4]].tolist() == alone["p_holm"].iloc[[0, 2]].tolist()
    assert alone["p_holm"].max() == alone["p_value"].max()
    assert "Tests: 2 were made, of race, single. Each" in str(found)
    origin = found.tests.set_index(["attribute", "question"]).loc[("origin", "clusters")]
    assert origin["p_value"] == alone["p_value"].iloc[0]
    boxes = [note for note in found.notes if note.headline.startswith(("race:", "origin:"))]
    assert [("Clusters:" in note.text, note.kind) for note in boxes] == [(False, "bad")] * 2


@pytest.mark.parametrize(
    ("favourable", "text"),
    [
        (["platinum"], "`favourable` must name clusters, got 'platinum'. The clusters are: basic, gold, silver."),
        (["Gold", "silver"], "got 'Gold'. Did you mean 'gold'? The clusters are"),
        (["gold", "silvr"], "got 'silvr'. Did you mean 'silver'? The clusters are"),
        (
            ["gold", "silver", "basic"],
            "must name some of the clusters, not all, got all of them. The clusters are: basic,",
        ),
        ([], "must name some of the clusters, not all, got none."),
    ],
)
def test_favourable_clusters_are_some_of_the_clusters(loans, favourable, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        bf.audit(loans["segment"], loans["race"], favourable=favourable)


def test_who_is_short_in_favourable_clusters_only_beyond_chance(found):
    (short,) = [note.text for note in found.notes if note.headline == "Who is short of what:"]
    rule = "Counts beyond chance in favourable clusters, the largest missing part of a share first. Of pairs, only those that"
    assert short.startswith(f"{rule} lack more than their two attributes together. Cluster ")
    assert "(race)" in short
    assert "Cluster basic" not in short
    assert "(single)" not in short


def test_chance_never_reads_as_an_acquittal():
    rng = np.random.default_rng(1)
    segment, sex = rng.choice(["a", "b"], 200), pd.Series(rng.choice(["f", "m"], 200), name="sex")
    every, note, *_ = bf.audit(segment, sex).notes
    assert every.text.startswith("Chance could make each difference, which does not say that there is none.")
    assert every.kind == note.kind == "caution"
    assert note.headline == "sex: a difference that chance could make."
    assert "These data do not show more than chance would." in note.text


def test_in_short_opens_with_the_groups_below_four_fifths(found, page):
    first = found.notes[0]
    assert (first.kind, first.headline) == ("bad", "Below four fifths:")
    assert first.text.startswith("group black is selected at a rate of 71.7%, 0.79 (0.76 to 0.82) times the highest")
    assert page[1].index("Below four fifths:") < page[1].index("Not balanced:")
    single = next(note.text for note in found.notes if note.headline.startswith("single:"))
    assert "Below four fifths of the highest rate: none of the 2 groups." in single


def test_of_many_groups_left_out_the_largest_are_told():
    rng = np.random.default_rng(2)
    of_all = rng.permutation(np.repeat([f"g{at:02}" for at in range(63)], [400, 400, *range(1, 61), 9]))
    segment = rng.choice(["gold", "basic"], len(of_all), p=[0.8, 0.2])
    found = bf.audit(segment, pd.Series(of_all, name="origin"), favourable=["gold"], repair=False)
    text = next(note.text for note in found.notes if note.headline == "Favourable clusters:")
    small = found.rates[found.rates["is_small"]]
    share = percent(small["rows"].sum() / len(of_all))
    assert f"{len(small)} groups, which hold up to {share} of the rows of an attribute. The largest: g" in text
    assert text.count(" rows, ") == 3
    judged = 63 - len(small)
    box = next(note.text for note in found.notes if note.headline.startswith("origin:"))
    assert f": none of the {judged} groups that are large enough." in box or "Below four fifths" in str(found.notes[0])


@pytest.fixture(scope="module")
def priced():
    """An audit with features, whose cheapest clusters move other rows than the fewest moves do."""
    rng = np.random.default_rng(3)
    columns = {"own": rng.choice(["no", "yes"], 240, p=[0.7, 0.3]), "sex": rng.choice(["f", "m"], 240)}
    X = rng.normal(size=(240, 2))
    segment = np.where(X[:, 0] + (columns["own"] == "yes") > 0.4, "gold", "basic")
    return bf.audit(segment, pd.DataFrame(columns), X)


def test_who_moves_are_the_rows_of_the_repair_with_the_fewest_moves(priced, tmp_path):
    tables, text = read(priced, tmp_path)
    n_moved = int(priced.repairs.loc["fewest moves", "moved"])
    assert 15 < n_moved < len(priced.moves)
    moved = priced.moves[priced.moves["as given"] != priced.moves["fewest moves"]].head(15)
    shown = tables["Who moves, with the fewest moves, the first 15"]
    assert [line[0] for line in shown] == moved.index.astype(str).tolist()
    assert [line[1:] for line in shown] == moved[["group", "as given", "fewest moves"]].to_numpy().tolist()
    assert f"{n_moved - 15} more rows would move; --moves moves.csv has them all" in text


def test_yes_and_no_have_the_name_of_their_attribute(priced, tmp_path):
    tables, _ = read(priced, tmp_path)
    assert {line[1] for line in tables["Clusters by own"]} == {"own=no", "own=yes"}
    assert "(own)" not in str(priced)
    assert " of group yes" not in str(priced)
    own = ["no", "yes", "yes"] * 20
    alone = bf.audit(["a", "b"] * 30, pd.Series(own, name="own"), favourable=["a"])
    tables, _ = read(alone, tmp_path)
    assert {line[0] for line in tables["Selection by own"]} == {"own=no", "own=yes"}
    assert "roup yes" not in str(alone)
    assert alone.representation["group"].unique().tolist() == ["no", "yes"]


def test_sizes_before_and_after_the_repair_are_told(priced, tmp_path):
    of_repairs = {
        "as given": {"basic": 140, "gold": 100},
        "fewest moves": {"basic": 141, "gold": 99},
        "cheapest found": {"basic": 140, "gold": 100},
    }
    known = priced._replace(repairs=priced.repairs.copy())
    known.repairs.attrs["sizes"] = of_repairs
    lines = read(known, tmp_path)[0]["Sizes of the clusters, rows"]
    assert lines == [["basic", "140", "141", "140"], ["gold", "100", "99", "100"]]
    told = next(note for note in below(known)["repairs"] if note.headline == "Sizes of the clusters:")
    assert told.text == "with the fewest moves, basic from 140 to 141 rows; gold from 100 to 99 rows."


def test_balance_stands_beside_the_most_that_is_possible(priced, tmp_path, loans):
    text = read(priced, tmp_path)[1]
    sizes = priced.representation.groupby(["attribute", "group"])["count"].sum()["own x sex"]
    most = sizes.min() / sizes.max()
    assert f"Balance (all rows together: {np.floor(most * 1000) / 1000:.3f})" in text
    assert priced.repairs["balance"].max() <= most
    assert "Cheapest found: from there" in text
    without = priced._replace(repairs=priced.repairs.drop(index="cheapest found"))
    path = write_page_of(without, tmp_path / "without.html", None, {})
    assert "Cheapest found: from there" not in path.read_text(encoding="utf-8")
    rare = bf.audit(["a", "a", "b", "b", "b", "b"], ["f", "m", "m", "m", "m", "m"])
    assert "Balance (all rows" not in read(rare, tmp_path)[1]


def test_every_picture_stands_between_its_heading_and_its_table(page):
    """What printers keep together is one element, whose text has the attribute first and its table last."""
    parts = re.findall(
        r"<div class=short>\s*<h3>(.*?)</h3>\s*<figure.*?</figure>\s*<div.*?<caption>(.*?)<", page[1], re.DOTALL
    )
    assert ("Rates of selection by race", "Selection by race") in parts
    assert ("Shares of the clusters by single", "Clusters by single") in parts
    figures = re.findall(r"</h3>\s*<figure", page[1])
    assert len(figures) == page[1].count("<figure")


def test_long_names_in_pictures_differ_where_the_names_do():
    names = [
        f"White, female, 45 to under 62, own_home=no, self_employed={own}, {kind}"
        for own in ("no", "yes")
        for kind in "mw"
    ]
    assert len({_wrapped(name) for name in names}) == 4
    assert max(len(line) for name in names for line in _wrapped(name, ", Premium").splitlines()) <= 24
    assert _wrapped("f", ", gold") == "f, gold"

"""`bayesfair check`: somebody else's clusters in a table."""

import hashlib
import re

import numpy as np
import pandas as pd
import pytest

import bayesfair as bf
from bayesfair.cli import main
from bayesfair.cli.columns import standardized
from bayesfair.reports import pictures


@pytest.fixture(scope="module")
def segments(table):
    """The table of the other tests with a column of segments, two of whose cells are empty."""
    people = pd.read_csv(table)
    people["segment"] = ["gold" if x > 0 else "basic" for x in people["x1"]]
    people.loc[[3, 7], "segment"] = ""
    path = table.with_name("segments.csv")
    people.to_csv(path, index=False)
    return path


def check(segments, *more):
    return main(["check", str(segments), "--clusters", "segment", "--sensitive", "group", *more])


def test_sentences_in_print_and_a_page_with_its_provenance(segments, tmp_path, capsys):
    page = tmp_path / "audit.html"
    assert check(segments, "--missing", "drop", "--features", "x1,x2", "--standardize", "--out", str(page)) == 0
    printed = " ".join(capsys.readouterr().out.split())
    people = pd.read_csv(segments).dropna()
    found = bf.audit(people["segment"], people["group"], standardized(people[["x1", "x2"]]))
    notes = [" ".join(f"{note.headline} {note.text}".split()) for note in found.notes]
    assert [note for note in notes if note not in printed] == []
    assert "Rows dropped: 2 without segment" in printed
    text = page.read_text(encoding="utf-8")
    assert hashlib.sha256(segments.read_bytes()).hexdigest() in text
    assert f"bayesfair check {segments} --clusters segment" in text
    assert "divided by their standard deviation" in text


def test_dropped_rows_are_counted_once_and_missing_markers_are_told(segments, tmp_path, capsys):
    people = pd.read_csv(segments, dtype=str, keep_default_na=False)
    people.loc[[3, 9], "group"] = ""
    people.loc[[11, 12], "segment"] = "NA"
    path = tmp_path / "holes.csv"
    people.to_csv(path, index=False)
    assert check(path, "--missing", "drop") == 0
    printed = capsys.readouterr()
    assert "Rows dropped: 3 in all: 2 without group, 2 without segment" in printed.out
    assert "--clusters segment: 'NA' (2 rows) counts as a value. If it means missing, pass --na NA." in printed.err


def test_distances_name_their_units(segments, capsys):
    for more, units in (["--standardize"], "standard deviations of the features"), ([], "the units of the features as"):
        assert check(segments, "--missing", "drop", "--features", "x1", *more) == 0
        assert f"in {units}" in " ".join(capsys.readouterr().out.split())


def test_a_run_is_asked_about_the_rows_that_it_has(segments, run_file, capsys):
    assert check(segments, "--missing", "drop", "--run", str(run_file)) == 0
    printed = capsys.readouterr().out
    assert "Under the fair posterior:" in printed
    assert "of 98 rows" in " ".join(printed.split())


def test_the_report_of_a_run_says_where_its_rows_come_from(table, run_file, tmp_path, capsys, monkeypatch):
    page = tmp_path / "report.html"
    monkeypatch.setattr(pictures, "render", lambda *_: (b"", ""))
    assert main(["report", str(run_file), "--out", str(page), "--title", "A < B"]) == 0
    assert capsys.readouterr().out == f"wrote {page}\n"
    text, digest = page.read_text(encoding="utf-8"), hashlib.sha256(table.read_bytes()).hexdigest()
    for said in (digest, f"bayesfair fit {table} --sensitive group", "<dd>group</dd>", "<h1>A &lt; B</h1>"):
        assert said in text
    assert bf.GibbsFairClustering.load(run_file).provenance["Rows dropped"] == "none"


@pytest.fixture(scope="module")
def customers(tmp_path_factory):
    """300 customers with ids and ages; three of them lack an age."""
    rng = np.random.default_rng(2)
    sex = rng.choice(["f", "m"], 300)
    segment = np.where(rng.random(300) < np.where(sex == "f", 0.35, 0.6), "gold", "basic")
    age = rng.integers(18, 92, 300).astype(str)
    age[[4, 50, 70]] = ""
    columns = {"id": [f"c{i}" for i in range(300)], "segment": segment, "sex": sex, "age": age}
    path = tmp_path_factory.mktemp("customers") / "customers.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def told(capsys):
    """What was printed, in one line."""
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("ids", [["--index", "id"], []])
def test_a_table_repaired_by_its_moves_is_balanced_by_the_same_command(customers, tmp_path, capsys, ids):
    moves, same = tmp_path / "moves.csv", ["--clusters", "segment", "--sensitive", "sex", *ids]
    assert main(["check", str(customers), *same, "--moves", str(moves)]) == 0
    before, table, moved = told(capsys), pd.read_csv(customers), pd.read_csv(moves)
    assert "sex: clear difference beyond chance." in before
    assert moved.columns.tolist() == ["id" if ids else "row", "group", "from", "to"]
    assert f"wrote {moves}: {len(moved)} rows" in before
    places = moved.iloc[:, 0].str.removeprefix("c").astype(int) if ids else moved["row"] - 1
    assert table.loc[places, "segment"].tolist() == moved["from"].tolist()
    assert table.loc[places, "sex"].tolist() == moved["group"].tolist()
    table.loc[places, "segment"] = moved["to"].tolist()
    table.to_csv(tmp_path / "repaired.csv", index=False)
    assert main(["check", str(tmp_path / "repaired.csv"), *same]) == 0
    after = told(capsys)
    assert "Balanced: every group's share of every cluster is the data's to within one row." in after
    assert "Repair: none is needed." in after


def test_rates_ages_in_bands_and_rows_that_add_up(customers, tmp_path, capsys):
    page, typed = tmp_path / "audit.html", ["--clusters", "segment", "--sensitive", "sex,age", "--missing", "drop"]
    command = ["check", str(customers), *typed, "--no-repair", "--each-attribute", "--favourable", "gold"]
    assert main(command) == 2
    assert "Pass --bins age=18,30,45,65 with cuts of yours, or age=quartiles." in capsys.readouterr().err
    words = ["--title", "A < B", "--purpose", "Renewal", "--auditor", "N. N."]
    assert main([*command, "--bins", "age=30,45,65", "--out", str(page), *words]) == 0
    printed, text = told(capsys), page.read_text(encoding="utf-8")
    assert "Rows read: 300 Rows dropped: 3 without age Rows: 297" in printed
    assert "Favourable clusters: gold" in printed
    assert "sex: clear difference beyond chance. Group f is selected at a rate of" in printed
    people = pd.read_csv(customers).dropna()
    band = np.digitize(people["age"], [30, 45, 65])
    names = ["under 30", "30 to under 45", "45 to under 65", "65 and over"]
    rates = [(people["segment"] == "gold")[band == at].mean() for at in range(4)]
    for name, rate in zip(names, rates):
        assert re.search(rf">{name}</th><td>{(band == names.index(name)).sum()}</td><td>\d+</td><td>{rate:.1%} ", text)
    for said in ("<h1>A &lt; B</h1>", "<dd>Renewal</dd>", "<dd>N. N.</dd>", "<dd>300</dd>", "<dd>297</dd>"):
        assert said in text
    assert "Repair:" not in printed


def test_quartiles_and_all_counts_as_a_table(customers, tmp_path, capsys):
    counts = tmp_path / "counts.csv"
    more = ["--bins", "age=quartiles", "--missing-group", "unknown", "--out", str(counts)]
    assert main(["check", str(customers), "--clusters", "segment", "--sensitive", "age", *more]) == 0
    table = pd.read_csv(counts)
    cuts = pd.read_csv(customers)["age"].quantile([0.25, 0.5, 0.75]).tolist()
    assert table["group"].unique()[0] == f"under {cuts[0]:g}"
    assert table.groupby("group")["count"].sum()["unknown"] == 3
    assert table["count"].sum() == 300


def test_a_table_of_counts_has_rates_and_ratios_with_favourable_clusters(customers, tmp_path, capsys):
    counts = tmp_path / "counts.csv"
    more = ["--sensitive", "sex", "--favourable", "gold", "--out", str(counts), "--no-repair"]
    assert main(["check", str(customers), "--clusters", "segment", *more]) == 0
    table, people = pd.read_csv(counts), pd.read_csv(customers)
    rates = (people["segment"] == "gold").groupby(people["sex"]).mean()
    np.testing.assert_allclose(table["rate"], rates[table["group"]], atol=1e-12)
    np.testing.assert_allclose(table["ratio"], table["rate"] / rates.max(), atol=1e-9)
    assert table["rows"].tolist() == people["sex"].value_counts()[table["group"]].tolist()
    assert set(table.loc[table["below_four_fifths"], "group"]) == set(rates.index[rates < 0.8 * rates.max()]) == {"f"}
    assert table["count"].sum() == 300


def test_files_and_columns_are_named_as_they_were_typed(customers, capsys):
    assert main(["check", "nobody.csv", "--clusters", "segment", "--sensitive", "sex"]) == 2
    assert "`TABLE.csv` must be a file that exists, got 'nobody.csv'" in capsys.readouterr().err
    assert main(["check", str(customers), "--clusters", "id", "--sensitive", "sex"]) == 2
    printed = capsys.readouterr()
    assert "`--clusters` must hold values that rows share" in printed.err
    assert re.search(r"Groups: f \(\d+\); m \(\d+\)", printed.out)


def test_the_help_of_an_audit_promises_no_draws(capsys):
    for command, promised in (("check", False), ("fit", True)):
        assert main([command, "--help"]) == 0
        printed = told(capsys)
        assert ("draws made so far are saved" in printed) == promised
        assert "130 interrupted (Ctrl-C);" in printed


def test_codes_are_groups_of_their_own(tmp_path, capsys):
    rng, table, counts = np.random.default_rng(3), tmp_path / "counties.csv", tmp_path / "counts.csv"
    county = rng.choice(1001 + 2 * np.arange(30), 600).astype(str)
    county[:2] = ""
    pd.DataFrame({"segment": rng.choice(["a", "b"], 600), "county": county}).to_csv(table, index=False)
    typed = ["check", str(table), "--clusters", "segment", "--sensitive", "county", "--missing-group", "unknown"]
    assert main(typed) == 2
    assert "If they are codes, whose order means nothing: --bins county=none." in capsys.readouterr().err
    assert main([*typed, "--bins", "county=none", "--no-repair", "--out", str(counts)]) == 0
    held = pd.read_csv(counts).groupby("group")["count"].sum()
    expected = pd.Series(county).map(lambda code: f"county {code}" if code else "unknown").value_counts()
    assert held.to_dict() == expected.to_dict()


def test_names_with_commas_and_equals_signs_are_quoted_everywhere(tmp_path, capsys):
    rng, table = np.random.default_rng(4), tmp_path / "names.csv"
    columns = {"a=b, c": rng.choice(["x=1, y", "z"], 90), "sex, given": rng.choice(["f", "m"], 90)}
    pd.DataFrame(columns | {"age=now, years": rng.integers(18, 80, 90), "id, own": range(90)}).to_csv(
        table, index=False
    )
    typed = ["check", str(table), "--clusters", '"a=b, c"', "--sensitive", '"sex, given","age=now, years"']
    more = ["--favourable", '"x=1, y"', "--bins", '"age=now, years"=30,50', "--index", '"id, own"', "--no-repair"]
    assert main([*typed, *more]) == 0
    printed = told(capsys)
    assert "Favourable clusters: x=1, y, " in printed
    assert "under 30" in printed
    assert main(["check", str(table), "--clusters", "a=b, c", *typed[4:], *more]) == 0  # one name needs no quotes


def test_ctrl_c_says_what_is_written(customers, tmp_path, monkeypatch, capsys):
    page, moves = tmp_path / "audit.html", tmp_path / "moves.csv"
    typed = ["check", str(customers), "--clusters", "segment", "--sensitive", "sex", "--out", str(page)]

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("bayesfair.reports.audit_page.draw_shares", interrupt)
    assert main([*typed, "--moves", str(moves)]) == 130
    line = f"bayesfair check: interrupted. Written: {moves}. Not written: {page}.\n"
    assert capsys.readouterr().err == line
    assert [path.name for path in tmp_path.iterdir()] == ["moves.csv"]
    monkeypatch.setattr(bf, "audit", interrupt)
    assert main([*typed, "--no-repair"]) == 130
    assert capsys.readouterr().err == f"bayesfair check: interrupted. Not written: {page}.\n"


def test_look_alikes_are_told_once(customers, tmp_path, capsys):
    table, people = tmp_path / "alike.csv", pd.read_csv(customers)
    people.loc[people.index[::7], "segment"] = "Gold"
    people.to_csv(table, index=False)
    more = ["--out", str(tmp_path / "audit.html")]
    assert main(["check", str(table), "--clusters", "segment", "--sensitive", "sex", *more]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert "look alike: 'Gold' and 'gold'" in line


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (
            ["--bins", "age=30,20"],
            "`--bins` must be a column and cuts in rising order, quartiles or none, got 'age=30,20'",
        ),
        (["--bins", "height=quartiles"], "`--bins` must name sensitive columns, got 'height'"),
        (["--bins", "sex=quartiles"], "`--bins` must name columns of numbers, got the text 'm' in 'sex'"),
        (["--favourable", "platinum"], "`--favourable` must name clusters, got 'platinum'. The clusters are"),
        (["--no-repair", "--moves", "moves.csv"], "`--moves` must come without --no-repair"),
        (["--features", "id"], "Leave it out, name texts that mean missing in --na, or say how numbers are written"),
        (["--moves", "moves.html"], "`--moves` must end in .csv"),
    ],
)
def test_options_of_an_audit_that_cannot_be_meant(customers, capsys, more, text):
    assert main(["check", str(customers), "--clusters", "segment", "--sensitive", "sex", *more]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ([], "got 2 missing in 'segment'"),
        (["--clusters", "segments"], "`--clusters` must name columns of the table, got 'segments'"),
        (
            ["--clusters", "group"],
            "`--clusters` must name columns of its own, got 'group', which --sensitive names too",
        ),
        (["--standardize"], "`--standardize` must come with --features"),
        (["--missing", "drop", "--out", "audit.pdf"], "`--out` must end in .html for a page, or in .csv or .parquet"),
    ],
)
def test_what_cannot_be_meant_is_told_in_one_line(segments, capsys, more, text):
    assert check(segments, *more) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert text in lines[0]

"""`bayesfair check`: somebody else's clusters in a table."""

import hashlib

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
    monkeypatch.setattr(pictures, "_render", lambda *_: (b"", ""))
    assert main(["report", str(run_file), "--out", str(page), "--title", "A < B"]) == 0
    assert capsys.readouterr().out == f"wrote {page}\n"
    text, digest = page.read_text(encoding="utf-8"), hashlib.sha256(table.read_bytes()).hexdigest()
    for said in (digest, f"bayesfair fit {table} --sensitive group", "<dd>group</dd>", "<h1>A &lt; B</h1>"):
        assert said in text
    assert bf.GibbsFairClustering.load(run_file).provenance["Rows dropped"] == "none"


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
        (["--missing", "drop", "--out", "audit.pdf"], "must end in .html"),
    ],
)
def test_what_cannot_be_meant_is_told_in_one_line(segments, capsys, more, text):
    assert check(segments, *more) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert text in lines[0]

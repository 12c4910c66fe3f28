"""The commands as a user types them, on small settings."""

import subprocess
import sys

import pytest

import bayesfair as bf
from bayesfair.cli import main

SHORT = ["--num-chains", "2", "--num-warmup", "5", "--num-draws", "8"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    data = bf.datasets.make_well_specified()
    path = tmp_path_factory.mktemp("table") / "people.csv"
    data.features.assign(group=data.sensitive, name="x").to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def run_file(table):
    path = table.with_name("run.nc")
    assert main(["fit", str(table), "--sensitive", "group", "--n-clusters", "2", "--out", str(path), *SHORT]) == 0
    return path


def test_fit_saves_a_run_of_the_numeric_columns(run_file):
    est = bf.GibbsFairClustering.load(run_file)
    assert est.feature_names_in_.tolist() == ["x1", "x2"]
    assert est.posterior_["posterior"].sizes["draw"] == 8
    assert (est.posterior_["sample_stats"]["balance"] == 1).all()


def test_summary_and_plot_read_it(run_file, tmp_path, capsys):
    assert main(["summary", str(run_file)]) == 0
    printed = capsys.readouterr().out
    assert "r_hat" in printed
    assert "would be elsewhere" in printed
    assert main(["plot", str(run_file), "--out", str(tmp_path / "pictures")]) == 0
    pictures = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert pictures == {"clustering.png", "uncertainty_profile.png", "co_clustering.png", "trace.png"}


def test_report_writes_one_page(run_file, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["report", str(run_file), "--out", str(page), "--title", "A < B"]) == 0
    assert capsys.readouterr().out == f"wrote {page}\n"
    assert "<h1>A &lt; B</h1>" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "text"), [("run.nc", "must end in .html"), ("nowhere/page.html", "There is no folder")]
)
def test_report_refuses_a_wrong_place(run_file, tmp_path, capsys, name, text):
    assert main(["report", str(run_file), "--out", str(tmp_path / name)]) == 2
    assert text in capsys.readouterr().err


def test_demo_leaves_a_posterior_and_pictures(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path), *SHORT]) == 0
    printed = capsys.readouterr().out
    assert "balance without fairness" in printed
    assert {path.suffix for path in tmp_path.iterdir()} == {".nc", ".png"}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (["--sensitive", "gender"], "the columns of the table are: x1, x2, group, name"),
        (["--sensitive", "group", "--features", "x1,x9"], "--features names x9"),
        (["--sensitive", "group", "--n-clusters", "51"], "There are 50 fairlets"),
        (["--sensitive", "group", "--features", "name"], "could not convert string to float"),
    ],
)
def test_errors_are_one_line(table, tmp_path, capsys, changes, text):
    base = ["fit", str(table), "--n-clusters", "2", "--out", str(tmp_path / "run.nc"), *SHORT]
    assert main(base + changes) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.startswith("bayesfair fit: ")


def test_a_missing_or_foreign_file_is_told(tmp_path, capsys):
    assert main(["summary", str(tmp_path / "nothing.nc")]) == 2
    assert "no file" in capsys.readouterr().err
    (tmp_path / "foreign.nc").write_text("text")
    assert main(["plot", str(tmp_path / "foreign.nc"), "--out", str(tmp_path)]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_it_is_a_program():
    shown = subprocess.run(
        [sys.executable, "-m", "bayesfair.cli", "--help"], capture_output=True, text=True, check=True
    )
    assert "demo" in shown.stdout

"""The commands as a user types them, on small settings."""

import io
import subprocess
import sys

import pytest

import bayesfair as bf
from bayesfair.cli import main
from bayesfair.cli.arguments import parse
from bayesfair.cli.entry import in_shell
from bayesfair.posterior.diagnostics import brief, judge
from bayesfair.posterior.found_modes import modes_sentence


def verdict_of(run_file):
    return judge(bf.posterior.read_tree(run_file))


def one_line(capsys):
    """What went to standard error, which must be one line."""
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def test_fit_says_what_it_takes_judges_the_chains_and_how_to_go_on(fit, table, tmp_path, capsys):
    out = tmp_path / "made" / "my run.nc"
    assert fit(table, out) == 0
    printed = capsys.readouterr().out
    order = [
        "people.csv: 100 rows",
        "features   x1 (numbers), x2 (numbers)",
        "sensitive  group:",
        "left out   name (text",
    ]
    order += ["saved the posterior to", "Clusters of the point estimate", verdict_of(out).headline, "Go on with"]
    places = [printed.index(text) for text in order]
    assert places == sorted(places)
    assert f"bayesfair summary '{out}'" in printed
    assert f"bayesfair memberships '{out}' --table {table} --out clusters.csv" in printed
    est = bf.GibbsFairClustering.load(out)
    assert est.feature_names_in_.tolist() == ["x1", "x2"]
    assert est.posterior_["posterior"].sizes["draw"] == 8
    assert (est.posterior_["sample_stats"]["balance"] == 1).all()


def test_summary_modes_and_plot_read_it(run_file, tmp_path, capsys):
    assert main(["summary", str(run_file)]) == 0
    printed = capsys.readouterr().out
    assert "r_hat" in printed
    told, tree = " ".join(printed.split()), bf.posterior.read_tree(run_file)
    notes = [in_shell(f"{note.headline} {note.text}") for note in brief(tree)]
    assert [note for note in notes if note not in told] == []
    assert in_shell(judge(tree).advice) in told
    assert main(["modes", str(run_file)]) == 0
    printed = capsys.readouterr().out
    assert "log_mass" in printed
    assert modes_sentence(tree).split()[0] in printed
    assert main(["plot", str(run_file), "--out", str(tmp_path / "pictures")]) == 0
    pictures = {path.name for path in (tmp_path / "pictures").iterdir()}
    several = len(bf.posterior.modes(tree)) > 1
    expected = {"profile.png", "clustering.png", "uncertainty_profile.png", "co_clustering.png", "trace.png"}
    assert pictures == expected | ({"modes.png"} if several else set())


def test_two_temperatures_are_told_as_they_are_typed():
    """The parentheses were advised too, and refused."""
    told = in_shell("run again with inverse_temperature=(0.192, 0.821) and (0.769, 3.28).")
    assert told == "run again with --inverse-temperature 0.192,0.821 and 0.769,3.28."
    typed = "fit t.csv --out run.nc --n-clusters 3 --sensitive sex --target joint --inverse-temperature 0.192,0.821"
    assert parse(typed.split()).inverse_temperature == (0.192, 0.821)
    assert in_shell("its columns sum to (120, 118)") == "its columns sum to (120, 118)"


@pytest.mark.slow
def test_demo_leaves_a_posterior_and_pictures_and_says_whether_chains_agree(tmp_path, capsys, short):
    assert main(["demo", "--out", str(tmp_path), *short[:6]]) == 0
    printed = capsys.readouterr().out
    assert "balance without fairness" in printed
    assert verdict_of(tmp_path / "run.nc").headline in printed
    assert {path.suffix for path in tmp_path.iterdir()} == {".nc", ".png"}


def test_settings_reach_the_estimator_and_a_quiet_run_prints_nothing_and_goes_on(fit, table, tmp_path, capsys):
    run = tmp_path / "run.nc"
    more = ["--composition", "1=1,2=1", "--seed", "7", "--quiet"]
    assert fit(table, run, *more, "--merge-groups-below", "3", "--merged-group-name", "rest") == 0
    est = bf.GibbsFairClustering.load(run)
    expected = {"target__composition": {"1": 1, "2": 1}, "min_group_size": 3, "merged_group_name": "rest"}
    expected |= {"random_state": 7, "num_chains": 2, "num_warmup": 5, "num_draws": 8}
    assert {name: est.get_params()[name] for name in expected} == expected
    assert main(["resume", str(run), "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert bf.posterior.read_tree(run)["posterior"].sizes["draw"] == 8 + 8


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("auto", "auto"),
        ("7", 7),
        ("4, 4", (4, 4)),
        ("F=9,M=8", {"F": 9, "M": 8}),
        ('"F, a=1", b=2', {"F, a": 1, "b": 2}),
        ("a=b=3", {"a=b": 3}),
    ],
)
def test_compositions_can_be_typed(text, value):
    arguments = ["fit", "t.csv", "--sensitive", "s", "--n-clusters", "2", "--out", "r.nc", "--composition", text]
    assert parse(arguments).composition == value


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (["--sensitive", "gender"], "got 'gender'. The columns of the table are: x1, x2, group, name"),
        (["--features", "x1,x9"], "`--features` must name columns of the table, got 'x9'"),
        (["--features", ""], "`--features` must be a list"),
        (["--n-clusters", "51"], "There are 50 fairlets"),
        (["--n-clusters", "3.5"], "`--n-clusters` must be an integer, at least 1, got '3.5'"),
        (["--seed", "9" * 5000], "`--seed` must be an integer, between 0 and 4294967295"),
        (["--target", "Joint"], "`--target` must be one of labels, joint, cut, optimal, got 'Joint'"),
        (["--composition", "singleton"], "`--composition` must be auto, singletons"),
        (["--composition", "F=9,F=8"], "Write for example 9,8 or F=9,M=8"),
        (["--merged-group-name", "rest"], "`--merged-group-name` must be left out without --merge-groups-below"),
        (["--separator", ";;"], "`--separator` must be one character, got ';;'"),
        (["--encoding", "latin9000"], "`--encoding` must be known to Python"),
        (["--out", ""], "`--out` must not be empty"),
        (
            ["--method", "fairlet-kmeans"],
            "`--method` fairlet-kmeans is withdrawn. Use bayesfair.FairletKMeans in Python.",
        ),
        (["--method", "bayesian-mixture"], "`--method` bayesian-mixture is withdrawn. It is now --method mixture."),
        (["--method", "kmeans"], "`--method` must be one of gibbs, mixture, balanced-kmeans, got 'kmeans'"),
        (["--nonsense"], "unrecognized arguments: --nonsense. See bayesfair --help"),
        (["--thousands", "x"], "`--thousands` must be one of ','"),
        (["--min-balance", "0.5"], "`--min-balance` must come with --target labels"),
        (["--each-attribute"], "`--each-attribute` must come with --target labels"),
        (["--target", "labels", "--min-balance", "nan"], "`--min-balance` must be exact or a finite number above zero"),
        (["--tempering"], "`--tempering` must come with --method mixture"),
    ],
)
def test_errors_are_one_line(fit, table, tmp_path, capsys, changes, text):
    assert fit(table, tmp_path / "run.nc", *changes) == 2
    error = one_line(capsys)
    assert text in error
    assert error.startswith(("bayesfair fit: ", "bayesfair: "))
    assert not list(tmp_path.iterdir())


def test_help_explains_the_exit_statuses_and_an_incomplete_line_is_told_in_one(capsys):
    for command in ([], ["demo"], ["fit"]):
        assert main([*command, "--help"]) == 0
        printed = capsys.readouterr().out
        assert all(f"\n  {status:<3}  " in printed for status in (0, 1, 2, 130, 141))
    for typed, told in {
        "": "the following arguments are required: COMMAND",
        "cluster": "invalid choice: 'cluster'",
        "fit": "the following arguments are required: TABLE.csv, --out, --n-clusters, --sensitive",
        "convert run.nc run.zarr": "bayesfair: convert is withdrawn. In Python, bayesfair.posterior.read_tree and write_tree",
        "plot run.nc": "bayesfair plot: the following arguments are required: --out",
    }.items():
        assert main(typed.split()) == 2
        assert told in one_line(capsys)


def test_a_missing_or_foreign_file_is_told(tmp_path, capsys):
    assert main(["summary", str(tmp_path / "nothing.nc")]) == 2
    assert "no file" in one_line(capsys)
    (tmp_path / "foreign.nc").write_text("text")
    assert main(["plot", str(tmp_path / "foreign.nc"), "--out", str(tmp_path)]) == 2
    assert "cannot be read" in one_line(capsys)
    assert main(["summary", str(tmp_path)]) == 2
    assert "Is a directory" in one_line(capsys)


def test_starting_is_light():
    """Of the commands `fit` alone, whose options are the estimators' settings, and `demo` load what takes a while."""
    code = "import sys; from bayesfair.cli.arguments import parse; [parse(one.split()) for one in sys.argv[1:]]"
    code += "; print([name for name in ('jax', 'pandas', 'sklearn') if name in sys.modules])"
    typed = ["resume r", "summary r", "modes r", "memberships r", "plot r --out o", "report r --out o.html"]
    typed += ["check t --clusters c --sensitive s", "assign r t"]
    loaded = subprocess.run([sys.executable, "-c", code, *typed], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_names_that_the_terminal_cannot_show_are_escaped(fit, tmp_path, monkeypatch):
    table, shown = tmp_path / "t.csv", io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    table.write_text("x,group\n5,ä\n2,b\n", encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", shown)
    assert fit(table, tmp_path / "run.nc") == 2
    assert b"group: b (1); \\xe4 (1)" in shown.buffer.getvalue()


def test_memberships_are_printed_or_go_to_tables_only(run_file, capsys):
    assert main(["memberships", str(run_file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("obs,cluster,probability,runner_up,")
    assert len(lines) == 101
    assert main(["memberships", str(run_file), "--out", "clusters.xlsx"]) == 2
    assert "`--out` must end in .csv or .parquet" in one_line(capsys)

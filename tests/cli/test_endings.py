"""How commands end when something goes wrong: nothing drawn is lost, one line is told, and the status says what kind it was."""

import errno
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import bayesfair as bf
from bayesfair._check import Refusal, listed
from bayesfair._files import unwritable
from bayesfair.cli import main
from bayesfair.cli.arguments import parse
from bayesfair.cli.entry import guarded

PROGRAM = [sys.executable, "-m", "bayesfair"]
LIMIT = 3600  # seconds: the last guard against a process that hangs


def shell(command):
    """Standard output and error of a pipeline of a real shell, the statuses of its parts in the last line."""
    script = f'{command}\necho "${{PIPESTATUS[@]}}"'
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=LIMIT)


@pytest.fixture
def no_sampling(monkeypatch):
    """Fail if a command samples before it finds out that its results have no place."""

    def sample(*arguments, **settings):
        raise AssertionError("sampled before the place of the results was checked")

    monkeypatch.setattr(bf.GibbsFairClustering, "fit", sample)


@pytest.mark.parametrize(
    ("out", "text"),
    [
        ("", "got the folder"),
        ("file/run.nc", "(File exists)"),
        ("people.csv", "which is read"),
        ("hard.csv", "which is read"),
        ("there.nc", "must name a file that does not exist yet"),
    ],
)
def test_fit_refuses_a_wrong_place_before_sampling(fit, no_sampling, table, tmp_path, capsys, out, text):
    (tmp_path / "file").touch()
    (tmp_path / "there.nc").touch()
    (tmp_path / "people.csv").symlink_to(table)
    (tmp_path / "hard.csv").hardlink_to(table)
    assert fit(table, tmp_path / out) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("blocker", ["demo", "demo/trace.png/x"])
def test_demo_refuses_a_wrong_place_before_sampling(no_sampling, tmp_path, capsys, blocker, short):
    (tmp_path / blocker).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / blocker).touch()
    assert main(["demo", "--out", str(tmp_path / "demo"), *short[:6]]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "name", "text"),
    [
        ("plot", "file", "(File exists)"),
        ("report", "run.pdf", "`--out` must end in .html"),
        ("report", "nowhere/page.html", "There is no folder"),
    ],
)
def test_plot_and_report_refuse_a_wrong_place(run_file, tmp_path, capsys, command, name, text):
    (tmp_path / "file").touch()
    (tmp_path / "trace.png").mkdir()
    assert main([command, str(run_file), "--out", str(tmp_path / name)]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1


COMMANDS = {
    "memberships": "memberships {run} --table {table} --out {out}.csv",
    "plot": "plot {run} --out {out}",
    "report": "report {run} --out {out}.html",
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_an_output_that_is_there_is_refused_before_anything_is_read(tmp_path, monkeypatch, capsys, command):
    monkeypatch.setattr(bf.posterior, "read_tree", None)
    for name in ("out.csv", "out.nc", "out.html", "out/trace.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("kept")
    typed = command.format(run=tmp_path / "run.nc", table=tmp_path / "table.csv", out=tmp_path / "out").split()
    assert main(typed) == 2
    error = capsys.readouterr().err
    assert "add --overwrite" in error
    assert error.startswith(f"bayesfair {typed[0]}: `--out` must name")
    assert {path.read_text() for path in tmp_path.rglob("out*.*")} == {"kept"}


@pytest.mark.parametrize(
    "command", ["memberships {run} --table {table} --out {table}", "assign {run} {table} --out {table}"]
)
@pytest.mark.parametrize("link", [None, "symlink_to", "hardlink_to"])
def test_no_command_overwrites_what_it_reads(run_file, table, tmp_path, capsys, command, link):
    files = {"run": run_file, "table": table}
    before = {name: file.read_bytes() for name, file in files.items()}
    *reads, out = command.format(**files).split()
    if link is not None:
        other = tmp_path / f"other{Path(out).suffix}"
        getattr(other, link)(out)
        out = other
    assert main([*reads, str(out), "--overwrite"]) == 2
    assert "which is read" in capsys.readouterr().err
    assert {name: file.read_bytes() for name, file in files.items()} == before


@pytest.mark.slow
def test_overwrite_replaces_a_run_and_a_wrong_command_keeps_a_stored_one(fit, table, tmp_path, capsys):
    run = tmp_path / "run.zarr"
    run.write_text("an earlier run")
    for refused in (["--sensitive", "gender"], ["--n-clusters", "51"]):  # by the shell, and by the sampler
        assert fit(table, run, "--overwrite", *refused) == 2
        assert [path.name for path in tmp_path.iterdir()] == ["run.zarr"]
        assert run.read_text() == "an earlier run"
    for _ in range(2):  # over a file, and over a stored run
        assert fit(table, run, "--overwrite") == 0
        assert bf.GibbsFairClustering.load(run).n_iter_ == 13
    assert fit(table, run, "--overwrite", "--n-clusters", "51") == 2
    assert bf.GibbsFairClustering.load(run).n_iter_ == 13
    assert [path.name for path in tmp_path.iterdir()] == ["run.zarr"]


def full_disk(monkeypatch, places):
    """Saving fails wherever `places(path)` holds."""
    save = bf.GibbsFairClustering.save

    def refuse(self, path):
        if places(path):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        save(self, path)

    monkeypatch.setattr(bf.GibbsFairClustering, "save", refuse)


def test_draws_are_kept_beside_a_file_that_cannot_be_written(fit, table, tmp_path, monkeypatch, capsys):
    (tmp_path / "run-1.nc").write_text("an older file")
    full_disk(monkeypatch, lambda path: path.name == "run.nc")
    assert fit(table, tmp_path / "run.nc") == 1
    printed, error = capsys.readouterr()
    assert "could not be saved" in error
    assert f"The run is saved to {str(tmp_path / 'run-2.nc')!r} instead." in error  # with --quiet too
    assert f"bayesfair summary {tmp_path / 'run-2.nc'}" in printed
    assert bf.GibbsFairClustering.load(tmp_path / "run-2.nc").posterior_["posterior"].sizes["draw"] == 8
    assert (tmp_path / "run-1.nc").read_text() == "an older file"


def test_draws_go_to_the_temporary_folder_where_the_disk_is_full(fit, table, tmp_path, monkeypatch, capsys):
    full, spare = tmp_path / "full", tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spare))
    full_disk(monkeypatch, lambda path: path.parent == full)
    assert fit(table, full / "run.nc") == 1
    assert f"The run is saved to {str(spare / 'run-1.nc')!r} instead." in capsys.readouterr().err
    assert bf.GibbsFairClustering.load(spare / "run-1.nc").n_iter_ == 13


def test_lost_draws_are_told(fit, table, tmp_path, monkeypatch, capsys):
    def no_folder():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", no_folder)
    full_disk(monkeypatch, lambda path: True)
    assert fit(table, tmp_path / "run.nc") == 1
    printed, error = capsys.readouterr()
    assert "The draws are lost" in error
    assert "Clusters of the point estimate" in printed
    assert "Go on with" not in printed


@pytest.mark.parametrize("command", ["resume", "calibrate"])
def test_a_run_in_a_folder_that_cannot_be_written_is_not_continued(run_file, monkeypatch, capsys, command):
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not (mode & os.W_OK) and access(path, mode))
    assert main([command, str(run_file)]) == 2
    error = capsys.readouterr().err
    told = f"`RUN.nc` must be in a folder that you may write to, got {str(run_file.parent)!r}. Copy the run"
    assert error.startswith(f"bayesfair {command}: {told}")


def test_a_run_that_is_not_there_makes_no_folder(tmp_path, capsys):
    assert main(["resume", str(tmp_path / "none" / "run.nc")]) != 0
    assert not list(tmp_path.iterdir())


def test_an_interrupted_run_keeps_its_wanted_draws_through_a_short_resume(run_file, tmp_path, capsys):
    copy, tree = tmp_path / "run.nc", bf.posterior.read_tree(run_file)
    tree.attrs |= {"n_draws_wanted": 13, "unfinished": "8 of 13 draws per chain"}
    bf.posterior.write_tree(tree, copy)
    assert main(["resume", str(copy), "--num-draws", "2"]) == 0
    assert bf.posterior.read_tree(copy).attrs["unfinished"] == "10 of 13 draws per chain"
    assert main(["resume", str(copy)]) == 0
    after = bf.posterior.read_tree(copy)
    assert after["posterior"].sizes["draw"] == after.attrs["n_draws_wanted"] == 13
    assert "unfinished" not in after.attrs


def test_a_page_that_cannot_be_written_after_all_is_no_wrong_use(run_file, tmp_path, monkeypatch, capsys):
    def refuse(*arguments, **settings):
        raise unwritable(Path("page.html"), OSError(errno.ENOSPC, "No space left on device"))

    monkeypatch.setattr(bf, "report", refuse)
    assert main(["report", str(run_file), "--out", str(tmp_path / "page.html")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_ctrl_c_during_draws_keeps_them(fit, table, tmp_path, monkeypatch, capsys):
    @contextmanager
    def interrupted(total, description, show):
        steps = count(1)

        def update(_):
            if description == "draws" and next(steps) == 2:
                raise KeyboardInterrupt

        yield SimpleNamespace(update=update, is_seen=False)

    monkeypatch.setattr("bayesfair.gibbs.run.progress", interrupted)
    assert fit(table, tmp_path / "run.nc", "--num-draws", "5000") == 130
    printed, error = capsys.readouterr()
    assert error.startswith("bayesfair fit: warning: Interrupted: kept the ")
    assert "saved the posterior to" in printed
    assert "The run is not finished: it has" in printed
    assert 0 < bf.GibbsFairClustering.load(tmp_path / "run.nc").posterior_["posterior"].sizes["draw"] < 5000


def test_ctrl_c_after_the_draws_keeps_them(fit, table, tmp_path, monkeypatch, capsys):
    """Numbering clusters takes a while where there are many rows."""

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr("bayesfair.posterior.tree.company", interrupted)
        assert fit(table, tmp_path / "run.nc") == 130
    printed, error = capsys.readouterr()
    assert error == "bayesfair fit: interrupted\n"
    assert "saved the posterior to" in printed
    num_draws = bf.GibbsFairClustering.load(tmp_path / "run.nc").posterior_["posterior"].sizes["draw"]
    step = "bayesfair.estimators.base.misclassification_probability"
    estimator = bf.GibbsFairClustering.load(tmp_path / "run.nc")
    monkeypatch.setattr(bf.GibbsFairClustering, "load", lambda _: estimator)
    monkeypatch.setattr(step, interrupted)
    assert main(["resume", str(tmp_path / "run.nc"), "--num-draws", "2"]) == 130
    assert bf.posterior.read_tree(tmp_path / "run.nc")["posterior"].sizes["draw"] == num_draws + 2


@pytest.mark.slow
def test_a_real_ctrl_c_is_one_line(tmp_path):
    command = [*PROGRAM, "demo", "--num-warmup", "100000000", "--out", str(tmp_path)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "diabetes" in running.stdout.readline()
    running.send_signal(signal.SIGINT)
    _, error = running.communicate(timeout=LIMIT)
    assert error == "bayesfair demo: interrupted\n"
    assert running.returncode in (130, -signal.SIGINT)  # Python ends by the signal if an `exec` was interrupted
    assert not list(tmp_path.iterdir())


def draws_in(path):
    try:
        return bf.posterior.read_tree(path)["posterior"].sizes["draw"]
    except (OSError, ValueError):  # it has not begun
        return 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::RuntimeWarning")
def test_a_command_that_is_killed_leaves_its_draws_and_the_run_goes_on(table, tmp_path, short):
    stored, whole = tmp_path / "stored.zarr", tmp_path / "whole.nc"
    typed = ["fit", str(table), "--sensitive", "group", *short, "--thinning", "50"]
    running = subprocess.Popen([*PROGRAM, *typed, "--out", str(stored), "--num-draws", "1000000"])
    last = time.monotonic() + LIMIT
    try:
        while draws_in(stored) < 6:
            assert running.poll() is None, "it has ended"
            assert time.monotonic() < last, "no draws came"
            time.sleep(0.1)
    finally:
        running.kill()
        running.wait()
    assert main(["resume", str(stored), "--num-draws", "5"]) == 0
    assert main([*typed, "--out", str(whole), "--num-draws", str(draws_in(stored))]) == 0
    one, other = (bf.posterior.read_tree(path)["posterior"] for path in (stored, whole))
    np.testing.assert_array_equal(one["labels"].values, other["labels"].values)


@pytest.mark.slow
def test_a_full_output_is_told_and_a_closed_one_does_no_harm(run_file):
    done = shell(f"{shlex.join([*PROGRAM, 'summary', str(run_file)])} > /dev/full")
    assert done.stdout == "1\n"
    assert done.stderr == "bayesfair summary: the output could not be written: No space left on device\n"
    assert shell(f"{shlex.join([*PROGRAM, 'summary', 'nothing.nc'])} 2>&-").stdout == "2\n"


@pytest.mark.slow
def test_a_run_is_saved_before_anything_is_printed_about_it(table, tmp_path, short):
    out = tmp_path / "run.nc"
    typed = shlex.join([*PROGRAM, "fit", str(table), "--sensitive", "group", "--out", str(out), *short])
    done = shell(f"PYTHONUNBUFFERED=1 {typed} | head -4")  # the four lines before sampling, then nobody reads
    assert done.stdout.splitlines()[0::4] == [f"{table}: 100 rows", "141 0"]
    assert done.stderr == "" or "warning" in done.stderr
    assert out.exists()


def test_warnings_are_one_line_each(fit, table, tmp_path, monkeypatch, capsys):
    sample = bf.GibbsFairClustering.fit

    def warned(self, X, **settings):
        warnings.warn("`num_draws` is too low:\n  R-hat is 2.7.", UserWarning, stacklevel=2)
        return sample(self, X, **settings)

    monkeypatch.setattr(bf.GibbsFairClustering, "fit", warned)
    assert fit(table, tmp_path / "run.nc") == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "bayesfair fit: warning: `--num-draws` is too low: R-hat is 2.7."
    assert all(line.startswith("bayesfair fit: warning: ") for line in lines)


def test_the_backend_of_a_notebook_is_not_used(monkeypatch):
    used = []
    monkeypatch.setenv("MPLBACKEND", "module://of_a_notebook")
    monkeypatch.setattr("bayesfair.cli.commands.plot", lambda _: used.append(os.environ["MPLBACKEND"]))
    assert main(["plot", "run.nc", "--out", "pictures"]) == 0
    assert used == ["Agg"]


@pytest.mark.slow
def test_a_missing_device_is_no_bug(table, tmp_path):
    typed = f"fit {table} --sensitive group --method mixture --n-clusters 2 --out {tmp_path / 'r.nc'}".split()
    environment = {**os.environ, "JAX_PLATFORMS": "nonsense"}
    done = subprocess.run([*PROGRAM, *typed], env=environment, capture_output=True, text=True, check=False)
    line = done.stderr.splitlines()[-1]
    assert done.returncode == 2
    assert line.startswith("bayesfair fit: JAX cannot use JAX_PLATFORMS=nonsense")
    assert "Unset JAX_PLATFORMS" in line
    assert "Traceback" not in done.stderr


def test_sources_of_libraries_are_not_commented_on(capsys):
    guarded("bayesfair fit", lambda: compile(r"'\d'", "library.py", "eval"))
    assert capsys.readouterr().err == ""


def test_only_the_packages_own_words_become_options(capsys):
    text = "`size_max` and num_draws, but not 'size_max', \"min_balance\", size_max/run.nc or /a/size_max.nc"
    assert guarded("bayesfair fit", lambda: warnings.warn(text, stacklevel=1)) == 0
    told = "`--size-max` and --num-draws, but not 'size_max', \"min_balance\", size_max/run.nc or /a/size_max.nc"
    assert capsys.readouterr().err == f"bayesfair fit: warning: {told}\n"


def test_a_column_keeps_its_name_in_messages(fit, table, tmp_path, capsys):
    path = tmp_path / "size_max.csv"
    path.write_text(table.read_text().replace("x1,x2", "size_max,x2"))
    assert fit(path, tmp_path / "run.nc", "--features", "min_balance") == 2
    assert "got 'min_balance'. The columns of the table are: size_max, x2, group, name" in capsys.readouterr().err


def test_a_tilde_is_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    typed = ["fit", "~/t.csv", "--sensitive", "group", "--n-clusters", "2", "--out=~/run.nc"]
    arguments = parse(typed)
    assert (arguments.table, arguments.out) == (tmp_path / "t.csv", tmp_path / "run.nc")


def unable(error):
    def command():
        raise error

    return command


@pytest.mark.parametrize("command", [unable(ValueError("of another library")), lambda: listed(None)])
def test_a_bug_shows_its_traceback_and_asks_to_be_reported(capsys, command):
    assert guarded("bayesfair fit", command) == 1
    error = capsys.readouterr().err
    assert error.startswith("Traceback")
    assert "bayesfair fit: this is a bug of bayesfair" in error.splitlines()[-1]


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [
        (lambda: bf.fairness.encode_groups([]), 2, "`--sensitive` must hold at least one row"),
        (unable(ImportError(Refusal("people.parquet needs the package pyarrow"))), 2, "people.parquet needs"),
        (unable(MemoryError("Unable to allocate 3 TiB")), 1, "out of memory. Ask for fewer draws"),
        (unable(RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes.")), 1, "out of memory"),
        (unable(PermissionError(errno.EACCES, "Permission denied", "x.png")), 1, "'x.png': Permission denied"),
        (unable(KeyboardInterrupt()), 130, "interrupted"),
    ],
)
def test_what_is_told_and_the_status(capsys, command, status, text):
    assert guarded("bayesfair fit", command) == status
    error = capsys.readouterr().err
    assert error.startswith(f"bayesfair fit: {text}")
    assert error.count("\n") == 1


SENT_WHILE_IMPORTING = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background inherit that it is ignored

class Finder:
    def find_spec(self, name, *_):
        if name == "numpy":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
from bayesfair.__main__ import main
sys.exit(main())
"""


def test_ctrl_c_while_libraries_are_imported_is_one_line():
    ended = subprocess.run([sys.executable, "-c", SENT_WHILE_IMPORTING], capture_output=True, text=True, timeout=300)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "bayesfair: interrupted\n")

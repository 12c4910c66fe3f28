"""`bayesfair calibrate`: the table in print, in a file, and in the run."""

from shutil import copy

import pandas as pd
import pytest

import bayesfair as bf
from bayesfair.cli.entry import main
from bayesfair.posterior.calibrating import kept_calibration


def test_a_run_is_calibrated_and_keeps_the_table(run_file, tmp_path, capsys):
    run, out = copy(run_file, tmp_path / "run.nc"), tmp_path / "table.csv"
    typed = ["calibrate", str(run), "--n-tables", "2", "--multiples", "0.5,1", "--n-jobs", "1", "--out", str(out)]
    assert main(typed) == 0
    printed = capsys.readouterr().out
    assert "likeliest cluster" in printed
    assert "If these rows came from" in printed
    kept = kept_calibration(bf.posterior.read_tree(run))
    assert kept.attrs["n_tables"] == 2
    assert pd.read_csv(out)["stated"].tolist() == pytest.approx(kept["stated"].tolist(), abs=1e-5)
    assert main(typed) == 2
    assert "--overwrite" in capsys.readouterr().err


@pytest.mark.parametrize("bad", [["--n-tables", "1"], ["--multiples", "0"], ["--multiples", "a"]])
def test_bad_options_are_refused(bad, capsys):
    assert main(["calibrate", "run.nc", *bad]) == 2
    assert f"`{bad[0]}` must be" in capsys.readouterr().err

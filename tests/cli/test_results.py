"""`memberships --table`: results beside one's own columns."""

import numpy as np
import pandas as pd
import pytest

import bayesfair as bf
from bayesfair.cli import main
from bayesfair.cli.columns import row_names
from bayesfair.cli.rows import beside, places_by_name
from bayesfair.cli.tables import write_table


@pytest.fixture(scope="module")
def people():
    data = bf.datasets.make_well_specified()
    rng = np.random.default_rng(0)
    who = [f"Müller, {row}" for row in rng.permutation(len(data.features))]
    phone = np.where(np.arange(len(who)) == 1, np.nan, 4915112345678.0 + np.arange(len(who)))
    return data.features.assign(group=data.sensitive, cluster="mine", who=who, phone=phone)


@pytest.fixture(scope="module")
def table(people, tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "people.csv"
    people.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def run_file(table, short):
    path = table.with_name("run.nc")
    fit = ["fit", str(table), "--sensitive", "group", "--features", "x1,x2", "--index", "who", "--out", str(path)]
    assert main([*fit, *short]) == 0
    return path


@pytest.mark.parametrize("ending", ["csv", "feather"])
def test_memberships_go_back_to_the_table_under_its_own_names(run_file, people, tmp_path, ending):
    out = tmp_path / f"clusters.{ending}"
    assert main(["memberships", str(run_file), "--out", str(out)]) == 0
    written, expected = bf.datasets.read_table(out), bf.posterior.memberships(bf.posterior.read_tree(run_file))
    assert written["obs"].tolist() == people["who"].tolist()
    assert written["group"].astype(str).tolist() == people["group"].astype(str).tolist()
    for name in ("cluster", "probability", "runner_up", "misclassification_probability"):
        wanted = expected[name].astype(float).fillna(-1).to_numpy()
        assert written[name].astype(float).fillna(-1).to_numpy() == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_memberships_stand_beside_the_columns_of_the_table_whatever_its_order(run_file, people, tmp_path, ending):
    shuffled, out = tmp_path / f"shuffled.{ending}", tmp_path / f"all.{ending}"
    more = pd.concat([people.iloc[::-1], people.iloc[:1].assign(who="another")], ignore_index=True)
    write_table(more, shuffled)
    assert main(["memberships", str(run_file), "--table", str(shuffled), "--index", "who", "--out", str(out)]) == 0
    written = bf.datasets.read_table(out)
    assert list(written)[: len(people.columns)] == list(people)
    pd.testing.assert_frame_equal(written[["phone", "x1"]], more[["phone", "x1"]], check_exact=True)
    expected = bf.posterior.memberships(bf.posterior.read_tree(run_file))
    found = written.iloc[:-1].set_index("who")["cluster (bayesfair)"].astype(int)
    assert (found.loc[expected.index] == expected["cluster"]).all()
    assert written.iloc[-1].isna()["cluster (bayesfair)"]


def test_whole_numbers_as_names_are_found_beside_others_that_are_none():
    rows = pd.DataFrame({"cluster": [0, 1]}, index=[101, 102])
    table = pd.DataFrame({"id": ["102", "X9", "101"]})
    place = places_by_name(row_names(table, "id"), rows.index)
    assert beside(table, place, rows)["cluster"].tolist() == [1, pd.NA, 0]
    with pytest.raises(ValueError, match="got one without 101"):
        beside(table[:2], place[:2], rows)


def test_a_table_that_the_fit_did_not_have_is_refused(run_file, table, tmp_path, capsys):
    fewer = tmp_path / "fewer.csv"
    fewer.write_text(table.read_text().rpartition("\n")[0].rpartition("\n")[0])
    assert main(["memberships", str(run_file), "--table", str(fewer)]) == 2
    assert "`--table` must have the rows of the fit, got one without '" in capsys.readouterr().err
    twice = tmp_path / "twice.csv"
    twice.write_text(table.read_text() * 2)
    assert main(["memberships", str(run_file), "--table", str(twice), "--index", "who"]) == 2
    assert "must name each row once" in capsys.readouterr().err


def test_rows_without_names_are_found_by_their_places(people, short, tmp_path):
    path, run, out = tmp_path / "t.csv", tmp_path / "run.nc", tmp_path / "all.csv"
    nameless = pd.concat([people.iloc[:4], people.iloc[3:]]).drop(columns=["who", "cluster", "x2", "phone"])
    nameless.iloc[3, nameless.columns.get_loc("x1")] = np.nan
    nameless.insert(0, "visit", np.arange(len(nameless)) + 1)  # counts the rows, but is a feature here
    nameless.to_csv(path, index=False)
    command = f"fit {path} --sensitive group --features visit,x1 --missing drop --out {run}".split()
    assert main([*command, *short]) == 0
    assert main(["memberships", str(run), "--table", str(path), "--out", str(out)]) == 0
    written = bf.datasets.read_table(out)
    assert np.flatnonzero(written["cluster"].isna()).tolist() == [3]
    rows = bf.posterior.memberships(bf.posterior.read_tree(run))
    assert written["cluster"].dropna().to_numpy() == pytest.approx(rows["cluster"].to_numpy())


def test_csv_is_written_as_spreadsheets_of_other_countries_read_it(run_file, tmp_path, capsys):
    out = tmp_path / "all.csv"
    assert main(["memberships", str(run_file), "--out", str(out), "--encoding", "ascii"]) == 2
    assert "`--encoding` must hold every letter of the table, got ascii, which has no 'ü'" in capsys.readouterr().err
    assert not out.exists()
    style = ["--separator", ";", "--decimal", ",", "--encoding", "latin-1"]
    assert main(["memberships", str(run_file), "--out", str(out), *style]) == 0
    written = bf.datasets.read_table(out, sep=";", decimal=",", encoding="latin-1")
    expected = bf.posterior.memberships(bf.posterior.read_tree(run_file))
    assert written["obs"].tolist() == expected.index.tolist()
    assert max(map(len, bf.datasets.read_table(out, sep=";", dtype=str, encoding="latin-1")["probability"])) <= 14
    assert written["probability"].to_numpy() == pytest.approx(expected["probability"].to_numpy())

"""A table in another order than that of the fit: every row gets its own result, or the command is refused."""

import numpy as np
import pandas as pd
import pytest

import bayesfair as bf
from bayesfair.cli import main

COLUMNS = ["--sensitive", "group", "--features", "x1,x2"]
WAYS = {"numbered": [], "scaled": ["--standardize"], "named": ["--index", "id"]}


@pytest.fixture(scope="module")
def people():
    data = bf.datasets.make_well_specified()
    ids = np.random.default_rng(0).permutation(len(data.features))
    return data.features.assign(group=data.sensitive, id=ids, segment=np.where(data.features["x1"] > 0, "hi", "lo"))


@pytest.fixture(scope="module")
def runs(people, short, tmp_path_factory):
    """{way: (the run, its table, the result beside the table of the fit)}."""
    folder, made = tmp_path_factory.mktemp("runs"), {}
    table = folder / "people.csv"
    people.to_csv(table, index=False)
    for way, more in WAYS.items():
        run, out = folder / f"{way}.nc", folder / f"{way}.csv"
        assert main(["fit", str(table), *COLUMNS, *more, "--out", str(run), *short]) == 0
        assert main(["memberships", str(run), "--table", str(table), "--out", str(out)]) == 0
        made[way] = run, table, pd.read_csv(out)
    return made


def beside(run, table, *more):
    out = table.with_name("beside.csv")
    assert main(["memberships", str(run), "--table", str(table), "--out", str(out), "--overwrite", *more]) == 0
    return pd.read_csv(out)


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_sorted_table_gets_every_row_its_own_result(runs, people, way, numbers, tmp_path):
    """By place 221 of 400 rows got another one's cluster, also where a new column counts the sorted rows."""
    run, _, expected = runs[way]
    table = tmp_path / "sorted.csv"
    in_order = people.sort_values("x2", ignore_index=True)
    new = in_order[:1].assign(x1=99.0, id=999)
    pd.concat([in_order, new], ignore_index=True).to_csv(table, index=numbers)
    found = beside(run, table)
    assert found.iloc[-1][["cluster", "probability"]].isna().all()
    both = found[:-1].merge(expected, on="id", suffixes=("", " of fit"))
    assert len(both) == len(people)
    for name in ("cluster", "probability", "misclassification_probability"):
        np.testing.assert_allclose(both[name], both[f"{name} of fit"])


def test_rows_that_cannot_be_told_apart_or_are_not_there_are_refused(runs, people, tmp_path, capsys):
    run, table = runs["numbered"][0], tmp_path / "other.csv"
    pd.concat([people, people[:1]]).to_csv(table, index=False)
    assert main(["memberships", str(run), "--table", str(table)]) == 2
    said = capsys.readouterr().err
    assert (
        "must have rows that can be told apart, got 2 rows with equal features and groups, in another file than" in said
    )
    assert "that of the fit. Pass the file of the fit, or fit with --index COL" in said
    people.assign(x1=people["x1"] + 1e-6).to_csv(table, index=False)
    assert main(["memberships", str(run), "--table", str(table)]) == 2
    assert "`--table` must have the rows of the fit, got one without 0" in capsys.readouterr().err
    assert main(["memberships", str(run), "--table", str(table), "--index", "id"]) == 2
    assert (
        "`--index` must be that of the fit, got 'id', but the fit had none: rows are numbered"
        in capsys.readouterr().err
    )


def test_an_audit_asks_a_run_about_the_same_rows_in_any_order(runs, people, tmp_path, capsys):
    """67% of the rows were likely in their segment where 34% are."""
    told = {}
    for way, (run, table, _) in runs.items():
        people.sort_values("x2").to_csv(tmp_path / "sorted.csv", index=False)
        for path in (table, tmp_path / "sorted.csv"):
            command = ["check", str(path), "--clusters", "segment", "--sensitive", "group", "--run", str(run)]
            assert main(command) == 0
            said = " ".join(capsys.readouterr().out.split())
            told[way, path == table] = said.partition("Under the fair posterior:")[2]
        assert told[way, True]
        assert told[way, True] == told[way, False]
        none = people.assign(x1=people["x1"] + 50, id=people["id"] + 1000)
        none.to_csv(tmp_path / "none.csv", index=False)
        assert main([*command[:1], str(tmp_path / "none.csv"), *command[2:]]) == 2
        assert "hold rows of the table" in capsys.readouterr().err


def test_new_rows_are_placed_by_the_sensitive_column_of_the_fit(runs, people, tmp_path, capsys):
    run, table = runs["numbered"][0], tmp_path / "new.csv"
    people.assign(single=people["group"]).to_csv(table, index=False)
    assert main(["assign", str(run), str(table), "--sensitive", "single"]) == 2
    assert "must have the columns of the fit, 'group', got 'single'" in capsys.readouterr().err

"""`assign`: new rows in the clusters of a run; `compare`: a method at several numbers of clusters."""

import numpy as np
import pytest

import bayesfair as bf
from bayesfair._numbers import rounded_down
from bayesfair.cli import main
from bayesfair.cli.arguments import parse
from bayesfair.estimators.comparison import elbow_of


@pytest.fixture(scope="module")
def people():
    data = bf.datasets.make_well_specified()
    codes = np.where(np.arange(len(data.features)) % 3 == 0, "7", "other")
    who = [f"no. {row}" for row in range(len(data.features))]
    return data.features.assign(group=data.sensitive, code=codes, who=who)


@pytest.fixture(scope="module")
def scaled_run(people, short, tmp_path_factory):
    """A run of standardised numbers and a category."""
    folder = tmp_path_factory.mktemp("scaled")
    people.to_csv(folder / "people.csv", index=False)
    typed = ["fit", str(folder / "people.csv"), "--sensitive", "group", "--index", "who", "--categorical", "code"]
    assert main([*typed, "--standardize", "--out", str(folder / "run.nc"), *short]) == 0
    return folder / "run.nc"


def as_fitted(people):
    numbers = people[["x1", "x2"]]
    return ((numbers - numbers.mean()) / numbers.std(ddof=0)).assign(code=people["code"])


def assign(run, table, tmp_path, *more):
    out = tmp_path / "assigned.csv"
    assert main(["assign", str(run), str(table), "--index", "who", "--out", str(out), *more]) == 0
    return bf.datasets.read_table(out)


@pytest.fixture
def next_week(people, tmp_path):
    """Rows of one code alone, which looks like a number there; columns in another order."""
    rows = people[people["code"] == "7"].iloc[:, ::-1]
    rows.to_csv(tmp_path / "next.csv", index=False)
    return rows, tmp_path / "next.csv"


@pytest.mark.slow
def test_each_new_row_goes_to_its_likeliest_cluster_in_the_units_of_the_fit(scaled_run, people, next_week, tmp_path):
    rows, path = next_week
    written = assign(scaled_run, path, tmp_path)
    soft = bf.GibbsFairClustering.load(scaled_run).predict_proba(as_fitted(people).loc[rows.index])
    assert list(written)[: len(rows.columns)] == list(rows)
    assert written["cluster"].tolist() == soft.argmax(1).tolist()
    np.testing.assert_allclose(written["probability"], soft.max(1), rtol=1e-6)
    np.testing.assert_allclose(written["runner_up_probability"], soft.min(1), rtol=1e-6, atol=1e-12)


@pytest.mark.slow
def test_rows_that_come_with_their_groups_are_placed_together(scaled_run, people, next_week, tmp_path, capsys):
    rows, path = next_week
    written = assign(scaled_run, path, tmp_path, "--sensitive", "group")
    X, groups = as_fitted(people).loc[rows.index], rows["group"]
    placed = bf.GibbsFairClustering.load(scaled_run).reassign(X, sensitive_features=groups)
    assert written["cluster"].tolist() == placed.tolist()
    least = bf.fairness.balance(placed, groups)
    assert f"The least balance of a cluster is {rounded_down(least)}" in capsys.readouterr().out


def test_a_table_without_the_columns_of_the_fit_is_refused(run_file, tmp_path, capsys):
    (tmp_path / "other.csv").write_text("x1,group\n1,1\n")
    assert main(["assign", str(run_file), str(tmp_path / "other.csv")]) == 2
    told = capsys.readouterr().err
    assert "`TABLE.csv` must have the columns of the fit, got one without x2. The table has: x1, group." in told


def test_numbers_of_clusters_are_compared_in_print_and_as_a_table(table, tmp_path, capsys):
    typed = ["compare", str(table), "--sensitive", "group", "--n-clusters", "2-4"]
    typed += ["--num-bootstraps", "1", "--out", str(tmp_path / "k.csv")]
    assert main(typed) == 0
    printed, data = capsys.readouterr().out, bf.datasets.make_well_specified()
    engine = bf.BalancedKMeans(random_state=0)
    expected = bf.compare_clusters(engine, data.features, data.sensitive, range(2, 5), num_bootstraps=1)
    written = bf.datasets.read_table(tmp_path / "k.csv").set_index("n_clusters")
    np.testing.assert_allclose(written["cost"], expected["cost"])
    assert "cost (sum of squared distances)" in printed
    assert f"The elbow of the cost is at {elbow_of(expected)} clusters" in printed
    assert main(typed) == 2
    assert "or add --overwrite" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "numbers"), [("2-4", [2, 3, 4]), ("5,3", [5, 3]), ("7", [7])])
def test_numbers_of_clusters_can_be_typed(text, numbers):
    assert parse(["compare", "t.csv", "--sensitive", "s", "--n-clusters", text]).numbers == numbers


@pytest.mark.parametrize(
    ("text", "told"), [("4-2", "be an increasing range"), ("2,2", "give each name once"), ("two", "be an integer")]
)
def test_other_numbers_are_refused(text, told, capsys):
    assert main(["compare", "t.csv", "--sensitive", "s", "--n-clusters", text]) == 2
    assert told in capsys.readouterr().err

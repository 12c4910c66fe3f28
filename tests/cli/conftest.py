import pytest

import bayesfair as bf
from bayesfair.cli import main

SHORT = ["--num-chains", "2", "--num-warmup", "5", "--num-draws", "8", "--n-clusters", "2", "--target", "optimal"]


@pytest.fixture(scope="session")
def short():
    """Settings of a run that takes no time."""
    return SHORT


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """Two features, groups, and a column of text."""
    data = bf.datasets.make_well_specified()
    path = tmp_path_factory.mktemp("table") / "people.csv"
    data.features.assign(group=data.sensitive, name="x").to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def fit():
    """Types `fit` on a table: its exit status."""

    def fit(table, out, *more):
        return main(["fit", str(table), "--sensitive", "group", "--out", str(out), *SHORT, *more])

    return fit


@pytest.fixture(scope="session")
def run_file(fit, table):
    path = table.with_name("run.nc")
    assert fit(table, path) == 0
    return path

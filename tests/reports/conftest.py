import pytest
from draws import tree_of_draws


@pytest.fixture(scope="session")
def make_tree():
    return tree_of_draws


@pytest.fixture(scope="session")
def hostile():
    """A name that would change the title of a page that does not escape it."""
    return '"><img src=x onerror="document.title=1"><script>document.title=1</script>'


@pytest.fixture(scope="session")
def hostile_tree(make_tree, hostile):
    return make_tree(
        feature_names=[f"f{j} {hostile}" for j in range(4)],
        obs_names=[f"row {i} {hostile}" for i in range(60)],
        group_names=[f"a {hostile}", f"$\\frac b {hostile}"],
        settings={"estimator": hostile, "parameters": {hostile: hostile, "target": hostile}},
    )

import pytest
from draws import tree_of_draws

from bayesfair.reports import pictures


@pytest.fixture(scope="session")
def make_tree():
    return tree_of_draws


@pytest.fixture
def unpainted(monkeypatch):
    """Pictures on pages are empty: what counts is the text."""
    monkeypatch.setattr(pictures, "render", lambda *_: (b"", ""))


@pytest.fixture(scope="session")
def hostile():
    """A name that would change the title of a page that does not escape it."""
    return '"><img src=x onerror="document.title=1"><script>document.title=1</script>'


@pytest.fixture(scope="session")
def hostile_names(hostile):
    def names(n_obs, dim):
        return {
            "feature_names": [f"f{j} {hostile}" for j in range(dim)],
            "obs_names": [f"row {i} {hostile}" for i in range(n_obs)],
            "group_names": [f"a {hostile}", f"$\\frac b {hostile}"],
            "facts": {"estimator": hostile, hostile: hostile, "target": hostile},
        }

    return names


@pytest.fixture(scope="session")
def hostile_tree(make_tree, hostile_names):
    return make_tree(**hostile_names(60, 4))

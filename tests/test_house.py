"""The house keeps its arrows, and its front door stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import bayesfair

ROOT = Path(bayesfair.__file__).parent
ORDER = (
    "datasets",
    "fairness",
    "fairlets",
    "gibbs",
    "engines",
    "models",
    "posterior",
    "estimators",
    "plots",
    "reports",
    "cli",
)
SIBLINGS = {frozenset({"datasets", "fairness"})}
HEAVY = ("jax", "numpyro", "arviz", "xarray", "ot", "pandas", "sklearn", "matplotlib", "scipy")
FILES = sorted(ROOT.rglob("*.py"))


def imported_rooms(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bayesfair"):
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from [alias.name.split(".")[1] for alias in node.names if alias.name.startswith("bayesfair.")]


def is_allowed(room, other):
    return other == room or (ORDER.index(other) < ORDER.index(room) and frozenset({room, other}) not in SIBLINGS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_rooms_import_only_from_their_left(path):
    room = path.relative_to(ROOT).parts[0]
    if room not in ORDER:
        return  # the top level and `_check` belong to no room
    others = {other for other in imported_rooms(ast.parse(path.read_text())) if other in ORDER}
    wrong = {other for other in others if not is_allowed(room, other)}
    assert not wrong, f"{path} of {room} imports from {wrong}"


def test_the_arrow_test_can_fail():
    tree = ast.parse("from bayesfair.plots import trace\nfrom bayesfair import gibbs\nimport bayesfair.cli.main")
    assert sorted(imported_rooms(tree)) == ["cli", "gibbs", "plots"]
    assert not is_allowed("gibbs", "plots")
    assert not is_allowed("fairness", "datasets")
    assert is_allowed("plots", "gibbs")


def test_import_is_light():
    code = f"import sys, bayesfair; print([name for name in {HEAVY!r} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"


def test_every_public_name_resolves():
    for name in bayesfair.__all__:
        assert getattr(bayesfair, name) is not None
    assert set(bayesfair.__all__) == set(dir(bayesfair))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        bayesfair.nothing  # noqa: B018

"""The house keeps its arrows, and its front door stays light."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

import bayesfair

ROOT = Path(bayesfair.__file__).parent
ORDER = "datasets", "fairness", "distributed", "fairlets", "balanced", "gibbs", "engines", "models"
ORDER += "posterior", "estimators", "plots", "reports", "cli"
SIBLINGS = {frozenset({"datasets", "fairness"})}
HEAVY = "jax", "jinja2", "numpyro", "arviz", "xarray", "zarr", "ot", "pandas", "sklearn", "matplotlib", "scipy"
HEAVY += ("networkx",)
FILES = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))
DOTTED = re.compile(r"bayesfair(\.\w+)*\.\w*")
MADE_UP = "{...}"  # a module of which a string holds the beginning alone


class Use(NamedTuple):
    """Something of the package that a file names: the module as it is written, and what is taken from it, if anything."""

    module: tuple[str, ...]  # below bayesfair
    name: str | None = None

    def __str__(self):
        return ".".join(("bayesfair", *self.module, *filter(None, [self.name])))


def uses(code, file):
    """Every `Use` in a file (a path below the package), wherever in it: imports of all kinds, what is reached through an
    imported package or room, and names in strings, which is how lazy imports have them."""
    tree, package = ast.parse(code), file.split("/")[:-1]
    imported, known = [], {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            imported += from_import(node, package, known)
        elif isinstance(node, ast.Import):
            imported += plain_import(node, known)
    return [*imported, *filter(None, (reached(node, known) for node in ast.walk(tree)))]


def from_import(node, package, known):
    """Those of `from module import name`; modules among the names become `known` under the name that they have here."""
    within = ("bayesfair", *package)[: 2 + len(package) - node.level] if node.level else ()
    module = (*within, *(node.module.split(".") if node.module else ()))
    if module[0] != "bayesfair":
        return
    for alias in node.names:
        use = as_use((*module[1:], alias.name))
        if use.name is None:
            known[alias.asname or alias.name] = use.module
        yield use


def plain_import(node, known):
    """Those of `import bayesfair.room as name`."""
    for alias in node.names:
        root, *module = alias.name.split(".")
        if root == "bayesfair":
            known[alias.asname or root] = tuple(module) if alias.asname else ()
            if module:
                yield Use(tuple(module))


def reached(node, known):
    """The use in an attribute of a known module, or in a string that names a module."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
        return Use((MADE_UP,)) if node.value.endswith(".") else as_use(node.value.split(".")[1:])
    if isinstance(node, ast.Attribute) and (module := module_of(node.value, known)) is not None:
        return as_use((*module, node.attr))
    return None


def module_of(node, known):
    """The module that an expression such as `bf.gibbs` is, below bayesfair; None where it is no module."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute) and (module := module_of(node.value, known)) is not None:
        use = as_use((*module, node.attr))
        return use.module if use.name is None else None
    return None


def as_use(parts):
    """A dotted name below bayesfair, split where modules end."""
    parts, module = tuple(parts), ()
    if parts[0] in bayesfair._HOMES:  # a name of the top level is its home's
        return Use(tuple(bayesfair._HOMES[parts[0]].split(".")[1:]), parts[0])
    for part in parts:
        if not is_module((*module, part)):
            return Use(module, part)
        module = (*module, part)
    return Use(module)


def is_module(parts):
    path = ROOT.joinpath(*parts)
    return path.is_dir() or path.with_suffix(".py").exists()


def fault(file, use):
    """What is wrong with a use in a file, or None."""
    room, other = file.split("/")[0], use.module[0] if use.module else None
    if room == "__init__.py":
        return None  # the front door leads everywhere
    if other == MADE_UP:
        return "names a module that nobody can read here"
    if other not in ORDER:
        return None  # the top level's own names and files, which all rooms share
    if room == other:
        own = file == f"{room}/__init__.py" or len(use.module) > 1
        return None if own else "reaches its own room through the face, which is a cycle"
    return None if is_left(other, room) else "imports from its right"


def is_left(other, room):
    """May `room`, which is a file that all rooms share where it is none of them, import from `other`?"""
    before = ORDER[: ORDER.index(room)] if room in ORDER else ()
    return other in before and frozenset({room, other}) not in SIBLINGS


def faults(code, file):
    return [f"{use} {wrong}" for use in uses(code, file) if (wrong := fault(file, use))]


def test_rooms_import_only_from_their_left():
    found = {file: faults((ROOT / file).read_text(), file) for file in FILES}
    assert {file: wrong for file, wrong in found.items() if wrong} == {}


RIGHT, CYCLE = "imports from its right", "reaches its own room"
PLANTED = [  # a file, a line in it that is wrong, and what is said
    ("gibbs/run.py", "from bayesfair.plots import trace", RIGHT),
    ("gibbs/run.py", "from bayesfair import plots", RIGHT),
    ("gibbs/run.py", "import bayesfair.plots", RIGHT),
    ("gibbs/run.py", "import bayesfair as bf\nbf.plots.trace(tree)", RIGHT),
    ("gibbs/run.py", "import bayesfair\nx = [bayesfair.plots]", RIGHT),
    ("gibbs/run.py", "from bayesfair import report", RIGHT),
    ("gibbs/run.py", "import bayesfair as bf\nbf.FairMixture()", RIGHT),
    ("gibbs/run.py", "from ..plots import trace", RIGHT),
    ("gibbs/run.py", "from .. import plots", RIGHT),
    ("gibbs/run.py", "def f():\n    from bayesfair.plots import trace", RIGHT),
    ("gibbs/run.py", "import_module('bayesfair.plots')", RIGHT),
    ("gibbs/run.py", "HOMES = {'trace': 'bayesfair.plots.diagnostics'}", RIGHT),
    ("datasets/uci.py", "from bayesfair.fairness import gap", RIGHT),
    ("_check.py", "from bayesfair.fairness import gap", RIGHT),
    ("gibbs/run.py", "from bayesfair.gibbs import Loss", CYCLE),
    ("gibbs/run.py", "from . import Loss", CYCLE),
    ("gibbs/run.py", "import bayesfair as bf\nbf.gibbs.Loss", CYCLE),
    ("reports/page.py", "from bayesfair import report", CYCLE),
    ("plots/elbow_plot.py", "import_module(f'bayesfair.{room}')", "names a module that nobody can read"),
    ("plots/elbow_plot.py", "import_module('bayesfair.gibbs.' + file)", "names a module that nobody can read"),
]
RIGHTLY = [
    ("plots/elbow_plot.py", "from bayesfair.gibbs.run import Run\nfrom bayesfair._check import message"),
    ("plots/elbow_plot.py", "from bayesfair import __version__, gibbs as g, FairMixture\ng.Loss.degree"),
    (
        "plots/elbow_plot.py",
        "import bayesfair as bf\nbf.fairlets.decompose(X).fairlet\nbf.__path__\nbf.GibbsFairClustering",
    ),
    ("gibbs/run.py", "from bayesfair.gibbs import losses\nfrom .losses import Loss\nfrom . import run\nrun.x"),
    ("gibbs/__init__.py", "from bayesfair.gibbs.losses import Loss\nimport numpy.random as bayesfair"),
    ("__init__.py", "HOMES = {'report': 'bayesfair.reports'}"),
]


def test_every_kind_of_wrong_arrow_is_seen_and_right_ones_are_left_alone():
    for file, code, said in PLANTED:
        found = faults(code, file)
        assert found, code
        assert all(said in one for one in found), code
    for file, code in RIGHTLY:
        assert faults(code, file) == []


def loaded_by(module):
    code = f"import sys, {module}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_import_is_light_and_summaries_load_no_jax():
    assert loaded_by("bayesfair, bayesfair.estimators, bayesfair.cli") == []
    assert loaded_by("bayesfair.posterior") == ["scipy"]


def test_every_public_name_resolves():
    for name in bayesfair.__all__:
        assert getattr(bayesfair, name) is not None
    assert set(bayesfair.__all__) == set(dir(bayesfair))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        bayesfair.nothing  # noqa: B018


def test_no_module_is_named_like_what_its_room_exports():
    """`import bayesfair.posterior.modes` would give a function."""
    for room in ORDER:
        modules = {path.stem for path in (ROOT / room).glob("*.py")}
        assert not modules & set(import_module(f"bayesfair.{room}").__all__), room


def test_a_class_name_means_one_thing():
    names = [
        node.name
        for file in FILES
        for node in ast.walk(ast.parse((ROOT / file).read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    assert sorted({name for name in names if names.count(name) > 1}) == []

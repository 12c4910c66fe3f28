"""The house keeps its arrows, and its front door stays light."""

import ast
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import bayesfair

ROOT = Path(bayesfair.__file__).parent
ORDER = "datasets", "fairness", "distributed", "fairlets", "balanced", "gibbs", "engines", "models"
ORDER += "posterior", "estimators", "plots", "reports", "cli"
SIBLINGS = {frozenset({"datasets", "fairness"})}
HEAVY = "jax", "jinja2", "numpyro", "arviz", "xarray", "zarr", "ot", "pandas", "sklearn", "matplotlib", "scipy"
HEAVY += "networkx", "numba"
FILES = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))
DOTTED = re.compile(r"bayesfair(\.\w+)*\.\w*")


def uses(code, file):
    """Every dotted name below bayesfair in a file (a path below the package), wherever in it: imports of all kinds, what is
    reached through an imported package or room, and names in strings, which is how lazy imports have them."""
    tree, package, known, found = ast.parse(code), ("bayesfair", *file.split("/")[:-1]), {}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            within = package[: len(package) + 1 - node.level] if node.level else ()
            module = (*within, *(node.module.split(".") if node.module else ()))
            names = {alias.asname or alias.name: (*module, alias.name) for alias in node.names}
            known |= names
            found += names.values()
        elif isinstance(node, ast.Import):
            for alias in node.names:
                whole = tuple(alias.name.split("."))
                known[alias.asname or whole[0]] = whole if alias.asname else whole[:1]
                found.append(whole)
    found += [reached(node, known) for node in ast.walk(tree)]
    return [name[1:] for name in found if name[:1] == ("bayesfair",) and len(name) > 1]


def reached(node, known):
    """The dotted name that an expression or a string is; () where it is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
        return tuple(node.value.split("."))
    if isinstance(node, ast.Name):
        return known.get(node.id, ())
    above = reached(node.value, known) if isinstance(node, ast.Attribute) else ()
    return (*above, node.attr) if above else ()


def module_of(name):
    """The module that a name below bayesfair is, or is in; a name of the top level is its home's."""
    if name[0] in bayesfair._HOMES:
        return tuple(bayesfair._HOMES[name[0]].split(".")[1:])
    return next((name[:n] for n in range(len(name), 0, -1) if is_module(name[:n])), ())


def is_module(parts):
    path = ROOT.joinpath(*parts)
    return path.is_dir() or path.with_suffix(".py").exists()


def fault(file, name):
    """What is wrong with a name in a file, or None."""
    room, module = file.split("/")[0], module_of(name)
    if room in ("__init__.py", "__main__.py"):
        return None  # the front doors lead everywhere
    if not name[-1]:  # a string holds the beginning alone
        return "names a module that nobody can read here"
    if not module or module[0] not in ORDER:
        return None  # the top level's own names and files, which all rooms share
    if room == module[0]:
        own = file == f"{room}/__init__.py" or len(module) > 1
        return None if own else "reaches its own room through the face, which is a cycle"
    return None if is_left(module[0], room) else "imports from its right"


def is_left(other, room):
    """May `room`, which is a file that all rooms share where it is none of them, import from `other`?"""
    before = ORDER[: ORDER.index(room)] if room in ORDER else ()
    return other in before and frozenset({room, other}) not in SIBLINGS


def faults(code, file):
    return [f"bayesfair.{'.'.join(name)} {wrong}" for name in uses(code, file) if (wrong := fault(file, name))]


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
    ("gibbs/run.py", "HOMES = {'trace': 'bayesfair.plots.checks'}", RIGHT),
    ("datasets/uci.py", "from bayesfair.fairness import gap", RIGHT),
    ("_check.py", "from bayesfair.fairness import gap", RIGHT),
    ("gibbs/run.py", "from bayesfair.gibbs import Loss", CYCLE),
    ("gibbs/run.py", "from . import Loss", CYCLE),
    ("gibbs/run.py", "import bayesfair as bf\nbf.gibbs.Loss", CYCLE),
    ("reports/page.py", "from bayesfair import report", CYCLE),
    ("plots/costs.py", "import_module(f'bayesfair.{room}')", "names a module that nobody can read"),
    ("plots/costs.py", "import_module('bayesfair.gibbs.' + file)", "names a module that nobody can read"),
]
RIGHTLY = [
    ("plots/costs.py", "from bayesfair.gibbs.run import Run\nfrom bayesfair._check import message"),
    ("plots/costs.py", "from bayesfair import __version__, gibbs as g, FairMixture\ng.Loss.degree"),
    (
        "plots/costs.py",
        "import bayesfair as bf\nbf.fairlets.decompose(X).fairlet\nbf.__path__\nbf.GibbsFairClustering",
    ),
    ("gibbs/run.py", "from bayesfair.gibbs import losses\nfrom .loss import Loss\nfrom . import run\nrun.x"),
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


WHOLE_RUN = """
import sys, warnings
import bayesfair as bf
warnings.simplefilter("ignore")
data = bf.datasets.make_well_specified()
est = bf.GibbsFairClustering(num_chains=2, num_warmup=100, num_draws=200, random_state=0, progress_bar=False)
est.fit(data.features, sensitive_features=data.sensitive)
bf.fairness.report(est.labels_, data.sensitive)
bf.posterior.memberships(est.posterior_)
bf.posterior.summary(est.posterior_)
bf.plots.uncertainty(est.posterior_)
bf.report(est.posterior_, sys.argv[1])
est.reassign(data.features, sensitive_features=data.sensitive)
print([name for name in ("jaxlib", "numpyro.distributions", "networkx", "zarr", "ot", "torch") if name in sys.modules])
"""


def test_a_run_of_the_sampler_and_its_report_load_no_jax(tmp_path):
    """`jax` itself is a lazy module there, which ArviZ makes and nothing may look into."""
    environment = {**os.environ, "MPLBACKEND": "agg"}
    call = [sys.executable, "-c", WHOLE_RUN, str(tmp_path / "page.html")]
    done = subprocess.run(call, capture_output=True, text=True, env=environment)
    assert done.stdout == "[]\n", done.stderr[-2000:]


@pytest.mark.parametrize(
    "package", [bayesfair, bayesfair.engines, import_module("bayesfair.estimators"), bayesfair.plots]
)
def test_every_public_name_resolves(package):
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert set(package.__all__) == set(dir(package))
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nothing'"):
        package.nothing  # noqa: B018


def test_the_face_stays_small():
    """117 names, `models.fairness` and `models.memberships` for models of one's own, and `enable_compilation_cache`."""
    homes = [(bayesfair, bayesfair._HOMES)]
    homes += [(room, room.__all__) for room in map(import_module, (f"bayesfair.{name}" for name in bayesfair._ROOMS))]
    assert len({id(getattr(home, name)) for home, names in homes for name in names}) <= 120


def test_no_module_is_named_like_what_its_room_exports():
    """`import bayesfair.posterior.modes` would give a function."""
    for room in ORDER:
        modules = {path.stem for path in (ROOT / room).glob("*.py")}
        assert not modules & set(getattr(import_module(f"bayesfair.{room}"), "__all__", [])), room


def test_a_class_name_means_one_thing():
    names = [
        node.name
        for file in FILES
        for node in ast.walk(ast.parse((ROOT / file).read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    assert sorted({name for name in names if names.count(name) > 1}) == []


TOLD = "ValueError", "TypeError", "ImportError", "OSError", "FileNotFoundError", "PermissionError", "IsADirectoryError"


def bare(code):
    """The lines on which an error is made of plain text, which the shell would show as a bug."""
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call) and len(node.args) == 1]
    made = [(node.lineno, node.args[0]) for node in calls if getattr(node.func, "id", "") in TOLD]
    return [line for line, text in made if isinstance(text, (ast.Constant, ast.JoinedStr, ast.BinOp))]


def test_every_error_for_the_user_has_a_text_that_says_so():
    """By `message` or `Refusal`; only what is caught where it is raised goes without."""
    assert bare("raise ValueError(f'{x} is wrong')\nraise OSError(message('x', 'be', x, ''))") == [1]
    rooms = [file for file in FILES if not file.startswith("cli/")]  # which has WrongUse
    found = {file: lines for file in rooms if (lines := bare((ROOT / file).read_text()))}
    assert {file: len(lines) for file, lines in found.items()} == {"_check.py": 1}, found

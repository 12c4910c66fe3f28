"""What README, the site's first page, the install page and how-to pages print runs as printed, in an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/index.md", "docs/install.md", "docs/start/table.md"]
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INCLUDE = re.compile(
    r"^```\{include\} (?:\.\./)+README\.md\n:start-after: (<!-- .* -->)\n:end-before: (<!-- .* -->)\n```\n",
    re.MULTILINE,
)
CELL = re.compile(r"^```\{code-cell\} python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HOW_TO = ROOT / "docs" / "how-to"
WITH_CODE = [*sorted(HOW_TO.glob("own-*.md")), HOW_TO / "graphs.md", HOW_TO / "loo.md", ROOT / "docs/start/audit.md"]
LIMIT = 3600  # seconds: guards against a hang alone


def printed(page, language):
    """The blocks that the page prints in a language, in their order: one program, for later ones use what earlier ones made."""
    return "\n".join(code for kind, code in BLOCK.findall(page) if kind == language)


def cells(page):
    """What a page of the site prints as code that its building runs, as one program."""
    return "\n".join(CELL.findall(page))


def commands(page):
    """The shell's lines that call the package; `make` and `pip` have tests of their own."""
    return [line for line in printed(page, "sh").splitlines() if line.startswith("bayesfair ")]


def run(command, folder, more=(), **options):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = {**os.environ, "MPLBACKEND": "Agg", "PATH": path, **dict(more)}
    return subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, timeout=LIMIT, **options)


def people(folder):
    """The reader's own table, with every column that a page names."""
    rng = np.random.default_rng(0)
    n = 80
    table = {"name": [f"person {i}" for i in range(n)], "sex": rng.choice(["f", "m"], n)}
    table |= {"region": rng.choice(["north", "south"], n), "age": rng.integers(18, 80, n)}
    table["income"] = (rng.normal(2000, 300, n) + 1000 * rng.integers(0, 3, n)).round()
    pd.DataFrame(table).to_csv(folder / "people.csv", index=False)


def shown(page):
    """The text of a page with what it includes of README: all that its directives take from other files."""

    def part(directive):
        start, end = directive.groups()
        readme = (ROOT / "README.md").read_text()
        assert (readme.count(start), readme.count(end)) == (1, 1)
        return readme.split(start)[1].split(end)[0].strip() + "\n"

    return INCLUDE.sub(part, page)


@pytest.mark.slow
def test_python_runs_as_printed(tmp_path):
    code = printed((ROOT / "README.md").read_text(), "python")
    assert code
    done = run([sys.executable, "-c", code], tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("page", ["docs/index.md", "docs/start/table.md"])
def test_pages_print_how_readme_begins(page):
    """So that what runs in the test above is what the page shows, and is all of it."""
    page, readme = (ROOT / page).read_text(), (ROOT / "README.md").read_text()
    assert not printed(page, "python")
    begun = printed(shown(page), "python")
    assert begun.startswith("import bayesfair as bf\n")
    assert printed(readme, "python").startswith(begun)


@pytest.mark.slow
def test_commands_run_as_printed(tmp_path):
    """In one folder: a line that several pages print runs once."""
    people(tmp_path)
    lines = dict.fromkeys(line for page in PAGES for line in commands(shown((ROOT / page).read_text())))
    assert len(lines) == 3
    for line in lines:
        done = run(line, tmp_path, shell=True)
        assert done.returncode == 0, f"{line}\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}"


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.stem)
def test_code_of_how_to_pages_runs_as_printed(page, tmp_path):
    drawn = "\nfrom matplotlib import pyplot as plt\nplt.gcf().savefig('drawn.png')\n"
    command = [sys.executable, "-c", cells(page.read_text()) + drawn]
    done = run(command, tmp_path, {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "drawn.png").stat().st_size > 10_000  # more than empty axes


def test_no_block_is_left_out():
    """A block in another language, or a page without commands, would not be run by the tests above."""
    for page in PAGES:
        kinds = re.findall(r"^```([^\s]+)", shown((ROOT / page).read_text()), re.MULTILINE)
        assert set(kinds) <= {"python", "sh", "{figure}", "{toctree}"}


def test_a_page_that_fails_is_noticed(tmp_path):
    page = "```python\nx = 1\n```\n\n```sh\nmake demo\nbayesfair none.csv\n```\n\n```python\ny\n```\n"
    assert cells(page.replace("python", "{code-cell} python") + "\n```\nno code\n```\n") == "x = 1\n\ny\n"
    assert "name 'y' is not defined" in run([sys.executable, "-c", printed(page, "python")], tmp_path).stderr
    assert commands(page) == ["bayesfair none.csv"]
    assert run(commands(page)[0], tmp_path, shell=True).returncode != 0

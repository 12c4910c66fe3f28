"""The code on pages that show something of one's own, graphs, LOO and an audit runs as it is printed, from an
empty file on."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "how-to"
PAGES = [
    *sorted(FOLDER.glob("own-*.md")),
    FOLDER / "graphs.md",
    FOLDER / "loo.md",
    FOLDER.parent / "start" / "audit.md",
]
LIMIT = 1800  # seconds: the last guard against a page that hangs


def code_of(page):
    """What the page prints as code to run, in its order."""
    return "\n".join(re.findall(r"^```\{code-cell\} python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE))


def run(code, folder):
    settings = {**os.environ, "MPLBACKEND": "Agg", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=settings, capture_output=True, text=True, timeout=LIMIT
    )


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_runs_as_printed(page, tmp_path):
    drawn = "\nfrom matplotlib import pyplot as plt\nplt.gcf().savefig('drawn.png')\n"
    done = run(code_of(page) + drawn, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "drawn.png").stat().st_size > 10_000  # more than empty axes


def test_a_page_that_fails_is_noticed(tmp_path):
    page = tmp_path / "own-mistake.md"
    page.write_text(
        "# Page\n\n```{code-cell} python\nx = 1\n```\n\n```\nno code\n```\n\n```{code-cell} python\ny\n```\n"
    )
    assert code_of(page) == "x = 1\n\ny\n"
    assert "name 'y' is not defined" in run(code_of(page), tmp_path).stderr

"""Every notebook of examples/ runs from top to bottom on small settings, and is kept without outputs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.py"))
LIMIT = 1800  # seconds: the last guard against a notebook that hangs


def run(source, folder, **environment):
    """A script in a process of its own, as `python notebook.py` runs it, but compiled in a hurry and without windows."""
    fast = {"BAYESFAIR_FAST": "1", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "MPLBACKEND": "Agg"}
    settings = {**os.environ, **fast, **environment}
    command = [sys.executable, str(source)]
    return subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, timeout=LIMIT)


def cells(notebook):
    """(kind, lines) of every cell: "markdown" or "code"."""
    found = []
    for line in notebook.read_text().splitlines():
        if line.startswith("# %%"):
            found.append(("markdown" if "[markdown]" in line else "code", []))
        elif found:
            found[-1][1].append(line)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(notebook, tmp_path):
    done = run(notebook, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


READ = {
    "04_engines": "people = adult()",
    "05_beyond_two_groups": "= bf.datasets.load_bank_sample()",
    "07_audit": "pd.read_csv(",
}


@pytest.mark.slow
def test_without_data_and_network_the_story_is_of_the_same_data(tmp_path):
    """Up to the cells that read the data: the folder does not exist, and the proxy refuses every connection."""
    for stem, last in READ.items():
        source = (EXAMPLES / f"{stem}.py").read_text().split("# %%")
        end = next(i for i, cell in enumerate(source) if last in cell)
        with (tmp_path / "start.py").open("a") as file:
            file.write("# %%".join(source[: end + 1]))
    nowhere = {"BAYESFAIR_DATA": str(tmp_path / "none"), "XDG_CACHE_HOME": str(tmp_path)}
    nowhere |= dict.fromkeys(("https_proxy", "http_proxy", "HTTPS_PROXY", "HTTP_PROXY"), "http://127.0.0.1:9")
    done = run(tmp_path / "start.py", tmp_path, **nowhere)
    assert done.returncode == 0, done.stderr[-3000:]
    for said in ("Going on with the 1,000 rows", "married        144"):
        assert said in done.stdout


def test_a_failing_notebook_is_noticed(tmp_path):
    (tmp_path / "broken.py").write_text("# %%\nraise ValueError('on purpose')\n")
    done = run(tmp_path / "broken.py", tmp_path)
    assert done.returncode != 0
    assert "on purpose" in done.stderr


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_jupytext_with_a_title_small_settings_and_no_code_in_its_text(notebook):
    """A line of code that slipped into a markdown cell would never run."""
    text = notebook.read_text()
    assert text.startswith("# ---\n# jupyter:\n")
    assert "format_name: percent" in text.split("# %%")[0]
    kind, lines = cells(notebook)[0]
    assert kind == "markdown"
    assert lines[0].startswith("# # ")
    assert 'os.environ.get("BAYESFAIR_FAST") == "1"' in text
    for kind, lines in cells(notebook):
        assert kind == "code" or all(not line or line.startswith("#") for line in lines)


def test_no_outputs_are_kept():
    assert len(NOTEBOOKS) >= 6
    assert sorted(path.suffix for path in EXAMPLES.iterdir() if path.is_file()) == [".py"] * len(NOTEBOOKS)

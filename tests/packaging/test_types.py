"""What a type checker (pyright's rules, basic mode) tells a user: nothing about good programs, each mistake in bad ones."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bayesfair
import bayesfair.estimators

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("typed_program.py")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """{file name: [(line, message)]} of the program beside this file and of README's code, by one run."""
    folder = tmp_path_factory.mktemp("types")
    readme = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL))
    (folder / "readme.py").write_text(readme)
    (folder / PROGRAM.name).write_text(PROGRAM.read_text())
    settings = {"include": ["."], "extraPaths": [str(Path(bayesfair.__file__).parents[1])], "typeCheckingMode": "basic"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    about = json.loads(done.stdout)
    assert about["summary"]["filesAnalyzed"] == 2
    told = {PROGRAM.name: [], "readme.py": []}
    for one in about["generalDiagnostics"]:
        told[Path(one["file"]).name].append((one["range"]["start"]["line"], one["message"]))
    return told


@pytest.mark.slow
def test_a_program_gets_the_types_that_it_says_and_each_mistake_is_told(found):
    lines = PROGRAM.read_text().splitlines()
    wrong = {number for number, line in enumerate(lines) if "# wrong: " in line}
    assert wrong
    told = found[PROGRAM.name]
    assert {number for number, _ in told} == wrong, told


@pytest.mark.slow
def test_the_code_of_the_front_page_has_no_mistakes(found):
    assert found["readme.py"] == []


def test_type_checkers_see_every_public_name():
    """Names that are imported on first use stand twice in the front door: for the machine, and for type checkers."""
    for module in (bayesfair, bayesfair.estimators):
        text = Path(module.__file__).read_text().split("if TYPE_CHECKING:")[1].split("\nelse:")[0]
        assert set(re.findall(r"import (?:\w+ as )?(\w+)$", text, re.MULTILINE)) == set(module.__all__) - {
            "__version__"
        }

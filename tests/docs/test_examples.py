"""The examples in docstrings run, and print what they say."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "bayesfair"
WITH_EXAMPLES = [path for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text()]


@pytest.mark.slow
@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_examples_print_what_they_say(path):
    module = import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"))
    told = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert told.attempted > 0
    assert told.failed == 0  # pytest shows what it printed

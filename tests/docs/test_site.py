"""The site names everything public, and its own links point at something.

The site itself is built by `make docs`, which needs Sphinx; nothing here does.
"""

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

import bayesfair

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = DOCS / "reference"
sys.path.insert(0, str(DOCS))
from check_links import main as check_links  # noqa: E402

sys.path.pop(0)
PAGES = [*bayesfair._ROOMS, "estimators", "reports"]  # the last two are not on the face, their functions are
ROOMS = [name for name in PAGES if (REFERENCE / f"{name}.md").exists()]
ESTIMATORS = {name for name in bayesfair._HOMES if name[0].isupper()}
NAME = re.compile(r"^   (\w+)$", re.MULTILINE)


def names_on(page):
    """Those that the page lists; a page with `.. room::` has them from the room itself."""
    text = (REFERENCE / f"{page}.md").read_text()
    everything = [name for room in re.findall(r"\.\. room:: ([\w.]+)", text) for name in import_module(room).__all__]
    return NAME.findall(text) + everything


def test_every_room_has_a_page():
    assert PAGES == ROOMS
    index = (REFERENCE / "index.md").read_text()
    assert all(f"\n{room}\n" in index for room in ROOMS)


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "estimators"])
def test_every_public_name_is_in_a_table_of_its_page_once(room):
    expected = set(import_module(f"bayesfair.{room}").__all__) - ESTIMATORS
    names = names_on(room)
    assert set(names) == expected
    assert len(names) == len(set(names))


def test_every_estimator_is_described():
    text = (REFERENCE / "estimators.md").read_text()
    assert set(names_on("estimators")) == ESTIMATORS
    assert set(re.findall(r"autoclass:: (\w+)", text)) == ESTIMATORS


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_every_method_of_an_estimator_is_described(name):
    text = (REFERENCE / "estimators.md").read_text()
    shown = re.search(rf"autoclass:: {name}\n   :members: (.+)", text)[1].split(", ")
    ours = [kind for kind in getattr(bayesfair, name).__mro__ if kind.__module__.startswith("bayesfair.")]
    methods = {method for kind in ours for method, value in vars(kind).items() if callable(value) or is_class(value)}
    protocol = {*vars(bayesfair.engines.Engine), "log_joint"} - {"fit", "predict"}  # on the page of the engines
    assert set(shown) == {method for method in methods if not method.startswith("_")} - protocol


def is_class(value):
    return isinstance(value, classmethod)


def test_pages_that_are_linked_exist():
    for page in DOCS.rglob("[!_]*.md"):
        if "_build" in page.parts:
            continue
        for link in re.findall(r"\]\(([^)#:]+\.md)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.relative_to(DOCS)} links to {link}"


def test_names_that_pages_mention_exist():
    for page in [*DOCS.glob("*.md"), *DOCS.glob("[!_]*/*.md")]:
        for target in re.findall(r"\{py:\w+\}`~?bayesfair\.([\w.]+)`", page.read_text()):
            owner = bayesfair
            for part in target.split("."):
                owner = getattr(owner, part)


def test_broken_links_are_found(tmp_path, capsys):
    (tmp_path / "a.html").write_text('<p id="here"><a href="b.html#there">b</a><a href="#here">a</a></p>')
    (tmp_path / "b.html").write_text('<p id="there"><a href="https://example.org">out</a></p>')
    assert check_links(tmp_path) == 0
    (tmp_path / "b.html").write_text('<p><a href="c.html">c</a><img src="c.png"></p>')
    assert check_links(tmp_path) == 1
    found = capsys.readouterr().out
    assert "a.html: b.html#there: no such anchor" in found
    assert "b.html: c.png: no such file" in found

"""The page in a real browser, off line: every picture is there, nothing fails or runs, nothing is wider than a phone."""

import shutil
from contextlib import contextmanager

import pytest

import bayesfair as bf

EXECUTABLE = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
PICTURES = "[...document.images].map(image => [image.naturalWidth, image.alt])"
SCROLLED = "[...document.querySelectorAll('.scroll')].map(box => box.scrollWidth > box.clientWidth)"

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(EXECUTABLE is None, reason="there is no Chromium on the path")


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as engine:
        running = engine.chromium.launch(executable_path=EXECUTABLE, args=ARGUMENTS)
        yield running
        running.close()


@contextmanager
def opened(browser, path, width=1280):
    """The page at `path` without a network, and the list of what went wrong while it loaded."""
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True)
    page, wrong = context.new_page(), []
    page.on("console", lambda text: wrong.append(f"console: {text.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("request", lambda request: wrong.append(f"request: {request.url}") if is_foreign(request, path) else None)
    page.goto(path.as_uri())
    yield page, wrong
    context.close()


def is_foreign(request, path):
    return request.url != path.as_uri() and not request.url.startswith("data:")


@pytest.fixture(scope="module")
def pages(make_tree, hostile_tree, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    trees = {"plain": make_tree(), "wide": make_tree(n_clusters=12, dim=30, n_obs=80), "hostile": hostile_tree}
    return {name: bf.report(tree, folder / f"{name}.html") for name, tree in trees.items()}


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["plain", "wide", "hostile"])
def test_all_is_there_and_nothing_fails(browser, pages, name, width):
    with opened(browser, pages[name], width) as (page, wrong):
        shown = page.evaluate(PICTURES)
        assert len(shown) == 4
        assert all(pixels > 500 and len(alt) > 40 for pixels, alt in shown)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert wrong == []


def test_wide_tables_scroll_in_their_own_container(browser, pages):
    with opened(browser, pages["wide"], 390) as (page, _):
        assert any(page.evaluate(SCROLLED))
        wider = "[...document.querySelectorAll('p, dl, figure, h1')].filter(e => e.scrollWidth > e.clientWidth).length"
        assert page.evaluate(wider) == 0


def test_hostile_names_are_text(browser, pages, hostile):
    with opened(browser, pages["hostile"]) as (page, _):
        assert page.title() == "Fair clustering of 60 rows into 3 clusters"
        assert page.locator("script").count() == 0
        assert page.locator("img").count() == 4
        text = page.evaluate("document.body.innerText")
        for name in (f"f0 {hostile}", f"a {hostile}", f"$\\frac b {hostile}"):
            assert name in text
        assert any(f"row {i} {hostile}" in text for i in range(60))


def test_that_test_can_fail(browser, pages, hostile, tmp_path):
    text = pages["hostile"].read_text(encoding="utf-8")
    unsafe = tmp_path / "unsafe.html"
    unsafe.write_text(text.replace("</main>", f'<p title="{hostile}">').replace("Content-Security-Policy", "nothing"))
    with opened(browser, unsafe) as (page, wrong):
        assert page.title() == "1"
        assert wrong != []


def test_the_policy_is_a_second_lock(browser, pages, hostile, tmp_path):
    text = pages["hostile"].read_text(encoding="utf-8")
    unsafe = tmp_path / "unsafe.html"
    unsafe.write_text(text.replace("</main>", f'<p title="{hostile}">'))
    with opened(browser, unsafe) as (page, wrong):
        assert page.title() != "1"
        assert any("Content Security Policy" in line for line in wrong)

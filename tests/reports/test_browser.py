"""The page in a real browser, off line: every picture is there, nothing fails or runs, nothing is wider than a phone."""

import shutil
from contextlib import contextmanager

import pytest

import bayesfair as bf

EXECUTABLE = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
PICTURES = "[...document.images].map(image => [image.naturalWidth, image.alt])"
WIDER = "[...document.querySelectorAll('p, dl, figure, h1')].filter(e => e.scrollWidth > e.clientWidth).length"
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


@pytest.mark.slow
def test_all_is_there_and_nothing_fails(browser, make_tree, hostile, hostile_names, tmp_path):
    tree = make_tree(n_clusters=12, dim=30, n_obs=80, **hostile_names(80, 30))  # wide tables
    path = bf.report(tree, tmp_path / "page.html")
    for width in (1280, 390):
        with opened(browser, path, width) as (page, wrong):
            shown = page.evaluate(PICTURES)
            assert len(shown) == page.locator("img").count() == 4
            assert all(pixels > 500 and len(alt) > 40 for pixels, alt in shown)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert any(page.evaluate(SCROLLED))
            assert page.evaluate(WIDER) == 0
            assert page.title() == "Clustering of 80 rows into 12 clusters"
            assert page.locator("script").count() == 0
            assert f"a {hostile}" in page.evaluate("document.body.innerText")
            assert wrong == []


def test_the_policy_is_a_second_lock_without_which_hostile_names_run(
    browser, hostile_tree, hostile, tmp_path, unpainted
):
    text = bf.report(hostile_tree, tmp_path / "page.html").read_text(encoding="utf-8")
    text, unsafe = text.replace("</main>", f'<p title="{hostile}">'), tmp_path / "unsafe.html"
    for locked in (True, False):
        unsafe.write_text(text if locked else text.replace("Content-Security-Policy", "nothing"))
        with opened(browser, unsafe) as (page, wrong):
            assert (page.title() == "1") == (not locked)
            assert any("Content Security Policy" in line for line in wrong) == locked
            assert wrong != []

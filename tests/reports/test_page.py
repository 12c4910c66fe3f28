"""The template of the page: nothing that a tree says is lost, and nothing becomes markup."""

import re

import jinja2
import pytest
from elements import Elements

import bayesfair as bf
from bayesfair.reports.templates import side_by_side

pytestmark = pytest.mark.usefixtures("unpainted")


def test_hostile_names_are_text_wherever_they_stand(hostile_tree, hostile, tmp_path):
    page = bf.report(hostile_tree, tmp_path / "page.html", title=f"title {hostile}").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>\n<html")
    assert page.endswith("</html>\n")
    assert page.count("default-src 'none'; img-src data:; style-src 'unsafe-inline'") == 1
    elements = Elements(page)
    assert elements.strange() == set()
    assert sum(tag == "img" for tag, _ in elements.tags) == 4
    groups = hostile_tree["constant_data"]["group"].attrs["names"]
    for name in [f"title {hostile}", *groups, *(f"f{j} {hostile}" for j in range(4)), f"share of a {hostile}"]:
        assert name in elements.text
    assert re.search(rf"row \d+ {re.escape(hostile)}", elements.text)
    settings = elements.text.split("Provenance and settings")[-1]
    assert settings.count(hostile) >= 4  # estimator, and a parameter's name and value, and a target


def test_that_test_can_fail(hostile_tree, tmp_path, monkeypatch):
    class Careless(jinja2.Environment):
        def __init__(self, **settings):
            super().__init__(**{**settings, "autoescape": False})

    monkeypatch.setattr(jinja2, "Environment", Careless)
    page = bf.report(hostile_tree, tmp_path / "page.html").read_text(encoding="utf-8")
    assert {"script", "onerror"} <= Elements(page).strange()


def test_a_wide_table_is_cut_into_tables_that_all_name_their_rows():
    head, rows = ["row", *"abcde"], [(name, *(f"{name}{letter}" for letter in "abcde")) for name in "xy"]
    parts = side_by_side((head, rows), 2)
    assert [head for head, _ in parts] == [["row", "a", "b"], ["row", "c", "d"], ["row", "e"]]
    assert [[(name, *cells) for name, cells in rows] for _, rows in parts] == [
        [("x", "xa", "xb"), ("y", "ya", "yb")],
        [("x", "xc", "xd"), ("y", "yc", "yd")],
        [("x", "xe"), ("y", "ye")],
    ]


@pytest.mark.parametrize(("total", "widths"), [(6, [6]), (7, [4, 3]), (12, [6, 6]), (13, [5, 5, 3]), (1, [1])])
def test_no_column_is_left_by_itself(total, widths):
    assert [len(head) - 1 for head, _ in side_by_side((["row", *range(total)], []), 6)] == widths
    assert side_by_side((["row"], []), 12) == [(["row"], [])]


def test_parts_of_a_table_are_named_on_the_page(make_tree, tmp_path):
    page = bf.report(make_tree(n_clusters=8, n_obs=80), tmp_path / "page.html").read_text(encoding="utf-8")
    names = [name for name in re.findall(r"<caption>(.*?)</caption>", page) if name.startswith("Mean of")]
    assert names == ["Mean of each feature, with 89% intervals", "Mean of each feature, with 89% intervals, continued"]
    width = re.search(r'<th scope="col" style="min-width: (\d+)ch">cluster 7</th>', page)[1]
    assert width == "9"

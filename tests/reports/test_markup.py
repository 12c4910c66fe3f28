"""HTML from values: nothing is lost, and nothing becomes markup."""

import re

import pytest

from bayesfair.reports.markup import definitions, document, note, paragraph, picture, section, table

NASTY = """<b title='x' id="y">&amp;</b>"""


def test_a_wide_table_is_cut_into_tables_that_all_name_their_rows():
    head = ["row", *"abcde"]
    markup = table("letters", head, [(name, *(f"{name}{letter}" for letter in "abcde")) for name in "xy"], columns=2)
    assert re.findall(r"<caption>(.*?)</caption>", markup) == ["letters", "letters, continued", "letters, continued"]
    assert re.findall(r'<th scope="row".*?>(.*?)</th>', markup) == ["x", "y"] * 3
    cells = re.findall(r"<td>(.*?)</td>", markup)
    assert sorted(cells) == sorted(f"{name}{letter}" for name in "xy" for letter in "abcde")
    assert re.findall(r'<th scope="col".*?>(.*?)</th>', markup) == ["row", "a", "b", "row", "c", "d", "row", "e"]


@pytest.mark.parametrize(("total", "widths"), [(6, [6]), (7, [4, 3]), (12, [6, 6]), (13, [5, 5, 3]), (1, [1])])
def test_no_column_is_left_by_itself(total, widths):
    markup = table("letters", ["row", *range(total)], [], columns=6)
    assert [part.count("<th ") - 1 for part in markup.split("</thead>")[:-1]] == widths


def test_a_table_without_rows_or_columns_is_still_a_table():
    assert table("nothing", ["row"], []).count("<table>") == 1


@pytest.mark.parametrize(
    "markup",
    [
        paragraph(NASTY),
        note(NASTY, NASTY, NASTY),
        definitions([(NASTY, NASTY)]),
        table(NASTY, [NASTY, NASTY], [(NASTY, NASTY)]),
        picture(b"", NASTY, NASTY),
        section(NASTY, ""),
        document(NASTY, [(NASTY, "")]),
    ],
)
def test_every_value_is_escaped(markup):
    assert "<b" not in markup.replace("<body", "")
    assert "title='x'" not in markup
    assert "&lt;b title=&#x27;x&#x27; id=&quot;y&quot;&gt;&amp;amp;&lt;/b&gt;" in markup

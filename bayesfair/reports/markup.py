"""HTML from values. Every function escapes what it is given, so that no value from data can become markup."""

from base64 import b64encode
from html import escape
from importlib.resources import files
from math import ceil

__all__ = ["definitions", "document", "note", "paragraph", "picture", "section", "table"]

WIDE, LONG = 20, 32  # letters: of a heading that is not broken, of a cell that is
# Nothing is fetched and nothing runs, whatever a value holds: the second lock behind escaping.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def document(title, sections):
    """The whole page. `sections`: pairs (heading, markup)."""
    style = files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    links = "".join(f'<a href="#{_anchor(heading)}">{_text(heading)}</a> ' for heading, _ in sections)
    body = "".join(section(heading, markup) for heading, markup in sections)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{_text(title)}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>\n{style}</style>\n</head>\n<body>\n<header>\n<h1>{_text(title)}</h1>\n"
        f'<nav aria-label="Sections">{links}</nav>\n</header>\n<main>\n{body}</main>\n</body>\n</html>\n'
    )


def section(heading, markup):
    return f'<section id="{_anchor(heading)}">\n<h2>{_text(heading)}</h2>\n{markup}</section>\n'


def paragraph(text):
    return f"<p>{_text(text)}</p>\n"


def note(kind, headline, text):
    """A framed statement. `kind`: "good", "caution" or "bad", which colours its frame; the headline says it in words."""
    return f'<div class="note {_text(kind)}"><p><strong>{_text(headline)}</strong> {_text(text)}</p></div>\n'


def definitions(pairs):
    """A list of (term, value)."""
    rows = "".join(f"<div><dt>{_text(term)}</dt><dd>{_text(value)}</dd></div>\n" for term, value in pairs)
    return f"<dl>\n{rows}</dl>\n"


def table(caption, head, rows, *, columns=12):
    """Tables of at most so many `columns` beside the first, whose cells name the rows, as many in each as may be; each scrolls
    in its own box."""
    total = max(len(head) - 1, 1)
    width = ceil(total / ceil(total / columns))  # of 7 columns 4 and 3 where 6 may stand, not one by itself
    parts = [[(row[0], *row[at : at + width]) for row in (head, *rows)] for at in range(1, 1 + total, width)]
    names = [caption, *[f"{caption}, continued"] * (len(parts) - 1)]
    return "".join(_one_table(name, *part) for name, part in zip(names, parts))


def _one_table(caption, head, *rows):
    return (
        f'<div class="scroll" role="region" aria-label="{_text(caption)}" tabindex="0">\n<table>\n'
        f"<caption>{_text(caption)}</caption>\n<thead><tr>{''.join(map(_head_cell, head))}</tr></thead>\n"
        f"<tbody>\n{''.join(_row(*row) for row in rows)}</tbody>\n</table>\n</div>\n"
    )


def picture(png, alt, caption):
    """The bytes of a PNG file inside the page."""
    source = f"data:image/png;base64,{b64encode(png).decode('ascii')}"
    return f'<figure><img src="{source}" alt="{_text(alt)}"><figcaption>{_text(caption)}</figcaption></figure>\n'


def _head_cell(name):
    """A column's name, broken within a word only beyond `WIDE` letters."""
    longest = max(map(len, str(name).split()), default=0)
    return f'<th scope="col" style="min-width: {min(longest, WIDE) + 2}ch">{_text(name)}</th>'


def _row(name, *cells):
    values = "".join(f"<td{' class=long' if len(str(cell)) > LONG else ''}>{_text(cell)}</td>" for cell in cells)
    width = min(len(str(name)), WIDE) + 2
    return f'<tr><th scope="row" style="min-width: {width}ch">{_text(name)}</th>{values}</tr>\n'


def _text(value):
    return escape(str(value), quote=True)


def _anchor(heading):
    return "".join(letter if letter.isalnum() else "-" for letter in heading.lower())

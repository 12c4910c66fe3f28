"""Notes on a posterior as a notebook shows them: by themselves, without a style sheet."""

from html import escape

COLOURS = {"good": "#117733", "caution": "#ddcc77", "bad": "#882255"}  # those of the report
PLAIN = "#888888"
STYLE = "border-left: 0.4em solid {}; padding: 0.1em 0.8em; margin: 0.5em 0; max-width: 48em; overflow-wrap: anywhere"


def notes_as_html(notes):
    """Framed statements, every value escaped."""
    parts = [
        f'<div style="{STYLE.format(COLOURS.get(kind, PLAIN))}"><strong>{escape(headline)}</strong> {escape(text)}</div>'
        for kind, headline, text in notes
    ]
    return "".join(parts)

"""Pages from templates: one self-contained file each, with every value escaped."""

import os
from math import ceil
from pathlib import Path

from bayesfair._check import message
from bayesfair._files import check_destination, write_whole
from bayesfair._numbers import counted, percent

YES_OR_NO = {True: "yes", False: "no"}


def page_place(path, argument="path") -> Path:
    """`path`, given as this argument, if a page can be written there."""
    path = Path(path)
    if path.suffix.lower() != ".html":
        remedy = "A page is HTML; print it from a browser for a PDF."
        raise ValueError(message(argument, "end in .html", repr(os.fspath(path)), remedy))
    return check_destination(path, argument)


def write_page(path, template, **filled) -> Path:
    """Write the page that a template makes from the values `filled`; return its path."""
    page = _environment().get_template(template).render(**filled)
    write_whole([page.encode("utf-8", errors="replace")], path)
    return path


def _environment():
    from jinja2 import Environment, PackageLoader, StrictUndefined

    shape = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    environment = Environment(
        loader=PackageLoader(__package__, ""), autoescape=True, undefined=StrictUndefined, **shape
    )
    environment.filters |= {"counted": counted, "percent": percent, "side_by_side": side_by_side}
    return environment


def as_table(columns):
    """Head and rows of a table {name: cells}, or of a DataFrame without its index."""
    return list(columns), list(zip(*(columns[name] for name in columns)))


def side_by_side(table, columns):
    """A table as several of at most `columns` columns beside the first: pairs of a head and rows (name, the other cells)."""
    head, rows = table
    total = max(len(head) - 1, 1)
    width = ceil(total / ceil(total / columns))  # splits 7 columns into 4 and 3 where 6 fit, not 6 and 1
    parts = [slice(first, first + width) for first in range(1, 1 + total, width)]
    return [([head[0], *head[part]], [(row[0], row[part]) for row in rows]) for part in parts]


def versions():
    """Pairs of a name and a version for the libraries that make pages."""
    from importlib.metadata import version

    return [(name, version(name)) for name in ("arviz-stats", "matplotlib", "numpy", "xarray")]

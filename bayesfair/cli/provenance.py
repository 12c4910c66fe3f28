"""The source of a page's figures: file, command, columns, rows left out."""

import hashlib
import os

from bayesfair.cli.tables import listed, typed

PIECE = 2**20  # bytes that are read at a time


def provenance(arguments, columns) -> dict[str, str]:
    """{term: text} for a command that read the table `arguments.table` and took `columns` from it."""
    without = listed(f"{count:,} without {typed(name)}" for name, count in columns.dropped.items())
    numbers = columns.features.select_dtypes("number").shape[1]
    scaled = "divided by their standard deviation" if arguments.standardize else "as they are in the file"
    about = {
        "File": os.fspath(arguments.table),
        "SHA-256 of the file": sha256_of(arguments.table),
        "Command": arguments.typed,
        "Sensitive columns": listed(map(typed, columns.sensitive)),
        "Features": listed(map(typed, columns.features)) or "none",
        "Scaling of the features": scaled if numbers else "none",
        "Rows": f"{len(columns.sensitive):,}",
        "Rows dropped": without or "none",
    }
    return about


def sha256_of(path):
    """The checksum of a file; words for anything else, such as a pipe, which can be read only once."""
    if not path.is_file():
        return "not a file"
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()

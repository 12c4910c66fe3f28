"""Draws the rows of Adult and Bank that come with the package, from the published files, and checks their checksums.

BAYESFAIR_DATA=/folder/with/both python tools/draw-samples.py [FOLDER]    (default: where the package keeps them)
"""

import gzip
import hashlib
import sys
from pathlib import Path

import numpy as np

from bayesfair.datasets.registry import SOURCES, fetch
from bayesfair.datasets.uci import SAMPLES

ROWS, SEED = 1_000, 0
HEADER_LINES = {"adult": 0, "bank": 1}


def sample(lines, header_lines):
    """The header and ROWS of the other lines, drawn without replacement, in their order and as they stand."""
    rows = [line for line in lines[header_lines:] if line.strip()]
    chosen = np.random.default_rng(SEED).choice(len(rows), ROWS, replace=False)
    return [*lines[:header_lines], *(rows[i] for i in np.sort(chosen))]


def main(folder):
    for name, header_lines in HEADER_LINES.items():
        source = SOURCES[name]
        published = fetch(source).read_bytes()
        if hashlib.sha256(published).hexdigest() != source.sha256:
            sys.exit(f"{source.file_name} is not the published file: its sha256 is not {source.sha256}.")
        drawn = b"".join(sample(published.splitlines(keepends=True), header_lines))
        path = folder / f"{source.file_name}.gz"
        path.write_bytes(gzip.compress(drawn, compresslevel=9, mtime=0))
        print(f"{path}: {ROWS:,} of {source.rows:,} rows, {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES)

"""A saved run, damaged in a thousand seeded ways: what reading it does each time. The last three columns must be 0.

refused: a ValueError that names the file. harmless: the same content. silent: other content without a word.
raw: an error of another library's, or the end of the process. slow: no answer within --limit seconds of a processor.

python benchmarks/damaged_files.py [--cases 1000] [--seed 0] [--run FILE] [--unchecked]
"""

import argparse
import io
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd

from bayesfair.posterior import files

OUTCOMES = ["refused", "harmless", "silent", "raw", "slow"]
FIT = """
import sys, bayesfair as bf
data = bf.datasets.make_well_specified()
est = bf.GibbsFairClustering(2, num_chains=2, num_warmup=20, num_draws=30, random_state=0, progress_bar=False)
import warnings; warnings.simplefilter("ignore")  # too short a run to agree
est.fit(data.features, sensitive_features=data.sensitive).save(sys.argv[1])
"""


def flip_bit(rng, whole):
    at = rng.integers(len(whole))
    return whole[:at] + bytes([whole[at] ^ 1 << rng.integers(8)]) + whole[at + 1 :]


def overwrite(rng, whole):
    at, length = place(rng, whole)
    return whole[:at] + rng.bytes(length) + whole[at + length :]


def zero(rng, whole):
    at, length = place(rng, whole)
    return whole[:at] + bytes(length) + whole[at + length :]


def copy_block(rng, whole):
    at, length = place(rng, whole)
    source = rng.integers(len(whole) - length)
    return whole[:at] + whole[source : source + length] + whole[at + length :]


def insert(rng, whole):
    at, length = place(rng, whole)
    return whole[:at] + rng.bytes(length) + whole[at:]


def cut_out(rng, whole):
    at, length = place(rng, whole)
    return whole[:at] + whole[at + length :]


def truncate(rng, whole):
    return whole[: rng.integers(len(whole))]


def append(rng, whole):
    return whole + rng.bytes(place(rng, whole)[1])


def damage_trailer(rng, whole):
    at = len(whole) - files._TRAILER_LENGTH
    return whole[:at] + flip_bit(rng, whole[at:])


DAMAGES = [flip_bit, overwrite, zero, copy_block, insert, cut_out, truncate, append, damage_trailer]


def place(rng, whole):
    """Where a block of 2 to 1,024 bytes starts, and how long it is."""
    length = int(2 ** rng.uniform(1, 10))
    return int(rng.integers(len(whole) - length)), length


def outcome(path, original, limit):
    """What reading `path` does, found in a process of its own that the kernel ends after so many seconds of a processor."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, limit)
        os._exit(OUTCOMES.index(read(path, original)))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return OUTCOMES[status] if status >= 0 else "slow" if status == -signal.SIGPROF else "raw"


def read(path, original):
    try:
        tree = files.read_tree(path)
    except ValueError as error:
        return "refused" if repr(os.fspath(path)) in str(error) else "raw"
    except BaseException:
        return "raw"
    return "harmless" if tree.identical(original) else "silent"


def open_unchecked(path):
    """What `read_tree` does once the checksum is right, for any file."""
    import xarray as xr

    with xr.open_datatree(io.BytesIO(Path(path).read_bytes()), engine="h5netcdf") as file:
        return file.load()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=10, metavar="SECONDS")
    parser.add_argument("--run", type=Path, metavar="FILE", help="a saved run, by default one that is fitted first")
    parser.add_argument("--unchecked", action="store_true", help="read without the checksum, to see what it is for")
    arguments = parser.parse_args()
    rng, counts = np.random.default_rng(arguments.seed), pd.DataFrame(0, [d.__name__ for d in DAMAGES], OUTCOMES)
    if arguments.unchecked:
        mock.patch.object(files, "read_tree", open_unchecked).start()
    with tempfile.TemporaryDirectory() as folder:
        path, broken = arguments.run or Path(folder) / "run.nc", Path(folder) / "broken.nc"
        if arguments.run is None:
            subprocess.run([sys.executable, "-c", FIT, path], check=True)  # JAX, which must not be forked, stays there
        whole, original = path.read_bytes(), files.read_tree(path)
        for case in range(arguments.cases):
            damage = DAMAGES[case % len(DAMAGES)]
            broken.write_bytes(damage(rng, whole))
            counts.loc[damage.__name__, outcome(broken, original, arguments.limit)] += 1
    print(f"a run of {len(whole):,} bytes")
    print(pd.concat([counts, counts.sum().to_frame("all").T]).assign(cases=lambda table: table.sum(axis=1)).to_string())
    return 1 if counts[["silent", "raw", "slow"]].to_numpy().any() else 0


if __name__ == "__main__":
    sys.exit(main())

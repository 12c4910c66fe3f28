"""Fairlets of large tables: seconds, memory beyond the table, and what is known of the optimum.

python benchmarks/fairlets.py [--rows 10000 100000 1000000] [--exact-up-to 50000]

Rows simulated like Census 1990, as in `scale.py`; all of Adult, exact, is in `adult_fairlets.py`.
"""

import argparse
import gc
import time
from pathlib import Path

from scale import peak, resident, table

from bayesfair.fairlets import decompose


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--exact-up-to", type=int, default=50_000)
    arguments = parser.parse_args()
    decompose(*table(2_000), exact_up_to=0, random_state=0)  # libraries
    for n_obs in arguments.rows:
        X, groups = table(n_obs)
        gc.collect()
        before = resident()
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        start, processors = time.perf_counter(), time.process_time()
        found = decompose(X, groups, exact_up_to=arguments.exact_up_to, random_state=0)
        seconds, processors = time.perf_counter() - start, time.process_time() - processors
        print(
            f"{n_obs:>9,} rows {seconds:7.1f} s {processors:7.1f} s of processors {(peak() - before) / n_obs:6.0f} bytes a row"
        )
        print(f"          {found}, {found.method}", flush=True)


if __name__ == "__main__":
    main()

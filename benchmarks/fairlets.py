"""Fairlets of large tables: seconds, seconds of processors, bytes a row beyond the table, and what is known of the optimum.

python benchmarks/fairlets.py [--rows 10000 100000 1000000] [--exact-up-to 50000]

Rows simulated like Census 1990, as in `scale.py`; all of Adult, exact, is in `adult_fairlets.py`.
"""

import argparse
from functools import partial

from scale import table, timed

from bayesfair.fairlets import decompose


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--exact-up-to", type=int, default=50_000)
    arguments = parser.parse_args()
    settings = {"exact_up_to": arguments.exact_up_to, "random_state": 0}
    decompose(*table(2_000), **{**settings, "exact_up_to": 0})  # libraries
    for n_obs in arguments.rows:
        work = partial(decompose, *table(n_obs), **settings)
        timed(f"{n_obs:,}", n_obs, work, lambda found: f"{found}, {found.method}")


if __name__ == "__main__":
    main()

"""Simulation-based calibration of every kind of mixture at lambda = 0, and coverage under a fair mixture (issue 4).

python benchmarks/models/calibration.py [--replications 200] [--sets 100]
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))  # the tests run the same code at a smaller size

from models import calibration


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--sets", type=int, default=100)
    arguments = parser.parse_args()
    print(f"p-values that ranks are uniform, {arguments.replications} replications")
    for kind in calibration.KINDS:
        start = time.perf_counter()
        p_values = calibration.rank_p_values(kind, arguments.replications, seed=1)
        shown = ", ".join(f"{name} {p:.3f}" for name, p in p_values.items())
        print(f"{kind:<12} {shown}  ({time.perf_counter() - start:.0f} s)", flush=True)
    inside, table = calibration.coverage(arguments.sets, seed=1)
    print(f"90% intervals of the means hold the truth in {inside:.3f} of {arguments.sets} sets x 4 intervals")
    print("rows, mean misclassification probability, share misclassified")
    for n_rows, predicted, actual in table:
        print(f"{n_rows:>6.0f} {predicted:>8.3f} {actual:>8.3f}")


if __name__ == "__main__":
    main()

"""The optimal fairlets of all of Adult, with their proof: seconds, peak memory, cost, bound.

BAYESFAIR_DATA=... python benchmarks/adult_fairlets.py
"""

import resource
import time

import bayesfair as bf


def main():
    adult = bf.datasets.load_adult()
    X = (adult.features - adult.features.mean()) / adult.features.std(ddof=0)
    start = time.perf_counter()
    fairlets = bf.fairlets.decompose(X, adult.sensitive)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(fairlets)
    print(f"cost {fairlets.cost:.9g}, lower bound {fairlets.lower_bound:.9g}, relative gap {fairlets.gap:.1e}")
    print(f"{seconds:.1f} s, peak memory of the process {peak:.2f} GiB")


if __name__ == "__main__":
    main()

"""The joint posterior of all of Adult (N = 32,561, K = 10): seconds, memory and diagnostics, as they are.

BAYESFAIR_DATA=... python benchmarks/adult_posterior.py [--warmup 500] [--draws 500] [--thinning 1]
"""

import argparse
import resource
import time

import bayesfair as bf


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--thinning", type=int, default=1)
    arguments = parser.parse_args()
    adult = bf.datasets.load_adult()
    X = (adult.features - adult.features.mean()) / adult.features.std(ddof=0)
    start = time.perf_counter()
    length = {"num_warmup": arguments.warmup, "num_draws": arguments.draws, "thinning": arguments.thinning}
    est = bf.GibbsFairClustering(10, **length, random_state=0)
    est.fit(X, sensitive_features=adult.sensitive)
    seconds = time.perf_counter() - start
    print(bf.posterior.summary(est.posterior_).round(3).to_string())
    print(bf.fairness.report(est.labels_, adult.sensitive, X).round(3).to_string())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"fit, fairlets and compilation and summaries included: {seconds:.0f} s; peak memory {peak:.2f} GiB")


if __name__ == "__main__":
    main()

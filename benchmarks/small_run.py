"""963 clients of Bank at 4:5 (the Gibbs paper's largest run has 965 rows): 4 chains of 1,000 + 1,000, all in all.

BAYESFAIR_DATA=... python benchmarks/small_run.py
"""

import time

import bayesfair as bf


def main():
    bank = bf.datasets.load_bank(sensitive="married")
    some = bf.datasets.subsample(bank, {"married": 5, "not married": 4}, 963, seed=0)
    X = (some.features - some.features.mean()) / some.features.std(ddof=0)
    start = time.perf_counter()
    est = bf.GibbsFairClustering(4, reallocation="collapsed", random_state=0, progress_bar=False)
    est.fit(X, sensitive_features=some.sensitive)
    print(f"4 x (1,000 + 1,000), collapsed, compilation and summaries included: {time.perf_counter() - start:.1f} s")
    print(bf.posterior.summary(est.posterior_).round(3).to_string())


if __name__ == "__main__":
    main()

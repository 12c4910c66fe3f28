"""Engines on Adult and Bank: cost, gap and seconds of processors, and their ratios to an earlier run.

BAYESFAIR_DATA=... python benchmarks/engines.py --save before.json; then, of another version, --against before.json

cost: squared distances to the means of the clusters, per row. seconds: of a second fit, which compiles nothing.
More rows than a table has are drawn with replacement.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

import bayesfair as bf

ENGINES = {
    "FairMixture": lambda: bf.FairMixture(5, max_gap=0.05, n_init=6, random_state=0),
    "VFC": lambda: bf.VariationalFairClustering(5, random_state=0),
    "BigLearn": lambda: bf.BigLearnMixture(5, max_iter=200, random_state=0),
    "TKM": lambda: bf.TiltedKMeans(5, tilt=0.5, random_state=0),
}
BANK = ["age", "duration", "campaign", "euribor3m", "nr.employed"]


def table(name, n_obs):
    """(standardised rows, groups)."""
    if name == "adult":
        data = bf.datasets.load_adult(progress_bar=False)
        X, group = data.features, data.sensitive
    else:
        data = bf.datasets.load_bank_additional(progress_bar=False)
        X, group = data.features[BANK], data.sensitive == "married"
    rows = np.random.default_rng(0).choice(len(X), n_obs, replace=n_obs > len(X))
    X = np.asarray(X, float)[rows]
    return (X - X.mean(0)) / X.std(0), np.asarray(group)[rows]


def measure(engine, X, group):
    """(cost, gap, seconds of processors)."""
    for _ in range(2):
        start = time.process_time()
        est = ENGINES[engine]().fit(X, sensitive_features=group)
        seconds = time.process_time() - start
    labels = np.asarray(est.labels_)
    cost = sum(np.square(own - own.mean(0)).sum() for own in (X[labels == k] for k in np.unique(labels))) / len(X)
    return float(cost), float(bf.fairness.gap(labels, group)), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="*", default=list(ENGINES), help=f"of {', '.join(ENGINES)}")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--save", type=Path)
    parser.add_argument("--against", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    before, found = json.loads(arguments.against.read_text()) if arguments.against else {}, {}
    print(f"{'case':26} {'cost':>8} {'gap':>7} {'seconds':>8}   ratios to before")
    for n_obs in arguments.rows:
        for data in ("adult", "bank"):
            X, group = table(data, n_obs)
            for engine in arguments.engines:
                case = f"{data} {n_obs} {engine}"
                found[case] = now = measure(engine, X, group)
                ratios = [a / b if b else np.nan for a, b in zip(now, before.get(case, ()))]
                figures = "{:8.4f} {:7.4f} {:8.2f}".format(*now)
                print(f"{case:26} {figures}  ", *(f"{one:.3f}" for one in ratios), flush=True)
                if arguments.save:
                    arguments.save.write_text(json.dumps(found))


if __name__ == "__main__":
    main()

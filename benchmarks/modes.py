"""Do chains agree, and which modes are there: Bank-additional (900 or 4,000 rows, K = 4) and all of Adult (K = 10).

BAYESFAIR_DATA=... python benchmarks/modes.py bank --target joint [--rows 900] [--seeds 0 1 2 3 4]
BAYESFAIR_DATA=... python benchmarks/modes.py adult --target optimal [--normalise]
"""

import argparse
import time

import numpy as np
from mixing import table
from sklearn.cluster import KMeans

import bayesfair as bf


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=["bank", "adult"])
    parser.add_argument("--target", default="optimal")
    parser.add_argument("--rows", type=int, default=900)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--normalise", action="store_true", help="rows of length one, of adult")
    parser.add_argument("--warmup", type=int)
    parser.add_argument("--draws", type=int)
    arguments = parser.parse_args()
    is_bank = arguments.data == "bank"
    X, groups = table(f"bank{arguments.rows}" if is_bank else "adult")
    if arguments.normalise:
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    usual = 1000 if is_bank else 500
    length = {"num_warmup": arguments.warmup or usual, "num_draws": arguments.draws or usual}
    for seed in arguments.seeds:
        start = time.perf_counter()
        settings = {"target": arguments.target, "random_state": seed, "progress_bar": False, **length}
        est = bf.GibbsFairClustering(4 if is_bank else 10, **settings)
        tree = est.fit(X, sensitive_features=groups).posterior_
        print(f"\nseed {seed}: {time.perf_counter() - start:.0f} s for the whole fit")
        summary = bf.posterior.summary(tree)
        moving = summary.dropna(subset="r_hat").sort_values("r_hat")
        shown = moving.index.intersection(["lp"]).union(moving.index[-4:], sort=False)
        print(moving.loc[shown, ["mean", "sd", "ess_bulk", "r_hat"]].round(3).to_string())
        print(summary.sentences["modes"])
        print(bf.posterior.modes(tree).round(3).to_string())
        if arguments.target == "optimal":
            print_cheapest(tree, X)


def print_cheapest(tree, X):
    """The least clustering loss of 100 k-means++ starts on the fairlets of the run, and that which the best modes lead to."""
    state = tree["sampler_state"]
    members = state["members"].values[0]
    present = (members >= 0)[:, :, None]
    size = present.sum(1)
    centers = (X[members] * present).sum(1) / size
    weights = size[:, 0] / size.mean()
    n_clusters = tree.attrs["n_clusters"]
    starts = KMeans(n_clusters, n_init=100, random_state=0).fit(centers, sample_weight=weights).inertia_
    print(f"cheapest of 100 k-means++ starts {starts:.1f}; k-means from the modes' clusterings:", end="")
    for labels in tree["modes"]["labels"].values[:3]:
        init = np.stack([X[labels == k].mean(0) for k in range(n_clusters)])
        print(f" {KMeans(n_clusters, init=init, n_init=1).fit(centers, sample_weight=weights).inertia_:.1f}", end="")
    print()


if __name__ == "__main__":
    main()

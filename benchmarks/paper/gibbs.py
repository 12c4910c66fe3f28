"""The Gibbs paper's experiments: balance of clustering without and with fairness, and L1 against L2 under t_2 noise.

BAYESFAIR_DATA=... python benchmarks/paper/gibbs.py [--seeds 20]
"""

import argparse

import numpy as np

import bayesfair as bf

PAPER = {"4.1 well specified": 0.62, "4.2 misspecified": 0.67, "5.1 Credit": 0.27, "5.3 Bank": 0.06}


def fit(data, n_clusters, standardize=False, **settings):
    X = data.features
    if standardize:
        X = (X - X.mean()) / X.std(ddof=0)
    run = {"num_chains": 2, "num_warmup": 300, "num_draws": 300, "random_state": 0, "progress_bar": False}
    return bf.GibbsFairClustering(n_clusters, **run, **settings).fit(X, sensitive_features=data.sensitive)


def balances(name, draws, n_clusters, **settings):
    """Balance of the MAP clustering over several data sets, without and with fairness."""
    vanilla, fair = [], []
    for data in draws:
        plain = fit(data, n_clusters, target="optimal", composition="singletons", **settings)
        vanilla.append(bf.fairness.balance(plain.map_labels_, data.sensitive))
        est = fit(data, n_clusters, **settings)
        fair.append(
            (bf.fairness.balance(est.map_labels_, data.sensitive), est.posterior_["sample_stats"]["balance"].min())
        )
    on_map, worst = np.array(fair).T
    spread = f"{np.mean(vanilla):.2f} ({np.min(vanilla):.2f} to {np.max(vanilla):.2f})"
    print(
        f"{name:<22}{len(vanilla):>6}{PAPER[name]:>10.2f}{spread:>26}{on_map.min():>14.2f}{worst.min():>16.2f}",
        flush=True,
    )


def contrast(tree, truth):
    """Mean co-clustering probability within less between the true clusters: 1 is as clear as can be."""
    eta = bf.posterior.co_clustering(tree)
    same = truth[:, None] == truth
    return eta[same].mean() - eta[~same].mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = range(parser.parse_args().seeds)
    make = bf.datasets
    print(f"{'experiment':<22}{'data':>6}{'paper':>10}{'without fairness':>26}{'fair, MAP':>14}{'fair, any draw':>16}")
    balances("4.1 well specified", (make.make_well_specified(seed) for seed in seeds), 2)
    balances("4.2 misspecified", (make.make_misspecified(seed) for seed in seeds), 2)
    try:
        credit = make.load_credit(features=("AGE", "LIMIT_BAL"), sensitive="married")
        bank = make.load_bank(sensitive="married")
    except (FileNotFoundError, OSError, RuntimeError) as error:
        print(f"Credit and Bank are left out: {error}")
    else:
        some = [make.subsample(credit, (1, 1), 120, seed=seed) for seed in list(seeds)[:5]]
        balances("5.1 Credit", some, 3, standardize=True)
        one = make.subsample(bank, {"married": 2, "not married": 1}, 939, seed=0)
        balances("5.3 Bank", [one], 4, standardize=True)
    print("\nFig. 3, t_2 noise: co-clustering within less between the true clusters")
    differences = []
    for seed in seeds:
        data = make.make_misspecified(seed)
        truth = data.target.to_numpy()
        clear = [contrast(fit(data, 2, loss=loss).posterior_, truth) for loss in ("kmeans", "manhattan")]
        differences.append(clear)
    means = np.mean(differences, axis=0)
    wins = np.mean([b > a for a, b in differences])
    print(
        f"L2 (k-means) {means[0]:.2f}, L1 (Manhattan) {means[1]:.2f}; L1 is clearer on {wins:.0%} of {len(differences)}"
    )


if __name__ == "__main__":
    main()

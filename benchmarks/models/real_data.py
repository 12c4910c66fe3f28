"""Bayesian fair mixtures beside FMC on Bank (three groups) and 5,000 rows of Credit: diagnostics, gap and balance.

BAYESFAIR_DATA=... python benchmarks/models/real_data.py [--draws 500]
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.preprocessing import StandardScaler

import bayesfair as bf


def tables():
    bank = bf.datasets.load_bank()
    yield "Bank", bank.features[["age", "balance", "duration"]].to_numpy(), bank.sensitive.to_numpy()
    credit = bf.datasets.load_credit()
    rows = np.random.default_rng(0).choice(len(credit.features), 5_000, replace=False)
    yield "Credit", credit.features.to_numpy()[rows], credit.sensitive.to_numpy()[rows]


def line(name, groups, labels, gap, seconds):
    balance, hard = bf.fairness.balance(labels, groups), bf.fairness.gap(labels, groups)
    print(f"{name:<44} Delta {gap:.4f}, hard Delta {hard:.4f}, Balance {balance:.3f}, {seconds:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=500)
    draws = parser.parse_args().draws
    warnings.simplefilter("ignore")
    for name, X, groups in tables():
        X = StandardScaler().fit_transform(X)
        print(f"{name}: {len(X):,} rows, groups {np.unique(groups).tolist()}, K = 4")
        start = time.perf_counter()
        fmc = bf.FairMixture(4, max_gap=0.01, covariance_type="diag", random_state=0).fit(X, sensitive_features=groups)
        line("FMC, max_gap 0.01", groups, fmc.labels_, fmc.gap_, time.perf_counter() - start)
        for weight in (0.0, 1.0, 5.0):
            start = time.perf_counter()
            settings = {"fairness_weight": weight, "covariance_type": "diag", "random_state": 0, "progress_bar": False}
            est = bf.BayesianFairMixture(4, num_warmup=draws, num_draws=draws, **settings)
            est.fit(X, sensitive_features=groups)
            line(f"posterior, lambda = {weight:g}", groups, est.labels_, est.gap_, time.perf_counter() - start)
            summary = bf.posterior.summary(est.posterior_)
            print(summary.loc[summary.index.str.contains("^lp|gap|balance")].round(3).to_string())


if __name__ == "__main__":
    main()

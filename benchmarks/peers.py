"""The cheapest balanced clustering beside its peers, in one run and in their settings.

BAYESFAIR_DATA=... python benchmarks/peers.py [--seeds 3] [--tables Adult ...] [--mpfc ROWS] [--normalised]

MS-FlowFC and MPFC (Mantuano, Baumann 2026) run where their package `fair-clustering-at-scale` is installed: numeric columns
scaled to [0, 1], the two largest groups, tolerance 0.01. `BalancedKMeans` is asked for the Balance that MS-FlowFC reached;
without the package, for the one that it reached in `KNOWN`, whose costs are printed. MPFC, whose solver SCIP needs minutes
beyond some hundred rows, is given `--mpfc` rows. `--normalised`: FCA's and FMC's setting, rows of length one, beside figures
of their authors' codes on the same rows. Seconds are those of processors, without the first fit, which compiles.
"""

import argparse
import time
from functools import partial

import numpy as np
import pandas as pd

import bayesfair as bf

try:
    from fair_clustering.base import FairClustering
except ImportError:
    FairClustering = None

ADULT = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
BANK = ["age", "balance", "day", "duration", "campaign", "pdays", "previous"]
BANK_ADDITIONAL = [
    "age",
    "duration",
    "campaign",
    "pdays",
    "previous",
    "emp.var.rate",
    "cons.price.idx",
    "cons.conf.idx",
]
BANK_ADDITIONAL += ["euribor3m", "nr.employed"]
CREDIT = ["LIMIT_BAL", "EDUCATION", "MARRIAGE", "AGE", *(f"PAY_{month}" for month in (0, *range(2, 7)))]
CREDIT += [f"{name}_AMT{month}" for name in ("BILL", "PAY") for month in range(1, 7)]
LOAD = {
    "Adult": partial(bf.datasets.load_adult, ADULT),
    "Bank": partial(bf.datasets.load_bank, BANK),
    "Bank-additional": partial(bf.datasets.load_bank_additional, BANK_ADDITIONAL),
    "Credit": partial(bf.datasets.load_credit, CREDIT, "sex"),
}
TIME_LIMIT = 600  # of a fit of MS-FlowFC or MPFC, in seconds
# table, clusters, tolerance: Balance that MS-FlowFC reached, its costs with three seeds, its seconds
KNOWN = {
    ("Adult", 10, 0.01): (0.4894, (1143, 1102, 1118), 2),
    ("Adult", 10, 0.1): (0.445, (1097, 1069, 1090), 2),
    ("Adult", 5, 0.01): (0.489, (1674, 1694, 1686), 1),
    ("Bank-additional", 10, 0.01): (0.459, (2546, 2479, 2488), 1.5),
    ("Bank", 10, 0.01): (0.424, (157, 151, 156), 1),
    ("Credit", 10, 0.01): (0.650, (2682, 2791, 2644), 3),
}
# table: loader, (method, cost, Balance) of the authors' codes on rows of length one (DESIGN.md, section 2.6)
NORMALISED = {
    "Adult": (bf.datasets.load_adult, [("FCA", 10_297, 0.492), ("MS-FlowFC", 10_823, 0.494)]),
    "Bank-additional": (partial(bf.datasets.load_bank_additional, sensitive="married"), [("FCA", 10_286, 0.648)]),
    "Credit": (bf.datasets.load_credit, [("FCA", 5_686, 0.875), ("MS-FlowFC", 6_427, 0.875)]),
    "Bank-additional, three groups": (bf.datasets.load_bank_additional, [("MS-FlowFC", 11_310, 0.185)]),
}


def in_unit_cube(name):
    """(numeric columns in [0, 1], codes of groups) of the rows of the two largest groups."""
    data = LOAD[name]()
    group = pd.Series(np.ravel(data.sensitive))
    two = group.isin(group.value_counts().index[:2]).to_numpy()
    X = data.features.to_numpy(float)[two]
    low, high = X.min(0), X.max(0)
    return (X - low) / np.where(high > low, high - low, 1), pd.factorize(group[two])[0]


def line(method, costs, balance, seconds):
    print(
        f"    {method:<18}cost {' / '.join(f'{cost:.2f}' for cost in costs):<34}Balance {balance:.4f}  {seconds:6.1f} s",
        flush=True,
    )


def timed(fit):
    start = time.process_time()
    return fit(), time.process_time() - start


def theirs(algorithm, n_clusters, tolerance, seed, X, group):
    return FairClustering(algorithm, n_clusters, tolerance, seed=seed, time_limit=TIME_LIMIT).fit(X, group)


def ours(n_clusters, least, seeds, X, group):
    """The costs of `BalancedKMeans` with several seeds, its least Balance, and the seconds of one fit."""
    fits = [
        timed(
            lambda seed=seed: bf.BalancedKMeans(n_clusters, min_balance=least, random_state=seed).fit(
                X, sensitive_features=group
            )
        )
        for seed in (0, *range(seeds))
    ][1:]
    balance = min(bf.fairness.balance(est.labels_, group) for est, _ in fits)
    line("ours", [est.inertia_ for est, _ in fits], balance, np.mean([seconds for _, seconds in fits]))


def beside_flow(name, n_clusters, tolerance, seeds):
    X, group = in_unit_cube(name)
    print(f"{name}, K = {n_clusters}, tolerance {tolerance}: {len(X):,} rows")
    least, costs, seconds = KNOWN[name, n_clusters, tolerance]
    line("MS-FlowFC, known", costs, least, seconds)
    if FairClustering is not None:
        fits = [
            timed(lambda seed=seed: theirs("msflowfc", n_clusters, tolerance, seed, X, group)) for seed in range(seeds)
        ]
        least = min(est.balance_ for est, _ in fits)
        line("MS-FlowFC, here", [est.cost_ for est, _ in fits], least, np.mean([seconds for _, seconds in fits]))
    ours(n_clusters, least, seeds, X, group)


def beside_mpfc(name, n_rows, seeds):
    X, group = in_unit_cube(name)
    some = np.random.default_rng(0).choice(len(X), n_rows, replace=False)
    X, group = X[some], group[some]
    print(f"{name}, K = 10, tolerance 0.01: {n_rows:,} rows")
    est, seconds = timed(lambda: theirs("mpfc", 10, 0.01, 0, X, group))
    if est.balance_ is None:
        print(f"    MPFC found no clustering in {TIME_LIMIT} s", flush=True)
    else:
        line("MPFC, here", [est.cost_], est.balance_, seconds)
    ours(10, est.balance_ or "exact", seeds, X, group)


def beside_printed(name, seeds):
    load, known = NORMALISED[name]
    data = load()
    X = data.features.to_numpy(float)
    X = (X - X.mean(0)) / X.std(0)
    X, group = X / np.linalg.norm(X, axis=1, keepdims=True), np.ravel(data.sensitive)
    print(f"{name}, rows of length one, K = 10, exactly balanced: {len(X):,} rows")
    for method, cost, balance in known:
        line(f"{method}, known", [cost], balance, np.nan)
    ours(10, "exact", seeds, X, group)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tables", nargs="+", choices=list(LOAD), default=list(LOAD))
    parser.add_argument("--mpfc", type=int, metavar="ROWS", help="rows of the first table for MPFC")
    parser.add_argument("--normalised", action="store_true")
    arguments = parser.parse_args()
    if FairClustering is None:
        print("fair-clustering-at-scale is not installed: its figures are known ones.")
    for name, n_clusters, tolerance in KNOWN:
        if name in arguments.tables:
            beside_flow(name, n_clusters, tolerance, arguments.seeds)
    if arguments.mpfc and FairClustering is not None:
        beside_mpfc(arguments.tables[0], arguments.mpfc, arguments.seeds)
    for name in NORMALISED if arguments.normalised else ():
        beside_printed(name, arguments.seeds)


if __name__ == "__main__":
    main()

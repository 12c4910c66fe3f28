"""Fits at the defaults: seconds, the slowest scalar, its effective draws for each processor second, and the worst R-hat.

BAYESFAIR_DATA=... python benchmarks/mixing.py [CASE ...] [--warmup 1000] [--draws 1000] [--no-modes] [--seed 0]

Seconds are of the whole fit, the search for modes and the summaries of `fit` included, after a short fit that compiles.
"""

import argparse
import time
import warnings

import numpy as np

import bayesfair as bf

COLUMNS = ["age", "duration", "euribor3m", "nr.employed", "cons.price.idx", "campaign"]
K = {"patients": 3, "bank900": 4, "bank2000": 4, "bank41108": 10, "adult": 10}
CASES = [f"{data} {target}" for data in K for target in ("labels", "joint", "cut", "optimal")]


def table(name, seed=0):
    """(X, groups): the patients as they come, others standardised; `seed` draws the rows of a sample."""
    if name == "patients":
        data = bf.datasets.load_diabetes()
        return np.asarray(data.features, float), np.asarray(data.sensitive)
    if name == "adult":
        data = bf.datasets.load_adult()
        X, group = data.features, data.sensitive
    else:
        data = bf.datasets.load_bank_additional()
        rows = np.random.default_rng(seed).choice(len(data.features), int(name.removeprefix("bank")), replace=False)
        X = data.features[COLUMNS].iloc[rows]
        group = (data.sensitive.iloc[rows] == "married").map({True: "m", False: "n"})
    return np.asarray((X - X.mean()) / X.std(ddof=0), float), np.asarray(group)


def measure(case, **length):
    """One line of the table."""
    data, target = case.split()
    X, group = table(data)
    est = bf.GibbsFairClustering(K[data], target=target, progress_bar=False, **length)
    short = est.get_params(deep=False) | {"num_warmup": 4, "num_draws": 4, "modes": None}
    bf.GibbsFairClustering(**short).fit(X[:300], sensitive_features=group[:300])
    start, start_cpu = time.perf_counter(), time.process_time()
    est.fit(X, sensitive_features=group)
    seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    scalars = bf.posterior.summary(est.posterior_)
    slowest, ess = scalars["ess_bulk"].idxmin(), scalars["ess_bulk"].min()
    figures = f"{seconds:8.1f} {cpu:8.1f} {ess:9.0f} {ess / cpu:9.1f} {scalars['r_hat'].max():7.3f}"
    print(f"{case:18} {figures}   {slowest}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "cases", nargs="*", default=["patients labels", "patients joint"], help=f"of {', '.join(CASES)}"
    )
    parser.add_argument("--no-modes", action="store_true")
    for name, default in (("draws", 1000), ("warmup", 1000), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    length = {"num_warmup": arguments.warmup, "num_draws": arguments.draws, "random_state": arguments.seed}
    print(f"{'case':18}  seconds      cpu       ESS   ESS/cpu   R-hat   slowest scalar")
    for case in arguments.cases:
        measure(case, modes=None if arguments.no_modes else "auto", **length)


if __name__ == "__main__":
    main()

"""How right stated probabilities are, on tables whose true clusters are known and fair.

BAYESFAIR_DATA=... python benchmarks/calibration.py [--truths 60] [--dear 20] [--keep figures.jsonl] [--rows 120] [--print]

Truths differ in kind (round, unequal spreads, elongated, t with 3 degrees, curved), number of clusters (2 to 6), groups (2 or
4) and overlap. `--dear`: on how many of them the targets over fairlets, "calibrated" and the mixture run. What `--keep` has is
not run again.
Figures are means over truths, in percent, with Monte Carlo errors. "error of pairs": the mean absolute difference of
the stated probability that two rows are together and how often they are, over ten classes of it. "pairs of 95%": how many of
those stated to be together with at least 95% are. "sets", "balls", "sure rows": how often they hold what they should in 90%.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from scipy.special import ndtri

import bayesfair as bf

KINDS = {"round": {}, "unequal": {}, "elongated": {"elongation": 3.0}, "t3": {"degrees_of_freedom": 3.0}, "curved": {}}
OVERLAPS = 0.01, 0.04, 0.08, 0.15
TARGETS, RULES = ("labels", "joint", "cut", "optimal"), ("dispersion", "holmes-walker", "fixed", "calibrated")
MIXTURE = "mixture", "full"
METHODS = [(target, rule) for target in TARGETS for rule in RULES if rule != "calibrated" or target == "labels"]
LEVEL, SURE = 0.9, 0.95
BINS, TABLES = 10, 12
RUN = {"num_chains": 2, "num_warmup": 300, "num_draws": 300, "random_state": 0, "progress_bar": False}
BEND = 0.8  # of a curved cluster: how far its ends are from its tangent, in standard deviations


def truth(number, n_obs):
    """(features, groups, true clusters, facts) of a truth."""
    kind, block = list(KINDS)[number % 5], number // 5
    n_clusters, overlap, n_groups = 2 + block % 5, OVERLAPS[block % 4], (2, 4)[(block // 5 + block // 20) % 2]
    rng = np.random.default_rng(number)
    settings = dict(KINDS[kind]) | {"n_groups": n_groups, "overlap": overlap, "seed": number}
    if kind == "unequal":
        settings["covariances"] = np.linspace(0.5, 1.5, n_clusters)[:, None, None] ** 2 * np.eye(2)
    if kind == "curved":
        settings["centers"] = np.zeros((n_clusters, 2))
    data = bf.datasets.make_fair_mixture(n_obs, n_clusters, **settings)
    X, cluster = data.features.to_numpy(), data.target.to_numpy()
    if kind == "curved":
        X = circle(n_clusters, overlap)[cluster] + bent(X, cluster, rng)
    facts = {"kind": kind, "K": n_clusters, "groups": n_groups, "overlap": overlap}
    return X, data.sensitive.to_numpy(), cluster, facts


def circle(n_clusters, overlap):
    """Centres as near to each other as `make_fair_mixture` has them for clusters of unit variance."""
    angle = 2 * np.pi * np.arange(n_clusters) / n_clusters
    return ndtri(1 - overlap) / np.sin(np.pi / n_clusters) * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def bent(noise, cluster, rng):
    """Round residuals as parts of a curve of unit variance, in a direction of its own for every cluster."""
    along, across = 1.2 * noise[:, 0], 0.5 * noise[:, 1] + BEND * (noise[:, 0] ** 2 - 1) / np.sqrt(2)
    turn = np.exp(1j * rng.uniform(0, 2 * np.pi, cluster.max() + 1))[cluster]
    turned = turn * (along + 1j * across)
    return np.stack([turned.real, turned.imag], axis=1)


def posterior(method, X, groups, cluster, n_clusters):
    """The posterior of a method."""
    target, rule = method
    if method == MIXTURE:
        est = bf.BayesianFairMixture(n_clusters, covariance_type="full", **RUN)
    else:
        if rule == "fixed":
            rule = fixed_at_truth(target, X, groups, cluster, n_clusters)
        if rule == "calibrated":
            rule = calibrated_temperature(target, X, groups, n_clusters)
        est = bf.GibbsFairClustering(n_clusters, target=target, inverse_temperature=rule, **RUN)
    return est.fit(X, sensitive_features=groups).posterior_


def calibrated_temperature(target, X, groups, n_clusters):
    """The inverse temperatures that calibration by simulation finds on a short run."""
    est = bf.GibbsFairClustering(n_clusters, target=target, **RUN).fit(X, sensitive_features=groups)
    found = bf.posterior.calibration(est, TABLES, random_state=0, progress_bar=False)
    return [found.attrs["multiple"] * one for one in est.inverse_temperature_]


def fixed_at_truth(target, X, groups, cluster, n_clusters):
    """1 / (2 sigma^2), sigma^2 being the variance within the true clusters: what nobody knows of real data."""
    within = X - pd.DataFrame(X).groupby(cluster).transform("mean").to_numpy()
    one = X.shape[1] * len(X) / (2 * np.square(within).sum())
    if target == "labels":
        return float(one)
    short = RUN | {"num_warmup": 20, "num_draws": 20, "modes": None}
    est = bf.GibbsFairClustering(n_clusters, target=target, **short).fit(X, sensitive_features=groups)
    lambda_f, lambda_c = est.inverse_temperature_
    lambda_c_true = one * len(X) / len(bf.fairlets.decompose(X, groups).composition)
    return lambda_f / lambda_c * lambda_c_true, lambda_c_true


def figures(tree, cluster):
    """What a posterior states, beside what is true."""
    shown = bf.posterior.memberships(tree, level=LEVEL)
    own = shown["cluster"].to_numpy()
    number = numbered_like(own, cluster)  # true clusters as the point estimate numbers them
    right, stated = own == number, shown["probability"].to_numpy()
    sets = [str(one).split(" or ") for one in shown["label_set"]]
    ball = bf.posterior.credible_ball(tree, level=LEVEL, estimate=own)
    sure = bf.posterior.sure_rows(tree, level=LEVEL)
    rows = sure["position"].to_numpy()
    pairs = np.triu_indices(len(cluster), 1)
    together, same = bf.posterior.co_clustering(tree)[pairs], (cluster[:, None] == cluster)[pairs]
    of_bin = np.minimum((together * BINS).astype(int), BINS - 1)
    bins = [np.bincount(of_bin, values, BINS).tolist() for values in (np.ones(len(same)), together, same)]
    likely = together >= SURE
    return {
        "bins": bins,
        "pairs": [int(likely.sum()), float(together[likely].sum()), int(same[likely].sum())],
        "members": [float(stated.mean()), float(right.mean())],
        "sets": float(np.mean([str(true) in one for true, one in zip(number, sets)])),
        "ball": bool(bf.posterior.partition_distance(cluster[None], own)[0] <= ball.radius + 1e-12),
        "sure": bool(is_same_partition(sure["cluster"].to_numpy(), cluster[rows])),
        "sure_rows": len(rows) / len(cluster),
    }


def numbered_like(own, cluster):
    """True clusters with the numbers of the point estimate's clusters that they share most rows with."""
    shared = np.zeros((max(own.max(), cluster.max()) + 1,) * 2, int)
    np.add.at(shared, (cluster, own), 1)
    return linear_sum_assignment(shared, maximize=True)[1][cluster]


def is_same_partition(one, other):
    return len(set(zip(one.tolist(), other.tolist()))) == len(np.unique(one)) == len(np.unique(other))


def run(numbers, methods, keep, n_obs):
    """Add what is missing to the file: a line for each truth and method."""
    done = {(one["truth"], *one["method"]) for one in read(keep)}
    for number in numbers:
        X, groups, cluster, facts = truth(number, n_obs)
        for method in methods:
            if (number, *method) in done:
                continue
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of short runs, and of chains in several modes
                tree = posterior(method, X, groups, cluster, facts["K"])
                found = figures(tree, cluster)
            line = {"truth": number, "method": method, **facts, **found, "seconds": time.process_time() - start}
            with keep.open("a") as file:
                file.write(json.dumps(line) + "\n")


def read(keep):
    return [json.loads(line) for line in keep.read_text().splitlines()] if keep.exists() else []


def mean(values):
    """A share with its Monte Carlo error, in percent."""
    values = np.asarray(values, float)
    return f"{100 * values.mean():.0f} ({100 * values.std() / np.sqrt(len(values)):.0f})"


def ratio(parts, at=2):
    """The share of true ones among all that were stated, pooled over truths, with a jackknife's error, in percent."""
    total, held = np.array([(part[0], part[at]) for part in parts], float).T
    if total.sum() == 0:
        return "none"
    without = np.array([(held.sum() - h) / max(total.sum() - n, 1) for n, h in zip(total, held)])
    error = np.sqrt((len(parts) - 1) * without.var())
    return f"{100 * held.sum() / total.sum():.0f} ({100 * error:.0f})"


def error_of_pairs(lines):
    """Mean absolute difference of stated and true over ten classes of stated probability, weighted by pairs, with its error."""

    def of(bins):
        count, stated, true = bins
        return np.abs(stated - true).sum() / count.sum()

    bins = np.array([line["bins"] for line in lines])
    without = [of(bins.sum(0) - one) for one in bins] if len(bins) > 1 else [0.0]
    return f"{of(bins.sum(0)):.3f} ({np.sqrt((len(bins) - 1) * np.var(without)):.3f})"


COLUMNS = ["truth", "method", "truths", "error of pairs", "pairs of 95%", "likeliest: stated", "right", "sets of 90%"]
COLUMNS += ["balls of 90%", "sure rows of 90%", "sure rows"]


def table(lines):
    """A line of text cells for each kind of truth, and all of them, and method that ran."""
    rows = [COLUMNS, ["---"] * len(COLUMNS)]
    for kind in [*KINDS, "all"]:
        for method in [*METHODS, MIXTURE]:
            some = [one for one in lines if tuple(one["method"]) == method and kind in (one["kind"], "all")]
            if some:
                rows.append([kind, ", ".join(method), str(len(some)), *figures_of_table(some)])
    return rows


def figures_of_table(some):
    """The figures of the table for the lines of one method."""
    members = np.array([one["members"] for one in some])
    return [
        error_of_pairs(some),
        ratio([one["pairs"] for one in some]),
        *(mean(members[:, at]) for at in (0, 1)),
        *(mean([one[name] for one in some]) for name in ("sets", "ball", "sure", "sure_rows")),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("truths", 60), ("dear", 20), ("rows", 120)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--keep", type=Path, default=Path("calibration.jsonl"))
    parser.add_argument(
        "--print", action="store_true", help="only print the table of the first --truths that are there"
    )
    parser.add_argument(
        "--methods", nargs="*", help="such as labels:dispersion or mixture:full; all of them by default"
    )
    given = parser.parse_args()
    asked = [tuple(one.split(":")) for one in given.methods or map(":".join, [*METHODS, MIXTURE])]
    cheap = [one for one in asked if one[0] == "labels" and one[1] != "calibrated"]
    if not given.print:
        run(range(given.truths), cheap, given.keep, given.rows)
        run(range(min(given.dear, given.truths)), [one for one in asked if one not in cheap], given.keep, given.rows)
    lines = [one for one in read(given.keep) if one["truth"] < given.truths]
    for row in table(lines):
        print(f"| {' | '.join(row)} |")
    print(
        f"{len({one['truth'] for one in lines})} truths, {sum(one['seconds'] for one in lines) / 60:.0f} minutes of a processor"
    )


if __name__ == "__main__":
    main()

"""BigLearn-EM. Tables 1 to 3, Figures 2 and 4."""

import gzip
import os
import time
from functools import cache, partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.io import loadmat
from scipy.optimize import linear_sum_assignment
from scipy.stats import multivariate_normal
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

import bayesfair as bf
from bayesfair.engines.big_learn import Wandering

from .rounds import conditional_round, densities
from .sheet import fitted, over_seeds

TITLE = "BigLearn-EM"
# file of all rows or of the rows to learn from, that of the others, how many learn, K, floor of the eigenvalues (Table 5)
TABLES = {
    "Glass": ("glass.mat", None, None, 6, 1e-2),
    "Letter": ("letter.mat", None, 15_000, 26, 1e-3),
    "Pendigits": ("pendigits_train.mat", "pendigits_test.mat", None, 12, 1e-2),
    "Vehicle": ("Vehicle.mat", None, None, 6, 1e-3),
}
SEEDS_OF = {"Letter": 3, "Pendigits": 30}  # of the tables, 10 of others
IDX = "images-idx3-ubyte.gz", "labels-idx1-ubyte.gz"  # as FashionMNIST is published
JOINT = {"matching_probabilities": (1, 0, 0), "n_local_steps": 1, "weight_prior": 0}
ETA, FLOOR, VARIANCE, ROWS, TEST_ROWS = 0.2, 1e-5, 0.1, 2_000, 5_000  # of the authors' notebook
ROUNDS, LAST, SEEDS = 2_000, 200, 6  # of the grid
LEAST, MEAN = "least KL of a round", f"mean KL of the last {LAST} rounds"
MIDDLES = np.stack(np.meshgrid(*[2.0 * np.arange(5) - 4] * 2), -1).reshape(-1, 2)
WHY_GRID = (
    "The paper's figure is the least KL of all rounds, chosen by the test rows, and so is ours. Variance 0.1, 2,000 rows, "
    "5,000 test rows, floor 1e-5 and eta 0.2 are those of the authors' notebook. Ours make 2,000 rounds. "
    "Tried with W 5 and six seeds: 5,000 rounds (0.040 ± 0.015; mean of the last 200: 0.074 ± 0.073), there eta 0.04 "
    "(0.043 ± 0.025; 0.055 ± 0.031), and in 2,000 rounds a floor of 0.001 (0.090 ± 0.021; 0.125 ± 0.032). "
    "Runs that have found all 25 heaps reach 0.030 to 0.034. The others wait for the matching that frees them."
)
NOTES = (
    "What `fit` returns on the grid at the defaults is worse than with the prior of before, 1 / K: in 500 rounds and twelve "
    "seeds the KL is 0.090 ± 0.038 against 0.071 ± 0.027. With a floor of 1e-5 both are 0.061, in 2,000 rounds (eight seeds) "
    "0.052 and 0.059.",
    "The default eta is the authors' 1 / sqrt(K) all the same, for Pendigits (six seeds: NMI 0.809 against 0.788, ARI 0.704 "
    "against 0.659) and Vehicle (ten: NMI 0.277 against 0.254). On Glass (ten) NMI is 0.424 against 0.432.",
    "The default floor stays 0.001. With 1e-5, as on the authors' grid, Glass has NMI 0.30 instead of 0.42, and components "
    "without rows.",
)
WHY_JOINT = "A single random start; the steps end when the objective changes by less than 0.001%."
WHY = (
    "The paper averages the last 200 of 10,000 rounds and 100 runs; ours make 500 rounds and end in joint EM steps, whose "
    "likelihood is higher. Runs that are stuck escape late. Tried on Pendigits with the prior of before, 1 / K: 2,000 rounds "
    "(NMI 0.809 ± 0.034 with ten seeds), and the parameters before the joint steps (0.783 with four)."
)


def read(file):
    folder = Path(os.environ["BAYESFAIR_DATA"]).parent / "clustering"
    table = loadmat(folder / file)["DataSet"].astype(float)
    return table[:, 1:], table[:, 0].astype(int)


def split(name, seed):
    """(X, y) to learn from and (X, y) to test on, scaled to [0, 1] by those that are learned from: the official split, or
    a fifth at random."""
    file, others, n_learn, *_ = TABLES[name]
    X, y = read(file)
    if others:
        learn, test = (X, y), read(others)
    else:
        rows = np.arange(len(X)) if n_learn else np.random.default_rng(seed).permutation(len(X))
        rows = np.split(rows, [n_learn or round(0.8 * len(X))])
        learn, test = ((X[part], y[part]) for part in rows)
    low, width = learn[0].min(0), np.maximum(np.ptp(learn[0], axis=0), 1e-12)
    return [((X - low) / width, y) for X, y in (learn, test)]


def table_1(sheet):
    """The ablation on the grid. The paper's standard deviations: .035, .073, .054, .034, .006, .007; .044 for +CM."""
    for note in NOTES:
        sheet.note(note)
    joint, marginal, all_three = (1, 0, 0), (0.8, 0.2, 0), (0.4, 0.1, 0.5)
    methods = {
        "Joint-EM": (Wandering(1), 0.0, joint, 0.263),
        "+Pr": (Wandering(1), ETA, joint, 0.225),
        "+Pr+MM": (Wandering(1), ETA, marginal, 0.141),
        "+Pr+MM+RTMM, W 1": (Wandering(1), ETA, all_three, 0.077),
        "+Pr+MM+RTMM, W 5 (BigLearn-EM)": (Wandering(5), ETA, all_three, 0.030),
        "+Pr+MM+RTMM, W 10": (Wandering(10), ETA, all_three, 0.031),
        "+Pr+MM+CM": (conditional_round, ETA, joint, 0.124),
    }
    for method, (step, eta, probabilities, paper) in methods.items():
        ours = over_seeds(partial(by_round, settings=(step, eta, probabilities)), range(SEEDS))
        sheet.row("Table 1", "25-GMM", method, ours, {LEAST: paper}, why=WHY_GRID)
    fits = {}, {"min_eigenvalue": FLOOR}, {"min_eigenvalue": FLOOR, "max_iter": 2_000}
    for settings in fits:
        ours = over_seeds(partial(divergence, settings=settings), range(SEEDS))
        told = ", ".join(f"{name}={value}" for name, value in settings.items()) or "the defaults"
        sheet.row("What `BigLearnMixture(25).fit` returns", "25-GMM", told, ours)


def grid(seed, n_samples):
    """Rows of the 25-GMM with the variance of the authors' notebook."""
    drawn = bf.datasets.make_gmm_grid(seed=seed, n_samples=n_samples)
    middle = MIDDLES[drawn.target]
    return middle + np.sqrt(VARIANCE) / 0.3 * (drawn.features.to_numpy() - middle)


@cache
def truth():
    """Test rows of the grid and the mean log-density of the truth there."""
    test = grid(10_000, TEST_ROWS)
    density = multivariate_normal.pdf(test[:, None] - MIDDLES, cov=VARIANCE * np.eye(2)).mean(1)
    return test, np.log(density).mean()


@cache
def by_round(seed, settings):
    """KL divergence of the truth from the parameters: the least of all rounds, and the mean of the last."""
    step, eta, probabilities = settings
    start = time.process_time()
    test, best = truth()
    found = best - densities(step, grid(seed, ROWS), test, 25, seed, (eta, FLOOR, probabilities), ROUNDS)
    return {LEAST: found.min(), MEAN: found[-LAST:].mean(), "CPU s": time.process_time() - start}


def divergence(seed, settings):
    """KL divergence of the truth from a fit."""
    test, best = truth()
    est, seconds = fitted(bf.BigLearnMixture(25, random_state=seed, **settings), grid(seed, ROWS))
    return {"KL": best - est.score(test), "CPU s": seconds}


def scores(seed, name, settings, share=1.0):
    (X, _), (X_test, y_test) = split(name, seed)
    rows = np.random.default_rng(seed).permutation(len(X))[: round(share * len(X))]
    k, floor = TABLES[name][3:]
    est, seconds = fitted(bf.BigLearnMixture(k, min_eigenvalue=floor, random_state=seed, **settings), X[rows])
    found = est.predict(X_test)
    agree = {"NMI": normalized_mutual_info_score(y_test, found), "ARI": adjusted_rand_score(y_test, found)}
    return {**agree, "test LL": est.score(X_test), "CPU s": seconds}


def table_2(sheet):
    """Single starts, as in the paper."""
    printed = {
        "Glass": {"Joint-EM": (0.436, 0.220, 7.008), "BigLearn-EM": (0.459, 0.228, 7.140)},
        "Letter": {"Joint-EM": (0.492, 0.193, 19.297), "BigLearn-EM": (0.532, 0.244, 19.664)},
        "Pendigits": {"Joint-EM": (0.771, 0.626, 9.960), "BigLearn-EM": (0.823, 0.724, 10.266)},
        "Vehicle": {"Joint-EM": (0.197, 0.094, 22.896), "BigLearn-EM": (0.249, 0.131, 23.738)},
    }
    for name, methods in printed.items():
        seeds = range(max(SEEDS_OF.get(name, 10), len(sheet.seeds)))
        for method, (nmi, ari, likelihood) in methods.items():
            settings, why = (JOINT, WHY_JOINT) if method == "Joint-EM" else ({}, WHY)
            ours = over_seeds(partial(scores, name=name, settings=settings), seeds)
            sheet.row("Table 2", name, method, ours, {"NMI": nmi, "ARI": ari, "test LL": likelihood}, why=why)
    sheet.needs("Table 2", "Connect-4, Covtype, Satimage, Seismic, Svmguide2")


def table_3(sheet):
    """All 70,000 images of FashionMNIST, as pixels in [0, 1]."""
    parts = [Path(os.environ["BAYESFAIR_DATA"]) / f"{part}-{kind}" for part in ("train", "t10k") for kind in IDX]
    if not all(part.exists() for part in parts):
        return sheet.needs("Table 3", "FashionMNIST")
    X, y, X_test, y_test = (of_idx(part) for part in parts)
    X, y = np.concatenate([X, X_test]).reshape(-1, 784) / 255, np.concatenate([y, y_test])

    def of(seed):
        est, seconds = fitted(bf.BigLearnMixture(10, min_eigenvalue=1e-2, random_state=seed), X)
        table = contingency_matrix(y, est.labels_)
        agree = table[linear_sum_assignment(-table)].sum() / len(y)
        return {"accuracy": agree, "NMI": normalized_mutual_info_score(y, est.labels_), "CPU s": seconds}

    paper = {"accuracy": 0.624, "NMI": 0.681}
    sheet.row("Table 3", "FashionMNIST", "BigLearn-EM", over_seeds(of, sheet.seeds[:1]), paper)


def of_idx(path):
    """The numbers of a gzipped IDX file: its fourth byte says how many sizes precede them."""
    held = gzip.decompress(path.read_bytes())
    return np.frombuffer(held, np.uint8, offset=4 + 4 * held[3]).reshape(
        np.frombuffer(held[4 : 4 + 4 * held[3]], ">i4")
    )


def figure_2(sheet):
    methods = {"Joint-EM": (Wandering(1), 0.0, (1, 0, 0)), "BigLearn-EM": (Wandering(5), ETA, (0.4, 0.1, 0.5))}
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.5), sharey=True)
    found = [over_seeds(partial(by_round, settings=settings), range(SEEDS)) for settings in methods.values()]
    for axis, measure in zip(axes, (LEAST, MEAN)):
        axis.boxplot([one[measure] for one in found], tick_labels=list(methods))
        axis.set(title=measure, ylabel="KL to the truth")
    sheet.picture("figure-2", figure, f"Figure 2b: KL divergence of the truth by round, 25-GMM, {SEEDS} seeds")


def figure_4(sheet):
    shares = [0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0]
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4))
    for label, settings in {"Joint-EM": JOINT, "BigLearn-EM": {}}.items():
        score = partial(scores, name="Pendigits", settings=settings)
        found = [over_seeds(partial(score, share=share), sheet.seeds) for share in shares]
        for axis, measure in zip(axes, ("NMI", "ARI")):
            axis.errorbar(
                shares, [one[measure].mean() for one in found], [one[measure].std() for one in found], label=label
            )
            axis.set(xlabel="share of the rows learned from", ylabel=measure)
    axes[0].legend()
    sheet.picture("figure-4", figure, "Figure 4: few rows to learn from, Pendigits")


PARTS = table_1, table_2, table_3, figure_2, figure_4

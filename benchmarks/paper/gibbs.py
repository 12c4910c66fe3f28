"""The Gibbs posterior: sections 4 and 5, Figures 1-6."""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import bayesfair as bf

from .sheet import fitted, normalised, over_seeds, there

TITLE = "The Gibbs posterior of fair clusterings"
RUN = {"num_chains": 2, "num_warmup": 300, "num_draws": 300, "random_state": 0, "progress_bar": False}
PLAIN = {"target": bf.gibbs.Optimal(composition="singletons")}  # without fairness
SIMULATED = {"well-specified", "misspecified"}


def sampled(data, k, **settings):
    """(the fitted estimator, processor seconds) on standardised columns; simulations are taken as they are."""
    X = data.features.to_numpy(float) if data.name in SIMULATED else normalised(data.features, unit=False)
    return X, fitted(bf.GibbsFairClustering(k, **{"target": "joint", **RUN, **settings}), X, data.sensitive)


def compare(sheet, where, name, make, k, printed):
    """The MAP clustering without fairness and with it, beside k-means and fairlet k-means."""

    def of(seed, fair):
        data = make(seed)
        settings = {} if fair else PLAIN
        X, (est, seconds) = sampled(data, k, **settings)
        if fair:
            reference = bf.FairletKMeans(k, random_state=0).fit(X, sensitive_features=data.sensitive).labels_
        else:
            reference = KMeans(k, n_init=10, random_state=0).fit(X).labels_
        balance = bf.fairness.balance(est.map_labels_, data.sensitive)
        found = {"Balance": balance, "ARI to the point estimate": adjusted_rand_score(reference, est.map_labels_)}
        least = {"least Balance of a draw": float(est.posterior_["sample_stats"]["balance"].min())}
        papers = bf.posterior.misclassification_probability(est.posterior_, method="medoid")  # 1 - eta
        doubt = {"mean misclassification probability": float(papers.mean())}
        return {**found, **(least if fair else {}), **doubt, "CPU s": seconds}

    for method, fair, balance in (
        ("vanilla, beside k-means", False, printed[0]),
        ("fair, beside fairlets", True, printed[1]),
    ):
        why = (
            ""
            if fair
            else "The paper has one data set and one sub-sample; without fairness Balance varies between them."
        )
        ours = over_seeds(partial(of, fair=fair), sheet.seeds)
        sheet.row(where, name, method, ours, {"Balance": balance}, why=why)
    data = make(0)
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5))
    for axis, settings in zip(axes, (PLAIN, {})):
        X, (est, _) = sampled(data, k, **settings)
        bf.plots.uncertainty(est.posterior_, X[:, :2], ax=axis)
        axis.set_title("fair" if not settings else "without fairness")
    sheet.picture(name.split()[0], figure, f"{where}, {name}: MAP clusters and misclassification probability")


def section_4_1(sheet):
    compare(sheet, "Section 4.1", "well-specified", bf.datasets.make_well_specified, 2, (0.62, 1.0))


def section_4_2(sheet):
    compare(sheet, "Section 4.2", "misspecified", bf.datasets.make_misspecified, 2, (0.67, 1.0))


def figure_3(sheet):
    """Co-clustering under both losses: mean probability within less between the true clusters."""

    def of(seed, loss):
        data = bf.datasets.make_misspecified(seed)
        _, (est, seconds) = sampled(data, 2, loss=loss)
        same = data.target.to_numpy()[:, None] == data.target.to_numpy()
        eta = bf.posterior.co_clustering(est.posterior_)
        return {"contrast of co-clustering": eta[same].mean() - eta[~same].mean(), "CPU s": seconds}

    figure, axes = plt.subplots(1, 2, figsize=(9, 4))
    for axis, (loss, name) in zip(axes, (("kmeans", "L2"), ("manhattan", "L1"))):
        sheet.row("Figure 3", "misspecified", f"{name} loss", over_seeds(partial(of, loss=loss), sheet.seeds))
        data = bf.datasets.make_misspecified(0)
        _, (est, _) = sampled(data, 2, loss=loss)
        order = np.argsort(data.target.to_numpy(), kind="stable")
        axis.imshow(bf.posterior.co_clustering(est.posterior_)[np.ix_(order, order)], cmap="Blues", vmin=0, vmax=1)
        axis.set_title(f"{name} loss")
    sheet.picture("figure-3", figure, "Figure 3: co-clustering probabilities, rows by true cluster")


def section_5_1(sheet):
    credit = bf.datasets.load_credit(features=("AGE", "LIMIT_BAL"), sensitive="married")
    some = partial(bf.datasets.subsample, credit, (1, 1), 120)
    compare(sheet, "Section 5.1", "Credit", lambda seed: some(seed=seed), 3, (0.27, 1.0))


def section_5_2(sheet):
    if not there("diabetic_data.csv"):
        return sheet.needs("Section 5.2", "Diabetes 130-US")
    some = partial(bf.datasets.subsample, bf.datasets.load_diabetes130(), (4, 5), 965)
    compare(sheet, "Section 5.2", "Diabetes", lambda seed: some(seed=seed), 4, (0.23, 0.8))


def section_5_3(sheet):
    bank = bf.datasets.load_bank(sensitive="married")
    some = partial(bf.datasets.subsample, bank, {"married": 2, "not married": 1}, 939)
    compare(sheet, "Section 5.3", "Bank", lambda seed: some(seed=seed), 4, (0.06, 0.5))


PARTS = section_4_1, section_4_2, figure_3, section_5_1, section_5_2, section_5_3

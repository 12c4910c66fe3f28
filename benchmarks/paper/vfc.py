"""VFC: variational fair clustering. Tables 2-4, Figures 1-3."""

from functools import partial

import matplotlib.pyplot as plt

import bayesfair as bf

from .sheet import CENSUS, EQUAL, WHY_SHORT, as_fair, fitted, normalised, over_seeds, there

TITLE = "Variational fair clustering (VFC)"
SYNTHETIC = {
    "Synthetic": bf.datasets.make_vfc_synthetic,
    "Synthetic-unequal": partial(bf.datasets.make_vfc_synthetic, unequal=True),
}
REAL = {
    "Adult": bf.datasets.load_adult,
    "Bank": bf.datasets.load_bank_additional,
    "Census": bf.datasets.load_census1990,
}
WHY_OTHER_DATA = (
    "The paper does not print its points: ours follow the authors' code. "
    "At lambda = 10 these k-medians have the smaller E, 285.4 against 287.1 of the balanced ones."
)
WHY_LEAST = "The cost and the fairness error are lower, and so is Balance, which is that of the worst cluster alone."
WHY = {
    ("kmedians", "Adult"): WHY_LEAST,
    ("kmedians", "Bank"): WHY_LEAST,
    ("kmeans", "Adult"): "The authors' code on these rows gives a Balance of .397 at its error of .014.",
    ("kmeans", "Bank"): "The authors' code on these rows has an error of .08 at 9,545.",
}


def clustering(objective, name, **settings):
    return bf.VariationalFairClustering(2 if name in SYNTHETIC else 10, objective=objective, **settings)


def compare(sheet, where, objective, printed, weights=None, authors=None):
    """`printed`: {data: (objective, fairness error, Balance)}. Ours at the paper's lambda for the data in `weights`, and for
    all at the smallest weight whose fairness error is at most the paper's."""
    for name, (cost, error, balance) in printed.items():
        if name == "Census" and not there(CENSUS):
            sheet.needs(where, "Census 1990")
            continue
        data = {**SYNTHETIC, **REAL}[name]()
        X = normalised(data.features)
        goals = {f"fairness error at most {max(error, 0.005)}": {"max_fairness_error": max(error, 0.005)}}
        if name in (weights or {}):
            goals = {f"lambda = {weights[name]}": {"fairness_weight": weights[name] / len(X)}, **goals}
        for method, goal in goals.items():
            of = partial(measured, objective=objective, name=name, goal=goal, X=X, sensitive=data.sensitive)
            paper = {"cost": cost, "KL error": error, "Balance": balance}
            why = WHY_OTHER_DATA if name in SYNTHETIC else WHY.get((objective, name), "")
            ours = over_seeds(of, sheet.seeds[: 1 if objective == "ncut" else None])
            sheet.row(where, name, method, ours, paper, (authors or {}).get(name), why)


def measured(seed, objective, name, goal, X, sensitive):
    est, seconds = fitted(clustering(objective, name, random_state=seed, **goal), X, sensitive)
    balance = bf.fairness.balance(est.labels_, sensitive)
    return {"cost": est.cost_, "KL error": est.fairness_error_, "Balance": balance, "CPU s": seconds}


def equal_balance(sheet):
    """Costs at the paper's Balance: ours at the loosest bound, of a few, that reaches it."""
    printed = {
        ("kmedians", "Adult"): (18467.75, 0.43, (0.008, 0.007, 0.006, 0.005)),
        ("kmedians", "Bank"): (19527.08, 0.18, (0.014, 0.012, 0.01, 0.008)),
        ("kmeans", "Adult"): (9984.01, 0.41, (0.016, 0.014, 0.012, 0.01)),
        ("kmeans", "Bank"): (9392.20, 0.17, (0.08, 0.07, 0.06, 0.05)),
    }
    for (objective, name), (cost, balance, errors) in printed.items():
        data = REAL[name]()
        one = {"objective": objective, "name": name, "X": normalised(data.features), "sensitive": data.sensitive}
        of = lambda goal, one=one: over_seeds(partial(measured, goal=goal, **one), sheet.seeds)  # noqa: E731
        bound, ours = as_fair(of, [{"max_fairness_error": error} for error in errors], balance)
        method = f"{objective}; ours max_fairness_error={bound['max_fairness_error']}"
        sheet.row(EQUAL, name, method, ours, {"cost": cost, "Balance": balance}, why=WHY_SHORT)


def table_2(sheet):
    printed = {
        "Synthetic": (292.4, 0.0, 1.0),
        "Synthetic-unequal": (174.81, 0.0, 0.33),
        "Adult": (18467.75, 0.01, 0.43),
        "Bank": (19527.08, 0.02, 0.18),
        "Census": (1754109.46, 0.02, 0.78),
    }
    weights = {"Synthetic": 10, "Synthetic-unequal": 10, "Adult": 9000, "Census": 500_000}
    compare(sheet, "Table 2, k-medians", "kmedians", printed, weights)


def table_3(sheet):
    printed = {
        "Synthetic": (207.80, 0.0, 1.0),
        "Synthetic-unequal": (159.75, 0.0, 0.33),
        "Adult": (9984.01, 0.018, 0.41),
        "Bank": (9392.20, 0.05, 0.17),
        "Census": (1018996.53, 0.02, 0.78),
    }
    authors = {
        "Adult": {"cost": 10192, "KL error": 0.014, "Balance": 0.397},
        "Bank": {"cost": 9545, "KL error": 0.080, "Balance": 0.168},
    }
    weights = {"Synthetic": 10, "Synthetic-unequal": 10, "Adult": 9000, "Bank": 6000, "Census": 500_000}
    compare(sheet, "Table 3, k-means", "kmeans", printed, weights, authors)


def table_4(sheet):
    printed = {
        "Synthetic": (0.0, 0.0, 1.0),
        "Synthetic-unequal": (0.06, 0.0, 0.33),
        "Adult": (0.74, 0.08, 0.30),
        "Bank": (0.58, 0.39, 0.14),
        "Census": (0.52, 0.41, 0.43),
    }
    compare(sheet, "Table 4, Ncut", "ncut", printed)


def figure_1(sheet):
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2))
    data = SYNTHETIC["Synthetic"]()
    X = normalised(data.features)
    for axis, objective in zip(axes, ("kmeans", "ncut", "kmedians")):
        settings = {"fairness_weight": 10 / len(X) if objective != "ncut" else 1.0, "random_state": 0}
        est, _ = fitted(clustering(objective, "Synthetic", **settings), X, data.sensitive)
        axis.plot(est.objective_trace_, ".-")
        axis.set(xlabel="iteration", ylabel="E(S)", title=objective)
    sheet.picture("figure-1", figure, "Figure 1: E(S) by iteration, Synthetic")


def figure_2(sheet):
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6))
    for axis, (name, load) in zip(axes, REAL.items()):
        data = load()
        X = normalised(data.features)
        weights = [100, 1000, 2000, 4000, 6000, 9000, 15000, 30000]
        fits = [
            fitted(clustering("kmeans", name, fairness_weight=w / len(X), random_state=0), X, data.sensitive)[0]
            for w in weights
        ]
        axis.plot(weights, [est.cost_ for est in fits], "C0.-")
        axis.set(xlabel="lambda", title=name)
        axis.set_ylabel("objective", color="C0")
        other = axis.twinx()
        other.plot(weights, [est.fairness_error_ for est in fits], "C3.-")
        other.set_ylabel("fairness error", color="C3")
    sheet.picture(
        "figure-2", figure, "Figure 2: objective (left scale) and fairness error (right scale) by lambda, k-means"
    )


def figure_3(sheet):
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.4))
    data, numbers = REAL["Bank"](), (2, 4, 6, 8, 10)
    X = normalised(data.features)
    for axis, objective in zip(axes, ("kmeans", "kmedians", "ncut")):
        fair = 1.0 if objective == "ncut" else 6000 / len(X)
        for label, weight in (("without", 0.0), ("fair", fair)):
            make = partial(bf.VariationalFairClustering, objective=objective, fairness_weight=weight, random_state=0)
            costs = [fitted(make(k), X, data.sensitive)[0].cost_ for k in numbers]
            axis.plot(numbers, costs, ".-", label=label)
        axis.set(xlabel="K", ylabel="objective", title=objective)
    axes[0].legend()
    sheet.picture("figure-3", figure, "Figure 3: objective by number of clusters, without fairness and with, Bank")


PARTS = table_2, table_3, table_4, equal_balance, figure_1, figure_2, figure_3
